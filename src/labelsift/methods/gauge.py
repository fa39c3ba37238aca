"""Whether a net has begun to learn labels by heart."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labelsift.data import Examples
from labelsift.training import Learner, Run

HELD_OUT = 0.1  # share of the examples, where the run holds out none
LEAST, MOST = 250, 1000  # held-out examples: fewer tell nothing, more are not needed
LEAD = 0.05  # how much more often a net gets trained labels right, at least ...
LOOKS = 3  # ... in the mean over the last epochs: a single one may be unlucky


@dataclass(frozen=True)
class Gauge:
    """Compares the labels a net trains on with held-out ones, which are as often wrong.

    As long as it learns what classes look like it gets both right equally often. Labels that it gets right
    more often it has seen before: it learns them by heart, the wrong ones with the others.
    """

    trained: Examples
    held_out: Examples
    leads: Tensor  # of the last epochs

    @classmethod
    def of(cls, run: Run) -> "Gauge | None":
        """With what the run holds out or, if that is nothing, some of its examples; None, if too few."""
        leads = torch.zeros(LOOKS)
        run.keep(leads=leads)
        if run.validation is not None:
            gauge = cls(run.examples, run.validation, leads)
        else:
            count = min(round(HELD_OUT * len(run.examples)), MOST)
            # The same ones whenever a run is resumed.
            drawn = torch.Generator().manual_seed(run.examples.generator.initial_seed())
            order = torch.randperm(len(run.examples), generator=drawn).to(run.examples.index.device)
            gauge = cls(run.examples.subset(order[count:]), run.examples.subset(order[:count]), leads)
        return gauge if len(gauge.held_out) >= LEAST else None

    def by_heart(self, run: Run, learner: Learner) -> bool:
        """Whether the net does, after the epoch that is just over."""
        probs = learner.pred_probs(self.held_out)
        run.remember(self.held_out.index, probs)
        accuracy = float((probs.argmax(1) == self.held_out.labels).float().mean())
        error = math.sqrt(accuracy * (1 - accuracy) / len(self.held_out))
        self.leads.copy_(self.leads.roll(-1))
        self.leads[-1] = run.history[-1]["train_accuracy"] - accuracy
        return float(self.leads.mean()) > max(LEAD, 3 * error)
