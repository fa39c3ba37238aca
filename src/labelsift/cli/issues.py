"""`labelsift issues`: the labels that look wrong, worst first, and what the noise looks like."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from labelsift.cli.progress import percent
from labelsift.data.listing import shown
from labelsift.errors import InputError, unknown
from labelsift.issues import reason
from labelsift.result import Result
from labelsift.results.store import csv_text

FORMATS = ("table", "csv", "json")
PIPED = 10_000  # columns of what is no terminal, so that no name is broken
COLUMNS = ("index", "path", "label", "suggested_label", "label_quality", "why")


def issues(
    run: Annotated[Path, Argument(help="A finished run folder.")],
    top: Annotated[int | None, Option(help="So many at most; 20 in a table, else all.")] = None,
    threshold: Annotated[float, Option(help="Labels of a quality below this; 0.5 is an even chance.")] = 0.5,
    class_: Annotated[str | None, Option("--class", help="Only labels that say this class.")] = None,
    format: Annotated[str, Option(help="table, csv or json.")] = "table",
) -> None:
    """List the labels that look wrong, worst first."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    if not 0 <= threshold <= 1:
        raise InputError(f"The threshold {threshold:g} is no quality: it lies between 0 and 1.")
    if top is not None and top < 1:
        raise InputError(f"The first {top} labels are none: use --top 20, or leave it out.")
    result = Result(run)
    found = doubtful(result, threshold, class_)
    shown = found[: (20 if format == "table" else None) if top is None else top]
    if format == "csv":
        columns = list(shown[0]) if shown else list(COLUMNS)
        typer.echo(csv_text(columns, [list(row.values()) for row in shown]), nl=False)
    elif format == "json":
        about = {"issues": shown, "found": len(found), "examples": len(result.examples)}
        typer.echo(json.dumps(about | {"estimated_noise": estimate(result)}, indent=1))
    else:
        of = (
            len(result.examples)
            if class_ is None
            else list(result.labels).count(result.classes.index(class_))
        )
        _print(result, shown, f"{len(found):,} of {of:,}", len(found) > len(shown))


def doubtful(result: Result, threshold: float, class_: str | None = None) -> list[dict[str, Any]]:
    """The rows of doubtful labels, with names for classes and a reason for each."""
    if class_ is not None and class_ not in result.classes:
        raise unknown("class", class_, result.classes)
    rows = [
        {**named(result, row), "why": reason(float(row["agreement"]))}
        for row in result.suspicious(None, threshold)
    ]
    return [row for row in rows if class_ is None or row["label"] == class_]


def named(result: Result, row: dict[str, str]) -> dict[str, Any]:
    """A row of `examples.csv` for people: with names for classes."""
    names = {key: result.classes[int(row[key])] for key in row if key.endswith("label")}
    quality = float(row["label_quality"])
    return {"index": int(row["index"]), "path": row["path"], **names, "label_quality": quality}


def estimate(result: Result) -> dict[str, Any]:
    """The estimated noise and, where the truth is known, how far off it is."""
    found: dict[str, Any] = dict(result.record["estimated_noise"])
    if "true_label" in result.examples[0]:
        truth = np.array([int(row["true_label"]) for row in result.examples])
        counts = np.zeros((len(result.classes), len(result.classes)))
        np.add.at(counts, (truth, result.labels), 1)
        transition = counts / counts.sum(1, keepdims=True).clip(min=1)
        known = counts.sum(1) > 0
        off = np.abs(np.array(found["transition"]) - transition)[known].sum(1) / 2
        found["true_rate"] = float((truth != result.labels).mean())
        found["true_transition"] = transition.tolist()
        found["transition_distance"] = float(off.mean())  # total variation, mean over the classes
    return found


def _print(result: Result, rows: list[dict[str, Any]], found: str, more: bool) -> None:
    width = None if sys.stdout.isatty() else PIPED
    console = Console(highlight=False, emoji=False, soft_wrap=True, width=width)
    noise = estimate(result)
    table = Table(box=None, pad_edge=False)
    for column in ("path" if any(row["path"] for row in rows) else "index", "label", "suggested"):
        table.add_column(column, overflow="fold")
    table.add_column("quality", justify="right", no_wrap=True)
    table.add_column("why", no_wrap=True)
    for row in rows:
        cells = (row["path"] or str(row["index"]), row["label"], row["suggested_label"])
        table.add_row(*(escape(shown(cell)) for cell in cells), f"{row['label_quality']:.3f}", row["why"])
    if rows:
        console.print(table, soft_wrap=False)
    worst = f", the worst {len(rows)} are above" if more else ""
    console.print(f"\n{found} labels are doubtful{worst}.")
    line = f"Estimated noise: {percent(noise['rate'])} of the labels"
    if "true_rate" in noise:
        distance = f"{noise['transition_distance']:.3f} off (total variation)"
        line += f"; truly {percent(noise['true_rate'])}, the transition matrix is {distance}"
    console.print(f"{line}.")
    most = sorted(zip(noise["rate_by_label"], result.classes, strict=True), reverse=True)[:5]
    shares = ", ".join(f"{escape(shown(name))} {percent(rate)}" for rate, name in most)
    console.print(f"By label: {shares}.")
    for note in result.record["warnings"]:
        console.print(f"note: {note}", markup=False)
