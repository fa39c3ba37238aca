"""cifar10n and cifar100n: CIFAR with labels that people gave to its training images (Wei et al., 2022)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from labelsift.data.archives import read_pt_arrays
from labelsift.data.cifar import read_cifar10, read_cifar100, where_cifar10, where_cifar100
from labelsift.data.dataset import Dataset, make_dataset
from labelsift.data.download import Observe, Where, unobserved
from labelsift.data.npz import read_arrays
from labelsift.errors import InputError, unknown

# The official file of labels, and a plain one with the same arrays.
LABELS_10 = ("CIFAR-10_human.pt", "cifar10n.npz")
LABELS_100 = ("CIFAR-100_human.pt", "cifar100n.npz")
ADDRESS = "https://github.com/UCSC-REAL/cifar-10-100n"
VARIANTS = {
    "aggregate": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "worst": "worse_label",
}


def where_cifar10n(folder: Path) -> Where:
    """Where the images and the human labels are; the labels cannot be downloaded."""
    return _where(folder, LABELS_10, where_cifar10)


def where_cifar100n(folder: Path) -> Where:
    """Where the images and the human labels are, likewise."""
    return _where(folder, LABELS_100, where_cifar100)


def load_cifar10n(folder: Path, observe: Observe = unobserved, *, variant: str) -> Dataset:
    """CIFAR-10 with one of its sets of human labels; CIFAR's own are the true ones."""
    if variant not in VARIANTS:
        raise unknown("variant of cifar10n", variant, VARIANTS)
    file = _find(folder, *LABELS_10)
    given, clean = _read_labels(file, VARIANTS[variant])
    return _join(f"cifar10n:{variant}", read_cifar10(folder, observe), file, given, clean)


def load_cifar100n(folder: Path, observe: Observe = unobserved) -> Dataset:
    """CIFAR-100 with its human labels; CIFAR's own are the true ones."""
    file = _find(folder, *LABELS_100)
    given, clean = _read_labels(file, "noisy_label")
    return _join("cifar100n", read_cifar100(folder, observe), file, given, clean)


def _find(folder: Path, official: str, plain: str) -> Path:
    for place in (folder, folder / "cifar-n"):
        for name in (official, plain):
            if (place / name).is_file():
                return place / name
    raise InputError(
        f"The human labels are not in {folder}: put {official} from {ADDRESS} there, or {plain}."
    )


def _where(folder: Path, labels: tuple[str, str], images: Callable[[Path], Where]) -> Where:
    try:
        _find(folder, *labels)
    except InputError:
        return "by hand"
    return images(folder)


def _read_labels(file: Path, key: str) -> tuple[Any, Any]:
    """The given and the clean labels in a file."""
    keys = (key, "clean_label")
    arrays = read_arrays(file, keys, keys) if file.suffix == ".npz" else read_pt_arrays(file)
    for name in keys:
        if name not in arrays:
            raise InputError(f"{file} has no array '{name}': it holds {', '.join(sorted(arrays)) or 'none'}.")
    return arrays[key], arrays["clean_label"]


def _join(name: str, arrays: dict[str, Any], file: Path, given: Any, clean: Any) -> Dataset:
    """The images with human labels, where the clean labels prove that both are in the same order."""
    if not np.array_equal(clean, arrays["y"]):
        raise InputError(
            f"The clean labels in {file} are not those of the images beside it: "
            "put the official files of both there, which are in the same order."
        )
    return make_dataset(name, **arrays | {"y": given, "true_y": clean})
