"""What a method may see: inputs and given labels, on the device. True labels are not here."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from labelsift.data.views import Views


@dataclass(frozen=True)
class Batch:
    """Some examples: their given labels, and their places in the whole set for per-example memory."""

    inputs: Tensor
    labels: Tensor
    index: Tensor
    views: Views
    generator: torch.Generator

    def view(self) -> Tensor:
        """A fresh random view; a second call gives another one."""
        return self.views.random(self.inputs, self.generator)

    def plain(self) -> Tensor:
        """The view without augmentation."""
        return self.views.plain(self.inputs)


@dataclass(frozen=True)
class Examples:
    """Inputs (uint8 images or feature rows) with their given labels.

    A subset shares the inputs of the whole and keeps its own `index` into them.
    """

    inputs: Tensor
    all_labels: Tensor
    num_classes: int
    views: Views
    generator: torch.Generator
    index: Tensor

    @classmethod
    def of(cls, inputs: Tensor, labels: Tensor, num_classes: int, views: Views, seed: int) -> "Examples":
        """All of `inputs`; order and views are drawn from one generator on their device."""
        generator = torch.Generator(inputs.device).manual_seed(seed)
        index = torch.arange(len(inputs), device=inputs.device)
        return cls(inputs, labels, num_classes, views, generator, index)

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

    def batch(self, index: Tensor) -> Batch:
        """The examples at these places of the whole set."""
        return Batch(self.inputs[index], self.all_labels[index], index, self.views, self.generator)

    def draw(self, count: int) -> Tensor:
        """The places of `count` examples in random order: each once, then each once more, and so on."""
        rounds = [self._shuffled() for _ in range(-(-count // len(self)))]
        return torch.cat(rounds)[:count]

    def _shuffled(self) -> Tensor:
        order = torch.randperm(len(self), device=self.index.device, generator=self.generator)
        return self.index[order]

    def batches(self, size: int, shuffle: bool = True) -> Iterator[Batch]:
        """One pass, each example once. The last batch may be smaller, but batch norm needs two examples:
        a single one left over joins the batch before it.
        """
        index = self._shuffled() if shuffle else self.index
        ends = [*range(size, len(index), size), len(index)]
        if len(ends) > 1 and ends[-1] - ends[-2] == 1:
            del ends[-2]
        start = 0
        for end in ends:
            yield self.batch(index[start:end])
            start = end
