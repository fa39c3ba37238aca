"""Runs of full length that were broken off, how far they got; and beside them those of the tables."""

from pathlib import Path

from page import markdown, measured, on

from labelsift.config import Config
from labelsift.methods import make_method
from labelsift.reproduce.exhibits import TABLES
from labelsift.reproduce.records import FinishedRun, read_run
from labelsift.results.store import RunFolder

AFTER = (1, 10, 25, 50, 75, 100, 150, 200, 250, 300)  # epochs
NETS = {"test_accuracy": "first net", "ensemble_test_accuracy": "both nets"}


def trajectories(results: Path) -> str:
    """Test accuracy after so many epochs of each run in `results/trajectories`."""
    rows, about, beside = [], {}, []
    tables = [run for name in TABLES for run in runs_of(results / name)]
    for file in sorted((results / "trajectories").glob("*/epochs.jsonl")):
        folder = RunFolder(file.parent)
        run = FinishedRun(folder.path, Config.read(folder.config), measured(folder.file("about.json")))
        name = in_words(run)
        about[f"{name}, {run.config.net}, seed {run.config.seed}"] = run.record
        like = [other for other in tables if (other.about, other.config.net) == (run.about, run.config.net)]
        rows += reached(run, name)
        rows += [row for other in like for row in reached(other, f"{in_words(other)}, the table's run")]
        beside += like
    if not rows:
        return ""
    said = "Test accuracy in percent, the best so far and after so many epochs. "
    said += "A table's run is the one of the same seed. " if beside else ""
    said += " ".join(f"{name}: {on(record)}" for name, record in about.items())
    return f"{markdown(['run', 'epochs', 'best', *map(str, AFTER)], rows)}\n\n{said}"


def runs_of(table: Path) -> list[FinishedRun]:
    """Its runs with the paper's settings."""
    runs = [read_run(RunFolder(file.parent)) for file in sorted(table.glob("*/result.json"))]
    return [run for run in runs if not (run.departures or run.config.limit)]


def in_words(run: FinishedRun) -> str:
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
