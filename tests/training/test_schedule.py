import pytest
import torch

from labelsift.training.schedule import cosine_lr, exponential_ramp, linear_lr, step_lr


def test_the_exponential_ramp_in_golden_numbers():
    shares = [exponential_ramp(torch.tensor(steps), 40_000).item() for steps in (0, 20_000, 40_000, 10**6)]
    assert shares == pytest.approx([0.006738, 0.286505, 1, 1], abs=1e-6)


def test_a_ramp_without_a_length_is_over():
    assert exponential_ramp(torch.tensor(0), 0).item() == 1


def test_learning_rates_in_golden_numbers():
    assert [step_lr(1.0, epoch, 8, (0.5, 0.75), 0.1) for epoch in (0, 3, 4, 5, 6, 7)] == pytest.approx(
        [1, 1, 0.1, 0.1, 0.01, 0.01]
    )
    assert [linear_lr(1.0, epoch, 8, (0.5,)) for epoch in (0, 4, 5, 7)] == [1, 1, 0.75, 0.25]
    assert linear_lr(1.0, 7, 8, (1.0,)) == linear_lr(1.0, 7, 8, ()) == 1
    assert [cosine_lr(1.0, epoch, 8) for epoch in (0, 4, 8)] == pytest.approx([1, 0.505, 0.01])
