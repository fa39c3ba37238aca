"""Progressive early stopping (PES) with confident examples.

Bai, Yang, Han, Yang, Li, Mao, Niu, Liu: Understanding and Improving Early Stopping for Learning with Noisy
Labels. NeurIPS 2021. The later parts of a net are hurt by wrong labels earlier and more than the former ones:
train the whole net, then renew the later parts, one after the other, each for fewer epochs on frozen former
parts. The examples whose label the net then agrees with are trained on.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from labelsift.data import Examples
from labelsift.losses import balanced_class_weights, cross_entropy
from labelsift.methods.method import Method, setting
from labelsift.nets import standard_cuts
from labelsift.parts import Part, split
from labelsift.training import Run

CIFAR = {"epochs": 200, "lr": 0.1, "schedule": "step", "decay_at": (0.5, 0.75), "weight_decay": 1e-4}
CIFAR |= {"batch_size": 128, "stage_lr": 1e-4}
CLOTHING = {"epochs": 50, "lr": 5e-3, "schedule": "step", "decay_at": (0.4, 0.6), "weight_decay": 1e-3}
CLOTHING |= {"batch_size": 64, "stage_lr": 5e-6}

STAGE_WAY = 0.5  # learning rate times steps of a later stage, when no rate is set


@dataclass(frozen=True)
class PES(Method):
    """Train parts one after the other, then the examples the net agrees with."""

    name: ClassVar[str] = "pes"
    summary: ClassVar[str] = "progressive early stopping, then training on confident examples"
    citation: ClassVar[str] = "Bai et al., NeurIPS 2021"
    paper: ClassVar[Mapping[tuple[str, str], Mapping[str, object]]] = {
        ("cifar10", "resnet18"): {**CIFAR, "stage_epochs": (25, 7, 5)},
        ("cifar100", "resnet34"): {**CIFAR, "stage_epochs": (30, 7, 5)},
        ("clothing1m", "resnet50"): {**CLOTHING, "stage_epochs": (20, 7)},
    }

    stage_epochs: tuple[int, ...] = setting(
        (10, 7, 5), "epochs of each part's stage, first part first", "T1, T2, ..."
    )
    stage_lr: float = setting(0.0, "learning rate of Adam in the later stages; 0: from the number of steps")
    cuts: tuple[str, ...] = setting((), "children the later parts begin with; none: the net's own")
    renewed_rest: bool = setting(True, "renewed parts keep their weights in the confident epochs")

    def __post_init__(self) -> None:
        super().__post_init__()
        sense = bool(self.stage_epochs) and self.stage_epochs[0] >= 1 and min(self.stage_epochs) >= 0
        self.check("stage_epochs", sense, "the epochs of each part's stage, as in 25,7,5")
        self.check("stage_lr", self.stage_lr >= 0, "at least 0")
        if self.cuts:
            wanted = f"{len(self.stage_epochs) - 1} children for {len(self.stage_epochs)} stages"
            self.check("cuts", len(self.cuts) == len(self.stage_epochs) - 1, wanted)

    @property
    def total_epochs(self) -> int:
        """`epochs` counts the first stage and the confident epochs; the later stages come on top."""
        return self.epochs + sum(self.stage_epochs[1:])

    def parts(self, net: nn.Module) -> list[Part]:
        """The net's parts, one for each stage."""
        return split(net, self.cuts or standard_cuts(net, len(self.stage_epochs)))

    def check_net(self, net: nn.Module) -> None:
        """The net must have the parts."""
        self.parts(net)

    def adam_lr(self, epochs: int, examples: int) -> float:
        """The learning rate of a later stage.

        Adam moves a weight by about its learning rate per step. The paper's stages allow 0.2 in all; on a
        small set its rate would leave the renewed parts half-trained, so we hold the way and not the rate.
        """
        steps = epochs * math.ceil(examples / self.batch_size)
        return self.stage_lr or min(max(STAGE_WAY / max(steps, 1), 1e-4), 1e-2)

    def fit(self, run: Run) -> None:
        """Algorithm 1 of the paper, with confident examples in place of MixMatch."""
        learner, examples = run.learner(), run.examples
        parts = self.parts(learner.net)
        first_epochs, later_epochs = min(self.stage_epochs[0], self.epochs), self.stage_epochs[1:]
        weights = torch.ones(examples.num_classes, device=examples.labels.device)

        def train_on(chosen: Examples) -> None:
            for batch in chosen.batches(self.batch_size):
                logits = learner(batch.view())
                loss = cross_entropy(logits, batch.labels, weights)
                learner.update(loss)
                run.tally(loss, logits, batch.labels)

        # The first part: the whole net learns, for the longest time.
        sgd = self.sgd(learner)
        learner.begin(sgd)
        for epoch in run.epochs("part 1", first_epochs):
            learner.lr = self.lr_at(epoch)
            train_on(examples)

        # The later parts: renewed, and trained for a shorter time while the former ones stand still.
        for place, count in enumerate(later_epochs, start=1):
            learner.restart(parts[place:])
            learner.begin(learner.adam(self.adam_lr(count, len(examples))), parts[place:])
            for _ in run.epochs(f"part {place + 1}", count):
                train_on(examples)

        # Confident examples, chosen anew every epoch.
        if first_epochs == self.epochs:
            run.warn(f"All {self.epochs} epochs were the first part's: none was left for confident examples.")
        # Differs: the authors spend epoch number T1 on the later stages; here it is a confident epoch.
        learner.begin(sgd, parts[:1] if self.renewed_rest else parts)
        for epoch in run.epochs("confident", self.epochs - first_epochs):
            learner.lr = self.lr_at(first_epochs + epoch)
            confident = learner.pred_probs(examples, views=2).argmax(1) == examples.labels
            run.note_confident(confident)
            chosen = examples.subset(confident)
            if len(chosen) < 2:
                run.warn("The net agreed with no label in some epoch, which was trained on all examples.")
                chosen = examples
            # Differs from the text, where large classes weigh more; so run the authors' scripts.
            weights.copy_(balanced_class_weights(chosen.labels, examples.num_classes))
            train_on(chosen)
