"""Whole runs, an epoch and a selection, beside the authors' scripts."""

from collections.abc import Sequence
from typing import Any

from page import on, origin, percent, seconds, shortened, told

from labelsift.reproduce.records import FinishedRun
from labelsift.reproduce.runner import provenance
from labelsift.results.tables import mean_and_deviation

# Seconds of the authors' scripts, measured on one H200; what we set out to reach, and then to aim for.
AUTHORS_RUNS = {  # CIFAR-10, symmetric 50 %
    ("pes", "resnet18", 200): (1280, 180, 128),
    ("pes-semi", "preact-resnet18", 300): (4360, 660, 436),
}
AUTHORS_PARTS = {
    "plain training epoch": (4.15, 0.85, 0.6),
    "two-view selection": (3.4, 0.35, 0.2),
}
PLAIN = {"method": "ce", "net": "resnet18", "images": 45_000, "classes": 10, "size": 32}  # what they are of
SOURCE = (
    "The authors' scripts were timed on one H200, whole runs from measured epochs; what to reach and to aim "
    "for is what we set out for."
)
COMPARED = ("here, s", "authors' scripts, s", "times faster", "to reach, s", "to aim for, s")


def against(here: float, authors: Sequence[float] | None) -> list[str]:
    """Here, the authors' scripts, how many times faster, and what was to be reached."""
    if authors is None:
        return [seconds(here), "", "", "", ""]
    theirs, reach, aim = authors
    return [seconds(here), f"{theirs:,}", f"{theirs / here:.1f}", f"{reach}", f"{aim}"]


def whole_runs(runs: Sequence[FinishedRun]) -> str:
    """From start to end by the clock, beside the authors' scripts, with what they reached."""
    if not runs:
        return ""
    rows = []
    for run in runs:
        record, config, wall = run.record, run.config, run.record["wall"]
        words = [record["precision"]] if "precision" in record else []
        words += ["compiled" if record["compiled"] else "not compiled"] if "compiled" in record else []
        words += ["compile cache empty" if wall["cold"] else "compile cache filled"] if "cold" in wall else []
        words += [f"commit {shortened(record['commit'])}"] if record.get("commit") else []
        name = f"`{config.method}`, {run.data}, {config.noise}, {config.net}, seed {config.seed}"
        row = [f"{name}: {', '.join(words)}" if words else name, str(record["epochs"])]
        row += against(wall["seconds"], authors_run(run))
        rows.append([*row, seconds(record["seconds"]), *map(percent, best_and_last(run))])
    header = ["run", "epochs", *COMPARED, "of it epochs, s", "test accuracy, best", "last"]
    said = ["By the clock: start, warm-up and an evaluation every epoch are part of it."]
    said += [SOURCE, provenance([run.config.seed for run in runs], [run.record for run in runs])]
    return told(header, rows, *said)


def fast_and_eager(runs: Sequence[FinishedRun]) -> str:
    """The same cell on the fast path and on the plain one: accuracies over seeds."""
    ways: dict[str, list[FinishedRun]] = {}
    for run in runs:
        fast = "compiled and captured" if run.record["compiled"] else "eager"  # stages, or whether at all
        ways.setdefault(f"{run.record['precision']}, {fast}", []).append(run)
    if not ways:
        return ""
    rows = []
    for way, some in ways.items():
        values = zip(*([100 * value for value in best_and_last(run)] for run in some), strict=True)
        accuracies = map(mean_and_deviation, values)
        times = [run.record["seconds"] for run in some]
        rows.append([way, str(len(some)), *accuracies, seconds(sum(times) / len(times))])
    one = runs[0]
    about = f"`{one.config.method}`, {one.data}, {one.config.noise}, {one.config.net}"
    about += f", {one.config.limit:,} images" if one.config.limit else ""
    about += f", {one.record['epochs']} epochs. Accuracies in percent, mean and deviation over seeds; runs "
    about += "were side by side, so their seconds say little."
    header = ["", "seeds", "test accuracy, best", "last", "seconds"]
    return told(header, rows, about, origin(runs))


def best_and_last(run: FinishedRun) -> list[float]:
    """Test accuracies."""
    return [run.record["test_accuracy"][which] for which in ("best", "last")]


def authors_run(run: FinishedRun) -> tuple[float, float, float] | None:
    """What the authors' script takes for the same run."""
    config = run.config
    kind, _, rate = config.noise.partition(":")
    same = run.data == "cifar10" and kind.startswith("symmetric") and rate == "0.5" and not config.limit
    about = config.method, config.net, config.settings.get("epochs", 0)
    return AUTHORS_RUNS.get(about) if same else None


def parts(speed: dict[str, Any]) -> str:
    """A plain epoch and a selection beside the authors'."""
    rows = [row for row in speed.get("cases", []) if all(row[key] == value for key, value in PLAIN.items())]
    if not rows:
        return ""
    row = rows[0]
    evaluation = row["evaluation_seconds"]
    here = row["epoch_seconds"] - evaluation, row["selection_seconds"]
    table = [
        [name, *against(value, authors)]
        for value, (name, authors) in zip(here, AUTHORS_PARTS.items(), strict=True)
    ]
    about = f"`{row['method']}`, {row['net']}, {row['images']:,} images of {row['size']} x {row['size']}, "
    about += f"{row['precision']}. The epoch is without its evaluation ({seconds(evaluation)} s)."
    return told(["", *COMPARED], table, about, SOURCE, on(speed))
