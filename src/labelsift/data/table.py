"""Tables: CSV, TSV and Parquet files with a path and a label column, or with feature columns and a label."""

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.folder import inside
from labelsift.data.listing import Listing, Reading, shown
from labelsift.errors import InputError, unknown
from labelsift.results.store import plain

ENDINGS = (".csv", ".tsv", ".tab", ".parquet", ".pq")
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
TRUE_LABEL = "true_label"
NO_FEATURE = {"", "id", "index", "unnamed:0"}  # numbers that only count the rows
PARQUET = "Parquet files need pyarrow: pip install 'labelsift[parquet]'."

Rows = Iterator[tuple[int, Sequence[Any]]]  # the line or row that an example is in, and its cells


@dataclass(frozen=True)
class Columns:
    """Where in a row everything is."""

    label: int | None
    true_label: int | None
    path: int | None  # None: the other columns are features
    features: tuple[int, ...]
    labelled: bool  # whether labels are wanted


def list_table(file: Path, reading: Reading, labelled: bool = True, features: Sequence[str] = ()) -> Listing:
    """The examples that a table names, or holds. To predict, labels are not needed.

    A table that has all of the named `features` is read for them alone, whatever else is in it.
    """
    with _opened(file) as (header, rows):
        names = [str(name).strip() for name in header]
        if features and all(names.count(name) == 1 for name in features):
            columns = Columns(None, None, None, tuple(map(names.index, features)), labelled=False)
        else:
            columns = _columns(file, names, reading, labelled)
        if columns.path is None:
            return _features(file, names, columns, rows)
        return _images(file, columns, rows, reading.image_dir)


@contextmanager
def _opened(file: Path) -> Iterator[tuple[Sequence[str], Rows]]:
    if not file.is_file():
        raise InputError(f"There is no file {file}.")
    if file.suffix.lower() in (".parquet", ".pq"):
        yield _parquet(file)
        return
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            first = lines.readline()
            lines.seek(0)
            tab = file.suffix.lower() in (".tsv", ".tab")
            reader = csv.reader(lines, delimiter="\t" if tab else max(",;\t", key=first.count), strict=True)
            header = next(reader, [])
            if not header:
                raise InputError(f"{file} is empty: its first line should name the columns.")
            yield header, _lines(file, reader, len(header))
    except OSError as error:
        raise InputError(f"The table {file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise InputError(f"The table {file} is no UTF-8 text: save it as such, or as Parquet.") from None
    except csv.Error as error:
        raise InputError(f"The table {file} is damaged ({error}): write it again.") from None


def _lines(file: Path, reader: Any, width: int) -> Rows:
    for cells in reader:
        if not any(cells):
            continue  # an empty line
        if len(cells) != width:
            raise InputError(
                f"Line {reader.line_num} of {file} has {len(cells)} cells but there are {width} columns: "
                "mend it, with quotes around text that holds the separator."
            )
        yield reader.line_num, [plain(cell) for cell in cells]


def _parquet(file: Path) -> tuple[Sequence[str], Rows]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise InputError(PARQUET) from None

    @contextmanager
    def readable() -> Iterator[None]:
        try:
            yield
        except (ArrowException, OSError) as error:
            why = " ".join(str(error).split())[:200]
            raise InputError(f"The table {file} is damaged or no Parquet file ({why}).") from None

    def rows() -> Rows:
        number = 0
        batches = table.iter_batches()
        while True:
            with readable():
                batch = next(batches, None)
                columns = [] if batch is None else [column.to_pylist() for column in batch.columns]
            if batch is None:
                return
            for cells in zip(*columns, strict=True):
                number += 1
                yield number, cells

    with readable():
        table = ParquetFile(file)
        return table.schema_arrow.names, rows()


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
    others = [at for at, name in enumerate(names) if _plain(name) not in NO_FEATURE]
    features = tuple(at for at in others if at not in (label, true_label)) if path is None else ()
    if path is None and not features:
        raise InputError(f"{file} has no column with paths and none with features: add one of them.")
    return Columns(label, true_label, path, features, labelled)


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
                f"{_row(file, number)} names {shown(path)}, which is not below {base}: give the folder that "
                "all images are below as --image-dir."
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
    values: list[NDArray[np.float32]] = []
    labels, true_labels = [], []
    for number, cells in rows:
        row = [cells[at] for at in columns.features]
        try:
            with np.errstate(over="ignore"):
                numbers = np.array(row, dtype=np.float32)
            usable = numbers.ndim == 1 and bool(np.isfinite(numbers).all())
        except (ValueError, TypeError, OverflowError):
            usable = False
        if not usable:
            raise _no_feature(file, number, [names[at] for at in columns.features], row, first=not values)
        values.append(numbers)
        if columns.labelled:
            labels.append(_label(file, number, cells, columns.label))
            true_labels += [_label(file, number, cells, at) for at in (columns.true_label,) if at is not None]
    if not values:
        raise InputError(f"{file} holds no examples: there is nothing below its first line.")
    used = tuple(names[at] for at in columns.features)
    return Listing(str(file), [""] * len(values), labels, true_labels, rows=np.stack(values), columns=used)


def _no_feature(file: Path, number: int, names: Iterable[str], row: Sequence[Any], first: bool) -> InputError:
    for name, cell in zip(names, row, strict=True):
        try:
            with np.errstate(over="ignore"):
                usable = bool(np.isfinite(np.float32(cell)))
        except (ValueError, TypeError, OverflowError):
            usable = False
        if not usable:
            wrong = f"'{shown(str(cell))}' in the column '{shown(name)}'"
            if first:
                return InputError(
                    f"Which column of {file} holds the paths? Say it with --path-column; it is no table of "
                    f"features, since {_row(file, number)} has {wrong}."
                )
            return InputError(f"{_row(file, number)} has {wrong}, not a number: mend or remove the row.")
    return InputError(f"{_row(file, number)} holds something that is no number: mend or remove the row.")


def _label(file: Path, number: int, cells: Sequence[Any], column: int | None) -> str:
    assert column is not None
    return _text(file, number, cells[column], "label")


def _text(file: Path, number: int, cell: Any, what: str) -> str:
    """A cell as text; whole numbers that became floats, since others are missing, as whole numbers."""
    if isinstance(cell, dict | list):
        raise InputError(
            f"{_row(file, number)} has several values as its {what}: name another column, or write one value."
        )
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "backslashreplace")
    text = str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell).strip()
    if cell is None or text in ("", "nan", "NaN"):
        raise InputError(f"{_row(file, number)} has no {what}: fill it in, or remove the row.")
    return text


def _row(file: Path, number: int) -> str:
    return f"{'Row' if file.suffix.lower() in ('.parquet', '.pq') else 'Line'} {number} of {file}"
