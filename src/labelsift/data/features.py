"""Cells of a table as numbers, and what is said where they are none."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.cells import Rows, row_of
from labelsift.data.folder import endings
from labelsift.data.listing import shown
from labelsift.errors import InputError

TRUTH = {"true": 1.0, "false": 0.0}
MISSING = ("", "nan", "na", "n/a", "null", "none")
DECIMAL_COMMA = r"([-+]?[0-9.]*),([0-9]+)"


def numbers_of(row: Sequence[Any]) -> NDArray[np.float64] | None:
    """A row as numbers that float32 can hold, or None; true and false are 1 and 0."""
    try:
        with np.errstate(over="ignore"):
            numbers = np.array(row, dtype=np.float64)
            usable = numbers.ndim == 1 and bool(np.isfinite(numbers.astype(np.float32)).all())
    except (ValueError, TypeError, OverflowError):
        said = [TRUTH.get(str(cell).strip().lower(), cell) for cell in row]
        return None if said == list(row) else numbers_of(said)
    return numbers if usable else None


def no_numbers(
    file: Path, names: Sequence[str], features: Sequence[int], number: int, cells: Sequence[Any], rows: Rows
) -> InputError:
    """The error for the row of this number, the first with a cell that is no number; `rows` follow it."""
    at = next((at for at in features if numbers_of([cells[at]]) is None), features[0])
    word, column, row = str(cells[at]).strip(), shown(names[at]), row_of(file, number)
    has = f"{row} has '{shown(word)}' in the column '{column}'"
    if _missing(cells[at]):
        count = 1 + sum(any(_missing(later[at]) for at in features) for _, later in rows)
        lack = f"{count:,} rows lack a number, first" if count > 1 else "1 row lacks a number,"
        cell = f" ('{word}')" if isinstance(cells[at], str) and word else ""
        return InputError(f"{lack} {row} in the column '{column}'{cell}: fill in or remove what is missing.")
    if os.path.splitext(word)[1].lower() in endings():
        return InputError(
            f"Which column of {file} holds the paths? Say it with --path-column; it is no table of "
            f"features, since {has}."
        )
    if comma := re.fullmatch(DECIMAL_COMMA, word):
        point = f"{comma[1].replace('.', '')}.{comma[2]}"
        return InputError(f"{has}: write numbers with decimal points, as in {point}.")
    if re.fullmatch(r"[-+]?(inf(inity)?|[0-9.e+-]+)", word.lower()) or isinstance(cells[at], list | dict):
        return InputError(f"{has}, not a number: mend or remove the row.")
    return InputError(f"{has}, which is no number: encode the column as numbers, or remove it or the row.")


def _missing(cell: Any) -> bool:
    return str(cell).strip().lower() in MISSING


def counts_rows(column: NDArray[np.float64]) -> bool:
    """Whether another whole number stands in every row."""
    whole = bool((np.abs(column) < 2**53).all() and (column == np.rint(column)).all())
    return whole and len(np.unique(column)) == len(column)
