"""Data: sets by name or by file through one door, and the examples a method sees."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.cifar import load_cifar10, load_cifar100
from labelsift.data.cifar_n import VARIANTS, load_cifar10n, load_cifar100n
from labelsift.data.clothing1m import load_clothing1m
from labelsift.data.dataset import Dataset, check_inputs, make_dataset
from labelsift.data.download import Observe, unobserved
from labelsift.data.examples import Batch, Examples
from labelsift.data.fashion_demo import load_fashion_demo
from labelsift.data.fashion_mnist import load_fashion_mnist
from labelsift.data.npz import load_npz, read_arrays
from labelsift.data.views import Views, check_augment, default_augment
from labelsift.errors import InputError, unknown

__all__ = [
    "DATASETS",
    "Batch",
    "Dataset",
    "Examples",
    "Views",
    "check_augment",
    "default_augment",
    "load",
    "load_inputs",
    "make_dataset",
]

DATASETS: dict[str, Callable[[Path, Observe], Dataset]] = {
    "fashion-demo": load_fashion_demo,
    "fashion-mnist": load_fashion_mnist,
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
    **{f"cifar10n:{variant}": partial(load_cifar10n, variant=variant) for variant in VARIANTS},
    "cifar100n": load_cifar100n,
    "clothing1m": load_clothing1m,
}


def data_folder(folder: str = "") -> Path:
    """Where data sets lie: the folder asked for, else LABELSIFT_DATA, else `data`."""
    return Path(folder or os.environ.get("LABELSIFT_DATA") or "data")


def load(source: str, folder: str = "", observe: Observe = unobserved) -> Dataset:
    """The data set of this name (looked for, or put, in `folder`), or in this file."""
    if not source:
        raise InputError("There is no data: give the name of a data set or an .npz file.")
    if source in DATASETS:
        return DATASETS[source](data_folder(folder), observe)
    file = Path(source)
    if file.suffix == ".npz":
        return load_npz(file)
    if file.exists():
        raise InputError(f"{source} is no data this version reads: give a name or an .npz file.")
    raise unknown("data set or .npz file", source, DATASETS)


def load_inputs(source: str, part: str, folder: str = "") -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """The inputs of one part of the data, to predict on, and its labels where it has any."""
    if part not in ("train", "test"):
        raise unknown("part", part, ("train", "test"))
    file = Path(source)
    if source not in DATASETS and file.suffix == ".npz":
        x, y = ("x", "y") if part == "train" else ("test_x", "test_y")
        arrays = read_arrays(file, needed=(x,))
        return check_inputs(x, arrays[x]), arrays.get(y)
    data = load(source, folder)
    if part == "train":
        return data.inputs, data.labels
    if data.test_inputs is None:
        raise InputError(f"{source} has no test part: leave out --part test.")
    return data.test_inputs, data.test_labels
