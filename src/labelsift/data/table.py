"""Tables: CSV, TSV and Parquet files with a path and a label column, or with feature columns and a label."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.cells import Rows, opened, row_of
from labelsift.data.features import counts_rows, no_numbers, numbers_of
from labelsift.data.folder import inside
from labelsift.data.listing import TRUE_LABEL, Listing, Reading, shown
from labelsift.errors import InputError, unknown
from labelsift.results.export import CORRECTED, OURS

PATHS = {
    "path",
    "file",
    "filename",
    "filepath",
    "image",
    "imagepath",
    "imagefile",
    "imagename",
    "img",
    "imgpath",
}
LABELS = {"label", "labels", "class", "classname", "target", "category", "y", "givenlabel", "noisylabel"}
NO_FEATURE = {"", "id", "index", "unnamed:0"}  # numbers that only count the rows


@dataclass(frozen=True)
class Columns:
    """Where in a row everything is."""

    label: int | None
    true_label: int | None
    path: int | None  # None: the other columns are features
    features: tuple[int, ...]
    labelled: bool  # whether labels are wanted
    other_labels: tuple[int, ...] = ()  # known by their names, and so no features


def list_table(file: Path, reading: Reading, labelled: bool = True, features: Sequence[str] = ()) -> Listing:
    """The examples that a table names, or holds. To predict, labels are not needed.

    A table that has all of the named `features` is read for them alone, whatever else is in it.
    """
    with opened(file) as (names, rows):
        if features and all(names.count(name) == 1 for name in features):
            columns = Columns(None, None, None, tuple(map(names.index, features)), labelled=False)
        else:
            columns = _columns(file, names, reading, labelled)
        if columns.path is None:
            return _features(file, names, columns, rows)
        return _images(file, columns, rows, reading.image_dir)


def table_without_labels(file: Path, reading: Reading) -> tuple[list[str], list[list[Any]]]:
    """The columns and cells of a table as they were written, but for the labels that are trained on."""
    with opened(file) as (names, rows):
        label = _columns(file, names, reading, labelled=True).label
        kept = [at for at in range(len(names)) if at != label]
        return [names[at] for at in kept], [[cells[at] for at in kept] for _, cells in rows]


def _columns(file: Path, names: list[str], reading: Reading, labelled: bool) -> Columns:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"Two columns of {file} are named '{shown(twice[0])}': give each its own name.")
    path = _column(file, names, reading.path_column, PATHS, "--path-column")
    label = _column(file, names, reading.label_column, LABELS, "--label-column")
    if label is None and labelled:
        raise InputError(
            f"Which column of {file} holds the labels, of {shown(', '.join(names))}? Say it with "
            "--label-column."
        )
    if path is not None and path == label:
        raise InputError(f"The column '{shown(names[path])}' of {file} cannot be path and label at once.")
    true_label = names.index(TRUE_LABEL) if TRUE_LABEL in names else None
    if path is not None:
        return Columns(label, true_label, path, (), labelled)
    # Beside what an export corrected, its other columns would give the labels away.
    apart = NO_FEATURE | ({_plain(name) for name in ("label", *OURS)} if CORRECTED in names else set())
    others = [at for at, name in enumerate(names) if _plain(name) not in apart]
    others = [at for at in others if at not in (label, true_label)]
    features = tuple(at for at in others if _plain(names[at]) not in LABELS)
    if not features:
        raise InputError(f"{file} has no column with paths and none with features: add one of them.")
    return Columns(label, true_label, path, features, labelled, tuple({*others} - {*features}))


def _column(file: Path, names: list[str], asked: str, usual: set[str], flag: str) -> int | None:
    if asked:
        if asked not in names:
            raise unknown(f"column of {file} named", asked, names)
        return names.index(asked)
    fitting = [at for at, name in enumerate(names) if _plain(name) in usual]
    if len(fitting) > 1:
        both = " or ".join(f"'{shown(names[at])}'" for at in fitting[:2])
        raise InputError(f"Is it {both} of {file}? Say it with {flag}.")
    return fitting[0] if fitting else None


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char not in " _-")


def _images(file: Path, columns: Columns, rows: Rows, image_dir: str) -> Listing:
    assert columns.path is not None
    base = Path(image_dir) if image_dir else file.parent
    if not base.is_dir():
        raise InputError(f"There is no folder {base}: give that of the images as --image-dir.")
    home, known = os.path.realpath(base), cache(inside)
    paths, labels, true_labels = [], [], []
    for number, cells in rows:
        path = _text(file, number, cells[columns.path], "path")
        where = os.path.join(home, path)
        # Folders are followed once, files only where they are links.
        link = "\0" not in path and os.path.islink(where)
        if "\0" in path or not (inside(where, home) if link else known(os.path.dirname(where), home)):
            raise InputError(
                f"{row_of(file, number)} names {shown(path)}, which is not below {base}: give the folder "
                "that all images are below as --image-dir."
            )
        paths.append(path)
        if columns.labelled:
            labels.append(_label(file, number, cells, columns.label))
            true_labels += [_label(file, number, cells, at) for at in (columns.true_label,) if at is not None]
    if not paths:
        raise InputError(f"{file} names no images: there is nothing below its first line.")
    sources = [os.path.join(home, path) for path in paths]
    return Listing(str(file), paths, labels, true_labels, sources=sources, home=home)


def _features(file: Path, names: list[str], columns: Columns, rows: Rows) -> Listing:
    values: list[NDArray[np.float64]] = []
    labels, true_labels = [], []
    for number, cells in rows:
        numbers = numbers_of([cells[at] for at in columns.features])
        if numbers is None:
            raise no_numbers(file, names, columns.features, number, cells, rows)
        values.append(numbers)
        if columns.labelled:
            labels.append(_label(file, number, cells, columns.label))
            true_labels += [_label(file, number, cells, at) for at in (columns.true_label,) if at is not None]
    if not values:
        raise InputError(f"{file} holds no examples: there is nothing below its first line.")
    used, whole = tuple(names[at] for at in columns.features), np.stack(values)
    notes = [
        f"The column '{shown(names[at])}' has the name of a label and is no feature: give it another one if "
        "it is."
        for at in sorted(columns.other_labels)
    ]
    notes += [
        f"The column '{shown(name)}' has another whole number in every row, as numbers of rows do: it is "
        "taken as a feature; remove it from the table if it is none."
        for name, column in zip(used, whole.T, strict=True)
        if counts_rows(column)
    ]
    return Listing(
        name=str(file),
        paths=[""] * len(values),
        labels=labels,
        true_labels=true_labels,
        rows=whole.astype(np.float32),
        columns=used,
        notes=tuple(notes),
    )


def _label(file: Path, number: int, cells: Sequence[Any], column: int | None) -> str:
    assert column is not None
    return _text(file, number, cells[column], "label")


def _text(file: Path, number: int, cell: Any, what: str) -> str:
    """A cell as text; whole numbers that became floats, since others are missing, as whole numbers.

    A class may be called nan: only a cell that is empty, or a number that is none, says that it is missing.
    """
    if isinstance(cell, dict | list):
        raise InputError(
            f"{row_of(file, number)} has several values as its {what}: name another column, or write one "
            "value."
        )
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "backslashreplace")
    text = str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell).strip()
    if cell is None or not text or (isinstance(cell, float) and text == "nan"):
        raise InputError(f"{row_of(file, number)} has no {what}: fill it in, or remove the row.")
    return text
