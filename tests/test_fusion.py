import torch

from labelsift.data import Views
from labelsift.fusion import fused, fusing
from labelsift.losses import elr_regulariser, masked_mean, soft_cross_entropy
from labelsift.methods.cdr import critical
from labelsift.training.tally import add_predictions, count_batch


def both(work):
    """The same thing as written and fused, each with its gradient."""
    results = []
    for on in (False, True):
        with fusing(on):
            results.append(work())
    return results


def test_views_are_the_same_fused():
    inputs = torch.randint(256, (6, 3, 16, 16), dtype=torch.uint8)
    views = Views.of(inputs, "crop+flip")
    plain, fused_ = both(lambda: views.random(inputs, torch.Generator().manual_seed(3)))
    torch.testing.assert_close(fused_, plain)


def test_losses_and_their_gradients_are_the_same_fused():
    logits, remembered = torch.randn(8, 4), torch.rand(8, 4) / 4
    targets, weights = torch.rand(8, 4), torch.tensor([1.0, 2.0, 0.0, 0.5])
    mask = torch.arange(8) < 5

    def work():
        leaf = logits.clone().requires_grad_()
        loss = masked_mean(
            soft_cross_entropy(leaf, targets, weights) + elr_regulariser(leaf, remembered), mask
        )
        loss.backward()
        return loss.detach(), leaf.grad

    for plain, fused_ in zip(*both(work), strict=True):
        torch.testing.assert_close(fused_, plain)


def test_what_is_counted_in_place_is_the_same_fused():
    probs, labels, index = torch.rand(5, 3), torch.tensor([0, 1, 2, 1, 0]), torch.tensor([7, 2, 4, 0, 5])

    def work():
        tally, predicted, agreed, times = torch.zeros(3), torch.zeros(9, 3), torch.zeros(9), torch.zeros(9)
        for _ in range(2):
            count_batch(tally, torch.tensor(1.5), probs, labels)
            add_predictions(predicted, agreed, times, index, labels, probs)
        return tally, predicted, agreed, times

    for plain, fused_ in zip(*both(work), strict=True):
        torch.testing.assert_close(fused_, plain)


def test_critical_gradients_are_the_same_fused():
    weights, gradients = [torch.randn(4, 3), torch.randn(5, 4)], [torch.randn(4, 3), torch.randn(5, 4)]
    share = torch.tensor(0.6, dtype=torch.float64)
    plain, fused_ = both(lambda: torch.cat([kept.flatten() for kept in critical(weights, gradients, share)]))
    torch.testing.assert_close(fused_, plain)
    assert int((fused_ != 0).sum()) == 19  # of 32


def test_only_what_is_inside_is_compiled(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: compiled.append(function) or function)

    def double(x):
        return 2 * x

    twice = fused(double)
    assert twice(2) == 4
    assert compiled == []
    with fusing():
        assert twice(3) == 6
        with fusing(False):
            assert twice(3) == 6
    assert twice(4) == 8
    assert compiled == [double]
