"""M-correction: Arazo, Ortego, Albert, O'Connor, McGuinness, "Unsupervised Label Noise Modeling and Loss
Correction", ICML 2019. Here is its dynamic bootstrapping on top of mixup, M-DYR-H and M-DYR-S.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.data import Batch
from labelsift.errors import unknown
from labelsift.losses import label_losses, mix, mixing_share, prior_divergence, soft_cross_entropy
from labelsift.methods.method import Method, setting
from labelsift.mixtures import EDGE, fit_betas
from labelsift.training import Run

CIFAR = {"epochs": 300, "lr": 0.1, "schedule": "step", "decay_at": (1 / 3, 5 / 6), "weight_decay": 1e-4}
CIFAR |= {"batch_size": 128, "mixup_epochs": 105, "alpha": 32.0}
GUESSES = ("hard", "soft")
POINTS = 100  # of the table of posteriors


@dataclass(frozen=True)
class MCorrection(Method):
    """Mixup on labels that are given or, where the loss says that they are wrong, the net's own."""

    name: ClassVar[str] = "m-correction"
    summary: ClassVar[str] = "mixup; labels whose loss looks wrong give way to the net's own prediction"
    citation: ClassVar[str] = "Arazo et al., ICML 2019"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "preact-resnet18"): CIFAR,
        ("cifar100", "preact-resnet18"): CIFAR,
    }

    lr: float = setting(0.1, "learning rate of SGD at the start")
    mixup_epochs: int = setting(10, "epochs of plain mixup before labels are doubted")
    alpha: float = setting(1.0, "mixing: Beta(alpha, alpha); more resists more noise", "alpha")
    guess: str = setting("hard", "what the net puts in a label's place: hard (a class) or soft", "z")
    prior_weight: float = setting(1.0, "weight of the penalty on predictions of few classes only", "eta")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("mixup_epochs", self.mixup_epochs >= 1, "at least 1")
        self.check_mixing("alpha")
        self.check("prior_weight", self.prior_weight >= 0, "at least 0")
        if self.guess not in GUESSES:
            raise unknown("guess", self.guess, GUESSES)

    def fit(self, run: Run) -> None:
        """Mixup, then mixup with bootstrapped labels."""
        learner, examples = run.learner(), run.examples
        device, num_classes = examples.labels.device, examples.num_classes
        alpha = torch.tensor(self.alpha, device=device)
        prior = torch.full((num_classes,), 1 / num_classes, device=device)
        doubt = Doubt(device)

        def mixup_step(batch: Batch) -> None:
            given = F.one_hot(batch.labels, num_classes).float()
            mixed, targets = mix(batch.view(), given, mixing_share(alpha))
            logits = learner(mixed)
            loss = soft_cross_entropy(logits, targets).mean()
            learner.update(loss)
            run.tally(loss, logits, targets.argmax(1))

        def bootstrap_step(batch: Batch) -> None:
            view = batch.view()
            with torch.no_grad():
                own = learner(view)  # in training mode, as the authors do: batch norm sees each batch twice
                with learner.evaluating():
                    losses = F.cross_entropy(learner(view), batch.labels, reduction="none")
                given = F.one_hot(batch.labels, num_classes).float()
                guess = own.softmax(1) if self.guess == "soft" else F.one_hot(own.argmax(1), num_classes)
                wrong = doubt(losses)[:, None]  # B_i
                mixed, targets = mix(view, (1 - wrong) * given + wrong * guess, mixing_share(alpha))
            logits = learner(mixed)
            # The paper's four terms are linear in the labels: their sum is the loss of the mixed ones.
            loss = soft_cross_entropy(logits, targets).mean()
            loss = loss + self.prior_weight * prior_divergence(logits, prior)
            learner.update(loss)
            run.tally(loss, own, batch.labels)
            run.remember(batch.index, own.softmax(1))

        sgd = self.sgd(learner)
        learner.begin(sgd)
        step = run.capture(mixup_step, self.batch_size)
        first = min(self.mixup_epochs, self.epochs)
        for epoch in run.epochs("mixup", first):
            learner.lr = self.lr_at(epoch)
            for batch in self.batches(examples):
                step(batch)

        if first == self.epochs:
            run.warn(f"All {self.epochs} epochs were plain mixup's: none was left for corrected labels.")
        learner.begin(sgd)
        step = run.capture(bootstrap_step, self.batch_size)
        for epoch in run.epochs("bootstrap", self.epochs - first):
            learner.lr = self.lr_at(first + epoch)
            pool = self.epoch_of(examples)
            # One random view each, as the authors do at the end of the epoch before.
            probs = learner.pred_probs(pool, views=1)
            run.remember(pool.index, probs)
            losses = label_losses(probs, pool.labels)
            doubt.fit(losses)
            run.note_confident(doubt(losses) < 0.5, pool)
            for batch in pool.batches(self.batch_size):
                step(batch)


class Doubt:
    """How likely a label is wrong, by its loss: the posterior of a Beta mixture, as a table on the device."""

    def __init__(self, device: torch.device) -> None:
        self.low, self.spread = torch.zeros((), device=device), torch.ones((), device=device)
        self.table = torch.full((POINTS,), EDGE, device=device)

    def __call__(self, losses: Tensor) -> Tensor:
        """B of each loss."""
        return self.table[(self.place(losses) * POINTS).long()]

    def place(self, losses: Tensor) -> Tensor:
        """Where the losses are between the smallest and the largest that count, as numbers from 0 to 1."""
        place = ((losses - self.low) / self.spread).clamp(1e-3, 1 - 1e-3)
        return place.nan_to_num()  # a loss that is no number has a place too: the run will say so

    def fit(self, losses: Tensor) -> None:
        """The mixture of these losses, without the lowest and the highest twentieth."""
        low, high = losses.quantile(torch.tensor([0.05, 0.95], device=losses.device))
        middle = losses[(losses >= low) & (losses <= high)]
        self.low.copy_(low + 1e-5)
        self.spread.copy_((high - self.low + 1e-6).clamp(min=1e-6))
        mixture = fit_betas(self.place(middle if len(middle) else losses))
        posterior = mixture.posterior(torch.linspace(0, 1, POINTS, device=losses.device))
        self.table.copy_(rising(posterior).clamp(EDGE, 1 - EDGE))


def rising(posterior: Tensor) -> Tensor:
    """The posteriors of a row of losses, such that a larger loss is never trusted more."""
    # Differs: the authors hold the highest value from there on, but not the lowest before it. So where the
    # wrong labels' Beta has the heavier tail at 0, all labels were as good as certainly wrong.
    falls = int((posterior.diff() <= 0).int().cumprod(0).sum())  # steps at the beginning that do not rise
    held = torch.cat([posterior[falls].expand(falls), posterior[falls:]])
    return held.cummax(0).values
