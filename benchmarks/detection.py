"""Which finds wrong labels better: one training run of ours, or cleanlab on cross-validated probabilities?

    python benchmarks/detection.py train fashion-mnist --out detection      # both, each noise; slow
    python benchmarks/detection.py score detection --out detection.json     # needs cleanlab

Ours is what anybody gets who gives no more than the data. Cleanlab gets five nets, each trained plainly on
four fifths of the data for as many epochs and with the same schedule as ours, and predicting the fifth it has
not seen. Both judge the same labels. What was trained is kept in a folder per cell, so that a broken-off call
goes on, and scoring may happen on another machine.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import labelsift
from labelsift.data import Dataset, make_dataset
from labelsift.defaults import choose
from labelsift.preparation import prepare
from labelsift.results.store import write_whole

NOISES = ("symmetric:0.2", "pair:0.2", "instance:0.2", "instance:0.4")
FOLDS = 5
FIRST = 1000


def main() -> None:
    """Train, or score what was trained."""
    parser = argparse.ArgumentParser(description="How well wrong labels are found, beside cleanlab.")
    parser.add_argument("what", choices=("train", "score"))
    parser.add_argument("data", help="a data set by name to train on; the folder of trained cells to score")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data-dir", default="")
    parser.add_argument("--noises", default=",".join(NOISES), help="empty: the labels as they are given")
    parser.add_argument("--method", default="pes")
    parser.add_argument("--net", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="for our method")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.what == "score":
        score(Path(options.data), options.out)
        return
    for noise in options.noises.split(","):
        train(options, noise)


def train(options: argparse.Namespace, noise: str) -> None:
    """Our run and the five folds on one noise; what is there already is not done again."""
    name = f"{options.data}-{noise or 'given'}-seed{options.seed}".replace(":", "-")
    folder = options.out / name
    if (folder / "cell.npz").exists():
        return
    data, _ = prepare(
        options.data, noise=noise, seed=options.seed, data_dir=options.data_dir, limit=options.limit
    )
    if data.true_labels is None:
        sys.exit(f"The true labels of {options.data} are not known: there is nothing to score.")
    settings = dict(pair.split("=", 1) for pair in options.set)
    net = labelsift.nets.default_net(data.shape) if options.net == "auto" else options.net
    everything = kept(data, np.ones(len(data.labels), bool))  # and nothing to test on, which takes time too
    method = choose(everything, len(data.labels), options.method, net, settings).method
    ours = labelsift.fit(
        everything, method=method, net=net, seed=options.seed, out=folder / "ours", resume=True
    )
    schedule = (
        "epochs",
        "lr",
        "momentum",
        "weight_decay",
        "batch_size",
        "schedule",
        "decay_at",
        "decay_factor",
    )
    plain = labelsift.CE(**{name: getattr(method, name) for name in schedule})
    fold = np.random.default_rng(options.seed).permutation(len(data.labels)) % FOLDS
    probs = np.zeros((len(data.labels), data.num_classes), np.float32)
    seconds = 0.0
    for number in range(FOLDS):
        part = kept(data, fold != number)
        result = labelsift.fit(
            part, method=plain, net=net, seed=options.seed, out=folder / f"fold{number}", resume=True
        )
        probs[fold == number] = result.predict_checked(data.inputs[fold == number])
        seconds += result.record["seconds"]
    np.savez_compressed(
        folder / "cell.npz",
        labels=data.labels,
        true_labels=data.true_labels,
        quality=ours.label_quality,
        suggested=ours.suggested_labels,
        cross_validated=probs,
        seconds=[ours.record["seconds"], seconds],
        about=json.dumps({"data": options.data, "noise": noise, "net": net, "method": method.name}),
        versions=json.dumps(ours.record["versions"]),
        device=ours.record["device"],
    )


def kept(data: Dataset, mask: NDArray[np.bool_]) -> Dataset:
    """The part of the training examples where the mask is true, without anything to test on."""
    pixels = data.inputs[mask]
    images = np.moveaxis(pixels, 1, -1) if pixels.ndim == 4 else pixels
    mean, std = data.mean, data.std
    return make_dataset("fold", images, data.labels[mask], classes=data.classes, mean=mean, std=std)


def score(folder: Path, out: Path) -> None:
    """AUROC, average precision, precision among the first 1,000 and F1 of the flags, for both."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    rows = []
    for file in sorted(folder.glob("*/cell.npz")):
        cell = np.load(file)
        labels, wrong = cell["labels"], cell["labels"] != cell["true_labels"]
        probs = cell["cross_validated"] / cell["cross_validated"].sum(1, keepdims=True)
        theirs = get_label_quality_scores(labels, probs, method="self_confidence")
        row = {**json.loads(str(cell["about"])), "examples": len(labels), "noise_rate": float(wrong.mean())}
        row["labelsift"] = measures(cell["quality"], cell["quality"] < 0.5, wrong)
        row["cleanlab"] = measures(theirs, find_label_issues(labels, probs), wrong)
        for name, seconds in zip(("labelsift", "cleanlab"), cell["seconds"].tolist(), strict=True):
            row[name]["seconds"] = seconds
        rows.append({**row, "device": str(cell["device"])})
        for name in ("labelsift", "cleanlab"):
            numbers = "  ".join(f"{key} {value:.4g}" for key, value in row[name].items())
            print(f"{row['data']:16} {row['noise']:14} {name:10} {numbers}", flush=True)  # noqa: T201
    versions = json.loads(str(cell["versions"])) if rows and "versions" in cell else {}
    about = {key: versions[key] for key in ("torch", "labelsift") if key in versions}
    write_whole(out, json.dumps({**about, "rows": rows}, indent=1) + "\n")


def measures(quality: NDArray[Any], flagged: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> dict[str, float]:
    """How well low quality tells wrong labels from right ones."""
    order = np.argsort(quality, kind="stable")
    hits = wrong[order]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    above = np.cumsum(~hits)[hits].sum()  # right labels before each wrong one
    return {
        "auroc": float(1 - above / max(hits.sum() * (~hits).sum(), 1)),
        "average_precision": float(precision[hits].mean()) if hits.any() else 0.0,
        "precision_first_1000": float(hits[:FIRST].mean()),
        "f1": float(2 * (flagged & wrong).sum() / max(flagged.sum() + wrong.sum(), 1)),
    }


if __name__ == "__main__":
    main()
