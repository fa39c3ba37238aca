"""How well labels are judged: on clean data, beside cleanlab, and in a folder of pictures."""

import json
import statistics
from pathlib import Path
from typing import Any

from page import markdown, on, percent, seconds

from labelsift.results.tables import Line

MEASURES = {
    "auroc": "AUROC",
    "average_precision": "average precision",
    "precision_first_1000": "right among the first 1,000",
    "f1": "F1 of the flags",
    "seconds": "seconds",
}


def judgements(results: Path) -> list[tuple[str, str]]:
    """The sections; what was not measured is left out."""
    return [
        ("Wrong labels found, beside cleanlab", beside_cleanlab(read(results / "detection.json"))),
        ("A folder of pictures, some misplaced", walk(read(results / "walk.json"))),
        ("Clean labels: the default beside plain training", clean_labels(read(results / "clean.json"))),
    ]


def read(file: Path) -> dict[str, Any]:
    """What a benchmark wrote, or nothing."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def beside_cleanlab(found: dict[str, Any]) -> str:
    """What `benchmarks/detection.py` measured; the better of two in bold."""
    if not found:
        return ""
    rows = []
    for row in found["rows"]:
        cells = []
        for key in MEASURES:
            mine, theirs = row["labelsift"][key], row["cleanlab"][key]
            better = mine < theirs if key == "seconds" else mine > theirs
            words = [seconds(v) if key == "seconds" else f"{v:.3f}" for v in (mine, theirs)]
            cells.append(f"**{words[0]}** / {words[1]}" if better else f"{words[0]} / **{words[1]}**")
        rows.append([f"`{row['data']}`, {row['noise'] or 'as given'}", row["net"], *cells])
    note = "labelsift / cleanlab. Ours is one run of PES; cleanlab has the probabilities of five nets of the "
    note += "same kind and schedule, each trained plainly on four fifths and predicting the last fifth. "
    return f"{markdown(['', 'net', *MEASURES.values()], rows)}\n\n{note}{origin(found)}"


def walk(found: dict[str, Any]) -> str:
    """What `benchmarks/walk.py` found, run by run."""
    if not found:
        return ""
    header = ["net", "device", "pictures", "misplaced", "of them among the first 1,000", "suggestion right"]
    header += ["fit, s"]
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
        for row in found["rows"]
    ]
    note = "Pictures of CIFAR-10 as PNG and JPEG files in class folders, a tenth of them in the wrong one: "
    note += "`labelsift fit photos --out run`, then `labelsift issues run --top 1000`. "
    return f"{markdown(header, rows)}\n\n{note}{origin(found)}"


def clean_labels(found: dict[str, Any]) -> str:
    """What `benchmarks/clean.py` measured: the default beside plain training where no label is wrong."""
    if not found:
        return ""
    rows = []
    for row in found["rows"]:
        means = [statistics.mean(row[method]) for method in ("ce", "pes")]
        cells = [Line("", "", "", "", tuple(100 * v for v in row[method])).here for method in ("ce", "pes")]
        about = [f"`{row['data']}`", f"{row['examples']:,}", row["net"], str(len(row["pes"]))]
        rows.append([*about, *cells, f"{100 * (means[1] - means[0]):+.2f}"])
    header = ["data", "examples", "net", "seeds", "`ce`", "`pes`", "difference"]
    note = (
        "Test accuracy at the end in percent, mean and deviation over seeds, nothing chosen but the method. "
    )
    return f"{markdown(header, rows)}\n\n{note}{origin(found)}"


def origin(found: dict[str, Any]) -> str:
    """Where it was measured."""
    devices = ", ".join(sorted({row["device"] for row in found["rows"]}))
    return on(
        {
            "device": devices,
            **{key: found[key] for key in ("torch", "labelsift", "date", "commit") if key in found},
        }
    )
