"""What a method may see: inputs and given labels, on the device. True labels are not here."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from labelsift.data.dataset import ImageFiles, Inputs
from labelsift.data.stores import Mapped, fits, shared
from labelsift.data.stream import FileStore
from labelsift.data.views import Views


class Store(Protocol):
    """Inputs that can be had by their places: in memory, or out of files."""

    device: torch.device
    shape: tuple[int, ...]  # of one example

    def __len__(self) -> int: ...

    def some(self) -> Tensor:
        """Enough of the inputs for statistics."""

    def take(self, index: Tensor) -> Tensor:
        """The inputs at these places, on the device."""

    def stream(self, chunks: Sequence[Tensor]) -> Iterator[Tensor | None]:
        """The same for one chunk after the other; None, where `take` is just as quick."""


class Memory:
    """Inputs that fit: one tensor on the device."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.device, self.shape = tensor, tensor.device, tuple(tensor.shape[1:])

    def __len__(self) -> int:
        return len(self.tensor)

    def some(self) -> Tensor:
        """All of them."""
        return self.tensor

    def take(self, index: Tensor) -> Tensor:
        """The inputs at these places."""
        return self.tensor[index]

    def stream(self, chunks: Sequence[Tensor]) -> Iterator[None]:
        """Nothing has to come in advance."""
        return itertools.repeat(None, len(chunks))


def open_inputs(inputs: Inputs, device: torch.device) -> Store:
    """The inputs of a data set, for use on the device."""
    if isinstance(inputs, ImageFiles):
        return FileStore(inputs, device)
    if isinstance(inputs, np.memmap) and not fits(inputs, device):
        return Mapped(inputs, device)
    return Memory(shared(inputs).to(device))


@dataclass(frozen=True)
class Batch:
    """Some of the whole set's examples: their places in it, for per-example memory, and what is there."""

    whole: "Examples"
    index: Tensor
    streamed: Tensor | None = None  # the inputs, where they come out of files

    @cached_property
    def inputs(self) -> Tensor:
        """The examples as they are stored."""
        return self.whole.inputs.take(self.index) if self.streamed is None else self.streamed

    @cached_property
    def labels(self) -> Tensor:
        """The given labels."""
        return self.whole.all_labels[self.index]

    def view(self) -> Tensor:
        """A fresh random view; a second call gives another one."""
        return self.whole.views.random(self.inputs, self.whole.generator)

    def plain(self) -> Tensor:
        """The view without augmentation."""
        return self.whole.views.plain(self.inputs)

    def again(self) -> "Batch":
        """The same places, with nothing looked up yet."""
        return Batch(self.whole, self.index, self.streamed)


@dataclass(frozen=True)
class Examples:
    """Inputs (uint8 images or feature rows) with their given labels.

    A subset shares the inputs of the whole and keeps its own `index` into them.
    """

    inputs: Store
    all_labels: Tensor
    num_classes: int
    views: Views
    generator: torch.Generator
    index: Tensor

    @classmethod
    def of(
        cls, inputs: Tensor | Store, labels: Tensor, num_classes: int, views: Views, seed: int
    ) -> "Examples":
        """All of `inputs`; order and views are drawn from one generator on their device."""
        generator = torch.Generator(inputs.device).manual_seed(seed)
        index = torch.arange(len(inputs), device=inputs.device)
        store = Memory(inputs) if isinstance(inputs, Tensor) else inputs
        return cls(store, labels, num_classes, views, generator, index)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def labels(self) -> Tensor:
        """The given labels, in the order of `index`."""
        return self.all_labels[self.index]

    def subset(self, chosen: Tensor) -> "Examples":
        """The examples at these positions (or where this mask is true), without a copy of the inputs."""
        return Examples(
            self.inputs, self.all_labels, self.num_classes, self.views, self.generator, self.index[chosen]
        )

    def sample(self, count: int) -> "Examples":
        """So many of the examples, drawn at random; all of them, if there are no more."""
        return self if count >= len(self) else self.subset(self._order()[:count])

    def draw(self, count: int) -> Tensor:
        """The places of `count` examples in random order: each once, then each once more, and so on."""
        rounds = [self.index[self._order()] for _ in range(-(-count // len(self)))]
        return torch.cat(rounds)[:count]

    def batches(self, size: int, shuffle: bool = True) -> Iterator[Batch]:
        """One pass, each example once. The last batch may be smaller, but batch norm needs two examples:
        a single one left over joins the batch before it.
        """
        index = self.index[self._order()] if shuffle else self.index
        ends = [*range(size, len(index), size), len(index)]
        if len(ends) > 1 and ends[-1] - ends[-2] == 1:
            del ends[-2]
        yield from self.batches_of([index[start:end] for start, end in zip([0, *ends], ends, strict=False)])

    def batches_of(self, rows: Tensor | Sequence[Tensor]) -> Iterator[Batch]:
        """A batch for each row of places in the whole set."""
        chunks = list(rows)
        for index, streamed in zip(chunks, self.inputs.stream(chunks), strict=True):
            yield Batch(self, index, streamed)

    def _order(self) -> Tensor:
        return torch.randperm(len(self), device=self.index.device, generator=self.generator)
