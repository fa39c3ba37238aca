"""The machine a run computes on: device, precision, compilation and seeds, decided once."""

import contextlib
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from labelsift.errors import InputError, unknown

PRECISIONS = ("auto", "bf16", "fp32")
COMPILE_WORK = 8 * 10**9  # numbers that nets must read in a stage, for a compiler to win its own time back


@dataclass(frozen=True)
class Machine:
    """Where the tensors live, and how a net is computed there."""

    device: torch.device
    autocast: bool = False  # bf16
    compile: bool = False  # the nets ...
    compile_work: int = 0  # ... in stages in which they read so many numbers or more
    capture: bool = False  # whole steps, as CUDA graphs

    @classmethod
    def choose(cls, name: str = "auto", compile: bool | None = None, precision: str = "auto") -> "Machine":
        """The device of this name; `auto` takes a GPU where there is one.

        On a GPU steps are captured unless `compile` is False, and nets compiled in long stages, in all if it
        is True. On a CPU nets are compiled if it is True: there the compiler takes longer than it wins.
        """
        if precision not in PRECISIONS:
            raise unknown("precision", precision, PRECISIONS)
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        if not re.fullmatch(r"cpu|cuda(:\d{1,2})?", name):
            raise InputError(f"There is no device '{name}' here: use auto, cpu, cuda or cuda:0.")
        device = torch.device(name)
        if device.type == "cuda":
            count = torch.cuda.device_count()
            if (device.index or 0) >= count:
                raise InputError(f"The device '{name}' is not there ({count} GPUs seen): use --device cpu.")
            torch.backends.cudnn.benchmark = True
            torch.backends.cudnn.allow_tf32 = precision != "fp32"
        cuda = device.type == "cuda"
        fast = cuda if compile is None else compile
        bf16 = precision == "bf16"
        if cuda and precision == "auto":
            bf16 = torch.cuda.get_device_capability(device) >= (8, 0)  # older ones only emulate it
        work = COMPILE_WORK if compile is None else 0
        return cls(device, autocast=bf16, compile=fast, compile_work=work, capture=fast and cuda)

    @property
    def cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.device.type == "cuda"

    @property
    def description(self) -> str:
        """What it is, for the record."""
        if self.cuda:
            return torch.cuda.get_device_name(self.device)
        threads = torch.get_num_threads()
        return f"{platform.machine()} CPU, {threads} thread{'s' if threads != 1 else ''}"

    @contextlib.contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Draw everything inside from this seed, and leave the process's generators as they were."""
        devices = [self.device] if self.cuda else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield

    def random_state(self) -> dict[str, torch.Tensor]:
        """The state of the generators that nets are initialised and dropped out with."""
        state = {"cpu": torch.get_rng_state()}
        if self.cuda:
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def set_random_state(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from a saved state."""
        torch.set_rng_state(state["cpu"])
        if self.cuda and "cuda" in state:
            torch.cuda.set_rng_state(state["cuda"], self.device)
