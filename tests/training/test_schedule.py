import pytest
import torch

from labelsift.training.schedule import exponential_ramp


def test_the_exponential_ramp_in_golden_numbers():
    shares = [exponential_ramp(torch.tensor(steps), 40_000).item() for steps in (0, 20_000, 40_000, 10**6)]
    assert shares == pytest.approx([0.006738, 0.286505, 1, 1], abs=1e-6)


def test_a_ramp_without_a_length_is_over():
    assert exponential_ramp(torch.tensor(0), 0).item() == 1
