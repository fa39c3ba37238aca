"""Runs of full length that were broken off: how far they got."""

from pathlib import Path

from page import markdown, measured, on

from labelsift.config import Config
from labelsift.methods import make_method
from labelsift.reproduce.records import FinishedRun
from labelsift.results.store import RunFolder

AFTER = (1, 10, 25, 50, 75, 100, 150, 200, 250, 300)  # epochs
NETS = {"test_accuracy": "first net", "ensemble_test_accuracy": "both nets"}


def trajectories(results: Path) -> str:
    """Test accuracy after so many epochs of each run in `results/trajectories`."""
    rows, about = [], {}
    for file in sorted((results / "trajectories").glob("*/epochs.jsonl")):
        folder = RunFolder(file.parent)
        run = FinishedRun(folder.path, Config.read(folder.config), measured(folder.file("about.json")))
        config, history = run.config, folder.epochs()
        method = make_method(config.method, run.data, config.net, config.noise, config.settings)
        name = ", ".join(filter(None, (f"`{config.method}`", run.data, config.noise, *run.departures)))
        about[f"{name}, {config.net}, seed {config.seed}"] = run.record
        found = [measure for measure in NETS if measure in history[-1]]
        for measure in found:
            reached = [f"{100 * row[measure]:.1f}" for row in history if row["epoch"] in AFTER]
            best = max(row[measure] for row in history)
            row = [
                f"{name}, {NETS[measure]}" if len(found) > 1 else name,
                f"{len(history)} of {method.total_epochs}",
                f"{100 * best:.1f}",
            ]
            rows.append([*row, *reached, *("" for _ in AFTER[len(reached) :])])
    if not rows:
        return ""
    said = "Test accuracy in percent, the best so far and after so many epochs. "
    said += " ".join(f"{name}: {on(record)}" for name, record in about.items())
    return f"{markdown(['run', 'epochs', 'best', *map(str, AFTER)], rows)}\n\n{said}"
