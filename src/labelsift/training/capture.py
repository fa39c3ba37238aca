"""Capture: a step becomes one CUDA graph, replayed for every further batch of its size.

At the batch sizes of the field a step takes longer to launch than to compute. So its first batches run on
compiled nets as real steps, which lets them compile, cuDNN choose and optimisers make their memory; then all
that a step does on the device is recorded. From there on a batch costs a copy of its index and one launch.
A step must therefore do everything on the device: fixed shapes, no `.item()`, no branch on a device value,
and what changes from epoch to epoch in tensors that are changed in place.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import torch

from labelsift.data import Batch
from labelsift.errors import InputError
from labelsift.fusion import fusing
from labelsift.training.device import Machine

if TYPE_CHECKING:
    from labelsift.training.learner import Learner

WARM_UP = 3
UNCAPTURED = "A step could not be captured, so it runs as it is, slower"
Out = TypeVar("Out")


def record(
    function: Callable[[], Out], generators: Sequence[torch.Generator], device: torch.device
) -> tuple[Callable[[], None], Out]:
    """What the function launches, as a graph: how to launch it again, and where its result then is."""
    side = _side(device)
    with torch.cuda.device(device):  # which need not be the current one: of another the graph would be empty
        graph = torch.cuda.CUDAGraph()
        for generator in generators:
            graph.register_generator_state(generator)
        drawn_from = [*generators, torch.cuda.default_generators[torch.cuda.current_device()]]
        before = [generator.clone_state() for generator in drawn_from]
        try:
            # Asked for twice, since a recording that fails would leave us on this stream.
            with torch.cuda.stream(side), torch.cuda.graph(graph, stream=side):
                out = function()
        except BaseException:
            for generator, state in zip(drawn_from, before, strict=True):
                generator.graphsafe_set_state(state)  # which it would go on thinking is recorded
            raise
    return graph.replay, out


class Captured(Generic[Out]):
    """A step for batches of `size`: compiled and recorded where the machine can; others run as they come.

    What it returns is overwritten by the next call.
    """

    failed: ClassVar[int] = 0  # recordings: what was recorded before draws from generators' former states

    def __init__(
        self,
        step: Callable[[Batch], Out],
        size: int,
        machine: Machine,
        learners: Sequence["Learner"],
        warn: Callable[[str], None],
        warm_up: int = WARM_UP,
    ) -> None:
        self._step, self._size, self._machine, self._learners = step, size, machine, learners
        self._warn, self._warm_up = warn, warm_up
        self._seen = 0
        self._nets: Sequence[object] = ()  # the compiled ones that saw those batches
        self._fast = machine.compile or machine.capture
        self._recorded: tuple[Callable[[], None], Out, Batch] | None = None
        self._after = 0  # so many failures

    def __call__(self, batch: Batch) -> Out:
        """Do the step."""
        if len(batch.index) != self._size:
            with _without_search():
                return self._step(batch)
        if not self._fast:
            return self._step(batch)
        if self._recorded is None or self._after != Captured.failed:
            try:
                if self._warms_up():
                    with _aside(self._machine, batch.index.device), self._compiled():
                        return self._step(batch)
                self._recorded, self._after = self._record(batch), Captured.failed
            except InputError:
                raise
            except Exception as error:  # whatever a compiler may raise; the step itself will raise it again
                self._give_up(error)
        if self._recorded is None:  # out of the handler, which held all that the failed step had in memory
            return self(batch)
        replay, out, held = self._recorded
        held.index.copy_(batch.index)
        if held.streamed is not None:
            held.streamed.copy_(batch.inputs)
        replay()
        return out

    def _warms_up(self) -> bool:
        """Whether this is one of the first batches on these nets: a compiler must not run in a recording."""
        nets = [learner.compiled for learner in self._learners if learner.compiles]
        if nets != self._nets:
            self._nets, self._seen = nets, 0
        self._seen += 1
        return self._seen <= self._warm_up or not self._machine.capture

    def _record(self, batch: Batch) -> tuple[Callable[[], None], Out, Batch]:
        streamed = None if batch.streamed is None else batch.streamed.clone()
        held = Batch(batch.whole, batch.index.clone(), streamed)
        with self._compiled():
            # A new batch each time, since it keeps the inputs that it has once looked up.
            replay, out = record(
                lambda: self._step(held.again()), [batch.whole.generator], batch.index.device
            )
        return replay, out, held

    @contextlib.contextmanager
    def _compiled(self) -> Iterator[None]:
        """Calls of the learners go to their compiled nets, where they have them; what is around is fused."""
        for learner in self._learners:
            learner.fast = True
        compiled = any(learner.compiles for learner in self._learners)
        try:
            with fusing(compiled and self._machine.cuda):
                yield
        finally:
            for learner in self._learners:
                learner.fast = False

    def _give_up(self, error: Exception) -> None:
        """Go on without the compiler and, where that was not it, without a graph; and say so."""
        self._recorded = None
        if self._seen > self._warm_up:
            Captured.failed += 1
        why = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        if any(learner.compiles for learner in self._learners):
            self._warn(f"The net could not be compiled, so it runs as it is, slower ({why}).")
            for learner in self._learners:
                learner.compiled = None
        else:
            self._warn(f"{UNCAPTURED} ({why}).")
            self._fast = False


@functools.cache
def _side(device: torch.device) -> torch.cuda.Stream:
    """The stream that steps are warmed up and recorded on: one, since each keeps the memory it once took."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _aside(machine: Machine, device: torch.device) -> Iterator[None]:
    """On another stream, as what is recorded later must be warmed up on."""
    if not (machine.capture and machine.cuda):
        yield
        return
    main, side = torch.cuda.current_stream(device), _side(device)
    side.wait_stream(main)
    try:
        with torch.cuda.stream(side):
            yield
    finally:
        main.wait_stream(side)


@contextlib.contextmanager
def _without_search() -> Iterator[None]:
    """For sizes that differ from epoch to epoch: cuDNN would time its kernels anew for each of them."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
