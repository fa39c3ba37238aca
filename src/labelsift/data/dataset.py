"""A data set as it was loaded: everything known about it, checked. Only `api` takes it apart."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labelsift.data.labels import check_labels, check_no_gap, named
from labelsift.errors import InputError

ROOM = 0.01  # by which float pixels may leave their range


@dataclass(frozen=True)
class ImageFiles:
    """Images that stay in their files until they are needed, and are then `size` x `size` in colour."""

    folder: Path
    paths: tuple[str, ...]  # below the folder
    size: int

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: NDArray[np.int64]) -> "ImageFiles":
        return replace(self, paths=tuple(self.paths[place] for place in index.tolist()))

    @property
    def shape(self) -> tuple[int, ...]:
        """N x C x H x W, as an array would have it."""
        return len(self.paths), 3, self.size, self.size

    @cached_property
    def digest(self) -> bytes:
        """A hash of the paths and of the files' sizes; reading a million files would take too long."""
        digest = hashlib.sha256(str(self.size).encode())
        for path in self.paths:
            file = self.folder / path
            try:
                digest.update(f"{path}\0{os.stat(file).st_size}\0".encode())
            except OSError as error:
                raise InputError(f"The image {file} cannot be read ({error.strerror}).") from None
        return digest.digest()


Inputs = Any  # NDArray[Any] | ImageFiles


@dataclass(frozen=True)
class Dataset:
    """Inputs are uint8 images N x C x H x W (or their files) or float32 rows N x D; labels are 0..K-1.

    What is unknown is absent. The validation part has true labels, unlike what `fit` holds out.
    """

    name: str
    inputs: Inputs
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    true_labels: NDArray[np.int64] | None = None
    test_inputs: Inputs | None = None
    test_labels: NDArray[np.int64] | None = None
    validation_inputs: Inputs | None = None
    validation_labels: NDArray[np.int64] | None = None
    mean: tuple[float, ...] | None = None  # per channel, of pixels 0..1; None: to be computed
    std: tuple[float, ...] | None = None
    crop: int = 0  # the size that views are cut out with; 0: they show the whole image
    paths: tuple[str, ...] = ()  # of the training examples, where they are files
    index: tuple[int, ...] = ()  # their places in the source, where they are only some of it
    columns: tuple[str, ...] = ()  # of feature rows, by their names, where they have any
    left_out: tuple[tuple[str, str], ...] = ()  # files that could not be read, each with the reason
    notes: tuple[str, ...] = ()  # what whoever reads the data should know, in sentences

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
        for part in (self.inputs, self.labels, self.true_labels, self.test_inputs, self.test_labels):
            _add(digest, part)
        if self.validation_inputs is not None:
            _add(digest, self.validation_inputs)
            _add(digest, self.validation_labels)
        if self.mean is not None or self.crop:
            digest.update(repr((self.mean, self.std, self.crop)).encode())
        return digest.hexdigest()[:16]

    def with_labels(self, labels: NDArray[np.int64], true_labels: NDArray[np.int64]) -> "Dataset":
        """The same set with other given labels, and what is known to be true."""
        return replace(self, labels=labels, true_labels=true_labels)

    def limited(self, count: int, seed: int) -> "Dataset":
        """So many training examples, drawn at random, and no more test or validation examples than those."""
        rng = np.random.default_rng((seed, 2))
        train = np.sort(rng.permutation(len(self.labels))[:count])
        index = self.index or range(len(self.labels))
        part = replace(
            self,
            inputs=self.inputs[train],
            labels=self.labels[train],
            true_labels=None if self.true_labels is None else self.true_labels[train],
            paths=tuple(self.paths[place] for place in train.tolist()) if self.paths else (),
            index=tuple(index[place] for place in train.tolist()),
        )
        if self.test_inputs is not None and self.test_labels is not None:
            test = np.sort(rng.permutation(len(self.test_labels))[:count])
            part = replace(part, test_inputs=self.test_inputs[test], test_labels=self.test_labels[test])
        if self.validation_inputs is not None and self.validation_labels is not None:
            held = np.sort(rng.permutation(len(self.validation_labels))[:count])
            inputs, labels = self.validation_inputs[held], self.validation_labels[held]
            part = replace(part, validation_inputs=inputs, validation_labels=labels)
        return part


def _add(digest: Any, part: Inputs | None) -> None:
    if part is None:
        digest.update(b"-")
    elif isinstance(part, ImageFiles):
        digest.update(part.digest)
    else:
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).data)


def make_dataset(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    true_y: ArrayLike | None = None,
    test_x: ArrayLike | None = None,
    test_y: ArrayLike | None = None,
    classes: Sequence[str] | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> Dataset:
    """Check arrays as a user has them and make them a data set; the one door for everything."""
    inputs = check_inputs("x", x)
    floats = np.asarray(x).dtype.kind == "f"
    unit = floats and inputs.ndim == 4 and in_unit(np.asarray(x))
    given, names = check_labels("y", y, classes)
    if len(given) != len(inputs):
        raise InputError(f"There are {len(inputs)} examples in x but {len(given)} labels in y.")
    extra: list[NDArray[np.int64] | None] = []
    for what, labels, count in (("true_y", true_y, len(inputs)), ("test_y", test_y, None)):
        if labels is None:
            extra.append(None)
            continue
        if classes is None and named("y", y) and not named(what, labels):
            raise InputError(
                f"The labels in y are names but those in {what} are not: name the classes in both."
            )
        checked, _ = check_labels(what, labels, names)
        if count is not None and len(checked) != count:
            raise InputError(f"There are {count} examples in x but {len(checked)} labels in {what}.")
        extra.append(checked)
    true_labels, test_labels = extra
    if (test_x is None) != (test_labels is None):
        raise InputError("A test part needs both test_x and test_y: give both or none.")
    test_inputs = None
    if test_x is not None and test_labels is not None:
        alike = unit if floats and np.asarray(test_x).dtype.kind == "f" else None
        test_inputs = check_inputs("test_x", test_x, alike)
        if test_inputs.shape[1:] != inputs.shape[1:]:
            raise InputError(
                f"The examples of test_x have the shape {test_inputs.shape[1:]}, not {inputs.shape[1:]}."
            )
        if len(test_inputs) != len(test_labels):
            raise InputError(
                f"There are {len(test_inputs)} examples in test_x but {len(test_labels)} labels in test_y."
            )
    if classes is None and given.dtype.kind in "iu":
        check_no_gap(given, true_labels, test_labels)
    if len(np.unique(given)) < 2:
        raise InputError("All labels in y are the same class: there is nothing to tell apart.")
    return Dataset(name, inputs, given, names, true_labels, test_inputs, test_labels, mean=mean, std=std)


def check_inputs(what: str, x: ArrayLike, unit: bool | None = None) -> NDArray[Any]:
    """Images N x H x W or N x H x W x C to uint8 N x C x H x W; rows N x D to float32.

    Pixels that are floats run from 0 to 1 (`unit`) or to 255; None: the array itself tells.
    """
    try:
        array = np.asarray(x)
    except ValueError:
        raise InputError(f"The examples in {what} are not all of one shape: make an array of them.") from None
    if array.dtype.kind == "O" and all(isinstance(item, Real | np.bool_) for item in array.flat):
        array = array.astype(np.float64)  # as pandas has numbers beside truths
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"The array {what} holds {array.dtype}, not real numbers: encode names as numbers, and give "
            f"{what}.astype(float)."
        )
    if array.size == 0:
        raise InputError(f"The array {what} is empty: there are no examples in it.")
    if array.ndim == 2:
        with np.errstate(over="ignore"):
            rows = array.astype(np.float32, order="C")
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise InputError(
                f"Row {bad[0]} of {what} holds NaN, infinity or more than float32 can: "
                f"mend or drop such rows ({len(bad)} in all)."
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
        array = _to_uint8(what, array, in_unit(array) if unit is None else unit)
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def in_unit(images: NDArray[Any]) -> bool:
    """Whether pixels are floats from 0 to 1, with some room for what resizing adds to them."""
    return images.dtype.kind == "f" and bool(images.max() <= 1 + ROOM)


def _to_uint8(what: str, images: NDArray[Any], unit: bool) -> NDArray[np.uint8]:
    low, high = float(images.min()), float(images.max())
    if not np.isfinite([low, high]).all():
        raise InputError(f"Some pixels of {what} are NaN or infinite: mend or drop such images.")
    top = 1 if unit else 255
    if low < -ROOM * top or high > (1 + ROOM) * top:
        raise InputError(f"The pixels of {what} run from {low:g} to {high:g}: scale them to 0..1 or 0..255.")
    pixels: NDArray[np.uint8] = np.rint(np.clip(images * (255 / top), 0, 255)).astype(np.uint8)
    return pixels
