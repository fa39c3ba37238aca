"""A data set as it was loaded: everything known about it, checked. Only `api` takes it apart."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labelsift.errors import InputError


@dataclass(frozen=True)
class Dataset:
    """Inputs are uint8 images N x C x H x W or float32 rows N x D; labels are 0..K-1, absent when unknown."""

    name: str
    inputs: NDArray[Any]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    true_labels: NDArray[np.int64] | None = None
    test_inputs: NDArray[Any] | None = None
    test_labels: NDArray[np.int64] | None = None

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example: C x H x W, or D."""
        return tuple(self.inputs.shape[1:])

    @property
    def fingerprint(self) -> str:
        """A hash of everything in the set, so that a run knows its data again."""
        digest = hashlib.sha256(repr(self.classes).encode())
        for array in (self.inputs, self.labels, self.true_labels, self.test_inputs, self.test_labels):
            if array is None:
                digest.update(b"-")
            else:
                digest.update(f"{array.dtype.str}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]

    def with_labels(self, labels: NDArray[np.int64], true_labels: NDArray[np.int64]) -> "Dataset":
        """The same set with other given labels, and what is known to be true."""
        return replace(self, labels=labels, true_labels=true_labels)


def make_dataset(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    true_y: ArrayLike | None = None,
    test_x: ArrayLike | None = None,
    test_y: ArrayLike | None = None,
    classes: Sequence[str] | None = None,
) -> Dataset:
    """Check arrays as a user has them and make them a data set; the one door for everything."""
    inputs = check_inputs("x", x)
    given, names = _check_labels("y", y, classes)
    if len(given) != len(inputs):
        raise InputError(f"There are {len(inputs)} examples in x but {len(given)} labels in y.")
    extra: list[NDArray[np.int64] | None] = []
    for what, labels, count in (("true_y", true_y, len(inputs)), ("test_y", test_y, None)):
        if labels is None:
            extra.append(None)
            continue
        checked, _ = _check_labels(what, labels, names)
        if count is not None and len(checked) != count:
            raise InputError(f"There are {count} examples in x but {len(checked)} labels in {what}.")
        extra.append(checked)
    true_labels, test_labels = extra
    if (test_x is None) != (test_labels is None):
        raise InputError("A test part needs both test_x and test_y: give both or none.")
    test_inputs = None
    if test_x is not None and test_labels is not None:
        test_inputs = check_inputs("test_x", test_x)
        if test_inputs.shape[1:] != inputs.shape[1:]:
            raise InputError(
                f"The examples of test_x have the shape {test_inputs.shape[1:]}, not {inputs.shape[1:]}."
            )
        if len(test_inputs) != len(test_labels):
            raise InputError(
                f"There are {len(test_inputs)} examples in test_x but {len(test_labels)} labels in test_y."
            )
    if classes is None and given.dtype.kind in "iu":
        _check_no_gap(given, true_labels, test_labels)
    if len(np.unique(given)) < 2:
        raise InputError("All labels in y are the same class: there is nothing to tell apart.")
    return Dataset(name, inputs, given, names, true_labels, test_inputs, test_labels)


def check_inputs(what: str, x: ArrayLike) -> NDArray[Any]:
    """Images N x H x W or N x H x W x C to uint8 N x C x H x W; rows N x D to float32."""
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise InputError(f"The array {what} holds {array.dtype}, not numbers.")
    if array.size == 0:
        raise InputError(f"The array {what} is empty: there are no examples in it.")
    if array.ndim == 2:
        with np.errstate(over="ignore"):
            rows = array.astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise InputError(
                f"Row {bad[0]} of {what} holds NaN or infinity: fill or drop such rows ({len(bad)} in all)."
            )
        return rows
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4:
        raise InputError(
            f"The array {what} has {array.ndim} dimensions: give images N x H x W (x C), or rows N x D."
        )
    if array.shape[-1] > 4:
        hint = "move the channels to the end" if array.shape[1] <= 4 else "give 1 to 4 channels, last"
        raise InputError(f"The images in {what} have {array.shape[-1]} channels: {hint}.")
    if array.dtype != np.uint8:
        array = _to_uint8(what, array)
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def _to_uint8(what: str, images: NDArray[Any]) -> NDArray[np.uint8]:
    low, high = images.min(), images.max()
    if not (low >= 0 and high <= 255):  # false for NaN too
        raise InputError(f"The pixels of {what} run from {low:g} to {high:g}: scale them to 0..1 or 0..255.")
    scale = 255 if images.dtype.kind == "f" and high <= 1 else 1
    pixels: NDArray[np.uint8] = np.rint(images * scale).astype(np.uint8)
    return pixels


def _check_labels(
    what: str, y: ArrayLike, classes: Sequence[str] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels as 0..K-1 with the names of the classes; names are taken as labels too."""
    array = np.asarray(y)
    if array.ndim != 1:
        raise InputError(f"The labels in {what} have {array.ndim} dimensions: give one label per example.")
    if array.size == 0:
        raise InputError(f"The labels in {what} are empty: there are no examples.")
    if array.dtype.kind == "U":
        names = tuple(map(str, classes)) if classes is not None else tuple(sorted(set(array.tolist())))
        strange = set(array.tolist()) - set(names)
        if strange:
            raise InputError(f"The label '{min(strange)}' in {what} is none of the {len(names)} classes.")
        place = {name: number for number, name in enumerate(names)}
        return np.array([place[name] for name in array.tolist()], dtype=np.int64), names
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.rint(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"The labels in {what} are {array.dtype}, not whole numbers or names.")
    count = len(classes) if classes is not None else int(array.max()) + 1
    bad = np.flatnonzero((array < 0) | (array >= count))
    if len(bad):
        raise InputError(
            f"Label {array[bad[0]]} of example {bad[0]} in {what} is outside 0..{max(count, 1) - 1}."
        )
    names = tuple(map(str, classes)) if classes is not None else tuple(map(str, range(count)))
    return array.astype(np.int64), names


def _check_no_gap(*labels: NDArray[np.int64] | None) -> None:
    """Numbers that skip some are mostly a slip; names say that they are meant."""
    used = np.unique(np.concatenate([some for some in labels if some is not None]))
    missing = np.setdiff1d(np.arange(used.max() + 1), used)
    if len(missing):
        raise InputError(
            f"No example has label {missing[0]} but some have {used.max()}: number the classes 0..K-1, "
            "or name all of them in 'classes'."
        )
