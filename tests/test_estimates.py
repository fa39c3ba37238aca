import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelsift.estimates import (
    anchor_transition,
    doubt_where_sure,
    hidden_since,
    joint_of_labels,
    joint_over_training,
    noise_rate,
    one_way_transition,
    transition,
)


def posterior(true, matrix, sure=0.9):
    """What a good net would say of examples: mostly their true class, pushed through the noise a little."""
    eye = torch.eye(len(matrix)) * sure + (1 - sure) / len(matrix)
    return eye[true] @ matrix


def unsure_net(wrong, hard, steep=1):
    """Labels, so many of them wrong, and predictions, the more often mistaken the less sure they are."""
    torch.manual_seed(0)
    true = torch.arange(6000) % 3
    labels = torch.where(torch.rand(6000) < wrong, (true + 1) % 3, true)
    sure = torch.rand(6000)
    mistaken = torch.rand(6000) < (steep + 1) * hard * (1 - sure) ** steep
    seen = torch.where(mistaken, (true + 2) % 3, true)
    probs = torch.nn.functional.one_hot(seen, 3) * (0.4 + 0.6 * sure[:, None]) + 0.1
    return labels, probs / probs.sum(1, keepdim=True)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.45])
def test_the_rate_and_the_matrix_of_known_noise(rate):
    torch.manual_seed(0)
    true = torch.arange(6000) % 3
    matrix = torch.eye(3) * (1 - rate) + torch.eye(3).roll(1, 1) * rate
    labels = torch.multinomial(matrix[true], 1).squeeze(1)
    probs = posterior(true, torch.eye(3))
    assert noise_rate(probs, labels) == pytest.approx((labels != true).float().mean().item(), abs=1e-5)
    torch.testing.assert_close(transition(probs, labels), matrix, atol=0.05, rtol=0)
    joint = joint_of_labels(probs, labels)
    assert joint.sum().item() == pytest.approx(1, abs=1e-5)
    torch.testing.assert_close(joint.sum(1), torch.bincount(labels) / 6000)


@pytest.mark.parametrize(
    ("wrong", "hard", "low", "high"),
    [(0.0, 0.3, 0.0, 0.15), (0.2, 0.0, 0.8, 1.2), (0.2, 0.3, 0.35, 0.65), (0.0, 0.0, 0.0, 0.0)],
)
def test_wrong_labels_are_doubted_where_a_net_is_sure_and_hard_ones_are_not(wrong, hard, low, high):
    labels, probs = unsure_net(wrong, hard)
    assert low <= doubt_where_sure(probs, labels) <= high


@pytest.mark.parametrize("wrong", [0.0, 0.2])
def test_a_weak_net_is_believed_where_it_is_sure(wrong):
    """It is mistaken in four of ten, and hardly ever where it is sure."""
    labels, probs = unsure_net(wrong, hard=0.4)
    joint = joint_over_training(probs, probs, labels)
    assert 1 - joint.trace().item() == pytest.approx(wrong, abs=0.09)
    assert noise_rate(probs, labels) > wrong + 0.1
    torch.testing.assert_close(joint.sum(1), torch.bincount(labels) / 6000)


def test_a_net_that_knows_its_examples_is_believed_where_it_is_not_sure():
    """It is sure of examples whose labels are right, as one is that was trained on them alone."""
    torch.manual_seed(0)
    true = torch.arange(6000) % 3
    labels = torch.where(torch.arange(6000) % 8 == 0, (true + 1) % 3, true)
    sure = torch.where(labels == true, 0.95, 0.85)
    probs = torch.nn.functional.one_hot(true, 3) * sure[:, None] + (1 - sure[:, None]) / 3
    joint = joint_over_training(probs, probs, labels)
    assert torch.equal(joint, joint_of_labels(probs, labels))
    assert 1 - joint.trace().item() == pytest.approx(1 / 8, abs=0.01)


@pytest.mark.parametrize(
    ("wrong", "hard", "rate", "hidden"),
    [
        (0.03, 0.05, 0.0, True),
        (0.03, 0.05, 0.002, True),
        (0.03, 0.05, 0.03, False),  # they show still
        (0.0, 0.05, 0.0, False),  # hard ones alone: where it is sure it contradicts hardly any
        (0.1, 0.4, 0.0, False),  # a weak net, which has learned since
    ],
)
def test_wrong_labels_are_hidden_once_they_are_known_by_heart(wrong, hard, rate, hidden):
    labels, probs = unsure_net(wrong, hard, steep=3)
    assert hidden_since(probs, labels, rate) == hidden


def test_of_nothing_predicted_nothing_is_hidden():
    assert not hidden_since(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), 0.0)


def test_doubt_is_counted_in_the_surest_tenth():
    labels = torch.zeros(20, dtype=torch.long)
    sure = torch.linspace(0.6, 0.98, 20)
    probs = torch.stack([1 - sure, sure], 1)  # all are doubted ...
    probs[:10] = probs[:10].flip(1)  # ... but the ten that are predicted least surely
    assert doubt_where_sure(probs, labels) == pytest.approx(2)
    probs[-1] = probs[-1].flip(0)  # one of the two surest is met
    assert doubt_where_sure(probs, labels) == pytest.approx(0.5 / 0.45)


def test_classes_that_nobody_has_or_predicts():
    probs = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.7, 0.3, 0.0]])
    found = transition(probs, torch.tensor([0, 0, 1]))
    assert found.isfinite().all()
    torch.testing.assert_close(found.sum(1), torch.ones(3))
    assert found[2].tolist() == [0, 0, 1]
    assert 0 <= noise_rate(probs, torch.tensor([0, 0, 1])) <= 1
    assert noise_rate(torch.full((4, 3), 1 / 3), torch.tensor([0, 1, 2, 0])) <= 1


def test_what_goes_both_ways_is_spread_and_what_goes_one_way_stays():
    torch.manual_seed(0)
    true = torch.arange(9000) % 3
    confused = torch.tensor([[0.7, 0.0, 0.3], [0.0, 1.0, 0.0], [0.3, 0.0, 0.7]])  # by the net, not by labels
    seen = torch.multinomial(confused[true], 1).squeeze(1)
    labels = torch.where((true == 0) & (torch.rand(9000) < 0.3), 1, true)
    found = one_way_transition(posterior(seen, torch.eye(3)), labels)
    torch.testing.assert_close(found.sum(1), torch.ones(3))
    assert found[0, 1] > 0.25
    assert found[0, 1] > 1.5 * found[0, 2]
    clean = one_way_transition(posterior(true, torch.eye(3)), true)
    torch.testing.assert_close(clean, torch.eye(3) * 0.985 + 0.005, atol=1e-6, rtol=0)


def pairs(*counts):
    """Labels and sure predictions: so many examples of each (true class, label), of two classes."""
    kinds = torch.tensor([(0, 0), (0, 1), (1, 0), (1, 1)]).repeat_interleave(torch.tensor(counts), 0)
    return torch.eye(2)[kinds[:, 0]], kinds[:, 1]


@pytest.mark.parametrize(
    ("counts", "one_way"),
    [
        ((9400, 600, 0, 10000), True),  # 6 % of the class, and far more than by chance
        ((9600, 400, 0, 10000), False),  # 4 %: too little to tell
        ((92, 8, 0, 100), False),  # 8 %, as three standard errors of so few would be
        ((70, 30, 0, 100), True),
        ((7000, 3000, 2900, 7100), False),  # both ways: the net confuses the two
    ],
)
def test_noise_goes_one_way_from_a_twentieth_and_three_standard_errors_on(counts, one_way):
    found = one_way_transition(*pairs(*counts))
    assert (float(found[0, 1] - found[1, 0]) > 0.04) == one_way
    if not one_way:
        assert found[0, 1] == pytest.approx(float(found[1, 0]), abs=1e-6)


def test_the_noise_is_read_midway_between_the_mean_and_the_last_predictions():
    """The mean hides all wrong labels, and the last predictions contradict right ones too."""
    labels = torch.arange(100) // 50
    mean = torch.tensor([[0.6, 0.4], [0.4, 0.6]])[labels]
    last = mean.clone()
    mean[:10], last[:10] = torch.tensor([0.7, 0.3]), torch.tensor([0.1, 0.9])  # midway 0.4 and 0.6
    mean[10:20], last[10:20] = torch.tensor([0.95, 0.05]), torch.tensor([0.4, 0.6])  # midway 0.675 and 0.325
    assert noise_rate(mean, labels) == pytest.approx(0, abs=1e-6)
    assert noise_rate(last, labels) == pytest.approx(0.2)
    assert 1 - joint_over_training(mean, last, labels).trace().item() == pytest.approx(0.1)


def test_a_class_without_labels_gets_none_of_the_joint():
    joint = joint_of_labels(torch.tensor([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]]), torch.tensor([0, 1]))
    torch.testing.assert_close(joint, torch.diag(torch.tensor([0.5, 0.5, 0.0])))


NOISE = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.3, 0.7]])


def test_one_anchor_of_each_class_shows_the_noise():
    torch.manual_seed(0)
    true = torch.cat([torch.eye(3), torch.rand(50, 3).softmax(1)])[torch.randperm(53)]
    torch.testing.assert_close(anchor_transition(true @ NOISE, filter_outliers=False), NOISE)


@given(count=st.integers(1, 250), seed=st.integers(0, 99))
def test_anchors_lie_below_the_97th_percentile(count, seed):
    probs = torch.rand(count, 4, generator=torch.Generator().manual_seed(seed)).double().softmax(1)
    found = anchor_transition(probs).numpy()
    for row, column in zip(found, probs.numpy().T, strict=True):
        limit = np.percentile(column, 97, method="higher")
        rest = np.where(column >= limit, 0.0, column)  # of this column alone: others keep their entries
        np.testing.assert_allclose(row, probs[rest.argmax()].numpy())


def test_an_over_sure_net_says_that_labels_are_right():
    probs = torch.eye(3).repeat(40, 1)
    assert torch.equal(anchor_transition(probs), torch.eye(3))


def test_a_class_that_is_never_predicted_keeps_some_of_its_labels():
    probs = torch.tensor([[0.9, 0.1, 0.0], [0.4, 0.6, 0.0]]).repeat(50, 1)
    for found in (anchor_transition(probs), anchor_transition(probs, filter_outliers=False)):
        torch.testing.assert_close(found.sum(1), torch.ones(3))
        assert found[2, 2] > 0.019
        assert (found[:2, 2] == 0).all()


def test_anchors_of_constant_predictions_are_those_predictions():
    torch.testing.assert_close(anchor_transition(torch.full((30, 3), 1 / 3)), torch.full((3, 3), 1 / 3))
