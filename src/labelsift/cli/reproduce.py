"""`labelsift reproduce`: the paper's tables and figures, filled by runs."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from labelsift.errors import InputError, unknown
from labelsift.methods import METHODS
from labelsift.reproduce import report
from labelsift.reproduce.exhibits import CURVES, LAYERS, TABLES
from labelsift.reproduce.runner import Order, Scale


def reproduce(
    names: Annotated[
        list[str] | None, Argument(help="table1 ... table9, figure1 ... figure5, cifar10n, rest.")
    ] = None,
    list_: Annotated[
        bool, Option("--list", help="Run nothing: how many runs are done, missing and impossible.")
    ] = False,
    dataset: Annotated[str | None, Option(help="Only these data sets, as in cifar10,cifar100.")] = None,
    methods: Annotated[str | None, Option(help="Only these methods, as in ce,pes.")] = None,
    noise: Annotated[
        str | None, Option(help="Only these noises, as in symmetric-50,pair-45 or worst.")
    ] = None,
    seeds: Annotated[
        str | None, Option(help="Seeds, as in 1-5 or 1,3; as many as in the paper if left out.")
    ] = None,
    jobs: Annotated[int, Option(help="Runs at a time.")] = 1,
    epochs_scale: Annotated[float, Option(help="Scale every length in epochs; marked as scaled.")] = 1.0,
    limit: Annotated[int, Option(help="Use so many training examples; marked as scaled.")] = 0,
    data_dir: Annotated[str | None, Option(help="Where the data sets are; LABELSIFT_DATA, or data.")] = None,
    oracle: Annotated[
        bool, Option("--oracle", help="Tell the noise to methods whose authors take it as known; marked.")
    ] = False,
    device: Annotated[str, Option(help="auto, cpu, cuda or cuda:0.")] = "auto",
    out: Annotated[Path, Option(help="Where run folders, tables and figures go.")] = Path("runs/reproduce"),
) -> None:
    """Run what is missing of tables and figures, then print and write them.

    All are the paper's but two: cifar10n (labels that people gave: aggregate,
    random1 and worst) and rest (should the parts that PES renews rest?).
    Exit code 1: some run failed, and the same command runs it again.
    """
    console = Console(highlight=False)
    names = names or []
    known = {*TABLES, *LAYERS, *CURVES}
    for name in names:
        if name not in known:
            raise unknown("table or figure", name, known)
    if jobs < 1:
        raise InputError(f"There cannot be {jobs} runs at a time: use --jobs 1 or more.")
    if not (0 < epochs_scale < math.inf and limit >= 0):
        raise InputError("--epochs-scale must be a number above 0, and --limit at least 0.")
    cells = [cell for table in TABLES.values() for cell in table.cells]
    sets = {cell.dataset for cell in cells} | {layers.data for layers in LAYERS.values()}
    wanted = {
        "data": _names("data set", dataset, sets),
        "method": _names("method", methods, {cell.method for cell in cells} | set(METHODS)),
        "column": _names("noise", noise, {cell.column for cell in cells}),
    }
    scale = Scale(epochs_scale, limit)
    order = Order(out, wanted, _seeds(seeds), jobs, scale, data_dir or "", device, oracle)
    if list_ or not names:
        _print_list(console, *report.overview(names, order))
        return

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    for name in names:
        report.check(name, order)
    count = 0
    for name in names:
        outcome = report.fill(name, order, say)
        count += len(outcome.failed)
        for text in outcome.texts:
            say(text)
    if count:
        what, them = ("1 run", "it") if count == 1 else (f"{count} runs", "them")
        typer.echo(
            f"labelsift: {what} failed: mend what is said above, and the same command runs {them} again.",
            err=True,
        )
        raise typer.Exit(1)


def _names(what: str, words: str | None, known: set[str]) -> tuple[str, ...]:
    names = tuple(word.strip() for word in (words or "").split(",") if word.strip())
    for one in names:
        if one not in known:
            raise unknown(what, one, known)
    return names


def _seeds(words: str | None) -> tuple[int, ...]:
    found: list[int] = []
    for word in (words or "").split(","):
        if not word.strip():
            continue
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", word.strip())
        some = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not some:
            raise typer.BadParameter(f"'{word}' is no seed: write --seeds 1-5 or 1,3.")
        found += some
    return tuple(dict.fromkeys(found))  # each once: a run is one, however often it is named


def _print_list(console: Console, rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("name", "what", *report.COUNTS):
        table.add_column(column, justify="left" if column in ("name", "what") else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)
