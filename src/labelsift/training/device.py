"""The machine a run computes on: device, precision, compilation and seeds, decided once."""

import contextlib
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from labelsift.errors import InputError


@dataclass(frozen=True)
class Machine:
    """Where the tensors live, and how a net is computed there."""

    device: torch.device
    autocast: bool = False  # bf16
    compile: bool = False

    @classmethod
    def choose(cls, name: str = "auto", compile: bool = False) -> "Machine":
        """The device of this name; `auto` takes a GPU where there is one."""
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
        return cls(device, autocast=device.type == "cuda", compile=compile)

    @property
    def description(self) -> str:
        """What it is, for the record."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"

    @contextlib.contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Draw everything inside from this seed, and leave the process's generators as they were."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield

    def random_state(self) -> dict[str, torch.Tensor]:
        """The state of the generators that nets are initialised and dropped out with."""
        state = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def set_random_state(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from a saved state."""
        torch.set_rng_state(state["cpu"])
        if self.device.type == "cuda" and "cuda" in state:
            torch.cuda.set_rng_state(state["cuda"], self.device)
