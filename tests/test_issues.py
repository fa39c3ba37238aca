import pytest
import torch

from labelsift.issues import CHANGED, NARROW, NEVER, LabelIssues, find_issues, reason, unsteady


def test_quality_is_the_probability_that_a_label_is_right():
    """Of noise that is the same for all classes, it grows with the label's own probability."""
    torch.manual_seed(0)
    mean = torch.rand(300, 3).softmax(1)
    labels = torch.arange(300) % 3
    found = find_issues(mean, torch.zeros(300), mean, labels)
    own = mean.gather(1, labels[:, None]).squeeze(1)
    assert torch.equal(found.label_quality.argsort(), own.argsort())
    assert 0.2 < (found.label_quality < 0.5).float().mean() < 0.8  # of random predictions of three classes
    assert torch.equal(found.label_quality < 0.5, found.suggested_labels != labels)
    assert torch.equal(found.confident, mean.argmax(1) == labels)


def test_a_label_is_doubted_by_the_class_it_is_got_wrong_from():
    """Classes 0 and 2 are alike; labels of class 0 are often 1. Two examples with the label 1 and the same
    probability of it: the one that looks like class 0 is the more doubtful."""
    true = torch.arange(3000) % 3
    labels = torch.where((true == 0) & (torch.arange(3000) % 9 == 0), 1, true)
    mean = torch.tensor([[0.6, 0.05, 0.35], [0.05, 0.9, 0.05], [0.35, 0.05, 0.6]])[true]
    both = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    mean, labels = torch.cat([mean, both]), torch.cat([labels, torch.tensor([1, 1])])
    found = find_issues(mean, torch.zeros(3002), mean, labels)
    assert found.label_quality[-2] < 0.8 * found.label_quality[-1]
    wrong = torch.cat([true, torch.tensor([0, 1])]) != labels
    assert found.label_quality[wrong].max() < found.label_quality[~wrong].min()
    assert (found.suggested_labels[wrong] == 0).all()


@pytest.mark.parametrize("hidden", ["mean", "last"])
def test_noise_that_the_mean_or_the_last_predictions_hide_is_found(hidden):
    """A fifth of the labels is wrong. Either the mean is too timid to show it, or they were learned by heart
    in the end."""
    torch.manual_seed(0)
    true = torch.arange(1000) % 2
    wrong = torch.arange(1000) % 5 == 0
    labels = torch.where(wrong, 1 - true, true)
    sure = 0.8 + 0.1 * torch.rand(1000)

    def predicted(classes, sureness):
        return torch.where(classes[:, None] == torch.arange(2), sureness[:, None], 1 - sureness[:, None])

    def doubted(mean, last):
        found = find_issues(mean, torch.zeros(1000), last, labels)
        assert wrong[found.label_quality < 0.5].all()
        return float((found.label_quality < 0.5).float().mean())

    right = predicted(true, sure)
    if hidden == "mean":
        timid = predicted(true, torch.where(wrong, sure - 0.1, sure))
        assert doubted(timid, timid) + 0.05 < doubted(timid, right) < 0.2
    else:
        assert doubted(right, predicted(labels, sure)) == doubted(right, right) > 0.15


def test_a_reason_for_every_doubt():
    assert reason(0.0) == NEVER
    assert reason(0.05) == reason(0.2) == CHANGED
    assert reason(0.049) == NEVER
    assert reason(0.6) == NARROW


def test_a_net_that_changed_its_mind_is_told_of():
    def judged(*agreement):
        confident = torch.tensor([True, True, False])
        return LabelIssues(
            torch.zeros(3), torch.ones(3), torch.tensor(agreement), confident, torch.eye(3) / 3
        )

    assert unsteady(judged(0.9, 0.8, 0.0)) == ""
    assert "only 70 %" in unsteady(judged(0.8, 0.6, 1.0))


def test_nothing_predicted_is_no_number_lost():
    found = find_issues(torch.zeros(2, 3), torch.zeros(2), torch.zeros(2, 3), torch.tensor([0, 2]))
    assert found.label_quality.isfinite().all()
