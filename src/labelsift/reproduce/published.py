"""Published run records, `results/<exhibit>/<run>/`: each goes to the cell that it is a run of."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from labelsift.config import read_toml
from labelsift.methods import PES, EarlyStopping, make_method
from labelsift.reproduce.cells import STAGES_ONLY, Cell, Exhibit
from labelsift.reproduce.exhibits import CURVES, FIGURES, LAYERS
from labelsift.reproduce.figures import Drawing, curves_drawing, layers_drawing, of_stages
from labelsift.reproduce.records import FinishedRun, is_run_of, read_run
from labelsift.reproduce.report import protocol_of, table_line
from labelsift.reproduce.runner import several
from labelsift.results.store import RunFolder
from labelsift.results.tables import Line

# Whose runs an exhibit takes over where they have the data, method, noise and seed of one of its own.
SHARED = {"rest": ("table2", "table3", "table4"), "figure2": ("table1", "table2")}
LONGER = {"table1": "table2"}  # whose runs of PES begin as its own would
CUT = (
    "Without a run of its own, early stopping is a run of PES at the end of the first stage, and PES one of "
)
CUT += "Table 2 at the end of the last: up to there it is the same run."


@dataclass(frozen=True)
class Filled:
    """An exhibit with what its runs say."""

    lines: Sequence[Line]
    protocol: Sequence[str]
    runs: Sequence[FinishedRun]  # of its cells
    beside: Sequence[FinishedRun]  # runs of no cell: another protocol than the paper's


def read_published(folder: Path) -> list[FinishedRun]:
    """The runs in a folder."""
    return [read_run(RunFolder(file.parent)) for file in sorted(folder.glob("*/result.json"))]


def read_exhibit(name: str, results: Path) -> list[FinishedRun]:
    """The runs of an exhibit, and those of others that are also its own."""
    runs = read_published(results / name)
    abouts = {run.about for run in runs}
    for other in SHARED.get(name, ()):
        known = {run.config.id for run in runs}
        shared = [run for run in read_published(results / other) if run.about in abouts]
        runs += [run for run in shared if run.config.id not in known]
    return runs + (read_published(results / LONGER[name]) if name in LONGER else [])


def fill_published(exhibit: Exhibit, runs: Sequence[FinishedRun]) -> Filled:
    """Every cell of an exhibit with its runs; one that was told the noise has a row of its own."""
    filled: list[tuple[Cell, list[FinishedRun]]] = []
    for cell in exhibit.cells:
        mine = [run for run in runs if is_run_of(cell, run)]
        for run in cut_short(cell, exhibit, runs):
            if run.config.seed not in {own.config.seed for own in mine}:
                mine.append(run)
        told = [run for run in mine if run.record.get("oracle")]
        plain = [run for run in mine if not run.record.get("oracle")]
        for some in (plain, told) if told else (plain,):
            filled.append((cell, some))
    lines = [
        table_line(cell, exhibit, measure, [run.record for run in some])
        for measure in exhibit.measures
        for cell, some in filled
    ]
    finished = [(cell, run.record, run.config) for cell, some in filled for run in some]
    paths = {run.path for _, some in filled for run in some}
    own = [run for run in runs if run.path in paths]
    beside = [run for run in runs if run.path not in paths]
    protocol = protocol_of(exhibit, finished) if finished else []
    protocol += [CUT] if any("cut" in run.record for _, some in filled for run in some) else []
    return Filled(lines, protocol, own, beside)


def cut_short(cell: Cell, exhibit: Exhibit, runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """Early stopping, or PES without confident epochs: runs of PES as they were at the end of a stage.

    What the net agrees with at the end of the first one stands there; what it agrees with at the end of the
    last one stands in the next epoch, which is trained on it.
    """
    found = []
    for run in runs:
        if not any(_begins_as(other, run) for other in exhibit.cells if other.noise == cell.noise):
            continue
        history = RunFolder(run.path).epochs()
        early = cell.method == EarlyStopping.name
        ended = of_stages(history, "part 1") if early else of_stages(history)
        chosen = history[len(ended) - early :]
        if ended and chosen and "confident" in chosen[0]:
            settings = asdict(make_method(cell.method, cell.data, cell.net, cell.noise, cell.settings))
            config = replace(run.config, method=cell.method, settings=settings)
            reached = {"test_accuracy": {"last": ended[-1]["test_accuracy"]}, "confident": chosen[0]}
            found.append(replace(run, config=config, record={**run.record, **reached, "cut": len(ended)}))
    return found


def _begins_as(cell: Cell, run: FinishedRun) -> bool:
    """Whether a run of PES does what the cell asks for, which has stages only, and may go on after that."""
    if cell.settings.get("schedule") != STAGES_ONLY["schedule"] or run.config.method != PES.name:
        return False
    free = {name: run.config.settings[name] for name in ("epochs", "schedule")}
    if not is_run_of(replace(cell, settings={**cell.settings, **free}), run):
        return False
    method = make_method(cell.method, cell.data, cell.net, cell.noise, run.config.settings)
    return all(method.lr_at(epoch) == cell.settings["lr"] for epoch in range(cell.settings["epochs"]))


def published_figure(name: str, results: Path) -> Drawing | None:
    """A figure of the runs that are published, if there are any."""
    if name in LAYERS:
        folders = [file.parent for file in sorted((results / name).glob("*/result.json"))]
        about = [(read_toml(RunFolder(folder).config), folder) for folder in folders]
        about.sort(key=lambda pair: FIGURES.index(pair[0]["noise"]))  # the paper's order of panels
        noises = [(config["noise"], folder) for config, folder in about]
        drawing = layers_drawing(name, LAYERS[name], noises, [config["seed"] for config, _ in about])
    else:
        runs = read_exhibit(name, results)
        pairs: list[tuple[Cell, Path]] = []
        seeds: list[int] = []
        done: dict[str, dict[str, bool]] = {}
        for cell in CURVES[name].cells:
            mine = [run for run in runs if is_run_of(cell, run) or _begins_as(cell, run)]
            by_seed = {run.config.seed: run.path for run in reversed(mine)}  # the first of each
            pairs += [(cell, path) for path in by_seed.values()]
            seeds += by_seed
            done.setdefault(cell.row, {})[cell.column] = bool(by_seed)
        drawing = curves_drawing(name, CURVES[name], pairs, seeds)
        missing = [f"{row} with {noises}" if noises else row for row, noises in gaps(done).items()]
        drawing = replace(drawing, protocol=[*drawing.protocol, *unrun(missing)])
    return drawing if drawing.panels else None


def gaps(done: Mapping[str, Mapping[str, bool]]) -> dict[str, str]:
    """Rows of which something has no run: those columns in words, or none where it is the whole row."""
    missing = {row: [column for column, ran in cells.items() if not ran] for row, cells in done.items()}
    return {
        row: several(columns) if len(columns) < len(done[row]) else ""
        for row, columns in missing.items()
        if columns
    }


def unrun(said: Sequence[str]) -> list[str]:
    """What has no run, in a sentence, if there is anything."""
    return [f"Not run yet: {'; '.join(said)}."] if said else []
