"""How fast it is: `docs/performance.md`, from `results/performance/*.json` and from runs that were timed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from make_comparison import fast_and_eager, parts, whole_runs
from make_exhibits import note
from page import joined, measured, on, paragraphs, percent, seconds, told

from labelsift.reproduce.published import read_published
from labelsift.reproduce.records import FinishedRun
from labelsift.results.tables import WALL

PRODUCTS = ("convolution", "matrix product")  # kinds of kernels that could run at the matrix peak

Numbers = dict[str, Any]


def performance(results: Path) -> str:
    """The page; what was not measured is left out."""
    intro = "Written by `make results` from what `benchmarks/` measured (`results/performance/`) "
    intro += "and from whole runs with a clock beside them (`wall.json` in their records)."
    folder = results / "performance"
    speed, kernels = measured(folder / "speed.json"), measured(folder / "kernels.json")
    parallel = measured(folder / "parallel.json"), measured(folder / "parallel-mps.json")
    sections = [
        ("Whole runs", paragraphs(whole_runs(timed_runs(results)), note(results / "table6"))),
        ("Fast and eager agree", fast_and_eager(read_published(results / "agreement"))),
        ("An epoch and a selection", parts(speed)),
        ("Every method", every_method(speed)),
        ("What each technique brought", each_technique(measured(folder / "techniques.json"))),
        ("How the cost grows", growing(measured(folder / "growth.json"))),
        ("Runs side by side", side_by_side(*parallel)),
        ("Where the time goes", where_time_goes(kernels)),
        ("What remains to the floor", to_the_floor(speed, kernels)),
    ]
    nothing = "" if any(text for _, text in sections) else "\n\nNothing is measured yet."
    return joined("How fast it is", intro + nothing, sections)


def timed_runs(results: Path) -> list[FinishedRun]:
    """The published runs whose whole time was taken."""
    folders = sorted({file.parent.parent for file in results.glob(f"*/*/{WALL}")})
    return [run for folder in folders for run in read_published(folder) if "wall" in run.record]


COLUMNS: dict[str, Callable[[Numbers], str]] = {  # of the cases of benchmarks/speed.py
    "method": lambda row: f"`{row['method']}`",
    "net": lambda row: str(row["net"]),
    "stage": lambda row: str(row["stage"]),
    "images": lambda row: f"{row['images']:,}",
    "classes": lambda row: f"{row['classes']:,}",
    "first stage's epoch, s": lambda row: seconds(next(iter(row["stages"].values()))),
    "epoch, s": lambda row: seconds(row["epoch_seconds"]),
    "evaluation, s": lambda row: seconds(row["evaluation_seconds"]),
    "selection, s": lambda row: seconds(row["selection_seconds"]),
    "images a second": lambda row: f"{row['images_per_second']:,.0f}",
    "share of the matrix peak": lambda row: percent(row["share_of_peak"]),
    "memory, GiB": lambda row: f"{row['peak_memory_gib']:.1f}" if row["peak_memory_gib"] else "",
    "warm-up, s": lambda row: f"{row['warm_up_seconds']:.1f}",
}
GROWTH_ONLY = ("images", "classes", "first stage's epoch, s")


def cells(row: Numbers, columns: Sequence[str]) -> list[str]:
    """A case in these columns."""
    return [COLUMNS[column](row) for column in columns]


def every_method(speed: Numbers) -> str:
    """The table of `benchmarks/speed.py`."""
    if not speed.get("cases"):
        return ""
    header = [column for column in COLUMNS if column not in GROWTH_ONLY]
    about = (
        "An epoch of the method's last stage, its evaluation and what it selects included. An evaluation, "
    )
    about += (
        "and a selection with two views of all images, are timed on their own as well. The warm-up is what "
    )
    about += "compiling and capturing add to a run, all stages together."
    about += " Memory is what the process reserves; that of some cases was measured with others beside them."
    return told(header, [cells(row, header) for row in speed["cases"]], about, on(speed))


def techniques_of(row: Numbers) -> str:
    """How a case was computed: its precision, and each technique that was on."""
    return ", ".join([row["precision"], *([key for key, value in row.items() if value is True] or ["eager"])])


def each_technique(techniques: Numbers) -> str:
    """One by one, against eager fp32."""
    cases = techniques.get("cases", [])
    if not cases:
        return ""
    eager = [row["epoch_seconds"] for row in cases if techniques_of(row) == "fp32, eager"]
    more = ["share of the matrix peak", "memory, GiB", "warm-up, s"]
    rows = [
        [
            techniques_of(row),
            seconds(row["epoch_seconds"]),
            f"{eager[0] / row['epoch_seconds']:.2f}" if eager else "",
            *cells(row, more),
        ]
        for row in cases
    ]
    about = (
        f"`{cases[0]['method']}`, {cases[0]['net']}, {cases[0]['images']:,} images. `compile`: the net is "
    )
    about += "compiled; `capture`: the whole step is one CUDA graph; `eager`: neither."
    return told(["", "epoch, s", "times faster than eager fp32", *more], rows, about, on(techniques))


def growing(growth: Numbers) -> str:
    """More images, more classes."""
    if not growth.get("cases"):
        return ""
    more = ("epoch, s", "evaluation, s", "selection, s", "images a second", "memory, GiB")
    header = [*GROWTH_ONLY, *more]
    case = growth["cases"][0]
    about = f"`{case['method']}`, {case['net']}. In the first stage all images are trained on, in the last "
    about += "those that the net agrees with: how many that are differs from row to row."
    return told(header, [cells(row, header) for row in growth["cases"]], about, on(growth))


def side_by_side(*found: Numbers) -> str:
    """Runs finished in an hour, taking turns on the device or at the same time."""
    measurements = [numbers for numbers in found if numbers.get("rows")]
    if not measurements:
        return ""
    every = [(numbers, row) for numbers in measurements for row in numbers["rows"]]
    first, (_, best) = every[0][1], max(every, key=lambda pair: pair[1]["epochs_per_hour"])
    rows = [
        [
            f"{row['jobs']}{', with MPS' if numbers['mps'] else ''}",
            seconds(row["seconds"]),
            f"{row['runs_per_hour']:.1f}",
            seconds(row["epoch_seconds"]),
            f"{row['epochs_per_hour'] / first['epochs_per_hour']:.2f}",
        ]
        for numbers, row in every
    ]
    parallel = measurements[0]
    settings = parallel["settings"].replace(",", ", ").replace(";", ",")
    about = f"`{parallel['method']}`, {parallel['net']}, {parallel['images']:,} images, {settings}; each run "
    about += "is a process of its own, its start and warm-up included. MPS is NVIDIA's Multi-Process Service,"
    about += " which `labelsift reproduce --jobs` begins where the driver has it."
    header = ["runs at once", "until all are done, s", "runs an hour", "an epoch at the end, s"]
    header.append(f"epochs an hour, times {first['jobs']} at once")
    most = f"Most epochs are done with {best['jobs']} at once."
    return told(header, rows, most, about, on(parallel))


def where_time_goes(kernels: Numbers) -> str:
    """Kinds of kernels, with their share of the epoch."""
    cases = kernels.get("cases", [])
    if not cases:
        return ""
    kinds = list(dict.fromkeys(kind for case in cases for kind in case["kinds"]))
    rows = [[kind, *(share(case["kinds"].get(kind, 0.0), case) for case in cases)] for kind in kinds]
    rows.append(["nothing: the GPU waits", *(share(idle(case), case) for case in cases)])
    rows.append(["the epoch, traced", *(f"{seconds(case['epoch_seconds'])} s" for case in cases)])
    names = ["`{}`, {}".format(*case["name"].split()[:2]) for case in cases]
    about = "Read from a trace of one epoch of the last stage, kernel by kernel; the kinds are told by names."
    return told(["the GPU computes", *names], rows, about, on(kernels))


def share(value: float, case: Numbers) -> str:
    """Seconds, and of the epoch."""
    return f"{seconds(value)} s, {percent(value / case['epoch_seconds'])}"


def idle(case: Numbers) -> float:
    """Seconds in which no kernel ran."""
    return float(max(0.0, case["epoch_seconds"] - case["busy_seconds"]))


def to_the_floor(speed: Numbers, kernels: Numbers) -> str:
    """An epoch beside what its operations would take at the matrix peak."""
    if not speed.get("cases"):
        return ""
    traced = {case["name"]: case for case in kernels.get("cases", [])}
    columns = ("method", "net", "epoch, s", "share of the matrix peak")
    rows = []
    for row in speed["cases"]:
        floor = row["share_of_peak"] * row["epoch_seconds"]
        words = [*cells(row, columns), seconds(floor), seconds(row["epoch_seconds"] - floor)]
        if traced:
            words += spent(traced[row["name"]]) if row["name"] in traced else ["", "", ""]
        rows.append(words)
    header = [*columns, "floor, s", "above the floor, s"]
    said = [
        "The floor is what the epoch's floating-point operations, counted, would take at the speed of a "
        "large matrix product. Above it lie all that is no product (norms, activations, the optimiser, "
        "views) and convolutions that do not reach that speed."
    ]
    if traced:
        header += ["traced: convolutions and products, s", "other kernels, s", "the GPU waits, s"]
        said.append("The last three columns are from the trace, whose epoch is another one.")
    return told(header, rows, *said, on(speed))


def spent(case: Numbers) -> list[str]:
    """Seconds in products, in other kernels, and in none."""
    products = sum(case["kinds"].get(kind, 0.0) for kind in PRODUCTS)
    return [seconds(products), seconds(case["busy_seconds"] - products), seconds(idle(case))]
