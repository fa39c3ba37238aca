"""Whether a net has begun to learn wrong labels by heart."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.data import Examples
from labelsift.estimates import doubt_where_sure, hidden_since, noise_rate
from labelsift.training import Learner, Predictions, Run

ENOUGH = 200  # examples from which on a run that holds out none can lend some
HELD_OUT, MOST = 0.03, 1000  # share of them that it lends, and how many at most
LENT, OF_FEW = 180, 0.15  # how many at least, as long as they are no more than this share of few
MANY = 6000  # examples, of which those held out are enough to count on
LEAST = 30  # held-out ones: fewer tell nothing, and so many are lent at the least
GROWTH = 0.06  # of the lead, when labels are learned by heart ...
LAST_GROWTH = 0.03  # ... and where labels are wrong, when the low rates are to come at which they will be
LOOKS = 3  # epochs that are taken together: a single one may be unlucky
DOUBT = 0.16  # of labels where the net is sure, against all, above which they are wrong and not hard
MEMORY = 5  # epochs, by whose mean prediction held-out labels are met or not
RISE = 9.0  # of the losses of that prediction, summed, when few examples are learned by heart


def lent_of(count: int) -> int:
    """How many of so many examples are lent."""
    return min(max(round(HELD_OUT * count), min(LENT, round(OF_FEW * count))), MOST)


@dataclass(frozen=True)
class Gauge:
    """Compares the labels a net trains on with held-out ones, which are as often wrong.

    As long as it learns what classes look like it gets both right equally often, but for the luck of the
    draw. When its lead grows, it has begun to learn by heart what it trains on: wrong labels or, where labels
    are right, hard examples. Then it doubts hardly any label where it is sure, and goes on getting better on
    held-out ones. Of few examples so few are held out that how often it meets their labels says little; by
    how much it misses them, its loss, says more.
    """

    trained: Examples
    held_out: Examples
    leads: Tensor  # how much more often it gets trained labels right, epoch by epoch
    accuracies: Tensor  # on held-out labels, by its mean prediction of late, epoch by epoch
    losses: Tensor  # of that prediction, likewise
    recent: Tensor  # the predictions of held-out examples that this is the mean of
    half_way: Predictions  # those of all examples up to there
    lent: bool = False  # whether the held-out ones are the run's to train on

    @classmethod
    def of(cls, run: Run, epochs: int) -> "Gauge | None":
        """With what the run holds out or, if that is too little, some of its examples; None, if too few."""
        if run.validation is not None and len(run.validation) >= LEAST:
            trained, held_out, lent = run.examples, run.validation, False
        elif len(run.examples) >= ENOUGH:
            trained, held_out, lent = *cls.parted(run.examples), True
        else:
            return None
        shape = MEMORY, len(held_out), run.examples.num_classes
        recent = torch.zeros(shape, device=run.examples.index.device)
        leads, accuracies, losses = torch.zeros(3, epochs)
        run.keep(leads=leads, accuracies=accuracies, losses=losses, recent=recent)
        half_way = run.predictions.none_yet()
        run.keep(**{f"half_way_{name}": tensor for name, tensor in vars(half_way).items()})
        return cls(trained, held_out, leads, accuracies, losses, recent, half_way, lent)

    @staticmethod
    def parted(examples: Examples) -> tuple[Examples, Examples]:
        """What is trained on and what is lent; the same ones whenever a run is resumed."""
        count = lent_of(len(examples))
        drawn = torch.Generator().manual_seed(examples.generator.initial_seed())
        order = torch.randperm(len(examples), generator=drawn).to(examples.index.device)
        return examples.subset(order[count:]), examples.subset(order[:count])

    def all_at_last(self, times: int) -> Examples:
        """All examples of the run, those that were held out of it so many times: they have to catch up."""
        if not self.lent:
            return self.trained
        again = self.held_out.index.repeat(times)
        return dataclasses.replace(self.trained, index=torch.cat([self.trained.index, again]))

    def look(self, run: Run, learner: Learner, epoch: int) -> None:
        """Take note of how it stands after so many epochs."""
        probs = learner.pred_probs(self.held_out)
        run.remember(self.held_out.index, probs)
        self.recent[epoch % MEMORY] = probs
        self.leads[epoch - 1] = run.history[-1]["train_accuracy"] - self._accuracy(probs)
        mean = self.recent.sum(0) / min(epoch, MEMORY)
        self.accuracies[epoch - 1] = self._accuracy(mean)
        self.losses[epoch - 1] = float(F.nll_loss(mean.clamp(min=1e-6).log(), self.held_out.labels))

    def hidden(self, run: Run) -> bool:
        """Whether, after training to the end, predictions since half-way hide wrong labels.

        A few of them hardly show in the lead, and at last a strong net knows them by heart.
        """
        rate = noise_rate(*run.predictions.mean(run.examples))
        return hidden_since(*self.half_way.mean(run.examples), rate)

    def _accuracy(self, probs: Tensor) -> float:
        return float((probs.argmax(1) == self.held_out.labels).float().mean())

    def by_heart(self, run: Run, epoch: int, safe: int, last: bool = False) -> bool:
        """Whether the lead has grown since the second half of the first `safe` epochs, by wrong labels.

        At the `last` look it need not have grown as much where all signs agree.
        """
        late = slice(max(epoch - LOOKS, 0), epoch)
        growth = float(self.leads[late].mean() - self.leads[safe // 2 : safe].mean().clamp(min=0))
        if len(run.examples) < MANY:
            rise = float(self.losses[epoch - 1] - self.losses[:epoch].min())
            return growth > GROWTH and rise > RISE / min(len(self.held_out), LENT)
        if growth <= (LAST_GROWTH if last else GROWTH):
            return False
        better = bool(self.accuracies[late].max() > self.accuracies[: max(epoch - safe, 1)].max())
        if growth > GROWTH and not better:
            return True
        if growth <= GROWTH and better:
            return False
        return doubt_where_sure(*run.predictions.mean(self.trained)) > DOUBT
