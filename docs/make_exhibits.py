"""The paper's tables and figures from the run records in `results/<exhibit>/`."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from make_jumps import close_choices, jumps
from page import listed, markdown, origin, paragraphs, percent, spread

from labelsift.reproduce.cells import Curves, Exhibit, Layers, heading
from labelsift.reproduce.exhibits import CURVES, LAYERS, TABLES
from labelsift.reproduce.figures import Drawing
from labelsift.reproduce.published import Filled, fill_published, gaps, published_figure, read_exhibit, unrun
from labelsift.reproduce.records import FinishedRun
from labelsift.reproduce.runner import several
from labelsift.results.tables import Line

FIGURES = sorted({**CURVES, **LAYERS})
METHOD_TABLES = {
    "methods": "Every method on the embedded data",
    "methods-fashion-mnist-10k": "Every method on 10,000 images of Fashion-MNIST",
    "methods-fashion-mnist": "Every method on Fashion-MNIST",
}
ELSEWHERE = {"demo", "performance", "agreement", *METHOD_TABLES, *FIGURES}  # with sections of another kind
JUMPY = ("table1", "table2")  # whose numbers are of single epochs at a high learning rate
VALIDATED = ("table2",)  # whose epochs validation chooses
HEAD = ("table2", "table3", "table4", "cifar10n")  # what the README shows of PES on CIFAR-10


def sections(results: Path) -> list[tuple[str, str]]:
    """The title and the text of every exhibit that has records, the paper's tables first."""
    folders = sorted(folder.name for folder in results.iterdir() if folder.is_dir())
    names = [name for name in TABLES if name in folders and name != "table6"]
    names += [name for name in folders if name not in TABLES and name not in ELSEWHERE]
    return [(title(name), table_text(name, results)) for name in names]


def title(name: str) -> str:
    """As the paper counts its tables and figures."""
    exhibits: Mapping[str, Exhibit | Curves | Layers] = {**TABLES, **CURVES, **LAYERS}
    return heading(name, exhibits[name].title if name in exhibits else name)


def table_text(name: str, results: Path) -> str:
    """The table, how it came about, what somebody noted about it, and runs of another protocol."""
    runs = read_exhibit(name, results)
    filled = fill_published(TABLES[name], runs) if name in TABLES else Filled([], [], [], runs)
    texts = [grid(lines) for lines in by_data(filled.lines)]
    noises = [line.noise for line in filled.lines]
    draws = jumps(filled.runs, noises) if name in JUMPY else []
    draws += close_choices(filled.runs, noises) if name in VALIDATED else []
    where = [f"Records, with every setting: `results/{name}/`."] if filled.protocol else []
    still = open_cells(filled.lines) if filled.protocol else []
    texts += [listed([*filled.protocol, *draws, *where, *still]), note(results / name)]
    texts.append(beside([run for run in filled.beside if run.path.parent == results / name]))
    return paragraphs(*texts)


def note(folder: Path) -> str:
    """What is written by hand beside the records: causes, and what stays open."""
    file = folder / "notes.md"
    return file.read_text().strip() if file.exists() else ""


def by_data(lines: Sequence[Line]) -> list[list[Line]]:
    """Lines that share a table: those of a data set."""
    tables: dict[str, list[Line]] = {}
    for line in lines:
        tables.setdefault(line.data.partition(":")[0], []).append(line)
    return list(tables.values())


def open_cells(lines: Sequence[Line]) -> list[str]:
    """What has no run, in a sentence: whole data sets, whole methods, and others with some noises."""
    said = []
    for some in by_data(lines):
        data = some[0].data.partition(":")[0]
        done: dict[str, dict[str, bool]] = {}
        for line in some:
            done.setdefault(line.method.rstrip("*"), {})[line.noise] = bool(line.values)
        missing = gaps(done)
        none = [f"`{method}`" for method, noises in missing.items() if not noises]
        if len(none) == len(done):
            said.append(f"all of {data}")
            continue
        said += [f"{several(none)} on {data}"] if none else []
        said += [f"`{method}` on {data} with {noises}" for method, noises in missing.items() if noises]
    return unrun(said)


def grid(lines: Sequence[Line]) -> str:
    """The paper's layout, method by noise, of those rows and columns of which there are runs."""
    known = [line for line in lines if line.values]
    if not known:
        return ""
    columns = [
        noise for noise in dict.fromkeys(line.noise for line in lines) if noise in {x.noise for x in known}
    ]
    measures = list(dict.fromkeys(line.measure for line in known))
    rows: dict[str, dict[str, Line]] = {}
    for line in lines:
        if (line.measure, line.method) in {(x.measure, x.method) for x in known}:
            name = f"`{line.method}`" if len(measures) == 1 else f"{line.measure}, `{line.method}`"
            rows.setdefault(name, {})[line.noise] = line
    data = known[0].data.partition(":")[0]
    if len(columns) == 1:
        header = [f"{data}, {columns[0]}", "here", "runs", "paper", "difference"]
        table = [[name, *in_a_row(cells[columns[0]])] for name, cells in rows.items() if columns[0] in cells]
        return markdown(header, table) + legend(known)
    table = []
    for name, cells in rows.items():
        texts = [in_a_row(cells[noise]) if noise in cells else ("",) * 4 for noise in columns]
        table.append([name, "here", *(f"{here} (n {count})" if here else "" for here, count, _, _ in texts)])
        if any(paper for _, _, paper, _ in texts):
            table.append(["", "paper", *(paper for _, _, paper, _ in texts)])
            table.append(["", "difference", *(difference for *_, difference in texts)])
    return markdown([data, "", *columns], table) + legend(known)


def in_a_row(line: Line) -> tuple[str, str, str, str]:
    """Here, runs, paper, difference."""
    here, count, paper, difference = (word.replace("±", " ± ") for word in line.row[4:])
    return here, count, paper, f"**{difference}**" if is_off(line) else difference


def is_off(line: Line) -> bool:
    """Whether the mean is further from the paper's than the paper's deviation."""
    mean, _, deviation = line.paper.partition("±")
    if not (line.values and deviation):
        return False
    return round(abs(statistics.mean(line.values) - float(mean)) - float(deviation), 6) > 0  # as decimals


def legend(lines: Sequence[Line]) -> str:
    """What is meant by bold, where there is any."""
    off = any(is_off(line) for line in lines)
    return "\n\nBold: further from the paper's mean than its deviation." if off else ""


def beside(runs: Sequence[FinishedRun]) -> str:
    """Runs that are of no cell: what they were and what they reached."""
    groups: dict[tuple[str, ...], list[FinishedRun]] = {}
    for run in runs:
        config = run.config
        words = run.departures
        words += [f"{config.limit} examples"] if config.limit else []
        words += [f"{config.nets} nets"] if config.nets > 1 else []
        words += [f"{percent(config.validation)} held out"] if config.validation else []
        place = (
            f"`{config.method}`",
            f"{run.data}, {config.noise or 'its own noise'}",
            config.net,
            ", ".join(words),
        )
        groups.setdefault(place, []).append(run)
    if not groups:
        return ""
    header = ["other runs", "data", "net", "settings of its own", "n", "best", "last"]
    rows = [
        [*place, str(len(some)), *(reached(some, which) for which in ("best", "last"))]
        for place, some in sorted(groups.items())
    ]
    return f"{markdown(header, rows)}\n\nTest accuracy in percent. {origin(runs)}"


def reached(runs: Sequence[FinishedRun], which: str) -> str:
    """The accuracy of some runs, in percent."""
    return spread([100 * run.record["test_accuracy"][which] for run in runs])


def unbegun(results: Path) -> str:
    """The tables and figures that have no run at all, beside others that have."""
    names = [name for name in (*TABLES, *FIGURES) if name != "table6"]  # which is made of others' runs
    missing = [name for name in names if not list((results / name).glob("*/result.json"))]
    return listed([title(name) for name in missing]) if len(missing) < len(names) else ""


def figures(results: Path) -> dict[str, Drawing]:
    """Those that have records, by name."""
    found = {name: published_figure(name, results) for name in FIGURES if (results / name).is_dir()}
    return {name: drawing for name, drawing in found.items() if drawing}


def figure_sections(drawings: Mapping[str, Drawing], results: Path) -> list[tuple[str, str]]:
    """A picture, its numbers and how they came about."""
    return [
        (
            title(name),
            paragraphs(
                f"![{drawing.title}](figures/{name}.svg)",
                drawing.table,
                listed([*drawing.protocol, f"Records: `results/{name}/`."]),
                note(results / name),
            ),
        )
        for name, drawing in drawings.items()
    ]


def head(results: Path) -> str:
    """PES on CIFAR-10 beside the paper, for the README."""
    lines, runs = [], []
    for name in HEAD:
        found = [
            run
            for run in read_exhibit(name, results)
            if run.data.partition(":")[0] in ("cifar10", "cifar10n")
        ]
        mine = [run for run in found if run.config.method in ("pes", "pes-semi")]
        filled = fill_published(TABLES[name], mine)
        lines += [line for line in filled.lines if line.values]
        runs += filled.runs
    if not lines:
        return ""
    header = ["CIFAR-10, test accuracy", "noise", "here", "runs", "published", "difference"]
    rows = [
        [f"`{line.method}`", f"people's, {line.noise}" if ":" in line.data else line.noise, *in_a_row(line)]
        for line in lines
    ]
    intro = "The paper's numbers beside those reached here; how they came about is told in "
    intro += (
        "[what it reached](docs/results.md), how long it took in [how fast it is](docs/performance.md).\n\n"
    )
    return paragraphs(f"{intro}{markdown(header, rows)}{legend(lines)}", note(results), origin(runs))
