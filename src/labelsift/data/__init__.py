"""Data: sets by name or by file through one door, and the examples a method sees."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.cells import ENDINGS
from labelsift.data.cifar import load_cifar10, load_cifar100, where_cifar10, where_cifar100
from labelsift.data.cifar_n import VARIANTS, load_cifar10n, load_cifar100n, where_cifar10n, where_cifar100n
from labelsift.data.clothing1m import load_clothing1m, where_clothing1m
from labelsift.data.dataset import Dataset, Inputs, check_inputs, make_dataset
from labelsift.data.download import Observe, Where, unobserved
from labelsift.data.examples import Batch, Examples
from labelsift.data.fashion_demo import load_fashion_demo
from labelsift.data.fashion_mnist import load_fashion_mnist, where_fashion_mnist
from labelsift.data.folder import list_folder
from labelsift.data.hugging_face import HUB, is_saved, list_hugging_face
from labelsift.data.labels import decoded
from labelsift.data.listing import Listing, Reading, load_listed
from labelsift.data.npz import is_npz, load_npz, read_arrays
from labelsift.data.table import list_table
from labelsift.data.views import Views, check_augment, default_augment
from labelsift.errors import InputError, unknown

__all__ = [
    "AS_IT_IS",
    "DATASETS",
    "Batch",
    "Dataset",
    "Examples",
    "Reading",
    "Views",
    "check_augment",
    "default_augment",
    "load",
    "load_inputs",
    "make_dataset",
    "where",
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
PLACES: dict[str, Callable[[Path], Where]] = {
    "fashion-demo": lambda folder: "here",
    "fashion-mnist": where_fashion_mnist,
    "cifar10": where_cifar10,
    "cifar100": where_cifar100,
    **{f"cifar10n:{variant}": where_cifar10n for variant in VARIANTS},
    "cifar100n": where_cifar100n,
    "clothing1m": where_clothing1m,
}

AS_IT_IS = Reading()
KINDS = f"give a name, a folder, a table ({', '.join(ENDINGS)}), an .npz file or {HUB}NAME"


def data_folder(folder: str = "") -> Path:
    """Where data sets lie: the folder asked for, else LABELSIFT_DATA, else `data`."""
    return Path(folder or os.environ.get("LABELSIFT_DATA") or "data")


def load(
    source: str,
    folder: str = "",
    observe: Observe = unobserved,
    reading: Reading = AS_IT_IS,
    largest: int = 0,
) -> Dataset:
    """The data set of this name (looked for, or put, in `folder`), or in this file or folder.

    One's own images are at most `largest` pixels wide where `reading` asks for no size; 0: of any size.
    """
    if not source:
        raise InputError("There is no data: give the name of a data set, a folder, a table or an .npz file.")
    if source in DATASETS:
        reading.only(source)
        return DATASETS[source](data_folder(folder), observe)
    if is_npz(source):
        reading.only(source, "test")
        return load_npz(Path(source), Path(reading.test) if reading.test else None)
    parts = _list(source, reading)
    if reading.test:
        if reading.test in DATASETS or is_npz(reading.test):
            raise InputError(
                f"{reading.test} is no test part for {source}: give a folder, a table or {HUB}NAME."
            )
        folder_of_images = Path(reading.test).is_dir() and not is_saved(Path(reading.test))
        held_out = _list(reading.test, AS_IT_IS if folder_of_images else reading)
        parts["test"] = held_out.get("test", held_out["train"])
    return load_listed(parts, reading.image_size, observe, largest)


def where(name: str, folder: str = "") -> Where:
    """Where the files are that `load` would read for the data set of this name; nothing in them is read."""
    if name not in PLACES:
        raise unknown("data set", name, PLACES)
    return PLACES[name](data_folder(folder))


def _list(source: str, reading: Reading) -> dict[str, Listing]:
    """The examples of one's own data, by part: train and, where it is there, test and validation."""
    file = Path(source)
    if source.startswith(HUB) or is_saved(file):
        reading.only(source, "test", "image_size", "path_column", "label_column")
        return list_hugging_face(source, reading)
    if file.is_dir():
        reading.only(source, "test", "image_size")
        return list_folder(file)
    if file.suffix.lower() in ENDINGS:
        return {"train": list_table(file, reading)}
    if file.exists():
        raise InputError(f"{source} is no data this version reads: {KINDS}.")
    raise unknown("data set, folder or file", source, DATASETS)


def load_inputs(
    source: str, part: str, folder: str = "", features: Sequence[str] = (), reading: Reading = AS_IT_IS
) -> tuple[Inputs | Listing, NDArray[np.str_] | None, tuple[str, ...]]:
    """The inputs of one part of the data, to predict on; its labels by name and its columns where it has any.

    Of a table only the columns that a model takes, its `features`, if they are known and all there; one that
    names images gives their listing.
    """
    if part not in ("train", "test"):
        raise unknown("part", part, ("train", "test"))
    file = Path(source)
    if source not in DATASETS and file.suffix.lower() in ENDINGS:
        if part != "train":
            raise InputError(f"{source} has no test part: leave out --part test.")
        table = _table(file, features, reading)
        labels = np.array(table.labels) if table.labels else None
        return table if table.rows is None else table.rows, labels, table.columns
    reading.only(source)
    if source not in DATASETS and is_npz(source):
        x, y = ("x", "y") if part == "train" else ("test_x", "test_y")
        arrays = read_arrays(file, needed=(x,))
        classes = decoded("classes", arrays.get("classes", np.array([]))).ravel().tolist()
        labels = _names(decoded(y, arrays[y]), classes) if y in arrays else None
        return check_inputs(x, arrays[x]), labels, ()
    data = load(source, folder)
    if part == "train":
        return data.inputs, _names(data.labels, data.classes), data.columns
    if data.test_inputs is None or data.test_labels is None:
        raise InputError(f"{source} has no test part: leave out --part test.")
    return data.test_inputs, _names(data.test_labels, data.classes), data.columns


def _table(file: Path, features: Sequence[str], reading: Reading) -> Listing:
    """A table to predict on: with its labels where it can be read as one that is trained on."""
    try:
        table = list_table(file, reading)
        if not features:
            return table
        if table.rows is not None and {*features} <= {*table.columns}:
            places = [table.columns.index(name) for name in features]
            return replace(table, rows=table.rows[:, places], columns=tuple(features))
    except InputError:
        if reading.label_column:  # which was asked for
            raise
    return list_table(file, reading, labelled=False, features=features)


def _names(labels: NDArray[Any], classes: Sequence[str]) -> NDArray[np.str_]:
    """The names that labels stand for; a number without a name is its own."""
    names = dict(enumerate(classes))
    whole = (int(x) if isinstance(x, float) and x.is_integer() else x for x in labels.ravel().tolist())
    return np.array([str(names.get(label, label)) for label in whole])
