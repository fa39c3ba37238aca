"""L_DMI: a loss that noise only shifts.

Xu, Cao, Kong, Wang: L_DMI: A Novel Information-theoretic Loss Function for Training Deep Nets Robust to Label
Noise. NeurIPS 2019. What predictions and labels share is measured by the determinant of their joint
distribution. Noise that depends on the class alone multiplies it by a constant, so the best net is the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from labelsift.data import Batch, Examples
from labelsift.losses import dmi_loss
from labelsift.methods.held_out import held_out_accuracy
from labelsift.methods.method import HIGHEST, Method, setting
from labelsift.training import Best, Run
from labelsift.training.schedule import step_lr

CIFAR = {"epochs": 120, "lr": 0.1, "schedule": "step", "decay_at": (1 / 3, 2 / 3), "weight_decay": 1e-4}
CIFAR |= {"batch_size": 256, "pretrain_epochs": 120, "dmi_epochs": 100}
CIFAR |= {"dmi_lr": 1e-6, "gradient_limit": 0.0}
CLOTHING = {"epochs": 10, "lr": 0.01, "schedule": "step", "decay_at": (0.5,), "weight_decay": 1e-3}
CLOTHING |= {"batch_size": 256, "dmi_batch_size": 256, "pretrain_epochs": 10, "dmi_epochs": 10}
CLOTHING |= {"dmi_lr": 1e-6, "dmi_halve_at": (0.5,), "gradient_limit": 0.0}
PER_CLASS = 25  # examples of a batch, as on CIFAR-10: with fewer, determinants are often near 0


@dataclass(frozen=True)
class DMI(Method):
    """Plain training, then the determinant of predictions and labels."""

    name: ClassVar[str] = "dmi"
    summary: ClassVar[str] = "plain training, then the determinant-based mutual information as the loss"
    citation: ClassVar[str] = "Xu et al., NeurIPS 2019"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "resnet18"): CIFAR,
        ("cifar100", "resnet34"): {**CIFAR, "dmi_batch_size": 1000},
        ("clothing1m", "resnet50"): CLOTHING,
    }

    epochs: int = setting(40, "epochs that the schedule of the plain training is made for")
    pretrain_epochs: int = setting(20, "epochs of plain training; no more than these")
    dmi_epochs: int = setting(20, "epochs with the new loss, on top")
    dmi_lr: float = setting(3e-4, "learning rate of SGD with the new loss")
    dmi_halve_at: tuple[float, ...] = setting((), "shares of these epochs at which it is halved")
    gradient_limit: float = setting(10.0, "largest norm of the new loss's gradient; 0: any")
    dmi_batch_size: int = setting(0, "examples per step of the new loss; 0: batch_size, 25 per class if more")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("pretrain_epochs", self.pretrain_epochs >= 1, "at least 1")
        self.check("dmi_epochs", 0 <= self.dmi_epochs <= 10**6, "0 to 1000000")
        self.check("dmi_lr", 0 < self.dmi_lr <= HIGHEST, f"above 0 and up to {HIGHEST:g}")
        self.check(
            "dmi_halve_at", all(0 < share <= 1 for share in self.dmi_halve_at), "shares above 0 and up to 1"
        )
        self.check("gradient_limit", self.gradient_limit >= 0, "at least 0")
        self.check("dmi_batch_size", self.dmi_batch_size == 0 or self.dmi_batch_size >= 2, "0, or at least 2")

    @property
    def first_epochs(self) -> int:
        """Epochs of plain training: no more than the schedule has."""
        return min(self.pretrain_epochs, self.epochs)

    @property
    def total_epochs(self) -> int:
        """Both trainings."""
        return self.first_epochs + self.dmi_epochs

    def fit(self, run: Run) -> None:
        """Plain training; then, from its best epoch on, the new loss."""
        learner, examples = run.learner(), run.examples
        best = Best(run, learner, "pretrain")
        learner.begin(self.sgd(learner))
        step = self.plain_step(run, learner)
        for epoch in run.epochs("pretrain", self.first_epochs):
            learner.lr = self.lr_at(epoch)
            for batch in self.batches(examples):
                step(batch)
            # Differs: by all held-out labels, not by one batch of them.
            best.offer(held_out_accuracy(run, learner, last=epoch + 1 == self.first_epochs))

        # Differs: a class that no label names would make every determinant 0.
        absent = torch.bincount(examples.labels, minlength=examples.num_classes) == 0

        def limit() -> None:
            # Differs: near a determinant of 0 one gradient can undo all that was learned.
            if self.gradient_limit:
                nn.utils.clip_grad_norm_(learner.net.parameters(), self.gradient_limit)

        def informed(batch: Batch) -> None:
            logits = learner(batch.view())
            probs = logits.softmax(1)
            loss = dmi_loss(probs, batch.labels, absent)
            learner.update(loss, change_gradients=limit)
            run.tally(loss, logits, batch.labels)
            run.remember(batch.index, probs)

        best.load()
        # Differs: the authors forget the momentum after every epoch.
        learner.begin(learner.sgd(self.dmi_lr, self.momentum, self.weight_decay))
        size = self.full_batch(examples)
        step = run.capture(informed, size)
        for epoch in run.epochs("dmi", self.dmi_epochs):
            learner.lr = step_lr(self.dmi_lr, epoch, self.dmi_epochs, self.dmi_halve_at, 0.5)
            pool = self.epoch_of(examples)
            steps = len(pool) // size
            for batch in pool.batches_of(pool.draw(steps * size).view(steps, size)):  # full ones only
                step(batch)

    def full_batch(self, examples: Examples) -> int:
        """How many examples a step of the new loss takes: no more than an epoch has."""
        wanted = self.dmi_batch_size or max(self.batch_size, PER_CLASS * examples.num_classes)
        return min(wanted, self.epoch_examples or len(examples), len(examples))
