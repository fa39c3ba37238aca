"""clothing1m: a million photos of clothes in fourteen classes, labelled by the words around them."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labelsift.data.dataset import Dataset, ImageFiles
from labelsift.data.download import Observe, Where, unobserved
from labelsift.errors import InputError

NOISY, CLEAN = "noisy_label_kv.txt", "clean_label_kv.txt"
LISTS = {
    "noisy_train_key_list.txt": NOISY,
    "clean_val_key_list.txt": CLEAN,
    "clean_test_key_list.txt": CLEAN,
}
CLASSES: tuple[str, ...] = ("T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker")
CLASSES += ("Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear")

Part = tuple[ImageFiles, NDArray[np.int64]]


def where_clothing1m(folder: Path) -> Where:
    """Where the lists of the set are, which cannot be downloaded; its images are not looked for."""
    try:
        _find(folder)
    except InputError:
        return "by hand"
    return "here"


def load_clothing1m(folder: Path, observe: Observe = unobserved) -> Dataset:
    """The set from its official key lists: noisy training labels, clean test labels.

    Its validation part is clean too. The paper chooses the epoch on it, and so uses clean data.
    """
    place = _find(folder)
    labels = {name: _read_labels(place / name) for name in (NOISY, CLEAN)}
    there: dict[str, set[str]] = {}
    train, validation, test = (
        _read_part(place, name, labels[kind], kind, there) for name, kind in LISTS.items()
    )
    return Dataset(
        "clothing1m",
        *train,
        _class_names(place),
        test_inputs=test[0],
        test_labels=test[1],
        validation_inputs=validation[0],
        validation_labels=validation[1],
        mean=(0.6959, 0.6537, 0.6371),
        std=(0.3113, 0.3192, 0.3214),
        crop=224,
    )


def _find(folder: Path) -> Path:
    places = (folder / "clothing1m", folder)
    for place in places:
        missing = [name for name in (*LISTS, NOISY, CLEAN) if not (place / name).is_file()]
        if not missing:
            return place
        if len(missing) < len(LISTS) + 2:
            raise InputError(f"There is no {missing[0]} in {place}: put it beside the other lists.")
    raise InputError(
        f"Clothing-1M is not in {places[0]} and cannot be downloaded: ask its authors for it "
        f"(github.com/Cysu/noisy_label), and put {', '.join((*LISTS, NOISY, CLEAN))} and its images there."
    )


def _read_part(place: Path, name: str, labels: dict[str, int], kind: str, there: dict[str, set[str]]) -> Part:
    """The images that a key list names, every one of which must be there and have a label."""
    keys = tuple(_lines(place / name))
    if not keys:
        raise InputError(f"{place / name} is empty: it should name an image in every line.")
    for key in keys:
        if key not in labels:
            raise InputError(f"{place / name} names {key}, which has no label in {kind}: add it there.")
        parent, _, image = key.rpartition("/")
        if parent not in there:
            there[parent] = _files_in(place / parent)
        if image not in there[parent]:
            raise InputError(f"{place / name} names {key}, which is not in {place}: put it there.")
    return ImageFiles(place, keys, 256), np.array([labels[key] for key in keys], dtype=np.int64)


def _files_in(folder: Path) -> set[str]:
    """One look into a folder instead of one at each of its files."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries}
    except OSError:
        return set()


def _read_labels(file: Path) -> dict[str, int]:
    labels = {}
    for line in _lines(file):
        key, _, label = line.rpartition(" ")
        if not (label.isdecimal() and int(label) < len(CLASSES)):
            raise InputError(f"{file} holds the line '{line}', not a path and a label 0..{len(CLASSES) - 1}.")
        labels[key] = int(label)
    return labels


def _lines(file: Path) -> Iterator[str]:
    """The lines of a text file that are not empty."""
    try:
        with file.open(encoding="utf-8") as text:
            yield from filter(None, map(str.strip, text))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read ({error}): get it again.") from None


def _class_names(place: Path) -> tuple[str, ...]:
    """The names from their file, where there is one with fourteen."""
    file = place / "category_names_eng.txt"
    names = tuple(_lines(file)) if file.is_file() else ()
    return names if len(set(names)) == len(CLASSES) else CLASSES
