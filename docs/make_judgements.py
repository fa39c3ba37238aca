"""How well labels are judged: on clean data, beside cleanlab, and in a folder of pictures."""

import statistics
from pathlib import Path
from typing import Any

from page import markdown, measured, on, percent, seconds, shortened

from labelsift.reproduce.runner import several
from labelsift.results.tables import mean_and_deviation

MEASURES = {
    "auroc": "AUROC",
    "average_precision": "average precision",
    "precision_first_1000": "right among the first 1,000",
    "f1": "F1 of the flags",
    "seconds": "seconds",
}
Rows = list[dict[str, Any]]
Told = tuple[list[str], list[list[str]], str]  # a table's header and rows, and what is said below it


def judgements(results: Path) -> list[tuple[str, str]]:
    """The sections; what was not measured is left out."""
    sections = {
        "detection": ("Wrong labels found, beside cleanlab", beside_cleanlab),
        "walk": ("A folder of pictures, some misplaced", walk),
        "clean": ("Clean labels: the default beside plain training", default_and_plain),
        "few": ("Few images: the default beside plain training", default_and_plain),
    }
    texts = []
    for name, (title, table) in sections.items():
        if found := measured(results / f"{name}.json"):
            header, rows, note = table(found["rows"])
            texts.append((title, f"{markdown(header, rows)}\n\n{note} {origin(found)}"))
    return texts


def beside_cleanlab(found: Rows) -> Told:
    """What `benchmarks/detection.py` measured; the better of two in bold."""
    rows = []
    for row in found:
        cells = []
        for key in MEASURES:
            mine, theirs = row["labelsift"][key], row["cleanlab"][key]
            better = mine < theirs if key == "seconds" else mine > theirs
            words = [seconds(v) if key == "seconds" else f"{v:.3f}" for v in (mine, theirs)]
            cells.append(f"**{words[0]}** / {words[1]}" if better else f"{words[0]} / **{words[1]}**")
        rows.append([labels_of(row), row["net"], *cells])
    note = "labelsift / cleanlab. Ours is one run of PES; cleanlab has the probabilities of five nets of the "
    note += "same kind and schedule, each trained plainly on four fifths and predicting the last fifth."
    shared = [(labels_of(row), row["at_once"]) for row in found if row.get("at_once", 1) != 1]
    if together := [labels for labels, most in shared if not isinstance(most, list)]:
        note += f" Two at a time had the device, both sides of them: {'; '.join(together)}."
    for labels, most in shared:
        if isinstance(most, list):  # ours, theirs
            note += f" {labels}: ours was one of up to {most[0]} runs at a time, theirs of {most[1]}."
    return ["", "net", *MEASURES.values()], rows, note


def labels_of(row: dict[str, Any]) -> str:
    """Which labels a row is about."""
    return f"`{row['data']}`, {row['noise'] or 'as people gave them'}"


def found_in_short(results: Path) -> str:
    """What the README tells of wrong labels: how surely and how soon they are found in real data sets."""
    found = measured(results / "detection.json")
    header = ["labels", "net", "average precision, labelsift", "cleanlab", "seconds, labelsift", "cleanlab"]
    real = [row for row in found.get("rows", ()) if row["data"] != "fashion-demo"]
    rows = []
    for row in real:
        sides = row["labelsift"], row["cleanlab"]
        precisions = [f"{side['average_precision']:.3f}" for side in sides]
        times = [f"{side['seconds']:,.0f}" for side in sides]
        rows.append([labels_of(row), row["net"], *precisions, *times])
    told = "Wrong labels found by one run, beside cleanlab on cross-validated probabilities of the same net; "
    told += "[more of it](docs/results.md)."
    return f"{told}\n\n{markdown(header, rows)}\n\n{origin({**found, 'rows': real})}" if rows else ""


def walk(found: Rows) -> Told:
    """What `benchmarks/walk.py` found, run by run."""
    header = ["net", "device", "pictures", "misplaced", "of them among the first 1,000", "suggestion right"]
    rows = [
        [
            row["net"],
            row["device"],
            f"{row['pictures']:,}",
            f"{row['wrong']:,}",
            f"{row['found']} ({percent(row['found'] / row['wrong'])})",
            f"{row['right_suggestions']}",
            seconds(row["fit_seconds"]),
        ]
        for row in found
    ]
    note = "Pictures of CIFAR-10 as PNG and JPEG files in class folders, a tenth of them in the wrong one: "
    note += "`labelsift fit photos --out run`, then `labelsift issues run --top 1000`."
    return [*header, "fit, s"], rows, note


def default_and_plain(found: Rows) -> Told:
    """What `benchmarks/clean.py` measured, on clean labels or also on noisy ones."""
    noisy = any(row.get("noise", "none") != "none" for row in found)
    methods = [name for name in ("pes", "pes-semi") if any(name in row for row in found)]
    header = ["data", "examples", *(["noise"] if noisy else []), "net", "seeds", "`ce`"]
    for name in methods:
        header += [f"`{name}`", "difference"]
    table = []
    for row in found:
        plain = [100 * value for value in row["ce"]]
        cells = [f"`{row['data']}`", f"{row['examples']:,}", *([row["noise"]] if noisy else []), row["net"]]
        cells += [str(len(plain)), mean_and_deviation(plain)]
        for name in methods:
            other = [100 * value for value in row.get(name, ())]
            difference = f"{statistics.mean(other) - statistics.mean(plain):+.2f}" if other else ""
            cells += [mean_and_deviation(other), difference]
        table.append(cells)
    note = "Test accuracy at the end in percent, mean and deviation over seeds, nothing chosen but the "
    note += "method."
    return header, table, note


def origin(found: dict[str, Any]) -> str:
    """Where it was measured: of rows that were measured elsewhere or later, say so."""
    commits: dict[tuple[tuple[str, str], ...], set[str]] = {}
    for row in found["rows"]:
        own = {key: row[key] for key in ("device", "torch", "date", "commit") if key in row}
        about = {key: value for key, value in {**found, **own}.items() if key != "rows"}
        commit = shortened(about.pop("commit", ""))
        commits.setdefault(tuple(about.items()), set()).add(commit)
    return " ".join(on({**dict(about), "commit": several(some)}) for about, some in commits.items())
