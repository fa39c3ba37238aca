"""Fills a figure: run what is missing, read the folders, draw as SVG and PNG and write the numbers."""

import hashlib
import string
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from labelsift.reproduce.at_hand import fetch
from labelsift.reproduce.cells import Cell, Curves, Layers, heading, noise_caption, noise_name
from labelsift.reproduce.exhibits import FIGURES
from labelsift.reproduce.layers import POINTS, lr_of
from labelsift.reproduce.runner import Job, Order, Outcome, cell_settings, provenance, run_jobs
from labelsift.results.store import RunFolder, csv_text, write_whole
from labelsift.results.tables import Line

COLOURS = ("C1", "C0", "C2")  # the paper's: orange, blue, and green for the final layer
Point = tuple[str, str, int, float]  # panel, curve, x, test accuracy
Panels = dict[str, dict[str, dict[int, list[float]]]]  # panel -> curve -> x -> the values of the runs


@dataclass(frozen=True)
class Drawing:
    """The numbers of a figure, and how they came about."""

    title: str
    x: str
    panels: Panels
    protocol: Sequence[str]
    mark_best: bool

    @property
    def table(self) -> str:
        """The curves side by side: mean, standard deviation and number of runs."""
        names = self.curves
        rows = [("panel", self.x, *names), ("---", "---:", *("---:" for _ in names))]
        for panel, curves in self.panels.items():
            for place in sorted({place for places in curves.values() for place in places}):
                values = [curves.get(curve, {}).get(place, []) for curve in names]
                texts = [f"{Line('', '', '', '', tuple(v)).here} (n {len(v)})" if v else "" for v in values]
                rows.append((panel, str(place), *texts))
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)

    @property
    def curves(self) -> list[str]:
        """Their names."""
        return list(dict.fromkeys(curve for curves in self.panels.values() for curve in curves))

    @property
    def digest(self) -> str:
        """Tells these numbers from others; an SVG file says by it what it was drawn from."""
        return hashlib.sha256(f"{self.title}\n{self.table}".encode()).hexdigest()[:16]

    def draw(self, *files: Path) -> None:
        """The panels side by side, a line per curve (the mean of its runs), dotted at its best."""
        from matplotlib import rc_context
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(4 * len(self.panels), 3.6), layout="constrained")
        axes = figure.subplots(1, len(self.panels), squeeze=False)[0]
        colours = dict(zip(self.curves, COLOURS, strict=False))
        for axis, letter, (panel, curves) in zip(
            axes, string.ascii_lowercase, self.panels.items(), strict=False
        ):
            for curve, places in curves.items():
                means = {place: mean(places[place]) for place in sorted(places)}
                line = {"color": colours[curve], "label": curve, "marker": "o", "markersize": 3}
                axis.plot(*zip(*means.items(), strict=True), **line)
                if self.mark_best:
                    best = max(means, key=means.__getitem__)
                    axis.axvline(best, linestyle=":", linewidth=1, color=colours[curve])
            axis.set_xlabel(f"{self.x}\n({letter}) {panel}")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.grid(alpha=0.3)
            axis.legend(fontsize=8)
        axes[0].set_ylabel("test accuracy, %")
        figure.suptitle(textwrap.fill(self.title, 48 * len(self.panels)), fontsize=10)
        for file in files:
            about = {"Date": None, "Description": self.digest} if file.suffix == ".svg" else None
            with rc_context({"svg.hashsalt": "labelsift"}):  # the same numbers give the same file
                figure.savefig(file, dpi=150, metadata=about)


def fill_curves(name: str, curves: Curves, order: Order, say: Callable[[str], None]) -> Outcome:
    """Figures 2 and 3."""
    # Scaled, several lengths may become one: that is one run, and one point.
    runs = {str((cell.noise, cell_settings(cell, order.scale))): cell for cell in order.choose(curves.cells)}
    cells = list(runs.values())
    seeds = order.seeds_for(curves.seeds)
    jobs = [(cell, order.cell_job(cell, seed)) for seed in seeds for cell in cells]
    notes, failed = _run({cell.data for cell in cells}, [job for _, job in jobs], order, say)
    done = [(cell, job.folder) for cell, job in jobs if job.done]
    return Outcome(_write(name, curves_drawing(name, curves, done, seeds), notes, order), failed)


def curves_drawing(
    name: str, curves: Curves, runs: Sequence[tuple[Cell, Path]], seeds: Sequence[int]
) -> Drawing:
    """Figure 2 or 3 of finished runs."""
    read = _ends_of_stages if name == "figure2" else _last_stage
    points: list[Point] = []
    records: list[tuple[str, Mapping[str, Any]]] = []
    for cell, path in runs:
        folder = RunFolder(path)
        record = folder.read_json("result.json")
        points += read(cell, of_stages(folder.epochs()))
        records.append((cell.column, {**record, "noise_rate": record["noise"]["rate"]}))
    about = f"{curves.cells[0].data}, {curves.cells[0].net}; before confident epochs. {curves.note}"
    protocol = [about, *_protocol(records, seeds)]
    return Drawing(heading(name, curves.title), curves.x, _panels(points), protocol, mark_best=False)


def noises_of(layers: Layers, order: Order) -> list[str]:
    """The noises of Figure 1, 4 or 5 that are wanted."""
    return [noise for noise in FIGURES if order.wants(data=layers.data, column=noise_name(noise))]


def fill_layers(name: str, layers: Layers, order: Order, say: Callable[[str], None]) -> Outcome:
    """Figures 1, 4 and 5."""
    seeds = order.seeds_for(layers.seeds)
    jobs = [
        (noise, order.layers_job(layers, noise, seed)) for seed in seeds for noise in noises_of(layers, order)
    ]
    notes, failed = _run({layers.data}, [job for _, job in jobs], order, say)
    done = [(noise, job.folder) for noise, job in jobs if job.done]
    return Outcome(_write(name, layers_drawing(name, layers, done, seeds), notes, order), failed)


def layers_drawing(
    name: str, layers: Layers, runs: Sequence[tuple[str, Path]], seeds: Sequence[int]
) -> Drawing:
    """Figure 1, 4 or 5 of finished runs, each with its noise."""
    points: list[Point] = []
    records: list[tuple[str, Mapping[str, Any]]] = []
    for noise, path in runs:
        folder = RunFolder(path)
        for point in folder.read_lines(POINTS):
            points.append((noise_caption(noise), point["layer"], point["epoch"], point["test_accuracy"]))
        records.append((noise_name(noise), folder.read_json("result.json")))
    lengths = sorted({record["clean_epochs"] for _, record in records}) or [layers.clean_epochs]
    clean = " or ".join(map(str, lengths))
    protocol = [
        f"{layers.data}, {layers.net}: trained on noisy labels for the epochs of the x-axis, frozen up to "
        f"the layer, renewed behind it and trained on clean labels for {clean} epochs; "
        "the final layer is the net as it is. "
        f"SGD at {lr_of(layers.net):g}, on clean labels falling by a cosine.",
        *_protocol(records, seeds),
    ]
    x = "epochs on noisy labels"
    return Drawing(heading(name, layers.title), x, _panels(points), protocol, mark_best=True)


def _run(
    data: Iterable[str], jobs: Sequence[Job], order: Order, say: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """Run what is missing and can be run; what was impossible or failed, in sentences, and what failed."""
    if all(job.done for job in jobs):
        return [], []
    reasons = fetch(set(data), order.data_dir, say)
    if reasons:
        return [f"Impossible here: {why.rstrip('.')}." for why in reasons.values()], []
    failed = run_jobs(jobs, order.jobs, say, order.device)
    return [f"{sentence.rstrip('.')}." for sentence in failed], failed


def of_stages(history: Sequence[Mapping[str, Any]], part: str = "part ") -> list[Mapping[str, Any]]:
    """The epochs of PES's stages, which are before any confident epoch; or of the stage of another name."""
    return [row for row in history if row["stage"].startswith(part)]


def _ends_of_stages(cell: Cell, history: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Figure 2: the end of the first stage is early stopping, that of the last is PES."""
    first = of_stages(history, "part 1")
    ends = {"early stopping": first[-1], "PES": history[-1]}
    panel = noise_caption(cell.noise)
    return [(panel, curve, len(first), row["test_accuracy"]) for curve, row in ends.items()]


def _last_stage(cell: Cell, history: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Figure 3: the net before the last stage, and after each of its epochs."""
    last = [row for row in history if row["stage"] == history[-1]["stage"]]
    rows = history[-len(last) - 1 :]
    curve = noise_caption(cell.noise)
    return [(cell.row, curve, epoch, row["test_accuracy"]) for epoch, row in enumerate(rows)]


def _panels(points: Iterable[Point]) -> Panels:
    panels: Panels = {}
    for panel, curve, x, value in points:
        panels.setdefault(panel, {}).setdefault(curve, {}).setdefault(x, []).append(100 * value)
    return panels


def _protocol(records: Sequence[tuple[str, Mapping[str, Any]]], seeds: Sequence[int]) -> list[str]:
    """What the runs say about themselves."""
    if not records:
        return []
    rates: dict[str, list[float]] = {}
    for column, record in records:
        rates.setdefault(column, []).append(record["noise_rate"])
    known = [f"{column} {100 * mean(values):.1f} %" for column, values in rates.items()]
    return [
        f"True noise rate: {', '.join(known)}. No epoch was chosen: every point is the net at that moment.",
        provenance(seeds, [record for _, record in records]),
    ]


def _write(name: str, drawing: Drawing, notes: Sequence[str], order: Order) -> list[str]:
    drawing = replace(drawing, title=f"{drawing.title}{order.scale.mark}")
    sentences = [*drawing.protocol, *notes, *order.scale.protocol]
    protocol = "\n".join(f"- {sentence}" for sentence in sentences) + "\n"
    if not drawing.panels:
        return [f"# {drawing.title}\n\nNo run of it is finished.\n\n{protocol}"]
    page = f"# {drawing.title}\n\n{drawing.table}\n\n{protocol}"
    order.out.mkdir(parents=True, exist_ok=True)
    write_whole(order.file(name, ".md"), page)
    rows = [
        (panel, curve, place, f"{mean(values):.4f}", len(values), " ".join(f"{v:.4f}" for v in values))
        for panel, curves in drawing.panels.items()
        for curve, places in curves.items()
        for place, values in sorted(places.items())
    ]
    columns = ("panel", "curve", drawing.x, "mean test accuracy", "n", "runs", "scaled")
    write_whole(order.file(name, ".csv"), csv_text(columns, [(*row, order.scale.words) for row in rows]))
    drawing.draw(order.file(name, ".svg"), order.file(name, ".png"))
    return [page, f"written: {order.file(name, '.svg')}, .png, .md and .csv"]
