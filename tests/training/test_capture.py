"""Captured steps on a CPU: a stand-in for CUDA's graphs calls the recorded function again."""

import weakref

import pytest
import torch
from torch.nn import functional as F

import labelsift
from labelsift.data import Batch
from labelsift.fusion import _fusing
from labelsift.nets import blueprint
from labelsift.training import Learner, Machine
from labelsift.training import capture as module
from labelsift.training.capture import Captured
from labelsift.training.learner import PREDICT_BATCH
from toys import TinyNet, toy_data, toy_examples

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


def pretend(function, generators, device):
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

    def note(function, generators, device):
        recorded.append(function)
        return pretend(function, generators, device)

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
    def fail(function, generators, device):
        raise RuntimeError("operation not permitted when stream is capturing" + 200 * "!" + "\nand more")

    monkeypatch.setattr(module, "record", fail)
    result = fit("pes")
    (warning,) = result.record["warnings"]
    assert "could not be captured" in warning
    assert not result.record["captured"]
    assert "not permitted when stream is capturing" in warning
    assert "more" not in warning
    assert len(warning) < 300
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
    assert result.record["captured"]
    assert len(capturing) == 3
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]


STAGES = ["part 1", "part 2", "part 3", "confident"]
LONGER = ["part 1", "confident"]


@pytest.mark.parametrize(
    ("work", "nets", "stages"),
    [(0, 4, STAGES), (240 * 144, 4, STAGES), (240 * 144 + 1, 2, LONGER), (10**9, 0, [])],
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
    assert not Machine.choose("cpu", False).compile


CAPTURES = Machine(torch.device("cpu"), capture=True)
COMPILES = Machine(torch.device("cpu"), compile=True, capture=True)


def make_learner(machine):
    torch.manual_seed(0)
    learner = Learner(blueprint(TinyNet, 3, (1, 12, 12)), machine)
    learner.begin(learner.sgd(0.05, 0.9, 0))
    return learner


@pytest.fixture
def compiling(monkeypatch):
    """Nets of any size are compiled, that is counted: how often each was called."""
    calls = {}

    def compile(net, **options):
        def forward(view):
            calls[forward] += 1
            return net(view)

        calls[forward] = 0
        return forward

    monkeypatch.setattr(torch, "compile", compile)
    monkeypatch.setattr("labelsift.training.learner.COMPILE_FROM", 0)
    return calls


def test_a_recording_is_never_the_first_call_of_a_compiled_net(monkeypatch, compiling):
    first = []

    def note(function, generators, device):
        first.append(list(compiling.values())[-1] == 0)  # for then it compiles, which waits for the device
        return pretend(function, generators, device)

    monkeypatch.setattr(module, "record", note)
    learner, examples = make_learner(COMPILES), toy_examples(toy_data(60))
    probs = [learner.pred_probs(examples)]  # one batch, which warms up
    learner.begin(learner.optimisers["sgd"])
    probs += [learner.pred_probs(examples) for _ in range(3)]
    assert first == [False]
    for again in probs[1:]:
        torch.testing.assert_close(again, probs[0])


def test_after_a_failed_recording_the_others_are_recorded_anew(monkeypatch, capturing):
    learner, examples = make_learner(CAPTURES), toy_examples(toy_data(60))
    expected = [learner.pred_probs(examples) for _ in range(3)][-1]
    assert len(capturing) == 1
    note = module.record

    def fail(function, generators, device):
        raise RuntimeError("operation not permitted when stream is capturing")

    said = []
    step = Captured(lambda batch: None, 30, CAPTURES, [learner], said.append, warm_up=0)
    monkeypatch.setattr(module, "record", fail)
    for batch in examples.batches(30):
        step(batch)
    monkeypatch.setattr(module, "record", note)
    assert len(said) == 1
    # Its graph draws from a state that the failed one has left as if it were still being recorded.
    torch.testing.assert_close(learner.pred_probs(examples), expected)
    assert len(capturing) == 2
    learner.pred_probs(examples)
    assert len(capturing) == 2


def test_what_a_failed_step_held_is_free_before_it_is_done_again():
    held, errors = [], []

    def step(batch):
        activations = torch.zeros(8)
        assert not held or held[0]() is None
        held.append(weakref.ref(activations))
        if not errors:
            errors.append("CUDA out of memory.")
            raise torch.OutOfMemoryError(errors[0])

    said = []
    Captured(step, 30, CAPTURES, [], said.append)(next(toy_examples(toy_data(60)).batches(30)))
    assert len(held) == 2
    assert "out of memory" in said[0]


def test_what_a_step_does_wrong_is_raised_in_the_end():
    def step(batch):
        raise ZeroDivisionError("of the step itself")

    batch = next(toy_examples(toy_data(60)).batches(30))
    with pytest.raises(ZeroDivisionError) as raised:
        Captured(step, 30, CAPTURES, [], lambda sentence: None)(batch)
    assert raised.value.__context__ is None
    with pytest.raises(KeyboardInterrupt):
        Captured(stopped, 30, CAPTURES, [], pytest.fail)(batch)


def stopped(batch):
    raise KeyboardInterrupt


def test_gradients_are_checked_in_the_first_step_on_a_compiled_net(compiling):
    learner, said = make_learner(COMPILES), []
    examples = toy_examples(toy_data(60))
    learner.compiled = lambda view: learner.net(view).detach().requires_grad_()  # which trains nothing

    def step(batch):
        learner.update(F.cross_entropy(learner(batch.plain()), batch.labels))

    captured = Captured(step, 30, COMPILES, [learner], said.append)
    captured(next(examples.batches(20)))  # of another size, so it goes to the net itself
    assert said == []
    captured(next(examples.batches(30)))
    assert "its gradient says otherwise" in said[0]
    assert learner.net.conv[0].weight.grad is not None


def test_the_first_batches_are_real_steps_and_the_next_is_recorded(capturing):
    done, examples = [], toy_examples(toy_data(240))
    step = Captured(lambda batch: done.append(len(capturing)), 30, CAPTURES, [], pytest.fail)
    for batch in examples.batches(30):
        step(batch)
    assert done == [0, 0, 0, 1, 1, 1, 1, 1]


def test_a_replay_sees_the_pixels_of_its_own_batch(capturing):
    seen, examples = [], toy_examples(toy_data(240))
    step = Captured(lambda batch: seen.append(batch.inputs.clone()), 30, CAPTURES, [], pytest.fail)
    pixels = torch.randint(256, (8, 30, 1, 12, 12), dtype=torch.uint8)
    for index, streamed in zip(examples.index.view(8, 30), pixels, strict=True):
        step(Batch(examples, index, streamed))
    assert torch.equal(torch.stack(seen), pixels)


def test_an_error_that_a_user_can_mend_is_raised_at_once():
    def step(batch):
        raise labelsift.InputError("Mend this.")

    with pytest.raises(labelsift.InputError, match="Mend this"):
        Captured(step, 30, CAPTURES, [], pytest.fail)(next(toy_examples(toy_data(60)).batches(30)))


def test_batches_of_another_size_go_to_the_net_itself_and_make_cudnn_search_for_nothing(
    monkeypatch, compiling
):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    learner, searched = make_learner(COMPILES), []

    def step(batch):
        searched.append(torch.backends.cudnn.benchmark)
        learner(batch.plain())

    captured = Captured(step, 30, COMPILES, [learner], pytest.fail)
    for size in (30, 20, 30):
        captured(next(toy_examples(toy_data(60)).batches(size)))
    assert searched == [True, False, True]
    assert torch.backends.cudnn.benchmark
    assert list(compiling.values()) == [2]


@pytest.mark.parametrize(
    ("device", "compiled", "on"), [("cuda", 1, True), ("cuda", 0, False), ("cpu", 1, False)]
)
def test_what_is_around_compiled_nets_is_fused_on_a_gpu(compiling, device, compiled, on):
    learner = make_learner(COMPILES)
    learner.short = not compiled
    machine = Machine(torch.device(device), compile=True)
    with Captured(lambda batch: None, 30, machine, [learner], pytest.fail)._compiled():
        assert _fusing.get() == on
    assert not _fusing.get()


def test_a_stage_forgets_what_was_compiled_before_it(monkeypatch, compiling):
    forgotten = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: forgotten.append(len(compiling)))
    learner = make_learner(COMPILES)
    learner.begin(learner.optimisers["sgd"])
    assert forgotten == [0, 1]
