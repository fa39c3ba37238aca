"""Data: sets by name or by file through one door, and the examples a method sees."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.dataset import Dataset, check_inputs, make_dataset
from labelsift.data.examples import Batch, Examples
from labelsift.data.fashion_demo import load_fashion_demo
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

DATASETS: dict[str, Callable[[], Dataset]] = {"fashion-demo": load_fashion_demo}


def load(source: str) -> Dataset:
    """The data set of this name, or in this file."""
    if source in DATASETS:
        return DATASETS[source]()
    file = Path(source)
    if file.suffix == ".npz":
        return load_npz(file)
    if file.exists():
        raise InputError(f"{source} is no data this version reads: give a name or an .npz file.")
    raise unknown("data set or .npz file", source, DATASETS)


def load_inputs(source: str, part: str) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """The inputs of one part of the data, to predict on, and its labels where it has any."""
    if part not in ("train", "test"):
        raise unknown("part", part, ("train", "test"))
    file = Path(source)
    if source not in DATASETS and file.suffix == ".npz":
        x, y = ("x", "y") if part == "train" else ("test_x", "test_y")
        arrays = read_arrays(file, needed=(x,))
        return check_inputs(x, arrays[x]), arrays.get(y)
    data = load(source)
    if part == "train":
        return data.inputs, data.labels
    if data.test_inputs is None:
        raise InputError(f"{source} has no test part: leave out --part test.")
    return data.test_inputs, data.test_labels
