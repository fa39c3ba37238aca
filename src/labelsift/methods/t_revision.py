"""T-revision (Reweight-R): examples weighted by a transition matrix that is learned on.

Xia, Liu, Wang, Han, Gong, Niu, Sugiyama: Are Anchor Points Really Indispensable in Label-Noise Learning?
NeurIPS 2019. The transition matrix is estimated as in forward correction. Then every example counts as much
as its label is more likely true than given. At last the matrix itself is learned on, as T + delta, together
with the net.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labelsift.data import Batch
from labelsift.losses import importance_weights
from labelsift.methods.held_out import anchor_transition_of, held_out_accuracy
from labelsift.methods.method import HIGHEST, Method, setting
from labelsift.training import Best, Run

CIFAR = {"epochs": 200, "lr": 0.01, "schedule": "step", "decay_at": (0.2, 0.4), "weight_decay": 1e-4}
CIFAR |= {"batch_size": 128, "estimate_momentum": 0.0, "revision_epochs": 200, "revision_lr": 5e-7}
# The authors' code has none: those of plain training in the PES paper, its T1, and as many revising steps.
CLOTHING = {"epochs": 50, "lr": 5e-3, "schedule": "step", "decay_at": (0.4, 0.6), "weight_decay": 1e-3}
CLOTHING |= {"batch_size": 64, "epoch_examples": 100_000, "estimate_epochs": 20}
CLOTHING |= {"revision_epochs": 45, "revision_lr": 5e-7}


@dataclass(frozen=True)
class TRevision(Method):
    """Estimate the transition matrix, weight the examples by it, then revise it."""

    name: ClassVar[str] = "t-revision"
    summary: ClassVar[str] = "importance reweighting by an estimated transition matrix, which is then revised"
    citation: ClassVar[str] = "Xia et al., NeurIPS 2019"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "resnet18"): {**CIFAR, "estimate_epochs": 20},
        ("cifar100", "resnet34"): {**CIFAR, "estimate_epochs": 15, "filter_outliers": False},
        ("clothing1m", "resnet50"): CLOTHING,
    }
    result_stage: ClassVar[str] = "revised"

    epochs: int = setting(40, "epochs of the weighted training; the others come on top")
    estimate_epochs: int = setting(10, "epochs of the plain training that the noise is estimated from")
    estimate_momentum: float = setting(0.9, "momentum of SGD in these")
    filter_outliers: bool = setting(True, "anchors are not among the 3 % of examples surest of their class")
    revision_epochs: int = setting(10, "epochs in which net and matrix are revised together")
    revision_lr: float = setting(1e-4, "learning rate of Adam in these")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("estimate_epochs", 1 <= self.estimate_epochs <= 10**6, "1 to 1000000")
        self.check("estimate_momentum", 0 <= self.estimate_momentum < 1, "at least 0 and below 1")
        self.check("revision_epochs", 0 <= self.revision_epochs <= 10**6, "0 to 1000000")
        self.check("revision_lr", 0 < self.revision_lr <= HIGHEST, f"above 0 and up to {HIGHEST:g}")

    @property
    def total_epochs(self) -> int:
        """The three trainings."""
        return self.estimate_epochs + self.epochs + self.revision_epochs

    def fit(self, run: Run) -> None:
        """Plain, weighted and revised training, each from the best epoch of the one before."""
        learner, examples = run.learner(), run.examples
        transition = torch.eye(examples.num_classes, device=examples.labels.device)  # T
        delta = nn.Parameter(torch.zeros_like(transition))  # what is added to it
        plain, weighted = Best(run, learner, "plain"), Best(run, learner, "weighted")
        run.keep(transition=transition, delta=delta.detach())

        learner.begin(learner.sgd(self.lr, self.estimate_momentum, self.weight_decay))
        step = self.plain_step(run, learner)
        for epoch in run.epochs("estimate", self.estimate_epochs):
            for batch in self.batches(examples):
                step(batch)
            if plain.offer(held_out_accuracy(run, learner, epoch + 1 == self.estimate_epochs)):
                # Differs: read off plain images, those that were held out included, and made to sum to 1
                # along its rows.
                pool = self.epoch_of(examples)
                transition.copy_(anchor_transition_of(run, learner, pool, self.filter_outliers))

        def learn(batch: Batch, logits: Tensor, weights: Tensor) -> None:
            loss = (weights * F.cross_entropy(logits, batch.labels, reduction="none")).mean()
            learner.update(loss)
            run.tally(loss, logits, batch.labels)
            run.remember(batch.index, logits.softmax(1))

        def weighted_step(batch: Batch) -> None:
            logits = learner(batch.view())
            learn(batch, logits, importance_weights(logits.detach().softmax(1), batch.labels, transition))

        def revised_step(batch: Batch) -> None:
            logits = learner(batch.view())
            # Differs: delta is added once, not once for every example, and gradients go through the weights;
            # without them it would not learn.
            learn(batch, logits, importance_weights(logits.softmax(1), batch.labels, transition + delta))

        plain.load()
        learner.begin(self.sgd(learner))
        step = run.capture(weighted_step, self.batch_size)
        for epoch in run.epochs("weighted", self.epochs):
            learner.lr = self.lr_at(epoch)
            for batch in self.batches(examples):
                step(batch)
            weighted.offer(held_out_accuracy(run, learner, epoch + 1 == self.epochs, transition))

        weighted.load()
        learner.begin(learner.adam(self.revision_lr, self.weight_decay, more=[delta]))
        step = run.capture(revised_step, self.batch_size)
        for _ in run.epochs("revised", self.revision_epochs):
            for batch in self.batches(examples):
                step(batch)
