"""Finished runs, and whether one is the run that a cell asks for."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labelsift.config import Config
from labelsift.methods import METHODS, make_method
from labelsift.reproduce.cells import Cell
from labelsift.results.store import RunFolder
from labelsift.results.tables import read_result


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: its folder, what was asked for and what came out."""

    path: Path
    config: Config
    record: Mapping[str, Any]

    @property
    def data(self) -> str:
        """The data set's name, also where it was read from a file of this name."""
        return Path(self.config.data).stem

    @property
    def about(self) -> tuple[str, str, str, int]:
        """What runs have in common that differ in nothing but what an exhibit varies."""
        return self.data, self.config.method, self.config.noise, self.config.seed

    @property
    def departures(self) -> list[str]:
        """The settings that are not the method's own for this data set, net and noise, in words."""
        config = self.config
        method = make_method(config.method, self.data, config.net, config.noise, {})
        different = _different(config.settings, asdict(method))
        return [f"{name} {in_words(value)}" for name, value in different.items()]


def in_words(value: Any) -> str:
    """A setting as it is told: 20+5 for the epochs of two stages."""
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def read_run(folder: RunFolder) -> FinishedRun:
    """A finished run."""
    return FinishedRun(folder.path, Config.read(folder.config), read_result(folder))


def is_run_of(cell: Cell, run: FinishedRun, limit: int = 0) -> bool:
    """Whether a run has the cell's protocol; settings that came up after it are not looked at."""
    config = run.config
    asked = run.data, config.net, config.method, config.noise, config.nets, config.weights, config.validation
    wanted = cell.data, cell.net, cell.method, cell.noise, cell.nets, cell.weights, cell.validation
    if asked != wanted or config.limit != limit or cell.method not in METHODS:
        return False
    method = make_method(cell.method, cell.data, cell.net, cell.noise, cell.settings)
    free = METHODS[cell.method].oracle if run.record.get("oracle") else {}
    return not [name for name in _different(config.settings, asdict(method)) if name not in free]


def _different(settings: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in settings.items() if name in own and _list(own[name]) != _list(value)
    }


def _list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
