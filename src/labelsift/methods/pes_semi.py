"""Progressive early stopping with semi-supervised learning: Bai et al., NeurIPS 2021, Algorithm 1.

After the stages of PES every epoch splits the examples anew: those whose label the net agrees with are
labelled, the others unlabelled. The net guesses labels for these and learns from mixtures of all (MixMatch:
Berthelot et al., NeurIPS 2019).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.data import Batch, Examples
from labelsift.losses import (
    balanced_class_weights,
    masked_mean,
    mix,
    mixing_share,
    sharpen,
    soft_cross_entropy,
    squared_error,
)
from labelsift.methods.method import setting
from labelsift.methods.progressive import Progressive, Rest
from labelsift.training import Run

SEMI = {"epochs": 300, "lr": 0.02, "schedule": "cosine", "weight_decay": 5e-4, "batch_size": 128}
SEMI |= {"stage_lr": 1e-4, "stage_epochs": (20, 5), "clean_share": 1.0}
SEMI_100 = SEMI | {"stage_epochs": (35, 5), "unlabelled_weight": 50.0}
# Table 8: the weight of the unlabelled loss by noise, for CIFAR-10 and CIFAR-100; of other noises ours.
UNLABELLED_WEIGHT = {
    "symmetric:0.2": (5.0, 50.0),
    "symmetric:0.5": (15.0, 75.0),
    "symmetric:0.8": (25.0, 100.0),
    "pair:0.45": (5.0, 50.0),
    "instance:0.2": (5.0, 50.0),
    "instance:0.4": (15.0, 50.0),
}


@dataclass(frozen=True)
class PESSemi(Progressive):
    """PES with two parts, then MixMatch on confident (labelled) and other (unlabelled) examples."""

    name: ClassVar[str] = "pes-semi"
    summary: ClassVar[str] = "progressive early stopping, then MixMatch: wrong labels become unlabelled data"
    citation: ClassVar[str] = "Bai et al., NeurIPS 2021"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "preact-resnet18"): SEMI,
        ("cifar100", "preact-resnet18"): SEMI_100,
        ("cifar10n", "resnet34"): {**SEMI, "unlabelled_weight": 5.0},
        ("cifar100n", "resnet34"): {**SEMI_100, "unlabelled_weight": 75.0},
        **{
            ("cifar10", "preact-resnet18", n): {"unlabelled_weight": w}
            for n, (w, _) in UNLABELLED_WEIGHT.items()
        },
        **{
            ("cifar100", "preact-resnet18", n): {"unlabelled_weight": w}
            for n, (_, w) in UNLABELLED_WEIGHT.items()
        },
    }

    stage_epochs: tuple[int, ...] = setting(
        (10, 5), "epochs of each part's stage, first part first", "T1, T2"
    )
    temperature: float = setting(0.5, "sharpens the guessed labels; 1 leaves them", "T")
    alpha: float = setting(4.0, "mixing: Beta(alpha, alpha) at first", "alpha")
    alpha_late: float = setting(0.75, "mixing: Beta(alpha, alpha) from half of the epochs on", "alpha")
    unlabelled_weight: float = setting(15.0, "weight of the unlabelled loss", "lambda_u")
    ramp_epochs: int = setting(16, "epochs in which that weight grows from 0")
    weight_limit: float = setting(3.0, "largest weight of a class")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("temperature", 0 < self.temperature <= 1, "above 0 and up to 1")
        self.check_mixing("alpha", "alpha_late")
        self.check("unlabelled_weight", self.unlabelled_weight >= 0, "at least 0")
        self.check("ramp_epochs", self.ramp_epochs >= 0, "at least 0")
        self.check("weight_limit", self.weight_limit > 0, "above 0")

    def fit(self, run: Run) -> None:
        """The stages, then a split and an epoch of MixMatch, again and again."""
        learner, examples = run.learner(), run.examples
        parts, rest = self.parts(learner.net), Rest(run, self)
        first_epochs = self.train_stages(run, learner, parts)

        # What changes per epoch sits in device tensors, so that the step keeps its shapes.
        device = examples.labels.device
        weights = torch.ones(examples.num_classes, device=device)
        labelled = torch.ones(self.batch_size, dtype=torch.bool, device=device)  # which places of a batch are
        half = self.batch_size - self.batch_size // 2  # no batch has an unlabelled example before this place
        alpha, unlabelled_weight = torch.zeros((), device=device), torch.zeros((), device=device)

        def step(batch: Batch) -> None:
            one, other = batch.view(), batch.view()
            with torch.no_grad():  # the net stays in training mode
                # Differs: the authors guess for the unlabelled only, in a pass for each view; this
                # keeps the shapes and is faster.
                guess = learner.guess(one[half:], other[half:])
                targets = F.one_hot(batch.labels, examples.num_classes).float()
                targets[half:] = torch.where(
                    labelled[half:, None], targets[half:], sharpen(guess, self.temperature)
                )
                share = mixing_share(alpha)
                views, targets = torch.cat([one, other]), targets.repeat(2, 1)
                mixed, mixed_targets = mix(views, targets, torch.maximum(share, 1 - share))
            logits = learner(mixed)
            both = labelled.repeat(2)
            loss = masked_mean(soft_cross_entropy(logits, mixed_targets, weights), both)
            loss = loss + unlabelled_weight * masked_mean(squared_error(logits, mixed_targets), ~both)
            learner.update(loss)
            run.tally(loss, logits, mixed_targets.argmax(1))
            run.remember(batch.index[half:], guess)

        for epoch in run.epochs("mixmatch", self.epochs - first_epochs):
            pool, confident = self.choose_confident(run, learner)
            if rest.begins(learner, parts, epoch, confident):
                captured = run.capture(step, self.batch_size)
            learner.lr = self.lr_at(first_epochs + epoch)
            alpha.fill_(self.alpha if first_epochs + epoch < self.epochs / 2 else self.alpha_late)
            count = self.labelled_count(run, int(confident.sum()), len(pool))
            chosen, others = pool.subset(confident), pool.subset(~confident)
            if not count:
                chosen, count = pool, self.batch_size
            labelled.copy_(torch.arange(self.batch_size, device=device) < count)
            limit = balanced_class_weights(chosen.labels, examples.num_classes).clamp(max=self.weight_limit)
            weights.copy_(limit)
            steps = len(pool) // self.batch_size  # Differs: the authors' 390, whatever the size of the set
            for number, batch in enumerate(examples.batches_of(self.rows(chosen, others, count, steps))):
                unlabelled_weight.fill_(self.unlabelled_weight * self.ramp(epoch + number / steps))
                captured(batch)

    def ramp(self, epoch: float) -> float:
        """How much of the unlabelled loss's weight counts so many epochs after the stages."""
        return min(1.0, epoch / self.ramp_epochs) if self.ramp_epochs else 1.0

    def labelled_count(self, run: Run, confident: int, examples: int) -> int:
        """How many of a batch are labelled: half where fewer are confident, else their share of it.

        None, where no example is confident: then all are taken as labelled.
        """
        if confident == 0:
            run.warn("The net agreed with no label in some epoch, which took all labels as given.")
            return 0
        others = examples - confident
        unlabelled = self.batch_size // 2 if others > confident else self.batch_size * others // examples
        if unlabelled == 0:
            run.warn("Too few labels were doubted in some epoch to fill a batch: it had labelled ones only.")
        elif confident < self.batch_size - unlabelled:
            run.warn("Fewer labels than a batch holds were trusted in some epoch: they came repeatedly.")
        return self.batch_size - unlabelled

    def rows(self, chosen: Examples, others: Examples, count: int, steps: int) -> Tensor:
        """The places of the examples of every step: labelled ones first, then unlabelled ones."""
        labelled = chosen.draw(steps * count).view(steps, count)
        unlabelled = self.batch_size - count
        if not unlabelled:
            return labelled
        return torch.cat([labelled, others.draw(steps * unlabelled).view(steps, unlabelled)], dim=1)
