import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelsift.losses import (
    balanced_class_weights,
    bounded_probs,
    cross_entropy,
    dmi_loss,
    elr_regulariser,
    entropy,
    forward_cross_entropy,
    importance_weights,
    label_losses,
    log_abs_det,
    masked_mean,
    mix,
    mixing_share,
    prior_divergence,
    sharpen,
    soft_cross_entropy,
    squared_error,
)


def test_cross_entropy_against_a_slow_loop():
    torch.manual_seed(0)
    logits, labels, weights = torch.randn(20, 4), torch.randint(4, (20,)), torch.rand(4)
    total = norm = 0.0
    for row, label in zip(logits, labels, strict=True):
        total -= weights[label] * math.log(row.softmax(0)[label])
        norm += weights[label]
    torch.testing.assert_close(cross_entropy(logits, labels, weights), total / norm)


def test_losses_of_labels_are_those_of_their_logits_and_finite():
    torch.manual_seed(0)
    logits, labels = torch.randn(20, 4), torch.randint(4, (20,))
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(label_losses(logits.softmax(1), labels), expected)
    assert 60 < label_losses(torch.tensor([[1.0, 0.0]]), torch.tensor([1])).item() < 100


def test_uniform_prediction_costs_log_classes():
    assert cross_entropy(torch.zeros(5, 10), torch.arange(5)).item() == torch.tensor(10.0).log().item()


def test_golden_number():
    loss = cross_entropy(torch.tensor([[2.0, 0.5, -1.0]]), torch.tensor([1]))
    torch.testing.assert_close(loss, torch.tensor(1.741311))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_balanced_weights_make_every_class_count_the_same(labels):
    labels = torch.tensor(labels)
    weights = balanced_class_weights(labels, 7)
    counts = torch.bincount(labels, minlength=7)
    assert (weights[counts == 0] == 0).all()
    mass = (weights * counts)[counts > 0]
    torch.testing.assert_close(mass, mass[:1].expand_as(mass))
    torch.testing.assert_close(mass[0], counts[counts > 0].float().mean())


def test_balanced_weights_of_nothing_are_zero():
    assert balanced_class_weights(torch.tensor([], dtype=torch.long), 3).tolist() == [0, 0, 0]


def test_soft_cross_entropy_of_one_hot_targets_is_cross_entropy():
    torch.manual_seed(0)
    logits, labels, weights = torch.randn(9, 4), torch.randint(4, (9,)), torch.rand(4)
    hot = torch.nn.functional.one_hot(labels, 4).float()
    torch.testing.assert_close(soft_cross_entropy(logits, hot).mean(), cross_entropy(logits, labels))
    rows = [weights[labels[i]] * cross_entropy(logits[i : i + 1], labels[i : i + 1]) for i in range(9)]
    torch.testing.assert_close(soft_cross_entropy(logits, hot, weights), torch.stack(rows))


def test_mixed_targets_cost_the_mixture_of_the_costs():
    torch.manual_seed(0)
    logits, a, b = torch.randn(6, 3), torch.randint(3, (6,)), torch.randint(3, (6,))
    hot = torch.nn.functional.one_hot
    mixed = 0.3 * hot(a, 3) + 0.7 * hot(b, 3)
    expected = 0.3 * cross_entropy(logits, a) + 0.7 * cross_entropy(logits, b)
    torch.testing.assert_close(soft_cross_entropy(logits, mixed).mean(), expected)


def test_squared_error_against_a_slow_loop():
    torch.manual_seed(0)
    logits, targets = torch.randn(5, 4), torch.rand(5, 4).softmax(1)
    slow = torch.zeros(5)
    for row in range(5):
        for place in range(4):
            slow[row] += (logits[row].softmax(0)[place] - targets[row][place]) ** 2 / 4
    torch.testing.assert_close(squared_error(logits, targets), slow)
    assert squared_error(logits, logits.softmax(1)).abs().max() == 0


def test_sharpening():
    probs = torch.tensor([[0.5, 0.3, 0.2]])
    torch.testing.assert_close(sharpen(probs, 0.5), torch.tensor([[0.657895, 0.236842, 0.105263]]))
    torch.testing.assert_close(sharpen(probs, 1.0), probs)
    torch.testing.assert_close(sharpen(probs, 0.01), torch.tensor([[1.0, 0.0, 0.0]]))
    assert sharpen(torch.tensor([[1.0, 0.0]]), 0.5).tolist() == [[1, 0]]  # a zero stays one


def test_masked_mean():
    values, mask = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([True, False, True])
    assert masked_mean(values, mask) == 3.5
    assert masked_mean(values, ~mask & mask) == 0


@given(share=st.floats(0, 1), rows=st.integers(1, 8))
def test_mixing_pairs_every_row_with_one_of_the_same_batch(share, rows):
    inputs = torch.arange(rows, dtype=torch.float)[:, None]
    targets = torch.eye(rows)
    mixed, soft = mix(inputs, targets, torch.tensor(share))
    torch.testing.assert_close(soft.sum(1), torch.ones(rows))
    torch.testing.assert_close(soft.sum(0), torch.ones(rows))  # each is a partner once
    torch.testing.assert_close(mixed[:, 0], soft @ inputs[:, 0])  # inputs and targets are mixed alike


def test_all_of_itself_is_no_mixture():
    inputs, targets = torch.randn(4, 2), torch.randn(4, 3)
    mixed, soft = mix(inputs, targets, torch.tensor(1.0))
    assert torch.equal(mixed, inputs)
    assert torch.equal(soft, targets)


def test_mixing_shares_are_beta():
    torch.manual_seed(0)
    for alpha in (0.75, 4.0):
        draws = torch.stack([mixing_share(torch.tensor(alpha)) for _ in range(4000)])
        assert abs(draws.mean() - 0.5) < 0.02
        assert abs(draws.var() - 1 / (4 * (2 * alpha + 1))) < 0.01


def test_entropy_and_divergence_from_a_prior():
    logits = torch.tensor([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]]).log()
    uniform = torch.full((3,), 1 / 3)
    torch.testing.assert_close(entropy(logits).mean(), torch.tensor(0.915736))
    torch.testing.assert_close(prior_divergence(logits, uniform), torch.tensor(0.053977), atol=1e-6, rtol=0)
    cross = prior_divergence(logits, uniform) + math.log(3)  # the authors leave out what is constant
    torch.testing.assert_close(cross, torch.tensor(1.152589))


def test_entropy_is_highest_for_uniform_and_zero_for_certain_predictions():
    torch.testing.assert_close(entropy(torch.zeros(4, 10)), torch.full((4,), math.log(10)))
    assert entropy(torch.tensor([[200.0, 0.0, -200.0]])).item() == 0


def test_a_mean_prediction_as_the_prior_says_costs_nothing():
    prior = torch.tensor([0.5, 0.5, 0.0])  # of a class that never occurs, too
    assert prior_divergence(torch.tensor([[90.0, 0, 0], [0, 90.0, 0]]), prior).abs() < 1e-6
    logits = torch.tensor([[300.0, 0.0, 0.0]], requires_grad=True)  # no row predicts the others
    prior_divergence(logits, torch.full((3,), 1 / 3)).backward()
    assert torch.isfinite(logits.grad).all()


def test_early_learning_regulariser_in_golden_numbers():
    logits = torch.tensor([[2.0, 0.5, -1.0]], requires_grad=True)
    remembered = 0.3 * bounded_probs(logits).detach()  # a first visit, with 0.7 of an empty memory
    torch.testing.assert_close(remembered, torch.tensor([[0.235679, 0.052587, 0.011734]]))
    value = elr_regulariser(logits, remembered).mean()
    torch.testing.assert_close(value, torch.tensor(-0.216697))
    loss = cross_entropy(logits, torch.tensor([1])) + 3 * value
    torch.testing.assert_close(loss, torch.tensor(1.091222))
    value.backward()
    torch.testing.assert_close(
        logits.grad, torch.tensor([[-0.039860, 0.030966, 0.008894]]), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(("classes", "lowest"), [(10, -6.909), (100, -4.615)])
def test_early_learning_regulariser_is_bounded(classes, lowest):
    logits = torch.zeros(1, classes).index_fill(1, torch.tensor(0), 500.0)
    probs = bounded_probs(logits)
    remembered = probs / probs.sum()
    assert elr_regulariser(logits, remembered).item() == pytest.approx(lowest, abs=1e-3)


def test_without_a_memory_there_is_no_early_learning_regulariser():
    logits = torch.randn(3, 4, requires_grad=True)
    value = elr_regulariser(logits, torch.zeros(3, 4))
    value.sum().backward()
    assert not value.any()
    assert not logits.grad.any()


GOLDEN_LOGITS, GOLDEN_LABEL = torch.tensor([[2.0, 0.5, -1.0]]), torch.tensor([1])
GOLDEN_TRANSITION = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.3, 0.7]])


def test_forward_correction_in_golden_numbers():
    loss = forward_cross_entropy(GOLDEN_LOGITS, GOLDEN_LABEL, GOLDEN_TRANSITION)
    torch.testing.assert_close(loss, torch.tensor(1.546478))


def random_problem(rows=12, classes=4):
    torch.manual_seed(0)
    return torch.randn(rows, classes, requires_grad=True), torch.randint(classes, (rows,))


def test_forward_correction_without_noise_is_cross_entropy():
    logits, labels = random_problem()
    corrected, plain = forward_cross_entropy(logits, labels, torch.eye(4)), cross_entropy(logits, labels)
    torch.testing.assert_close(corrected, plain)
    mine, theirs = (torch.autograd.grad(loss, logits)[0] for loss in (corrected, plain))
    torch.testing.assert_close(mine, theirs)


def test_forward_correction_of_labels_that_say_nothing_learns_nothing():
    logits, labels = random_problem()
    loss = forward_cross_entropy(logits, labels, torch.full((4, 4), 0.25))
    assert loss.item() == pytest.approx(math.log(4))
    assert torch.autograd.grad(loss, logits)[0].abs().max() < 1e-7


def test_forward_correction_undoes_a_permutation_of_the_classes():
    logits, labels = random_problem()
    given_as = torch.tensor([2, 0, 3, 1])  # class i is called given_as[i]
    loss = forward_cross_entropy(logits, given_as[labels], torch.eye(4)[given_as])
    torch.testing.assert_close(loss, cross_entropy(logits, labels))


def test_forward_correction_learns_from_a_label_held_impossible():
    logits = torch.tensor([[0.0, 50.0]], requires_grad=True)
    forward_cross_entropy(logits, torch.tensor([0]), torch.eye(2)).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[-1.0, 1.0]]))


def test_importance_weights_in_golden_numbers():
    weights = importance_weights(GOLDEN_LOGITS.softmax(1), GOLDEN_LABEL, GOLDEN_TRANSITION)
    torch.testing.assert_close(weights, torch.tensor([0.822972]), atol=2e-6, rtol=0)
    torch.testing.assert_close(weights * cross_entropy(GOLDEN_LOGITS, GOLDEN_LABEL), torch.tensor([1.433051]))


def test_importance_weights_without_noise_are_one_and_under_uniform_noise_the_prediction():
    logits, labels = random_problem()
    probs = logits.detach().softmax(1)
    assert importance_weights(probs, labels, torch.eye(4)).tolist() == [1] * 12
    uniform = importance_weights(probs, labels, torch.full((4, 4), 0.25))
    torch.testing.assert_close(uniform, 4 * probs[torch.arange(12), labels])


def test_importance_weights_pull_at_the_column_of_the_label_alone():
    change = torch.zeros(3, 3, requires_grad=True)
    importance_weights(GOLDEN_LOGITS.softmax(1), GOLDEN_LABEL, GOLDEN_TRANSITION + change).sum().backward()
    assert (change.grad[:, 1] < 0).all()  # a label that is given more often by mistake is trusted less
    assert not change.grad[:, [0, 2]].any()


@pytest.mark.parametrize("entry", [0.0, -1.0])
def test_importance_weights_of_a_broken_matrix_are_bounded(entry):
    change = torch.full((3, 3), entry, requires_grad=True)
    logits = torch.tensor([[2.0, 0.5, -1.0], [300.0, 0.0, 0.0]], requires_grad=True)
    weights = importance_weights(logits.softmax(1), torch.tensor([1, 2]), change)
    assert weights[0].item() == pytest.approx(100)
    assert weights[1].item() == 0  # the net holds it impossible in single precision
    weights.sum().backward()
    assert change.grad.isfinite().all()
    assert logits.grad.isfinite().all()


@given(size=st.integers(1, 9), seed=st.integers(0, 99))
def test_log_abs_det_and_its_gradient_are_those_of_linear_algebra(size, seed):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(size, size, dtype=torch.float64, generator=generator)
    matrix[0, 0] = 0 if size > 1 else matrix[0, 0]  # no pivot where one would look first
    matrix.requires_grad_()
    mine, theirs = log_abs_det(matrix), torch.linalg.slogdet(matrix).logabsdet
    torch.testing.assert_close(mine, theirs)
    gradients = [torch.autograd.grad(value, matrix)[0] for value in (mine, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-9)


def test_noise_shifts_the_log_determinant_by_its_own():
    torch.manual_seed(0)
    joint = torch.rand(10, 10, dtype=torch.float64) + 10 * torch.eye(10)
    noise = torch.full((10, 10), 0.5 / 9, dtype=torch.float64).fill_diagonal_(0.5)
    shift = log_abs_det(noise.T @ joint) - log_abs_det(joint)
    assert shift.item() == pytest.approx(-7.298372, abs=1e-6)


DMI_PROBS = torch.tensor(
    [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.6, 0.2, 0.2], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]]
)
DMI_LABELS = torch.tensor([0, 1, 2, 0, 1, 2])
DMI_HIGHEST = 6.907755  # -log 0.001


def test_dmi_in_golden_numbers():
    assert dmi_loss(DMI_PROBS, DMI_LABELS).item() == pytest.approx(-0.884181, abs=1e-6)
    twice = dmi_loss(DMI_PROBS.repeat(2, 1), DMI_LABELS.repeat(2))
    assert twice.item() == pytest.approx(-math.log(2.42 * 2**3 + 0.001), abs=1e-6)


@given(st.permutations([0, 1, 2]), st.permutations(range(6)))
def test_dmi_does_not_know_the_names_of_the_predicted_classes(classes, order):
    renamed = dmi_loss(DMI_PROBS[order][:, classes], DMI_LABELS[order])
    torch.testing.assert_close(renamed, dmi_loss(DMI_PROBS, DMI_LABELS))


def test_the_gradient_of_dmi():
    probs = DMI_PROBS.clone().requires_grad_()
    dmi_loss(probs, DMI_LABELS).backward()
    given = torch.eye(3)[DMI_LABELS]
    expected = -given @ torch.linalg.inv(given.T @ DMI_PROBS).T * 2.42 / 2.421
    torch.testing.assert_close(probs.grad, expected)


@pytest.mark.parametrize("classes", [2, 3, 100])
def test_dmi_is_flat_where_predictions_are_constant_or_a_class_is_missing(classes):
    torch.manual_seed(0)
    sure = (8 * torch.eye(classes)).repeat(20, 1).requires_grad_()
    labels = torch.arange(classes).repeat(20)
    constant = torch.zeros(len(labels), classes, requires_grad=True)
    for logits, given_labels in ((constant, labels), (sure, labels.clamp(max=classes - 2))):
        loss = dmi_loss(logits.softmax(1), given_labels)
        loss.backward()
        assert loss.item() == pytest.approx(DMI_HIGHEST, abs=1e-5)
        assert not logits.grad.any()  # and it is a number
    assert dmi_loss(sure.softmax(1), labels) < -classes * math.log(15)


def test_dmi_leaves_out_a_class_that_nobody_has():
    labels = DMI_LABELS % 2
    loss = dmi_loss(DMI_PROBS, labels, absent=torch.tensor([False, False, True]))
    joint = torch.eye(2)[labels].T @ DMI_PROBS[:, :2]
    torch.testing.assert_close(loss, -(joint.det().abs() + 0.001).log())


def test_dmi_of_broken_predictions_is_no_number():
    assert dmi_loss(torch.full((6, 3), torch.nan), DMI_LABELS).isnan()
