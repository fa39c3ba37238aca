"""The walk of a user with pictures of one's own: a folder of real images, some in the wrong subfolder.

    python benchmarks/walk.py make photos --data-dir data        # 10,000 pictures of CIFAR-10, 10 % misplaced
    labelsift fit photos --out run
    labelsift issues run --top 1000 --threshold 1 --format csv > issues.csv
    python benchmarks/walk.py score issues.csv photos.csv --run run --out walk.json

Half of the pictures are PNG and half JPEG files. Which of them lie in the wrong subfolder stands in a table
beside the folder, which the training does not see.
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
from PIL import Image

import labelsift
from labelsift.data import load
from labelsift.results.store import write_whole


def main() -> None:
    """Make the folder, or see how many of the misplaced pictures were found."""
    parser = argparse.ArgumentParser(description="A folder of real pictures, some in the wrong subfolder.")
    words = parser.add_subparsers(dest="what", required=True)
    making = words.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--data", default="cifar10")
    making.add_argument("--data-dir", default="")
    making.add_argument("--count", type=int, default=10_000)
    making.add_argument("--wrong", type=float, default=0.1)
    making.add_argument("--seed", type=int, default=1)
    scoring = words.add_parser("score")
    scoring.add_argument("issues", type=Path, help="what labelsift issues wrote as CSV")
    scoring.add_argument("truth", type=Path, help="the table beside the folder")
    scoring.add_argument("--run", type=Path, required=True, help="the run folder, for the net and the times")
    scoring.add_argument("--out", type=Path, help="a JSON file, which this is added to")
    options = parser.parse_args()
    if options.what == "make":
        make(options)
    else:
        score(options.issues, options.truth, labelsift.Result(options.run), options.out)


def make(options: argparse.Namespace) -> None:
    """Write the pictures, each class into its subfolder but for those that are misplaced."""
    data, rng = load(options.data, options.data_dir), np.random.default_rng(options.seed)
    chosen = rng.permutation(len(data.labels))[: options.count]
    true = data.labels[chosen]
    misplaced = rng.permutation(len(chosen)) < round(options.wrong * len(chosen))
    given = np.where(
        misplaced, (true + rng.integers(1, data.num_classes, len(true))) % data.num_classes, true
    )
    names = [name.replace(" ", "_") for name in data.classes]
    for name in names:
        (options.folder / name).mkdir(parents=True, exist_ok=True)
    rows = []
    for number, (place, right, label) in enumerate(zip(chosen, true, given, strict=True)):
        path = f"{names[label]}/{number:05}.{'png' if number % 2 else 'jpg'}"
        image = Image.fromarray(np.moveaxis(np.asarray(data.inputs[place]), 0, -1).squeeze())
        image.save(options.folder / path, quality=95)
        rows.append((path, names[label], names[right]))
    with options.folder.with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label", "true_label"), *rows])


def score(issues: Path, truth: Path, run: labelsift.Result, out: Path | None) -> None:
    """Of the labels that were called suspicious: how many are wrong, and how many suggestions are right."""
    pictures, rows = (list(csv.DictReader(file.read_text().splitlines())) for file in (truth, issues))
    true = {row["path"]: row["true_label"] for row in pictures}
    wrong = sum(row["label"] != row["true_label"] for row in pictures)
    found = [row for row in rows if row["label"] != true[row["path"]]]
    right = [row for row in found if row["suggested_label"] == true[row["path"]]]
    times = run.record["times"]
    record = {"net": run.config.net, "device": run.record["device"]}
    record |= {"fit_seconds": times["start"] + times["epochs"] + times["finish"]}
    record |= {"pictures": len(true), "wrong": wrong, "listed": len(rows), "found": len(found)}
    record["right_suggestions"] = len(right)
    print(json.dumps(record, indent=1))  # noqa: T201
    if out:
        before = json.loads(out.read_text())["rows"] if out.exists() else []
        versions = {key: run.record["versions"][key] for key in ("torch", "labelsift")}
        write_whole(out, json.dumps({**versions, "rows": [*before, record]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
