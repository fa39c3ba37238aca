"""What the default costs where all labels are right: PES beside plain training, both without a flag.

    python benchmarks/clean.py --out clean.json                            # small sets, minutes on a CPU
    python benchmarks/clean.py --data cifar10 --data-dir data --limit 10000    # by name

Sets of scikit-learn are split into training (70 %) and test rows by the seed; others bring their test part.
A file that `--out` names is gone on with.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import labelsift
from labelsift.results.store import write_whole

ROWS: dict[str, Callable[..., Any]] = {
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "iris": datasets.load_iris,
    "digits": datasets.load_digits,
}
METHODS = ("ce", "pes")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="The default beside plain training on clean labels.")
    parser.add_argument("--data", default=",".join([*ROWS, "fashion-demo"]))
    parser.add_argument("--data-dir", default="")
    parser.add_argument("--limit", type=int, default=0, help="examples of sets by name; 0: all")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers, gone on with where it exists")
    options = parser.parse_args()
    rows = json.loads(options.out.read_text())["rows"] if options.out and options.out.exists() else []
    for name in options.data.split(","):
        if (name, options.limit) in [(row["data"], row.get("limit", 0)) for row in rows]:
            continue
        runs = {
            method: [fit(name, method, seed + 1, options) for seed in range(options.seeds)]
            for method in METHODS
        }
        record = runs["pes"][0].record
        row = {"data": name, "limit": options.limit, "examples": record["examples"]}
        row["net"] = runs["pes"][0].config.net
        row |= {method: [run.test_accuracy["last"] for run in some] for method, some in runs.items()}
        rows.append(row | {"device": record["device"]})
        means = {method: 100 * statistics.mean(row[method]) for method in METHODS}
        difference = means["pes"] - means["ce"]
        print(f"{name:14} ce {means['ce']:.2f}  pes {means['pes']:.2f}  {difference:+.2f}", flush=True)  # noqa: T201
        if options.out:
            about = {"torch": torch.__version__, "labelsift": labelsift.__version__}
            write_whole(options.out, json.dumps({**about, "rows": rows}, indent=1) + "\n")


def fit(name: str, method: str, seed: int, options: argparse.Namespace) -> labelsift.Result:
    """A run with nothing chosen but the method."""
    chosen: dict[str, Any] = {"method": method, "seed": seed, "device": options.device}
    if name not in ROWS:
        return labelsift.fit(name, data_dir=options.data_dir, limit=options.limit, **chosen)
    x, y = ROWS[name](return_X_y=True)
    x, test_x, y, test_y = train_test_split(x, y, test_size=0.3, random_state=seed, stratify=y)
    scale = StandardScaler().fit(x)
    return labelsift.fit(scale.transform(x), y, test=(scale.transform(test_x), test_y), **chosen)


if __name__ == "__main__":
    main()
