"""Table 6: what a full run takes, from whole runs with a clock beside them or from measured epochs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from make_exhibits import note
from make_performance import timed_runs
from page import measured, on, paragraphs, spread, told

from labelsift.methods import make_method
from labelsift.reproduce.cells import Cell
from labelsift.reproduce.exhibits import TABLES
from labelsift.reproduce.records import FinishedRun, is_run_of
from labelsift.reproduce.runner import provenance, several

HEADER = ["method", "net", "epochs", "seconds", "hours", "paper, hours", "times faster", "how"]
TRAINED = 50_000  # images of CIFAR-10, some of which may be held out
IMAGES = 45_000  # of which speed.py has its epochs


def times(results: Path) -> str:
    """A row for every method of the paper's table that has a time."""
    clocked = timed_runs(results)
    speed = measured(results / "performance" / "speed.json")
    rows, used = [], []
    for cell in TABLES["table6"].cells:
        # The noise changes nothing about the steps of a run.
        alike = [run for run in clocked if is_run_of(replace(cell, noise=run.config.noise), run)]
        runs = [run for run in alike if run.config.noise == cell.noise]
        others = [run for run in alike if run.config.noise != cell.noise]
        case = case_of(cell, speed.get("cases", ()))
        if runs or case:
            rows.append(row_of(cell, runs, case))
        if others:
            rows.append(row_of(cell, others, None, several(run.config.noise for run in others)))
        used += alike
    if not rows:
        return ""
    text = told(
        HEADER,
        rows,
        "CIFAR-10, symmetric 50 % where no other noise is named; a run has the device for itself, and is "
        "evaluated every epoch. The paper used a V100, and symmetric 50 %.",
        "By the clock: whole runs, start and warm-up included. From epochs: those that a run has times one "
        "of the last stage as `benchmarks/speed.py` measured it, in proportion to the images, and the "
        "warm-up; not a whole run.",
        *([provenance([run.config.seed for run in used], [run.record for run in used])] if used else []),
        *([f"Epochs: {on(speed)}"] if speed else []),
    )
    return paragraphs(text, note(results / "table6"))


def case_of(cell: Cell, cases: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """What speed.py measured of the cell's method."""
    wanted = {"method": cell.method, "net": cell.net, "images": IMAGES, "compile": True, "capture": True}
    found = (case for case in cases if all(case[key] == value for key, value in wanted.items()))
    return next(found, None)


def row_of(
    cell: Cell, runs: Sequence[FinishedRun], case: Mapping[str, Any] | None, noise: str = ""
) -> list[str]:
    """The time of whole runs or, without any, from epochs, beside the paper's."""
    epochs = make_method(cell.method, cell.data, cell.net, cell.noise, cell.settings).total_epochs
    if runs:
        values = tuple(run.record["wall"]["seconds"] for run in runs)
        how = f"by the clock, {len(runs)} run{'s' if len(runs) > 1 else ''}"
    else:
        assert case is not None
        images = TRAINED * (1 - cell.validation)
        values = (epochs * case["epoch_seconds"] * images / IMAGES + case["warm_up_seconds"],)
        how = "from epochs"
    average = mean(values)
    words = spread(values, digits=0)
    paper = cell.paper["hours"]
    faster = f"{float(paper) * 3600 / average:.1f}"
    name = f"`{cell.method}`{f', {noise}' if noise else ''}"
    return [name, cell.net, str(epochs), words, f"{average / 3600:.3f}", paper, faster, how]
