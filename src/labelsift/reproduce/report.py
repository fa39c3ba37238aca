"""Fills a table: run what is missing, read the folders, write the pages; and lists what there is."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from statistics import mean
from typing import Any

from labelsift.config import Config
from labelsift.errors import InputError
from labelsift.methods import METHODS
from labelsift.reproduce.at_hand import fetch, look_for, obstacle
from labelsift.reproduce.cells import Cell, Curves, Exhibit, Layers, heading
from labelsift.reproduce.exhibits import CURVES, LAYERS, TABLES, WITH_CELLS
from labelsift.reproduce.figures import fill_curves, fill_layers, noises_of
from labelsift.reproduce.records import in_words
from labelsift.reproduce.runner import Job, Order, Outcome, is_length, provenance, run_jobs
from labelsift.results.store import write_whole
from labelsift.results.tables import Line, as_csv, as_latex, as_markdown, look_up

COUNTS = ("runs", "done", "missing", "without data", "impossible")
ORACLE = " (oracle)"  # what the row of a method ends with that was told the noise
DIGITS = {"seconds": 1, "hours": 3}
Finished = tuple[Cell, Mapping[str, Any], Config]


def check(name: str, order: Order) -> None:
    """Refuse what cannot be filled, before hours of training and not after."""
    if not (noises_of(LAYERS[name], order) if name in LAYERS else order.choose(WITH_CELLS[name].cells)):
        raise InputError(
            f"{name} has nothing of this data set, method and noise: see --list for what there is."
        )
    if name not in TABLES and find_spec("matplotlib") is None:
        raise InputError("Figures need matplotlib: pip install 'labelsift[figures]'.")


def fill(name: str, order: Order, say: Callable[[str], None]) -> Outcome:
    """Run the missing runs of an exhibit that was checked, write it; what to print, and what failed."""
    if name in TABLES:
        return _fill_table(name, TABLES[name], order, say)
    if name in CURVES:
        return fill_curves(name, CURVES[name], order, say)
    return fill_layers(name, LAYERS[name], order, say)


def overview(names: Sequence[str], order: Order) -> tuple[list[tuple[str, ...]], list[str]]:
    """What is asked for of these exhibits (of all, where none is named), one by one: its runs, as `COUNTS`
    names them; and why some cannot be run now, in sentences.
    """
    data = {cell.data for exhibit in TABLES.values() for cell in exhibit.cells}
    never, absent = look_for(data | {layers.data for layers in LAYERS.values()}, order.data_dir)
    rows = []
    notes: dict[str, list[str]] = {}
    for name in names or (*sorted({**CURVES, **LAYERS}), *TABLES):
        jobs = _obstacles(name, order, {**never, **absent})
        if not jobs:
            continue
        reasons = [why for job, why in jobs.items() if why and not job.done]
        done, later = sum(job.done for job in jobs), sum(why in absent.values() for why in reasons)
        counts = len(jobs), done, len(jobs) - done - len(reasons), later, len(reasons) - later
        rows.append((name, _title(name), *map(str, counts)))
        for why in dict.fromkeys(reasons):
            notes.setdefault(why, []).append(name)
    if not rows:
        raise InputError("Nothing has this data set, method and noise: ask for fewer of them at once.")
    return rows, [f"{why} ({', '.join(where)})" for why, where in notes.items()]


def _title(name: str) -> str:
    exhibits: dict[str, Exhibit | Curves | Layers] = {**TABLES, **CURVES, **LAYERS}
    return exhibits[name].title


def _obstacles(name: str, order: Order, reasons: Mapping[str, str]) -> dict[Job, str]:
    """The wanted runs of an exhibit with what stands in their way; `reasons` are those of data sets."""
    if name in LAYERS:
        layers = LAYERS[name]
        places = itertools.product(noises_of(layers, order), order.seeds_for(layers.seeds))
        return {order.layers_job(layers, *place): reasons.get(layers.data, "") for place in places}
    exhibit = WITH_CELLS[name]
    runs = itertools.product(order.choose(exhibit.cells), order.seeds_for(exhibit.seeds))
    return {order.cell_job(cell, seed): obstacle(cell, reasons) for cell, seed in runs}


def _fill_table(name: str, exhibit: Exhibit, order: Order, say: Callable[[str], None]) -> Outcome:
    seeds = order.seeds_for(exhibit.seeds)
    cells = order.choose(exhibit.cells)
    jobs = [
        [order.cell_job(cell, seed) for seed in seeds] if cell.method in METHODS else [] for cell in cells
    ]
    needed = {cell.data for cell, runs in zip(cells, jobs, strict=True) if not all(job.done for job in runs)}
    reasons = fetch(needed, order.data_dir, say)
    obstacles = [obstacle(cell, reasons) for cell in cells]
    possible = [runs for runs, why in zip(jobs, obstacles, strict=True) if not why]
    by_seed = itertools.chain(*zip(*possible, strict=True))  # every cell has one before any has two
    failed = run_jobs(by_seed, 1 if exhibit.timed else order.jobs, say, order.device)
    found = [_read(cell, runs) for cell, runs in zip(cells, jobs, strict=True)]
    lines = [
        table_line(cell, exhibit, measure, [record for _, record, _ in runs], order.scale.suffix != "")
        for measure in exhibit.measures
        for cell, runs in zip(cells, found, strict=True)
    ]
    protocol = protocol_of(exhibit, [run for runs in found for run in runs])
    protocol += [f"Impossible here: {why.rstrip('.')}." for why in dict.fromkeys(obstacles) if why]
    protocol += [f"{sentence.rstrip('.')}." for sentence in failed]
    protocol += order.scale.protocol
    title = f"{heading(name, exhibit.title)}{order.scale.mark}"
    page = as_markdown(lines, title, protocol)
    order.out.mkdir(parents=True, exist_ok=True)
    write_whole(order.file(name, ".md"), page)
    write_whole(order.file(name, ".csv"), as_csv(lines, order.scale.words))
    write_whole(order.file(name, ".tex"), as_latex(lines, title, protocol))
    return Outcome([page, f"written: {order.file(name, '.md')}, .csv and .tex"], failed)


def _read(cell: Cell, jobs: Sequence[Job]) -> list[Finished]:
    """The finished runs of a cell."""
    return [(cell, run.record, run.config) for job in jobs if (run := job.run)]


def table_line(
    cell: Cell, exhibit: Exhibit, measure: str, records: Sequence[Mapping[str, Any]], scaled: bool = False
) -> Line:
    """What the runs of a cell say about a measure, beside what the paper says."""
    path = exhibit.measures[measure]
    # One net is no ensemble.
    numbers = [(look_up(record, path), look_up(record, path.removeprefix("ensemble_"))) for record in records]
    found = [single if whole is None else whole for whole, single in numbers]
    unit = 1 if measure in DIGITS else 100
    values = tuple(unit * value for value in found if value is not None)
    words = measure
    if exhibit.highest:
        words = f"highest {measure}" + (f" of {len(values)}" if values else "")
        values = (max(values),) if values else ()
    return Line(
        cell.data,
        cell.row + (ORACLE if any(record.get("oracle") for record in records) else ""),
        cell.column,
        words + (" (scaled)" if scaled else ""),
        values,
        cell.paper.get(measure, ""),
        DIGITS.get(measure, 2),
    )


def protocol_of(exhibit: Exhibit, runs: Sequence[Finished]) -> list[str]:
    """How the numbers came about: net, epochs, true noise rate, the choice of the epoch."""
    rates: dict[str, dict[str, list[float]]] = {}
    for cell, record, config in runs:
        nets = f"{cell.nets} nets {cell.net}" if cell.nets > 1 else cell.net
        lengths = [f"{name} {in_words(value)}" for name, value in config.settings.items() if is_length(name)]
        about = f"{cell.data}, {cell.method}: {nets}, {', '.join(lengths)}"
        about += f"; {config.validation:.0%} held out".replace("%", " %") if config.validation else ""
        columns = rates.setdefault(about, {})
        if "noise" in record:
            columns.setdefault(cell.column, []).append(record["noise"]["rate"])
    sentences = []
    for about, columns in rates.items():
        known = [f"{column} {100 * mean(values):.1f} %" for column, values in columns.items()]
        sentences.append(f"{about}; true noise rate: {', '.join(known) or 'not known'}.")
    sentences.append(f"How the epoch was chosen: {exhibit.chosen}. {exhibit.note}".strip())
    if any(record.get("oracle") for _, record, _ in runs):
        sentences.append(f"{ORACLE.strip()} was told the noise that is truly there, as its authors had it.")
    if runs:
        seeds = sorted({config.seed for _, _, config in runs})
        sentences.append(provenance(seeds, [record for _, record, _ in runs]))
    return sentences
