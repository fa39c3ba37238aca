"""The benchmarks run, small; what they measure is for a quiet machine."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def speed():
    file = Path(__file__).parents[1] / "benchmarks" / "speed.py"
    spec = importlib.util.spec_from_file_location("speed", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_case_is_measured(speed):
    case = speed.Case("pes", "lenet", 288, compile=False, capture=False, precision="fp32")
    row = speed.measure(case, "cpu", peak=1e12)
    assert row["stage"] == "confident"
    assert list(row["stages"]) == ["part 1", "part 2", "part 3", "confident"]
    assert row["images_per_second"] == pytest.approx(288 / row["epoch_seconds"])
    passes = row["share_of_peak"] * 1e12 * row["epoch_seconds"] / 288
    # LeNet takes about 2 x 0.65 million operations for an image, which is seen twice to select it; most
    # are trained on, and two test images come on nine.
    assert 2 * 1.3e6 < passes < 8 * 1.3e6


def test_a_loss_of_a_tenth_is_found(speed):
    old = {"cases": [{"name": "a", "epoch_seconds": 1.0}, {"name": "b", "epoch_seconds": 1.0}]}
    new = {"cases": [{"name": "a", "epoch_seconds": 1.2}, {"name": "b", "epoch_seconds": 1.05}]}
    assert len(speed.compare(old, new)) == 1
    assert "a: 1.200 s" in speed.compare(old, new)[0]
    assert not speed.compare(new, old)
