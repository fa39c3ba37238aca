"""From what was given to what is trained on and judged by: data, noise, held-out part, judge."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from labelsift.data import AS_IT_IS, Dataset, Examples, Reading, Views, default_augment, load, make_dataset
from labelsift.data.dataset import ImageFiles, Inputs
from labelsift.data.examples import open_inputs
from labelsift.data.given import read_labels
from labelsift.errors import InputError
from labelsift.noise import Noise, NoisyLabels, realised
from labelsift.training import Judge, Machine, Record

ARRAYS = "arrays"  # what a data set is called that nobody named


def prepare(
    x: str | os.PathLike[str] | Dataset | ArrayLike,
    y: ArrayLike | None = None,
    true_y: ArrayLike | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    noise: str = "",
    seed: int = 1,
    data_dir: str = "",
    limit: int = 0,
    observe: Callable[[Record], None] = lambda record: None,
    reading: Reading = AS_IT_IS,
    largest: int = 0,
) -> tuple[Dataset, NoisyLabels | None]:
    """Load or check the data, and put noise on its labels (the true ones, where both are known).

    Images of files are at most `largest` pixels wide when no size is asked for; 0: of any size.
    """
    if not 0 <= seed < 2**63:
        raise InputError(f"The seed {seed} is outside 0..2^63-1: choose a small whole number.")
    if isinstance(x, os.PathLike):
        x = os.fspath(x)
    if reading != AS_IT_IS and not isinstance(x, str):
        raise InputError(
            "Only files are read in a way of one's own: leave out image_size, columns and the like."
        )
    if isinstance(x, str | Dataset):
        data = load(x, data_dir, observe, reading, largest) if isinstance(x, str) else x
        if not (y is None and true_y is None and test is None):
            raise InputError("Labels go with arrays only: a data set by name brings its own.")
    elif y is None:
        raise InputError("The examples have no labels: give them as y.")
    else:
        test_x, test_y = test if test is not None else (None, None)
        data = make_dataset(ARRAYS, x, y, true_y, test_x, test_y)
    if limit:
        data = data.limited(limit, seed)
    if not noise:
        return data, None
    truth = data.labels if data.true_labels is None else data.true_labels
    if noise.startswith("instance") and isinstance(data.inputs, ImageFiles):
        raise InputError(f"Instance noise needs all pixels in memory, which {data.name} is too large for.")
    made = Noise.parse(noise)
    if made.kind == "labels":
        given = read_labels(Path(made.file), len(data.labels), data.classes, data.index)
        noisy = realised(given, truth, data.num_classes)
    else:
        noisy = made.apply(data.inputs, truth, data.num_classes, seed)
    if len(np.unique(noisy.labels)) < 2:
        raise InputError(
            f"The noise {noise} leaves labels of one class only: there is nothing to tell apart."
        )
    return data.with_labels(noisy.labels, truth), noisy


def split_off(count: int, validation: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions to train on, and positions held out with their noisy labels."""
    held = round(count * validation)
    order = np.random.default_rng((seed, 1)).permutation(count)
    return np.sort(order[held:]), np.sort(order[:held])


def make_examples(data: Dataset, augment: str, seed: int, machine: Machine) -> tuple[Examples, Judge]:
    """All training examples, and the judge of a net that is trained on them."""
    whole = examples_of(data, default_augment(data.shape) if augment == "auto" else augment, seed, machine)
    return whole, judge_of(data, whole, np.arange(0))


def examples_of(data: Dataset, augment: str, seed: int, machine: Machine) -> Examples:
    """The training examples on the device, with their given labels."""
    inputs = open_inputs(data.inputs, machine.device)
    labels = torch.from_numpy(data.labels).to(machine.device)
    views = Views.of(inputs.some(), augment, data.mean, data.std, data.crop)
    return Examples.of(inputs, labels, data.num_classes, views, seed)


def judge_of(data: Dataset, whole: Examples, held_out: NDArray[np.int64], noise: str = "") -> Judge:
    """What no method must see, and the examples at the places that are held out."""

    def part(inputs: Inputs | None, labels: NDArray[np.int64] | None) -> Examples | None:
        if inputs is None or labels is None:
            return None
        store = open_inputs(inputs, whole.inputs.device)
        return Examples.of(store, tensor_like(labels, whole), data.num_classes, whole.views, seed=0)

    validation = whole.subset(tensor_like(held_out, whole)) if len(held_out) else None
    truth = None if data.true_labels is None else tensor_like(data.true_labels, whole)
    test = part(data.test_inputs, data.test_labels)
    clean = part(data.validation_inputs, data.validation_labels)
    return Judge(test, validation, truth, clean, noise)


def tensor_like(array: NDArray[Any], like: Examples) -> Tensor:
    """An array where these examples are."""
    return torch.from_numpy(array).to(like.inputs.device)
