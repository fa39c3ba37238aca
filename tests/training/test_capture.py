"""Captured steps on a CPU: a stand-in for CUDA's graphs calls the recorded function again."""

import pytest
import torch

import labelsift
from labelsift.training import Machine
from labelsift.training import capture as module
from labelsift.training.learner import PREDICT_BATCH
from toys import TinyNet, toy_data

SETTINGS = {
    "ce": {"epochs": 3, "batch_size": 32},
    "mixup": {"epochs": 3, "batch_size": 32},
    "co-teaching": {"epochs": 4, "batch_size": 32, "ramp_epochs": 2, "decay_at": (0.5,)},
    "cdr": {"epochs": 3, "batch_size": 32, "estimate_epochs": 1},
    "forward": {"epochs": 3, "estimate_epochs": 2, "batch_size": 32},
    "t-revision": {"epochs": 2, "estimate_epochs": 2, "revision_epochs": 2, "batch_size": 32},
    "dmi": {"epochs": 2, "dmi_epochs": 2, "batch_size": 32, "dmi_batch_size": 32},
    "joint-optim": {"epochs": 5, "batch_size": 32, "window": 2},
    "m-correction": {"epochs": 3, "mixup_epochs": 1, "batch_size": 32},
    "dividemix": {"epochs": 3, "warm_up_epochs": 1, "batch_size": 32},
    "elr": {"epochs": 3, "batch_size": 32},
    "elr-plus": {"epochs": 3, "batch_size": 32},
    "pes": {"epochs": 5, "stage_epochs": (2, 1, 1), "batch_size": 32},
    "pes-semi": {"epochs": 4, "stage_epochs": (2, 1), "batch_size": 32},
}
# Recorded beside the stages: predictions of two sets by each net, estimates on a third, a second step.
PREDICTIONS = {"co-teaching": 6, "cdr": 3, "elr-plus": 5, "m-correction": 3, "dividemix": 8}
PREDICTIONS |= {"forward": 3, "t-revision": 3}


def pretend(function, generators):
    """As on a GPU, recording does nothing but say where the result of a replay will be."""
    if torch.is_grad_enabled():
        return function, None
    states = [generator.get_state() for generator in generators]
    out = function()
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)
    return lambda: out.copy_(function()), out


def fit(method, **options):
    data = toy_data(240)
    return labelsift.fit(
        data, method=method, settings=SETTINGS[method], net=TinyNet, augment="crop+flip", **options
    )


@pytest.fixture
def capturing(monkeypatch):
    """A machine that captures; gives what was recorded."""
    recorded = []

    def note(function, generators):
        recorded.append(function)
        return pretend(function, generators)

    monkeypatch.setattr(module, "record", note)
    monkeypatch.setitem(PREDICT_BATCH, "cpu", 50)
    machine = Machine(torch.device("cpu"), capture=True)
    monkeypatch.setattr(Machine, "choose", classmethod(lambda cls, *_: machine))
    return recorded


@pytest.mark.parametrize("method", SETTINGS)
def test_captured_equals_eager(method, monkeypatch, capturing):
    captured = fit(method)
    stages = len({row["stage"] for row in captured.history})
    assert len(capturing) == stages + PREDICTIONS.get(method, 2)  # which are kept from stage to stage
    monkeypatch.setattr(Machine, "choose", classmethod(lambda cls, *_: cls(torch.device("cpu"))))
    eager = fit(method)
    assert not captured.record["warnings"]
    for a, b in zip(captured.history, eager.history, strict=True):
        assert {**a, "seconds": 0} == {**b, "seconds": 0}
    assert captured.label_quality.tolist() == eager.label_quality.tolist()


def test_a_step_that_cannot_be_captured_runs_as_it_is_and_says_so_once(monkeypatch, capturing):
    def fail(function, generators):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(module, "record", fail)
    result = fit("pes")
    (warning,) = result.record["warnings"]
    assert "could not be captured" in warning
    assert "not permitted when stream is capturing" in warning
    assert "more" not in warning
    monkeypatch.setattr(Machine, "choose", classmethod(lambda cls, *_: cls(torch.device("cpu"))))
    assert result.history[-1]["train_loss"] == fit("pes").history[-1]["train_loss"]


def test_a_net_that_cannot_be_compiled_runs_as_it_is_and_is_still_captured(monkeypatch, capturing):
    def broken(net, **options):
        def forward(view):
            raise RuntimeError("no compiler here")

        return forward

    monkeypatch.setattr(torch, "compile", broken)
    monkeypatch.setattr("labelsift.training.learner.COMPILE_FROM", 0)
    machine = Machine(torch.device("cpu"), compile=True, capture=True)
    monkeypatch.setattr(Machine, "choose", classmethod(lambda cls, *_: machine))
    result = fit("ce")
    (warning,) = result.record["warnings"]
    assert "could not be compiled" in warning
    assert len(capturing) == 3
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]


STAGES = ["part 1", "part 2", "part 3", "confident"]
LONGER = ["part 1", "confident"]


@pytest.mark.parametrize(
    ("work", "nets", "stages"),
    [(0, 4, STAGES), (240 * 144, 4, STAGES), (240 * 144 + 1, 3, LONGER), (10**9, 0, [])],
)
def test_only_stages_that_are_long_enough_are_compiled(monkeypatch, capturing, work, nets, stages):
    used = set()

    def compile(net, **options):
        stage = object()
        return lambda view: used.add(stage) or net(view)

    monkeypatch.setattr(torch, "compile", compile)
    monkeypatch.setattr("labelsift.training.learner.COMPILE_FROM", 0)
    machine = Machine(torch.device("cpu"), compile=True, compile_work=work, capture=True)
    monkeypatch.setattr(Machine, "choose", classmethod(lambda cls, *_: machine))
    method = labelsift.PES(epochs=4, stage_epochs=(2, 1, 1), batch_size=32)
    result = labelsift.fit(toy_data(240), method=method, net=TinyNet)
    # The first choice of confident examples comes before their stage begins: another compiled net predicts.
    assert len(used) == nets
    assert result.record["compiled"] == stages
    assert result.record["captured"]


def test_the_faults_of_a_step_are_not_taken_for_the_compilers(capturing):
    with pytest.raises(labelsift.InputError, match="lower the learning rate"):
        labelsift.fit(toy_data(), method="ce", settings={"lr": 1e6, "weight_decay": 1e6}, net=TinyNet)


def test_what_is_captured_is_chosen_by_device_and_flag():
    assert not Machine.choose("cpu").compile
    assert Machine.choose("cpu", True).compile
    assert not Machine.choose("cpu", True).capture
    assert Machine.choose("cpu", True).compile_work == 0
