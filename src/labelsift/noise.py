"""Label noise: true labels in, given labels out, the same on every machine for the same seed.

All draws come from a NumPy generator and all arithmetic is in float64, so a seed names one set of labels.
`transition[i, j]` is P(given j | true i).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.errors import InputError, unknown

Labels = NDArray[np.int64]
Matrix = NDArray[np.float64]

RATES = ("symmetric", "symmetric-inclusive", "pair", "instance")
FILES = ("matrix", "labels")


@dataclass(frozen=True)
class NoisyLabels:
    """Given labels with what the noise really did: the share that changed, and how."""

    labels: Labels
    rate: float
    transition: Matrix


def symmetric_transition(rate: float, num_classes: int, inclusive: bool = False) -> Matrix:
    """Every wrong class equally likely; `inclusive` lets the redrawn label be the true one again."""
    others = rate / num_classes if inclusive else rate / (num_classes - 1)
    transition = np.full((num_classes, num_classes), others)
    np.fill_diagonal(transition, 1 - others * (num_classes - 1))
    return transition


def pair_transition(rate: float, num_classes: int) -> Matrix:
    """Every class is mistaken for the next one only."""
    return (1 - rate) * np.eye(num_classes) + rate * np.roll(np.eye(num_classes), 1, axis=1)


def from_transition(labels: Labels, transition: Matrix, rng: np.random.Generator) -> Labels:
    """Draw each given label from the row of its true label."""
    draws = rng.random(len(labels))
    cumulative = np.cumsum(transition, axis=1)
    cumulative /= cumulative[:, -1:]
    given = labels.copy()
    for true in range(len(transition)):
        rows = np.flatnonzero(labels == true)
        given[rows] = np.searchsorted(cumulative[true], draws[rows], side="right")
    return given


def instance(
    inputs: NDArray[Any], labels: Labels, rate: float, num_classes: int, rng: np.random.Generator
) -> Labels:
    """Noise that depends on the image: Algorithm 2 of the paper, on raw inputs (pixels 0..255).

    Each example gets its own flip rate, and a random linear map per class says where it flips to.
    """
    if rate == 0:  # the truncated normal around 0 would still flip 8 %
        return labels.copy()
    flip_rates = _truncated_normal(rate, 0.1, len(labels), rng)  # step 1, q
    draws = rng.random(len(labels))
    rows_of = inputs.reshape(len(inputs), -1)
    given = labels.copy()
    for true in range(num_classes):
        weights = rng.standard_normal((rows_of.shape[1], num_classes))  # step 2, w
        rows = np.flatnonzero(labels == true)
        for chunk in np.array_split(rows, len(rows) // 2048 + 1):
            scores = rows_of[chunk].astype(np.float64) @ weights  # step 4
            scores[:, true] = -np.inf  # step 5
            probs = np.exp(scores - scores.max(axis=1, keepdims=True))
            probs *= flip_rates[chunk, None] / probs.sum(axis=1, keepdims=True)  # step 6
            probs[:, true] = 1 - flip_rates[chunk]  # step 7
            cumulative = np.cumsum(probs, axis=1)
            cumulative /= cumulative[:, -1:]
            given[chunk] = (draws[chunk, None] >= cumulative).sum(axis=1)  # step 8
    return given


def _truncated_normal(mean: float, sd: float, count: int, rng: np.random.Generator) -> Matrix:
    """A normal cut to [0, 1], by the inverse of its distribution function."""
    normal = NormalDist(mean, sd)
    low, high = normal.cdf(0), normal.cdf(1)
    draws = low + (high - low) * rng.random(count)
    draws = np.clip(draws, np.nextafter(0, 1), np.nextafter(1, 0))
    return np.clip([normal.inv_cdf(draw) for draw in draws], 0, 1)


def realised(labels: Labels, true_labels: Labels, num_classes: int) -> NoisyLabels:
    """The labels with the share that is wrong and the matrix of what became what."""
    counts = np.zeros((num_classes, num_classes))
    np.add.at(counts, (true_labels, labels), 1)
    totals = counts.sum(axis=1, keepdims=True)
    transition = np.divide(counts, totals, out=np.eye(num_classes), where=totals > 0)
    return NoisyLabels(labels, float((labels != true_labels).mean()), transition)


@dataclass(frozen=True)
class Noise:
    """A kind of noise as it is written: `symmetric:0.5`, `matrix=FILE`, `labels=FILE`."""

    kind: str
    rate: float = 0.0
    file: str = ""

    @classmethod
    def parse(cls, text: str) -> "Noise":
        """Read `TYPE:RATE`, `matrix=FILE` or `labels=FILE`."""
        kind, equals, file = text.partition("=")
        if equals and kind in FILES:
            if not file:
                raise InputError(f"The noise '{text}' names no file: write {kind}=FILE.")
            return cls(kind, file=file)
        kind, _, value = text.partition(":")
        if kind in FILES:
            raise InputError(f"The noise '{text}' names no file: write {kind}=FILE.")
        if kind not in RATES:
            raise unknown("noise", kind, RATES + FILES)
        try:
            rate = float(value)
        except ValueError:
            raise InputError(f"The noise '{text}' has no rate: write {kind}:0.4, for example.") from None
        if not 0 <= rate <= 1:
            raise InputError(f"The noise rate {value} is outside 0..1: write {kind}:0.4 for 40 %.")
        return cls(kind, rate)

    def __str__(self) -> str:
        """As it is written, and always in the same way."""
        return f"{self.kind}={self.file}" if self.file else f"{self.kind}:{self.rate:.12g}"

    def apply(self, inputs: NDArray[Any], true_labels: Labels, num_classes: int, seed: int) -> NoisyLabels:
        """Corrupt `true_labels`."""
        if self.kind == "labels":
            raise InputError(f"The noise {self} is labels that are there, and draws none: give it to fit.")
        rng = np.random.default_rng(seed)
        transitions: dict[str, Callable[[], Matrix]] = {
            "symmetric": lambda: symmetric_transition(self.rate, num_classes),
            "symmetric-inclusive": lambda: symmetric_transition(self.rate, num_classes, inclusive=True),
            "pair": lambda: pair_transition(self.rate, num_classes),
            "matrix": lambda: read_transition(Path(self.file), num_classes),
        }
        if self.kind == "instance":
            labels = instance(inputs, true_labels, self.rate, num_classes, rng)
        else:
            labels = from_transition(true_labels, transitions[self.kind](), rng)
        return realised(labels, true_labels, num_classes)


def read_transition(file: Path, num_classes: int) -> Matrix:
    """A row-stochastic matrix from `.npy`, or from text with commas or blanks between the numbers."""
    if file.suffix == ".npy":
        matrix = read_array(file)
    else:
        try:
            lines = file.read_text(encoding="utf-8-sig").replace(",", " ").splitlines()
            rows = [[float(word) for word in line.split()] for line in lines if line.strip()]
        except (OSError, ValueError) as error:
            raise InputError(f"The transition matrix {file} cannot be read ({_reason(error)}).") from None
        if len({len(row) for row in rows}) != 1:
            raise InputError(
                f"The rows of the matrix in {file} are not of one length: write one row per class."
            )
        matrix = np.array(rows)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError(f"{file} holds no matrix of real numbers: write one row per class.")
    matrix = matrix.astype(np.float64)
    if matrix.shape != (num_classes, num_classes):
        shape = " x ".join(map(str, matrix.shape))
        raise InputError(f"The matrix in {file} is {shape}, but there are {num_classes} classes.")
    if not (np.isfinite(matrix).all() and (matrix >= 0).all()):
        raise InputError(f"The matrix in {file} has entries that are not probabilities: use numbers 0..1.")
    off = np.flatnonzero(np.abs(matrix.sum(axis=1) - 1) > 1e-6)
    if len(off):
        total = matrix[off[0]].sum()
        raise InputError(f"Row {off[0]} of the matrix in {file} sums to {total:g}: every row must sum to 1.")
    checked: Matrix = matrix
    return checked


def read_array(file: Path) -> NDArray[Any]:
    """One array from `.npy`; nothing pickled is ever loaded."""
    try:
        array = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise InputError(f"{file} cannot be read ({_reason(error)}).") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{file} holds more than one array: write it with numpy.save.")
    return array


def _reason(error: Exception) -> str:
    """The system's own words for a failed read, without the path it repeats."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
