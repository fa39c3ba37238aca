"""Write every number of the docs from run records: `make results`.

Usage: python docs/make_results.py [--check] [--root FOLDER]

Reads `results/` (config, history and result of runs, no weights; what the benchmarks measured) and writes
`docs/results.md` with its figures, `docs/performance.md`, the tables in `README.md` and what each method
reached on its page. A section without records is left out. With --check it writes nothing and fails where a
page or a figure is not what the records say.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from make_exhibits import METHOD_TABLES, figure_sections, figures, head, note, sections, title, unbegun
from make_judgements import found_in_short, judgements
from make_performance import performance
from make_times import times
from make_trajectories import trajectories
from page import between, joined, markdown, origin, paragraphs, percent

from labelsift.reproduce.exhibits import TABLES
from labelsift.reproduce.published import fill_published, read_published
from labelsift.reproduce.records import FinishedRun

ROOT = Path(__file__).resolve().parent.parent
DEMO = ("ce", "early-stopping", "pes")
NOISES = ("symmetric:0.5", "pair:0.45")
FORGOTTEN = 0.01  # accuracy that training loses to wrong labels, if it learns them by heart
BY = ": written by `make results`"  # what the README's marks say beside their names


def demo(results: Path) -> str:
    """The table `make demo` printed."""
    runs = sorted(read_published(results / "demo"), key=lambda run: DEMO.index(run.config.method))
    if not runs:
        return ""
    rows = [
        [
            f"`{run.config.method}`",
            percent(run.record["test_accuracy"]["best"]),
            percent(run.record["test_accuracy"]["last"]),
            percent(run.record["confident"]["confident_precision"]),
            percent(run.record["confident"]["confident_recall"]),
            f"{run.record['seconds']:.0f}",
        ]
        for run in runs
    ]
    header = ["method", "test accuracy, best", "last", "precision", "recall", "seconds"]
    rate = percent(runs[0].record["noise"]["rate"])
    caption = f"`fashion-demo`, {runs[0].config.noise} noise ({rate} of the labels changed). "
    meaning = "Precision and recall are those of the labels the net agrees with at the end. "
    return f"{markdown(header, rows)}\n\n{caption}{meaning}{origin(runs)}"


def all_methods(results: Path, pages: Path) -> str:
    """Every method on one data set, beside plain training."""
    runs = read_published(results)
    if not runs:
        return ""
    header = ["method", "symmetric:0.5, best", "last", "pair:0.45, best", "last", "epochs", "seconds"]
    rows = []
    for name in sorted({run.config.method for run in runs}):
        mine = {run.config.noise: run for run in runs if run.config.method == name}
        cells = [
            mean_of([mine[noise]], which) if noise in mine else ""
            for noise in NOISES
            for which in ("best", "last")
        ]
        some = min((run.record for run in mine.values()), key=lambda record: float(record["seconds"]))
        page = (pages / f"{name}.md").exists()
        link = f"[`{name}`](methods/{name}.md)" if page else f"`{name}`"
        rows.append([link, *cells, str(some["epochs"]), f"{some['seconds']:.0f}"])
    said = f"Test accuracy of the first net, with {own_settings(runs)}the settings that any data gets; "
    said += "the epochs are all passes, the seconds those of the quicker run, with others beside it. "
    data = f"{data_of(runs[0])}, `{runs[0].config.net}`"
    about = f"{data}. {said}{beside_plain_training(runs)}{origin(runs)}"
    return paragraphs(markdown(header, rows), about, note(results))


def own_settings(runs: Sequence[FinishedRun]) -> str:
    """What all of them were given."""
    first, *others = (run.departures for run in runs)
    given = [words for words in first if all(words in other for other in others)]
    return f"{' and '.join(given)} but else " if given else ""


def mean_of(runs: Sequence[FinishedRun], which: str) -> str:
    """The mean accuracy of some runs."""
    return percent(statistics.mean(run.record["test_accuracy"][which] for run in runs))


def data_of(run: FinishedRun) -> str:
    """Its name, and how many examples of it, where they were limited."""
    limit = run.config.limit
    return f"{run.data}, {limit:,} examples" if limit else run.data


def beside_plain_training(runs: Sequence[FinishedRun]) -> str:
    """Which methods end below plain training on symmetric noise and, where it lost nothing, why."""
    ends = {run.config.method: run.record["test_accuracy"] for run in runs if run.config.noise == NOISES[0]}
    if "ce" not in ends:
        return ""
    below = [f"`{name}`" for name, end in sorted(ends.items()) if end["last"] < ends["ce"]["last"]]
    if not below:
        return f"On {NOISES[0]} no method ends below plain training. "
    said = f"On {NOISES[0]} these end below plain training: {', '.join(below)}. "
    if ends["ce"]["best"] - ends["ce"]["last"] < FORGOTTEN:
        said += "That ends as good as it ever was: in so few epochs this net learns no wrong labels of so "
        said += "many images by heart, and what protects it from them only costs. "
    return said


def comparable(results: Path) -> list[FinishedRun]:
    """Runs of methods as they are: those that a table of the paper put beside its cells do not count."""
    runs = [run for name in ("demo", *METHOD_TABLES) for run in read_published(results / name)]
    for name in TABLES:
        if name != "rest":
            runs += fill_published(TABLES[name], read_published(results / name)).runs
    return runs


def reached(runs: Sequence[FinishedRun]) -> str:
    """What a method reached, for its page."""
    if not runs:
        return "No run of it is recorded yet."
    rows: dict[tuple[str, ...], list[FinishedRun]] = {}
    for run in runs:
        noise = f", {run.config.noise}" if run.config.noise else ""
        place = f"{data_of(run)}{noise}", run.config.net, str(run.record["epochs"])
        rows.setdefault(place, []).append(run)
    header = ["data", "net", "epochs", "runs", "best", "last"]
    lines = [
        [*place, str(len(some)), *(mean_of(some, which) for which in ("best", "last"))]
        for place, some in rows.items()
    ]
    return f"{markdown(header, lines)}\n\nTest accuracy. {origin(runs)}"


def method_pages(root: Path) -> dict[Path, str]:
    """The pages of the methods, each with what it reached."""
    runs = comparable(root / "results")
    pages = {}
    for file in sorted((root / "docs" / "methods").glob("*.md")):
        if "<!-- results -->\n" in (text := file.read_text()):
            mine = [run for run in runs if run.config.method == file.stem]
            pages[file] = between(text, "results", reached(mine))
    return pages


def readme(file: Path, results: Path) -> str:
    """The README with the demo's table, that of PES and that of wrong labels in their places."""
    text = between(file.read_text(), "demo", demo(results), BY)
    text = between(text, "paper", head(results), BY)
    return between(text, "wrong labels", found_in_short(results), BY)


def main() -> None:
    """Write the pages and figures, or check them."""
    parser = argparse.ArgumentParser(description="Write every number of the docs from run records.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is not so")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    options = parser.parse_args()
    results, docs = options.root / "results", options.root / "docs"
    drawings = figures(results)
    intro = "Written by `make results` from the run records in `results/`; [how fast it is](performance.md)."
    told = [
        ("The demo", demo(results)),
        *((words, all_methods(results / name, docs / "methods")) for name, words in METHOD_TABLES.items()),
    ]
    told += [*judgements(results), *sections(results), (title("table6"), times(results))]
    told += [("Runs of full length, as far as they got", trajectories(results))]
    told += [*figure_sections(drawings, results), ("Not run yet", unbegun(results))]
    pages = {
        docs / "results.md": joined("What labelsift reached", intro, told),
        docs / "performance.md": performance(results),
        options.root / "README.md": readme(options.root / "README.md", results),
        **method_pages(options.root),
    }
    wrong = [file for file, text in pages.items() if not file.exists() or file.read_text() != text]
    pictures = {docs / "figures" / f"{name}.svg": drawing for name, drawing in drawings.items()}
    # A picture's bytes depend on the fonts and versions that drew it; its numbers stand in it as a digest.
    old = [f for f, drawing in pictures.items() if not f.exists() or drawing.digest not in f.read_text()]
    if options.check and (wrong or old):
        names = ", ".join(file.name for file in (*wrong, *old))
        sys.exit(f"{names}: not what the records in results/ say. Run `make results`.")
    for file in wrong:
        file.write_text(pages[file])
    for file in old:
        file.parent.mkdir(exist_ok=True)
        pictures[file].draw(file)


if __name__ == "__main__":
    main()
