"""Where graphs are recorded, and what is left when that fails: with a stand-in for torch.cuda."""

import contextlib

import pytest
import torch

import labelsift
from labelsift.training import Machine
from labelsift.training import capture as module


class Cuda:
    """What of torch.cuda a recording touches, noted; the device is never the current one."""

    def __init__(self, monkeypatch, broken=False):
        self.at, self.streams, self.broken, self.waits = [0], ["main"], broken, []
        self.default_generators = ["generator 0", Generator()]
        for name in ("CUDAGraph", "default_generators", "device", "stream", "graph", "current_device"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("side", self.waits))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream("main", self.waits))
        monkeypatch.setattr(module, "_side", module._side.__wrapped__)  # no stream of ours is kept

    class CUDAGraph:
        def __init__(self):
            self.states, self.launches = [], 0

        def register_generator_state(self, generator):
            self.states.append(generator)

        def replay(self):
            self.launches += 1

    def current_device(self):
        return self.at[-1]

    @contextlib.contextmanager
    def device(self, device):
        self.at.append(device.index)
        yield
        self.at.pop()

    @contextlib.contextmanager
    def stream(self, stream):
        before = list(self.streams)
        self.streams.append(stream.name)
        try:
            yield
        finally:
            self.streams[:] = before

    @contextlib.contextmanager
    def graph(self, graph, stream):
        self.streams.append(stream.name)
        yield
        if self.broken:
            raise RuntimeError("the capture was invalidated")  # and so the stream stays, as in torch
        self.streams.pop()


class Stream:
    def __init__(self, name, waits):
        self.name, self.waits = name, waits

    def wait_stream(self, other):
        self.waits.append(f"{self.name} for {other.name}")


class Generator:
    state = "as it was"

    def clone_state(self):
        return self.state

    def graphsafe_set_state(self, state):
        self.state = state


def test_a_graph_is_recorded_on_the_device_and_stream_of_its_batches(monkeypatch):
    cuda, mine = Cuda(monkeypatch), Generator()
    replay, out = module.record(lambda: (cuda.at[-1], cuda.streams[-1]), [mine], torch.device("cuda", 1))
    assert out == (1, "side")
    replay()
    assert replay.__self__.states == [mine]
    assert replay.__self__.launches == 1
    assert (cuda.at, cuda.streams) == ([0], ["main"])


def test_a_failed_recording_gives_generators_and_stream_back(monkeypatch):
    cuda, mine = Cuda(monkeypatch, broken=True), Generator()

    def draw():
        for generator in (mine, cuda.default_generators[1]):
            generator.state = "being recorded"

    with pytest.raises(RuntimeError, match="invalidated"):
        module.record(draw, [mine], torch.device("cuda", 1))
    assert mine.state == cuda.default_generators[1].state == "as it was"
    assert cuda.streams == ["main"]


def test_steps_aside_are_waited_for_even_if_they_fail(monkeypatch):
    cuda, device = Cuda(monkeypatch), torch.device("cuda", 1)
    machine = Machine(device, capture=True)

    def fail():
        with module._aside(machine, device):
            assert cuda.streams[-1] == "side"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert cuda.waits == ["side for main", "main for side"]
    with module._aside(Machine(device), device):
        assert cuda.streams == ["main"]


@pytest.mark.parametrize(
    ("capability", "precision", "bf16"),
    [((9, 0), "auto", True), ((7, 5), "auto", False), ((7, 5), "bf16", True), ((9, 0), "fp32", False)],
)
def test_a_gpu_computes_in_bf16_where_it_can(monkeypatch, capability, precision, bf16):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    for name in ("benchmark", "allow_tf32"):
        monkeypatch.setattr(torch.backends.cudnn, name, False)
    machine = Machine.choose("cuda:1", precision=precision)
    assert machine.autocast == bf16
    assert torch.backends.cudnn.allow_tf32 == (precision != "fp32")
    assert machine.capture
    assert machine.compile
    assert machine.compile_work > 0
    slow = Machine.choose("cuda:1", False)
    assert not slow.capture
    assert not slow.compile
    assert Machine.choose("cuda:1", True).compile_work == 0
    with pytest.raises(labelsift.InputError, match="2 GPUs seen"):
        Machine.choose("cuda:2")
