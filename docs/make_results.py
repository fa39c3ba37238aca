"""Write every number of the docs from run records: `make results`.

Usage: python docs/make_results.py [--check]

Reads `results/` (config, history and result of runs; no weights) and writes `docs/results.md`, the demo's
table in `README.md` and what each method reached on its page. With --check it writes nothing and fails where
a page is not what the records say.
"""

import json
import statistics
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEMO = ("ce", "early-stopping", "pes")
NOISES = ("symmetric:0.5", "pair:0.45")
# Table 1 of the paper, symmetric 50 %: test accuracy, precision and recall; mean and deviation of five runs.
PAPER = {
    "early-stopping": ((70.76, 1.24), (94.65, 0.19), (75.18, 1.00)),
    "pes": ((75.87, 1.33), (95.46, 0.14), (81.03, 1.83)),
}

Run = dict[str, Any]


def read(folder: Path) -> Run:
    """A run's record, with its config."""
    record: Run = json.loads((folder / "result.json").read_text())
    record["config"] = tomllib.loads((folder / "config.toml").read_text())
    return record


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def percent(share: float) -> str:
    """A share as in the paper's tables."""
    return f"{100 * share:.1f} %"


def origin(runs: Sequence[Run]) -> str:
    """Where the numbers come from."""
    devices = ", ".join(sorted({run["device"] for run in runs}))
    days = sorted({run["finished"][:10] for run in runs})
    seeds = ", ".join(str(seed) for seed in sorted({run["config"]["seed"] for run in runs}))
    versions = runs[0]["versions"]
    return (
        f"Seed {seeds}; {devices}; torch {versions['torch']}, labelsift {versions['labelsift']}; {days[-1]}. "
        f"Records: `results/`."
    )


def demo() -> str:
    """The table `make demo` printed."""
    runs = [read(ROOT / "results" / "demo" / method) for method in DEMO]
    rows = [
        [
            f"`{run['config']['method']}`",
            percent(run["test_accuracy"]["best"]),
            percent(run["test_accuracy"]["last"]),
            percent(run["confident"]["confident_precision"]),
            percent(run["confident"]["confident_recall"]),
            f"{run['seconds']:.0f}",
        ]
        for run in runs
    ]
    header = ["method", "test accuracy, best", "last", "precision", "recall", "seconds"]
    noise = runs[0]["config"]["noise"]
    caption = f"`fashion-demo`, {noise} noise ({percent(runs[0]['noise']['rate'])} of the labels changed). "
    meaning = "Precision and recall are those of the labels the net agrees with at the end. "
    return f"{markdown(header, rows)}\n\n{caption}{meaning}{origin(runs)}"


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation over runs, in percent."""
    return f"{100 * statistics.mean(values):.2f} ± {100 * statistics.stdev(values):.2f}"


def table1() -> str:
    """Table 1 of the paper for symmetric 50 %: before and after the later stages."""
    folder = ROOT / "results" / "table1"
    rows, every = [], []
    for method, paper in PAPER.items():
        runs = [read(path) for path in sorted(folder.glob(f"{method}-seed*"))]
        every += runs
        measured = [
            [run["test_accuracy"]["last"] for run in runs],
            [run["confident"]["confident_precision"] for run in runs],
            [run["confident"]["confident_recall"] for run in runs],
        ]
        for name, values, (mean, sd) in zip(
            ("test accuracy", "precision", "recall"), measured, paper, strict=True
        ):
            difference = 100 * statistics.mean(values) - mean
            rows.append(
                [
                    f"{name}, `{method}`",
                    spread(values),
                    str(len(runs)),
                    f"{mean:.2f} ± {sd:.2f}",
                    f"{difference:+.2f}",
                ]
            )
    config = every[-1]["config"]
    settings, stages = config["settings"], config["settings"]["stage_epochs"]
    protocol = (
        f"CIFAR-10, {config['net']}, {config['noise']} noise, {config['validation']:.0%} of the training "
        f"data held out, SGD with learning rate {settings['lr']:g} for {stages[0]} epochs, then Adam with "
        f"{settings['stage_lr']:g} for {stages[1]} and {stages[2]} epochs on the renewed parts; "
        "the last epoch is reported. "
    )
    header = ["", "here", "runs", "paper", "difference"]
    return f"{markdown(header, rows)}\n\n{protocol}{origin(every)}"


def all_methods() -> str:
    """Every method on the embedded data, beside plain training."""
    runs = [read(path) for path in sorted((ROOT / "results" / "methods").iterdir())]
    header = ["method", "symmetric:0.5, best", "last", "pair:0.45, best", "last", "epochs", "seconds"]
    names = sorted({run["config"]["method"] for run in runs})
    rows = []
    for name in names:
        mine = {run["config"]["noise"]: run for run in runs if run["config"]["method"] == name}
        cells = [accuracy(mine.get(noise), which) for noise in NOISES for which in ("best", "last")]
        some = next(iter(mine.values()))
        page = (ROOT / "docs" / "methods" / f"{name}.md").exists()
        rows.append(
            [
                f"[`{name}`](methods/{name}.md)" if page else f"`{name}`",
                *cells,
                str(some["epochs"]),
                f"{some['seconds']:.0f}",
            ]
        )
    note = "Test accuracy of the first net, with the settings that any data gets; "
    note += "the epochs are all passes, the seconds those of one run of two side by side. "
    return f"{markdown(header, rows)}\n\n`fashion-demo`, `lenet`. {note}{origin(runs)}"


def accuracy(run: Run | None, which: str) -> str:
    """Of a run, where there is one."""
    return percent(run["test_accuracy"][which]) if run is not None else ""


def reached(method: str) -> str:
    """What a method reached, for its page."""
    folders = sorted((ROOT / "results").glob("*/*/config.toml"))
    runs = [run for run in map(read, (file.parent for file in folders)) if run["config"]["method"] == method]
    if not runs:
        return "No run of it is recorded yet."
    rows = {}
    for run in runs:
        config = run["config"]
        place = f"{config['data']}, {config['noise']}", config["net"], str(run["epochs"])
        rows.setdefault(place, []).append(run)
    header = ["data", "net", "epochs", "runs", "best", "last"]
    lines = [
        [*place, str(len(some)), *(mean_of(some, which) for which in ("best", "last"))]
        for place, some in rows.items()
    ]
    return f"{markdown(header, lines)}\n\nTest accuracy. {origin(runs)}"


def mean_of(runs: Sequence[Run], which: str) -> str:
    """The mean accuracy of some runs."""
    return percent(statistics.mean(run["test_accuracy"][which] for run in runs))


def method_pages() -> dict[Path, str]:
    """The pages of the methods, each with what it reached."""
    start, end = "<!-- results -->\n", "<!-- /results -->"
    pages = {}
    for file in sorted((ROOT / "docs" / "methods").glob("*.md")):
        text = file.read_text()
        if start in text:
            head, rest = text.split(start)
            pages[file] = f"{head}{start}{reached(file.stem)}\n{end}{rest.split(end)[1]}"
    return pages


def results() -> str:
    """The page of results."""
    return (
        "# What labelsift reached\n\nWritten by `make results` from the run records in `results/`.\n\n"
        "## The demo\n\n" + demo() + "\n\n"
        "## Every method on the embedded data\n\n" + all_methods() + "\n\n"
        "## Table 1: early stopping and PES, symmetric 50 %\n\n"
        "The quality of the net and of the examples it agrees with, before and after the later stages.\n\n"
        + table1()
        + "\n"
    )


def readme() -> str:
    """The README with the demo's table in its place."""
    text = (ROOT / "README.md").read_text()
    start, end = "<!-- demo: written by `make results` -->\n", "<!-- /demo -->"
    head, rest = text.split(start)
    return f"{head}{start}{demo()}\n{end}{rest.split(end)[1]}"


def main() -> None:
    """Write the pages, or check them."""
    pages = {ROOT / "docs" / "results.md": results(), ROOT / "README.md": readme(), **method_pages()}
    for file, text in pages.items():
        if "--check" not in sys.argv:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            sys.exit(f"{file.name} is not what the records in results/ say: run `make results`.")


if __name__ == "__main__":
    main()
