"""What nets predicted for each example in passing: over the epochs it tells wrong labels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from labelsift.data import Examples
from labelsift.training.tally import add_predictions


@dataclass(frozen=True)
class Predictions:
    """Sums over all predictions so far, a row for each example of the data."""

    predicted: Tensor  # class probabilities
    agreed: Tensor  # how often the label was met
    times: Tensor  # how often it was predicted

    @classmethod
    def of(cls, count: int, num_classes: int, device: torch.device) -> "Predictions":
        """Of so many examples, none of them predicted yet."""
        agreed, times = torch.zeros(2, count, device=device)
        return cls(torch.zeros(count, num_classes, device=device), agreed, times)

    def none_yet(self) -> "Predictions":
        """Of the same examples, none of them predicted yet."""
        return Predictions(*map(torch.zeros_like, vars(self).values()))

    def add(self, index: Tensor, labels: Tensor, probs: Tensor) -> None:
        """Those of some examples."""
        add_predictions(self.predicted, self.agreed, self.times, index, labels, probs.detach())

    def mean(self, examples: Examples) -> tuple[Tensor, Tensor]:
        """The mean over them of those of these examples that have any, and their labels."""
        index = examples.index[self.times[examples.index] > 0]
        return self.predicted[index] / self.times[index, None], examples.all_labels[index]

    def with_last(self, probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The mean over them of all examples, these last ones too; the share that agreed with the label."""
        times = self.times + 1
        agreed = self.agreed + (probs.argmax(1) == labels)
        return (self.predicted + probs) / times[:, None], agreed / times

    def copy_(self, other: "Predictions") -> None:
        """Become what others are, in place."""
        for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True):
            mine.copy_(theirs)
