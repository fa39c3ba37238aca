"""Given labels from a file of their own, as `--noise labels=FILE` takes them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.cells import ENDINGS, opened
from labelsift.data.labels import check_labels
from labelsift.errors import InputError
from labelsift.noise import read_array
from labelsift.results.export import CORRECTED

WHOLE = r"-?\d{1,15}"


def read_labels(
    file: Path, count: int, classes: Sequence[str], index: Sequence[int] = ()
) -> NDArray[np.int64]:
    """The labels of so many examples, from `.npy` or a table with a column for them and perhaps an `index`.

    The column is `corrected_label`, which holds names of classes, or else `label`: either these or numbers.
    Rows go by `index`, the places in the source: of the examples at these, where they are not all of it.
    """
    labels = read_array(file) if file.suffix == ".npy" else _of_table(file, count, classes, index)
    if labels.ndim == 1 and len(labels) != count:
        raise InputError(
            f"{file} holds {labels.size} labels, but the data has {count} examples: give one for each."
        )
    if labels.dtype.kind not in "iu":
        raise InputError(f"The labels in {file} are not whole numbers: write 0..{len(classes) - 1}.")
    return check_labels(str(file), labels, classes)[0]


def _of_table(file: Path, count: int, classes: Sequence[str], index: Sequence[int]) -> NDArray[np.int64]:
    if file.suffix.lower() not in ENDINGS:
        raise InputError(f"{file} is no file of labels: give a .csv, .tsv, .parquet or .npy file.")
    with opened(file) as (names, lines):
        rows = list(lines)
    column = CORRECTED if CORRECTED in names else "label"
    if column not in names:
        raise InputError(f"{file} has no column 'label': name it in the first line.")
    words = [_word(cells[names.index(column)]) for _, cells in rows]
    labels = _numbers(file, words, column, classes)
    if "index" not in names:
        return labels
    places = _whole(file, [_word(cells[names.index("index")]) for _, cells in rows], "index")
    wanted = index or range(count)
    row = {place: at for at, place in enumerate(places.tolist())}
    if len(row) < len(places) or not row.keys() >= {*wanted}:
        which = "the places of all examples" if index else f"0..{count - 1}"
        hint = f" (it has {len(row):,} of them: of a run with --limit, give the same --limit and --seed)"
        few = hint if len(places) < count and not index else ""
        raise InputError(f"The column 'index' of {file} must hold {which}, each once{few}.")
    return labels[[row[place] for place in wanted]]


def _numbers(file: Path, words: Sequence[str], column: str, classes: Sequence[str]) -> NDArray[np.int64]:
    """What the words mean: names of classes or, in the column `label`, perhaps their numbers."""
    number = {name: number for number, name in enumerate(classes)}
    names = all(word in number for word in words)
    whole = column == "label" and all(re.fullmatch(WHOLE, word) for word in words)
    if names and whole:
        fit = all(0 <= int(word) < len(classes) for word in words)
        if fit and any(int(word) != number[word] for word in words):
            raise InputError(
                f"The column 'label' of {file} may hold names of classes or their numbers, which differ: "
                f"write names, and call the column '{CORRECTED}'."
            )
    if names:
        return np.array([number[word] for word in words], dtype=np.int64)
    if column == "label" and any(re.fullmatch(WHOLE, word) for word in words):
        return _whole(file, words, column)
    place, word = next((place, word) for place, word in enumerate(words) if word not in number)
    raise InputError(
        f"Row {place} of {file} has '{word}' in the column '{column}', which is none of the "
        f"{len(classes)} classes: mend it."
    )


def _whole(file: Path, words: Sequence[str], column: str) -> NDArray[np.int64]:
    for place, word in enumerate(words):
        if not re.fullmatch(WHOLE, word):
            raise InputError(
                f"Row {place} of {file} has no whole number but '{word}' in the column '{column}': mend it."
            )
    return np.array([int(word) for word in words], dtype=np.int64)


def _word(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()
