"""Whether a net has begun to learn labels by heart."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from labelsift.data import Examples
from labelsift.training import Learner, Run

ENOUGH = 6000  # examples from which on a run that holds out none can lend some
HELD_OUT = 0.03  # share of them that it lends ...
LEAST, MOST = 180, 1000  # ... and how many: fewer tell nothing, more are not needed
GROWTH = 0.06  # of the lead, when labels are learned by heart
LOOKS = 3  # epochs it is the mean of: a single one may be unlucky


@dataclass(frozen=True)
class Gauge:
    """Compares the labels a net trains on with held-out ones, which are as often wrong.

    As long as it learns what classes look like it gets both right equally often, but for the luck of the
    draw. When its lead grows, it has begun to learn by heart what it trains on, wrong labels with the others.
    """

    trained: Examples
    held_out: Examples
    leads: Tensor  # how much more often it gets trained labels right, epoch by epoch
    lent: bool = False  # whether the held-out ones are the run's to train on

    @classmethod
    def of(cls, run: Run, epochs: int) -> "Gauge | None":
        """With what the run holds out or, if that is nothing, some of its examples; None, if too few."""
        leads = torch.zeros(epochs)
        run.keep(leads=leads)
        if run.validation is not None:
            gauge = cls(run.examples, run.validation, leads)
        elif len(run.examples) < ENOUGH:
            return None
        else:
            count = min(max(round(HELD_OUT * len(run.examples)), LEAST), MOST)
            # The same ones whenever a run is resumed.
            drawn = torch.Generator().manual_seed(run.examples.generator.initial_seed())
            order = torch.randperm(len(run.examples), generator=drawn).to(run.examples.index.device)
            trained, held_out = run.examples.subset(order[count:]), run.examples.subset(order[:count])
            gauge = cls(trained, held_out, leads, lent=True)
        return gauge if len(gauge.held_out) >= LEAST else None

    def all_at_last(self, times: int) -> Examples:
        """All examples of the run, those that were held out of it so many times: they have to catch up."""
        if not self.lent:
            return self.trained
        again = self.held_out.index.repeat(times)
        return dataclasses.replace(self.trained, index=torch.cat([self.trained.index, again]))

    def look(self, run: Run, learner: Learner, epoch: int) -> None:
        """Take note of the lead after so many epochs."""
        probs = learner.pred_probs(self.held_out)
        run.remember(self.held_out.index, probs)
        accuracy = float((probs.argmax(1) == self.held_out.labels).float().mean())
        self.leads[epoch - 1] = run.history[-1]["train_accuracy"] - accuracy

    def by_heart(self, epoch: int, safe: int) -> bool:
        """Whether the lead has grown since the second half of the first `safe` epochs."""
        before = self.leads[safe // 2 : safe].mean().clamp(min=0)
        return bool(self.leads[max(epoch - LOOKS, 0) : epoch].mean() - before > GROWTH)
