"""What a table or a figure is: its cells, each of which is a run for every seed, and how they are named."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KINDS = {"symmetric": "Symmetric", "pair": "Pairflip", "instance": "Instance"}
ACCURACY = "test accuracy"
BEST = "best on the test set"
INCLUSIVE = "The rates of symmetric noise include the true label."
# The first stage's learning rate does not fall within the epochs that Table 1 and Figures 2 and 3 look at.
STAGES_ONLY = {"lr": 0.1, "schedule": "constant", "weight_decay": 1e-4, "batch_size": 128}


@dataclass(frozen=True)
class Cell:
    """A run for each seed, and what the paper says came out."""

    row: str
    column: str
    data: str
    net: str
    method: str
    noise: str = ""
    nets: int = 1
    weights: str = ""
    validation: float = 0.0
    timed: bool = False  # a run of its own, for one that shared the device took longer
    settings: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, str] = field(default_factory=dict)  # by measure

    @property
    def dataset(self) -> str:
        """The data set without the kind of its labels: cifar10n of cifar10n:worst."""
        return self.data.partition(":")[0]

    @property
    def name(self) -> str:
        """What the run's folder is called, without the seed."""
        words = [self.data, self.noise, self.method, self.net]
        words += [f"{self.nets}nets"] if self.nets > 1 else []
        words += ["timed"] if self.timed else []
        words += [f"{key}-{_short(value)}" for key, value in self.settings.items() if key not in STAGES_ONLY]
        return "-".join(word.replace(":", "-").replace("/", "-") for word in words if word)


@dataclass(frozen=True)
class Exhibit:
    """A table."""

    title: str
    seeds: int  # runs per cell, in the paper if it is of the paper
    cells: tuple[Cell, ...]
    measures: Mapping[str, str]  # what is shown -> where it stands in result.json
    chosen: str  # how the epoch was chosen, in words
    note: str = ""
    highest: bool = False  # of the runs the best one counts, not the mean

    @property
    def timed(self) -> bool:
        """Its runs must have the device for themselves."""
        return any(cell.timed for cell in self.cells)


def _short(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def noise_name(noise: str) -> str:
    """A noise as the paper's columns name it: symmetric-50."""
    kind, _, rate = noise.partition(":")
    return f"{kind.removesuffix('-inclusive')}-{round(100 * float(rate))}" if rate else noise or "its own"


def noise_caption(noise: str) -> str:
    """A noise as the paper's figures name it: Symmetric 50%."""
    kind, _, rate = noise_name(noise).rpartition("-")
    return f"{KINDS[kind]} {rate}%"


def heading(name: str, title: str) -> str:
    """As the paper counts its tables and figures; what is not the paper's has no number."""
    kind = name.rstrip("0123456789")
    return f"{kind.capitalize()} {name.removeprefix(kind)}: {title}" if kind in ("table", "figure") else title


@dataclass(frozen=True)
class Layers:
    """Figures 1, 4 and 5: a net trained on noisy labels, and what its layers are worth on clean ones."""

    title: str
    data: str
    net: str
    cuts: Mapping[str, str]  # the curve's name -> the child that is renewed, with all behind it
    epochs: tuple[int, ...]  # of noisy training, at which the layers are looked at
    augment: str = "auto"
    clean_epochs: int = 100
    seeds: int = 5


@dataclass(frozen=True)
class Curves:
    """Figures 2 and 3: the net within PES's stages, before any confident epoch."""

    title: str
    cells: tuple[Cell, ...]
    x: str
    note: str
    seeds: int = 5
