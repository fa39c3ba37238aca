"""Fills a table or a figure: run what is missing, read the folders, write the pages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from labelsift.config import Config
from labelsift.methods import METHODS
from labelsift.reproduce.exhibits import (
    CURVES,
    FIGURES,
    LAYERS,
    TABLES,
    Cell,
    Curves,
    Exhibit,
    Layers,
    noise_name,
)
from labelsift.reproduce.figures import Panels, draw
from labelsift.reproduce.layers import POINTS
from labelsift.reproduce.runner import Job, Scale, cell_job, layers_job, run_jobs, smaller
from labelsift.results.store import RunFolder, write_whole
from labelsift.results.tables import Line, as_csv, as_latex, as_markdown, look_up, read_result

RUNS = "cells"


@dataclass(frozen=True)
class Order:
    """What is asked for: which cells, seeds, how many at once, how small, and where."""

    wanted: Mapping[str, Sequence[str]]
    seeds: Sequence[int]
    jobs: int
    scale: Scale
    out: Path
    data_dir: str
    device: str

    def seeds_for(self, paper: int) -> Sequence[int]:
        """The seeds asked for, or as many as the paper had."""
        return self.seeds or range(1, paper + 1)

    def job(self, cell: Cell, seed: int) -> Job:
        """The run of a cell."""
        more = ["--device", self.device] + (["--data-dir", self.data_dir] if self.data_dir else [])
        return cell_job(cell, seed, self.out / RUNS, self.scale, more)


def fill(name: str, order: Order, say: Callable[[str], None]) -> list[str]:
    """Run the missing runs of an exhibit, write it, and give back the lines to print."""
    if name in TABLES:
        return _table(name, TABLES[name], order, say)
    if name in CURVES:
        return _curves(name, CURVES[name], order, say)
    return _layers(name, LAYERS[name], order, say)


def overview(out: Path) -> list[tuple[str, ...]]:
    """Every exhibit with its runs: how many, done, missing, and what cannot be."""
    rows = []
    exhibits: dict[str, Exhibit | Curves] = {**TABLES, **CURVES}
    for name, exhibit in exhibits.items():
        jobs, missing = [], set()
        for cell in exhibit.cells:
            if cell.method not in METHODS:
                missing.add(cell.method)
                continue
            jobs += [cell_job(cell, seed, out / RUNS, Scale()) for seed in range(1, exhibit.seeds + 1)]
        impossible = f"not built yet: {', '.join(sorted(missing))}" if missing else ""
        rows.append(_row(name, exhibit.title, jobs, impossible))
    for name, layers in LAYERS.items():
        panels = [(noise, seed) for noise in FIGURES for seed in range(1, layers.seeds + 1)]
        jobs = [layers_job(layers, noise, seed, out / RUNS, Scale(), "", "auto") for noise, seed in panels]
        rows.append(_row(name, layers.title, jobs, ""))
    return sorted(rows)


def _row(name: str, title: str, jobs: Sequence[Job], impossible: str) -> tuple[str, ...]:
    done = sum(job.done for job in jobs)
    return name, title, str(len(jobs)), str(done), str(len(jobs) - done), impossible


def _table(name: str, exhibit: Exhibit, order: Order, say: Callable[[str], None]) -> list[str]:
    seeds = order.seeds_for(exhibit.seeds)
    cells = smaller(exhibit.cells, order.wanted)
    possible = [cell for cell in cells if cell.method in METHODS]
    failed = run_jobs([order.job(cell, seed) for cell in possible for seed in seeds], order.jobs, say)
    lines, records = [], []
    for cell in cells:
        folders = [order.job(cell, seed).folder for seed in seeds] if cell in possible else []
        runs = [record for folder in folders if (record := read_result(folder))]
        records += runs
        lines += [_line(cell, measure, path, runs) for measure, path in exhibit.measures.items()]
    protocol = _protocol(exhibit, possible, order, seeds, records)
    unbuilt = sorted({cell.method for cell in cells if cell not in possible})
    protocol += [f"The method {method} is not built yet." for method in unbuilt]
    protocol += [f"Failed: {job.name}." for job in failed]
    title = f"{name}: {exhibit.title}{_mark(order.scale)}"
    page = as_markdown(lines, title, protocol)
    base = order.out / f"{name}{order.scale.suffix}"
    write_whole(base.with_name(base.name + ".md"), page)
    write_whole(base.with_name(base.name + ".csv"), as_csv(lines, order.scale.words))
    write_whole(base.with_name(base.name + ".tex"), as_latex(lines, title, protocol))
    return [page, f"written: {base}.md, .csv and .tex"]


def _line(cell: Cell, measure: str, path: str, runs: Sequence[Mapping[str, Any]]) -> Line:
    if cell.nets == 1:
        path = path.removeprefix("ensemble_")
    found = [value for run in runs if (value := look_up(run, path)) is not None]
    unit = 1 if measure == "hours" else 100
    return Line(
        cell.data,
        cell.row,
        cell.column,
        measure,
        tuple(unit * value for value in found),
        cell.paper.get(measure, ""),
    )


def _protocol(
    exhibit: Exhibit,
    cells: Sequence[Cell],
    order: Order,
    seeds: Sequence[int],
    records: Sequence[Mapping[str, Any]],
) -> list[str]:
    """How the numbers came about: net, epochs, true noise rate, the choice of the epoch."""
    found: dict[str, dict[str, list[float | None]]] = {}
    for cell in cells:
        for seed in seeds:
            folder = order.job(cell, seed).folder
            if record := read_result(folder):
                settings = Config.read(RunFolder(folder).config).settings
                about = f"{cell.data}, {cell.method}: {cell.net}, {settings['epochs']} epochs"
                rate = record.get("noise", {}).get("rate")
                found.setdefault(about, {}).setdefault(cell.column, []).append(rate)
    sentences = []
    for about, columns in found.items():
        rates = [
            f"{column} {100 * mean(r):.1f} %"
            for column, rates in columns.items()
            if (r := [x for x in rates if x])
        ]
        sentences.append(f"{about}; labels really changed: {', '.join(rates) or 'not known'}.")
    devices = sorted({str(record["device"]) for record in records})
    days = sorted({str(record["finished"])[:10] for record in records})
    sentences.append(f"The number is that of {exhibit.chosen}. {exhibit.note}".strip())
    if records:
        sentences.append(
            f"Seeds {', '.join(map(str, seeds))}; {', '.join(devices)}; {days[0]} to {days[-1]}."
        )
    if order.scale.suffix:
        sentences.append(
            f"SCALED: epochs x {order.scale.epochs:g}, {order.scale.limit or 'all'} training examples."
        )
    return sentences


def _mark(scale: Scale) -> str:
    return " (scaled, not the paper's protocol)" if scale.suffix else ""


def _curves(name: str, curves: Curves, order: Order, say: Callable[[str], None]) -> list[str]:
    seeds = order.seeds_for(curves.seeds)
    cells = smaller(curves.cells, order.wanted)
    run_jobs([order.job(cell, seed) for cell in cells for seed in seeds], order.jobs, say)
    panels: dict[str, dict[str, dict[float, list[float]]]] = {}
    for cell in cells:
        place = float(cell.row.partition("=")[2])
        for seed in seeds:
            folder = RunFolder(order.job(cell, seed).folder)
            if folder.finished:
                history = folder.epochs()
                lines = panels.setdefault(cell.column, {})
                if name == "figure2":  # the end of the first stage is early stopping
                    stopped = [row for row in history if row["stage"] == "part 1"][-1]
                    lines.setdefault("early stopping", {}).setdefault(place, []).append(
                        stopped["test_accuracy"]
                    )
                lines.setdefault("PES", {}).setdefault(place, []).append(history[-1]["test_accuracy"])
    return _figure(name, curves.title, curves.x, panels, order, mark_best=name != "figure2")


def _layers(name: str, layers: Layers, order: Order, say: Callable[[str], None]) -> list[str]:
    noises = [
        noise
        for noise in FIGURES
        if not order.wanted["column"] or noise_name(noise) in order.wanted["column"]
    ]
    jobs = {
        (noise, seed): layers_job(
            layers, noise, seed, order.out / RUNS, order.scale, order.data_dir, order.device
        )
        for noise in noises
        for seed in order.seeds_for(layers.seeds)
    }
    run_jobs(jobs.values(), order.jobs, say)
    panels: dict[str, dict[str, dict[float, list[float]]]] = {}
    for (noise, _), job in jobs.items():
        for point in RunFolder(job.folder).read_lines(POINTS) if job.done else ():
            curve = panels.setdefault(noise_name(noise), {}).setdefault(point["layer"], {})
            curve.setdefault(point["epoch"], []).append(point["test_accuracy"])
    return _figure(name, layers.title, "epochs on noisy labels", panels, order, mark_best=True)


def _figure(name: str, title: str, x: str, panels: Panels, order: Order, mark_best: bool) -> list[str]:
    if not panels:
        return [f"{name}: no run of it is finished."]
    base = order.out / f"{name}{order.scale.suffix}"
    files = draw(panels, title + _mark(order.scale), x, base, mark_best)
    lines = [
        Line(panel, curve, f"{x} {place:g}", "test accuracy", tuple(100 * value for value in values))
        for panel, curves in panels.items()
        for curve, points in curves.items()
        for place, values in sorted(points.items())
    ]
    write_whole(base.with_name(base.name + ".csv"), as_csv(lines, order.scale.words))
    return [
        as_markdown(lines, f"{name}: {title}{_mark(order.scale)}", []),
        f"written: {', '.join(map(str, files))}",
    ]
