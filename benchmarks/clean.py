"""What the default costs where all labels are right: PES beside plain training, with nothing else chosen.

    python benchmarks/clean.py --out clean.json                            # small sets, minutes on a CPU
    python benchmarks/clean.py --data cifar10 --data-dir data --limit 10000    # by name

And what it wins on few examples where some are wrong:

    python benchmarks/clean.py --data cifar10 --data-dir data --limit 300,1000 --noise none,symmetric:0.4

Sets of scikit-learn are split into training (70 %) and test rows by the seed; others bring their test part
and are taken as images of one's own, to which no settings of the paper belong. A file that `--out` names is
gone on with: what it has of this device is not measured again, and further `--methods` join its rows.
"""

import argparse
import json
import multiprocessing
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import labelsift
from labelsift.preparation import prepare
from labelsift.results.store import write_whole
from labelsift.training import Machine

ROWS: dict[str, Callable[..., Any]] = {
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "iris": datasets.load_iris,
    "digits": datasets.load_digits,
}
METHODS = "ce,pes"
CLEAN = "none"
TESTED = 2000  # examples at least, as far as there are so many


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="The default beside plain training.")
    parser.add_argument("--data", default=",".join([*ROWS, "fashion-demo"]))
    parser.add_argument("--data-dir", default="")
    parser.add_argument("--limit", default="0", help="numbers of examples of sets by name; 0: all")
    parser.add_argument(
        "--noise", default=CLEAN, help=f"kinds of noise to put on labels, as in {CLEAN},pair:0.2"
    )
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, each a process of its own")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers, gone on with where it exists")
    options = parser.parse_args()
    rows = json.loads(options.out.read_text())["rows"] if options.out and options.out.exists() else []
    device = Machine.choose(options.device).description
    each: Any = map
    if options.jobs > 1:
        each = ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")).map
    places = product(options.data.split(","), map(int, options.limit.split(",")), options.noise.split(","))
    for name, limit, noise in places:
        place = {"data": name, "limit": limit, "noise": noise, "device": device}
        known = [row for row in rows if all(row.get(key, CLEAN) == value for key, value in place.items())]
        row = known[0] if known else place
        missing = [method for method in options.methods.split(",") if method not in row]
        if not missing:
            continue
        seeds = range(1, options.seeds + 1)
        words = [(name, limit, noise, method, seed, options) for method in missing for seed in seeds]
        runs = list(each(fit, *zip(*words, strict=True)))
        row |= runs[-1]["about"]
        for method in missing:
            row[method] = [run["last"] for run in runs if run["method"] == method]
        if not known:
            rows.append(row)
        means = {method: 100 * statistics.mean(row[method]) for method in ("ce", *missing) if method in row}
        what = "  ".join(f"{method} {mean:.2f}" for method, mean in means.items())
        gained = "".join(f"  {means[m] - means['ce']:+.2f}" for m in missing if "ce" in means and m != "ce")
        print(f"{name:14} {limit:6} {noise:14} {what}{gained}", flush=True)  # noqa: T201
        if options.out:
            about = {"torch": torch.__version__, "labelsift": labelsift.__version__}
            write_whole(options.out, json.dumps({**about, "rows": rows}, indent=1) + "\n")


def fit(
    name: str, limit: int, noise: str, method: str, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """What a run reached at last with nothing chosen but the method."""
    chosen: dict[str, Any] = {"method": method, "seed": seed, "device": options.device}
    chosen["noise"] = "" if noise == CLEAN else noise
    if name in ROWS:
        x, y = ROWS[name](return_X_y=True)
        x, test_x, y, test_y = train_test_split(x, y, test_size=0.3, random_state=seed, stratify=y)
        scale = StandardScaler().fit(x)
        run = labelsift.fit(scale.transform(x), y, test=(scale.transform(test_x), test_y), **chosen)
    else:
        data, _ = prepare(name, data_dir=options.data_dir)
        if limit:
            test = data.limited(max(limit, TESTED), seed)
            data = data.limited(limit, seed)
            data = replace(data, test_inputs=test.test_inputs, test_labels=test.test_labels)
        run = labelsift.fit(replace(data, name="own"), **chosen)
    about = {"examples": run.record["examples"], "net": run.config.net, "device": run.record["device"]}
    return {"method": method, "last": run.test_accuracy["last"], "about": about}


if __name__ == "__main__":
    main()
