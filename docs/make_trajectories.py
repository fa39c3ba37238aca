"""Runs of full length that were broken off, how far they got; and beside them those of the tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from page import markdown, measured, on, shortened

from labelsift.config import Config
from labelsift.methods import make_method
from labelsift.reproduce.exhibits import TABLES
from labelsift.reproduce.published import read_published
from labelsift.reproduce.records import FinishedRun
from labelsift.results.store import RunFolder

AFTER = (1, 10, 25, 50, 75, 100, 150, 200, 250, 300)  # epochs
LATEST = 25  # epochs whose mean tells runs apart more surely than one of them does
NETS = {"test_accuracy": "first net", "ensemble_test_accuracy": "both nets"}


def trajectories(results: Path) -> str:
    """Test accuracy after so many epochs of each run in `results/trajectories`."""
    files = sorted((results / "trajectories").glob("*/epochs.jsonl"))
    if not files:
        return ""
    tables = [run for name in TABLES for run in read_published(results / name)]
    rows, beside = [], False
    about: dict[str, list[str]] = {}  # what was run where
    for file in files:
        folder = RunFolder(file.parent)
        run = FinishedRun(folder.path, Config.read(folder.config), measured(folder.file("about.json")))
        name, history = named(run), folder.epochs()
        about.setdefault(on(run.record), []).append(f"{name}, {run.config.net}, seed {run.config.seed}")
        rows += reached(run, name, history, len(history))
        for other in tables:
            if is_as_in_the_paper(other, run):
                commit = shortened(other.record.get("commit", ""))
                told = f"the table's run{f' (commit {commit})' if commit else ''}"
                rows += reached(
                    other, f"{named(other)}, {told}", RunFolder(other.path).epochs(), len(history)
                )
                beside = True
    said = (
        f"Test accuracy in percent: the best, the mean of the last {LATEST} epochs, and that after so many. "
    )
    if beside:
        said += "A table's run is the one of the same seed; its best and its mean are those up to the epoch "
        said += "in which the run above it was broken off. "
    said += " ".join(f"{'; '.join(dict.fromkeys(names))}: {place}" for place, names in about.items())
    header = ["run", "epochs", "best", f"mean of the last {LATEST}", *map(str, AFTER)]
    return f"{markdown(header, rows)}\n\n{said}"


def is_as_in_the_paper(other: FinishedRun, run: FinishedRun) -> bool:
    """Whether one run is what another would be with the method's own settings."""
    alike = (other.about, other.config.net) == (run.about, run.config.net)
    return alike and not (other.departures or other.config.limit)


def named(run: FinishedRun) -> str:
    """What a run was, with the settings of its own."""
    config = run.config
    return ", ".join(filter(None, (f"`{config.method}`", run.data, config.noise, *run.departures)))


def reached(run: FinishedRun, name: str, history: Sequence[Mapping[str, Any]], until: int) -> list[list[str]]:
    """A row for the first net and, where there are several, one for all; judged up to that epoch."""
    config = run.config
    method = make_method(config.method, run.data, config.net, config.noise, config.settings)
    found = [measure for measure in NETS if measure in history[-1]]
    rows = []
    for measure in found:
        seen = [row[measure] for row in history[:until]]
        after = [f"{100 * row[measure]:.1f}" for row in history if row["epoch"] in AFTER]
        rows.append(
            [
                f"{name}, {NETS[measure]}" if len(found) > 1 else name,
                f"{len(history)} of {method.total_epochs}",
                f"{100 * max(seen):.1f}",
                f"{100 * mean(seen[-LATEST:]):.1f}",
                *after,
                *("" for _ in AFTER[len(after) :]),
            ]
        )
    return rows
