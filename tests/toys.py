"""Toy data and nets: three classes that a tiny net tells apart in seconds."""

import os
import signal
import subprocess
import sys
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from labelsift import Dataset, make_dataset
from labelsift.data import Examples, Views
from labelsift.training import Learner


class TinyNet(nn.Module):
    """A convolution with batch norm, a hidden layer and an output: three parts."""

    cuts: ClassVar = {2: ("out",), 3: ("hidden", "out")}

    def __init__(self, num_classes: int, channels: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(channels, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU())
        self.hidden = nn.Sequential(nn.Linear(8 * 5 * 5, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.out = nn.Linear(32, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.hidden(self.conv(x).flatten(1)))


def toy_arrays(count: int = 240, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Grey 12 x 12 images of noise with a bright band whose place is the class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    images = rng.integers(0, 120, (count, 12, 12))
    for place, label in enumerate(labels):
        images[place, 4 * label : 4 * label + 4] += 70
    return images.astype(np.uint8), labels


def toy_data(count: int = 240, noise: float = 0.4) -> Dataset:
    """The toy set with symmetric noise, its true labels and a test part."""
    x, y = toy_arrays(count)
    rng = np.random.default_rng(7)
    given = np.where(rng.random(count) < noise, (y + rng.integers(1, 3, count)) % 3, y)
    test_x, test_y = toy_arrays(150, seed=1)
    return make_dataset("toy", x, given, y, test_x, test_y)


def toy_examples(data: Dataset, seed: int = 0, augment: str = "crop+flip") -> Examples:
    inputs = torch.from_numpy(data.inputs)
    views = Views.of(inputs, augment)
    return Examples.of(inputs, torch.from_numpy(data.labels), data.num_classes, views, seed)


class StopError(Exception):
    """A run was stopped by who watches it."""


def stop_after(epoch):
    """An observer that stops a run when this epoch is over."""

    def observe(event):
        if event.get("epoch") == epoch:
            raise StopError

    return observe


def _hear() -> None:
    """Interrupts, which what runs in the background of a shell is deaf to."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(folder, *words, **more) -> subprocess.Popen[str]:
    """The command line as a process of its own."""
    command = [sys.executable, "-m", "labelsift", *map(str, words)]
    pipe, env = subprocess.PIPE, {**os.environ, "OMP_NUM_THREADS": "1"}  # tiny nets wait for threads, mostly
    options = {"preexec_fn": _hear, **more}
    return subprocess.Popen(
        command, cwd=folder, stdout=pipe, stderr=pipe, env=env, text=True, bufsize=1, **options
    )


def watch_rates(run, monkeypatch):
    """Of every update from now on, which learner took it and at which learning rate."""
    rates, real = [], Learner.update

    def update(self, loss):
        rates.append((run.learners.index(self), self.lr))
        real(self, loss)

    monkeypatch.setattr(Learner, "update", update)
    return rates
