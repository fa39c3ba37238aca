"""Labels as a user has them, numbers or names, checked and made 0..K-1."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labelsift.errors import InputError

MISSING = ("None", "nan", "<NA>", "NaT")  # what stands for no label among objects


def decoded(what: str, labels: NDArray[Any]) -> NDArray[Any]:
    """Labels whose names are text, where they were bytes, or objects as pandas has them."""
    if labels.dtype.kind in "OT":
        items = labels.ravel().tolist()
        if missing := [
            at for at, item in enumerate(items) if not isinstance(item, str) and str(item) in MISSING
        ]:
            raise _no_label(what, missing)
        names = all(isinstance(item, str) for item in items)
        numbers = all(isinstance(item, Integral) and not isinstance(item, bool) for item in items)
        return np.array(labels.tolist()) if names or numbers else labels
    if labels.dtype.kind != "S":
        return labels
    try:
        return np.char.decode(labels, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"The array {what} holds {error.object[:80]!r}, which is no UTF-8 text: decode it."
        ) from None


def named(what: str, labels: ArrayLike) -> bool:
    """Whether these labels are names, and no numbers."""
    return decoded(what, np.asarray(labels)).dtype.kind == "U"


def check_labels(
    what: str, y: ArrayLike, classes: Sequence[str] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels as 0..K-1 with the names of the classes; names are taken as labels too."""
    array = decoded(what, np.asarray(y))
    if classes is not None and len(set(classes)) < len(classes):
        twice = next(name for name in classes if list(classes).count(name) > 1)
        raise InputError(f"Two classes are named '{twice}': give each its own name.")
    if classes is not None and (bare := [at for at, name in enumerate(classes) if not str(name).strip()]):
        raise InputError(f"Class {bare[0]} of {len(classes)} has an empty name: give it one.")
    if array.ndim != 1:
        raise InputError(f"The labels in {what} have {array.ndim} dimensions: give one label per example.")
    if array.size == 0:
        raise InputError(f"The labels in {what} are empty: there are no examples.")
    if array.dtype.kind == "U":
        if empty := [at for at, name in enumerate(array.tolist()) if not name.strip()]:
            raise _no_label(what, empty)
        names = tuple(map(str, classes)) if classes is not None else in_order(set(array.tolist()))
        strange = set(array.tolist()) - set(names)
        if strange:
            raise InputError(f"The label '{min(strange)}' in {what} is none of the {len(names)} classes.")
        place = {name: number for number, name in enumerate(names)}
        return np.array([place[name] for name in array.tolist()], dtype=np.int64), names
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise _no_label(what, np.flatnonzero(np.isnan(array)).tolist())
    if array.dtype.kind == "f" and (np.abs(array) < 2**53).all() and (array == np.rint(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"The labels in {what} are {array.dtype}, not whole numbers or names: number the classes 0..K-1, "
            "or give all of them as text."
        )
    count = len(classes) if classes is not None else int(array.max()) + 1
    if count > max(len(array), 2) and classes is None:
        raise InputError(
            f"Label {count - 1} in {what} is larger than the number of examples: number the classes 0..K-1."
        )
    bad = np.flatnonzero((array < 0) | (array >= count))
    if len(bad):
        raise InputError(
            f"Label {array[bad[0]]} of example {bad[0]} in {what} is outside 0..{max(count, 1) - 1}."
        )
    names = tuple(map(str, classes)) if classes is not None else tuple(map(str, range(count)))
    return array.astype(np.int64), names


def in_order(names: set[str]) -> tuple[str, ...]:
    """Names in their order; numbers in that of numbers."""
    if all(name.isascii() and name.isdecimal() for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def _no_label(what: str, places: Sequence[int]) -> InputError:
    all_of_them = f" ({len(places):,} in all)" if len(places) > 1 else ""
    return InputError(
        f"Example {places[0]} in {what} has no label: fill it in, or leave the example out{all_of_them}."
    )


def too_few_of(name: str, source: str, has: str) -> InputError:
    """The error for a class that has too few examples to learn from."""
    return InputError(f"The class '{name}' of {source} has {has}: give it more, or leave the class out.")


def check_no_gap(*labels: NDArray[np.int64] | None) -> None:
    """Numbers that skip some are mostly a slip; names say that they are meant."""
    used = np.unique(np.concatenate([some for some in labels if some is not None]))
    missing = np.setdiff1d(np.arange(used.max() + 1), used)
    if len(missing):
        raise InputError(
            f"No example has label {missing[0]} but some have {used.max()}: number the classes 0..K-1, "
            "or name all of them in 'classes'."
        )
