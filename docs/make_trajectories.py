"""Runs of full length that were broken off, how far they got; and beside them those of the tables."""

from pathlib import Path

from page import markdown, measured, on

from labelsift.config import Config
from labelsift.methods import make_method
from labelsift.reproduce.exhibits import TABLES
from labelsift.reproduce.published import read_published
from labelsift.reproduce.records import FinishedRun
from labelsift.results.store import RunFolder

AFTER = (1, 10, 25, 50, 75, 100, 150, 200, 250, 300)  # epochs
NETS = {"test_accuracy": "first net", "ensemble_test_accuracy": "both nets"}


def trajectories(results: Path) -> str:
    """Test accuracy after so many epochs of each run in `results/trajectories`."""
    files = sorted((results / "trajectories").glob("*/epochs.jsonl"))
    if not files:
        return ""
    tables = [run for name in TABLES for run in read_published(results / name)]
    rows, about, beside = [], {}, []
    for file in files:
        folder = RunFolder(file.parent)
        run = FinishedRun(folder.path, Config.read(folder.config), measured(folder.file("about.json")))
        name = named(run)
        about[f"{name}, {run.config.net}, seed {run.config.seed}"] = run.record
        rows += reached(run, name)
        for other in tables:
            if is_as_in_the_paper(other, run):
                rows += reached(other, f"{named(other)}, the table's run")
                beside.append(other)
    said = "Test accuracy in percent, the best so far and after so many epochs. "
    said += "A table's run is the one of the same seed. " if beside else ""
    said += " ".join(f"{name}: {on(record)}" for name, record in about.items())
    return f"{markdown(['run', 'epochs', 'best', *map(str, AFTER)], rows)}\n\n{said}"


def is_as_in_the_paper(other: FinishedRun, run: FinishedRun) -> bool:
    """Whether one run is what another would be with the method's own settings."""
    alike = (other.about, other.config.net) == (run.about, run.config.net)
    return alike and not (other.departures or other.config.limit)


def named(run: FinishedRun) -> str:
    """What a run was, with the settings of its own."""
    config = run.config
    return ", ".join(filter(None, (f"`{config.method}`", run.data, config.noise, *run.departures)))


def reached(run: FinishedRun, name: str) -> list[list[str]]:
    """A row for the first net and, where there are several, one for all."""
    config, history = run.config, RunFolder(run.path).epochs()
    method = make_method(config.method, run.data, config.net, config.noise, config.settings)
    found = [measure for measure in NETS if measure in history[-1]]
    rows = []
    for measure in found:
        after = [f"{100 * row[measure]:.1f}" for row in history if row["epoch"] in AFTER]
        rows.append(
            [
                f"{name}, {NETS[measure]}" if len(found) > 1 else name,
                f"{len(history)} of {method.total_epochs}",
                f"{100 * max(row[measure] for row in history):.1f}",
                *after,
                *("" for _ in AFTER[len(after) :]),
            ]
        )
    return rows
