"""Forward correction: predictions go through the noise before they meet the labels.

Patrini, Rozza, Menon, Nock, Qu: Making Deep Neural Networks Robust to Label Noise: a Loss Correction
Approach. CVPR 2017. A net that is stopped early shows how the labels were confused: for each class, what it
says of the example that is most surely of it. A new net then learns the true classes, because its predictions
go through that noise before they are compared with the given labels.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from labelsift.data import Batch
from labelsift.losses import forward_cross_entropy, label_losses
from labelsift.methods.held_out import anchor_transition_of
from labelsift.methods.method import Method, setting
from labelsift.training import Learner, Run

# The authors write their weight decay without the 2 of its derivative.
CIFAR10 = {"epochs": 120, "lr": 0.1, "schedule": "step", "decay_at": (41 / 120, 81 / 120)}
CIFAR10 |= {"weight_decay": 2e-4, "batch_size": 128, "estimate_epochs": 45}
CIFAR100 = {"epochs": 150, "lr": 0.1, "schedule": "step", "decay_at": (81 / 150, 121 / 150)}
CIFAR100 |= {"weight_decay": 2e-3, "batch_size": 128, "estimate_epochs": 85, "filter_outliers": False}
# The authors' code has none: those of plain training in the PES paper, and its T1.
CLOTHING = {"epochs": 50, "lr": 5e-3, "schedule": "step", "decay_at": (0.4, 0.6), "weight_decay": 1e-3}
CLOTHING |= {"batch_size": 64, "epoch_examples": 100_000, "estimate_epochs": 20}


@dataclass(frozen=True)
class Forward(Method):
    """Estimate the transition matrix, then train a new net through it."""

    name: ClassVar[str] = "forward"
    summary: ClassVar[str] = "forward correction: predictions go through the estimated noise before the loss"
    citation: ClassVar[str] = "Patrini et al., CVPR 2017"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "resnet18"): CIFAR10,
        ("cifar100", "resnet34"): CIFAR100,
        ("clothing1m", "resnet50"): CLOTHING,
    }
    result_stage: ClassVar[str] = "corrected"

    epochs: int = setting(40, "epochs of the corrected training; those of the estimate come on top")
    estimate_epochs: int = setting(20, "epochs of plain training, on the same schedule, for the estimate")
    filter_outliers: bool = setting(True, "anchors are not among the 3 % of examples surest of their class")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("estimate_epochs", 1 <= self.estimate_epochs <= 10**6, "1 to 1000000")

    @property
    def first_epochs(self) -> int:
        """Epochs of plain training: no more than the schedule has."""
        return min(self.estimate_epochs, self.epochs)

    @property
    def total_epochs(self) -> int:
        """Both trainings."""
        return self.first_epochs + self.epochs

    def fit(self, run: Run) -> None:
        """Plain training, the transition matrix of its best epoch, and corrected training."""
        learner, examples = run.learner(), run.examples
        transition = torch.eye(examples.num_classes, device=examples.labels.device)  # T
        lowest = torch.full((), torch.inf, dtype=torch.float64)
        run.keep(transition=transition, lowest=lowest)

        learner.begin(self.sgd(learner))
        step = self.plain_step(run, learner)
        # Differs: the authors train as long as below, but a net that knows all labels by heart sees no noise.
        for epoch in run.epochs("estimate", self.first_epochs):
            learner.lr = self.lr_at(epoch)
            for batch in self.batches(examples):
                step(batch)
            loss = self.held_out_loss(run, learner, last=epoch + 1 == self.first_epochs)
            if loss < float(lowest):
                lowest.fill_(loss)
                pool = self.epoch_of(examples)
                transition.copy_(anchor_transition_of(run, learner, pool, self.filter_outliers))

        def corrected(batch: Batch) -> None:
            logits = learner(batch.view())
            loss = forward_cross_entropy(logits, batch.labels, transition)
            learner.update(loss)
            run.tally(loss, logits, batch.labels)
            run.remember(batch.index, logits.softmax(1))

        # A new net: the first one has begun to believe the labels.
        learner.renew()
        learner.begin(self.sgd(learner))
        step = run.capture(corrected, self.batch_size)
        for epoch in run.epochs("corrected", self.epochs):
            learner.lr = self.lr_at(epoch)
            for batch in self.batches(examples):
                step(batch)

    def held_out_loss(self, run: Run, learner: Learner, last: bool) -> float:
        """Cross-entropy on the labels that were held out; without them only the last epoch counts."""
        if run.validation is None:
            return 0.0 if last else math.inf
        probs = learner.pred_probs(run.validation)
        return label_losses(probs, run.validation.labels).mean().item()
