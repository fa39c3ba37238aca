import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from labelsift.losses import balanced_class_weights, cross_entropy


def test_cross_entropy_against_a_slow_loop():
    torch.manual_seed(0)
    logits, labels, weights = torch.randn(20, 4), torch.randint(4, (20,)), torch.rand(4)
    total = norm = 0.0
    for row, label in zip(logits, labels, strict=True):
        total -= weights[label] * math.log(row.softmax(0)[label])
        norm += weights[label]
    torch.testing.assert_close(cross_entropy(logits, labels, weights), total / norm)


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
