"""Progressive early stopping (PES) with confident examples: Bai et al., NeurIPS 2021.

After the stages of PES the examples whose label the net agrees with are trained on, alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from labelsift.losses import balanced_class_weights
from labelsift.methods.progressive import Progressive, Rest
from labelsift.training import Run

CIFAR = {"epochs": 200, "lr": 0.1, "schedule": "step", "decay_at": (0.5, 0.75), "weight_decay": 1e-4}
CIFAR |= {"batch_size": 128, "stage_lr": 1e-4, "clean_share": 1.0}
CLOTHING = {"epochs": 50, "lr": 5e-3, "schedule": "step", "decay_at": (0.4, 0.6), "weight_decay": 1e-3}
CLOTHING |= {"batch_size": 64, "stage_lr": 5e-6, "epoch_examples": 100_000, "clean_share": 1.0}


@dataclass(frozen=True)
class PES(Progressive):
    """Train parts one after the other, then the examples the net agrees with."""

    name: ClassVar[str] = "pes"
    summary: ClassVar[str] = "progressive early stopping, then training on confident examples"
    citation: ClassVar[str] = "Bai et al., NeurIPS 2021"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "resnet18"): {**CIFAR, "stage_epochs": (25, 7, 5)},
        ("cifar100", "resnet34"): {**CIFAR, "stage_epochs": (30, 7, 5)},
        ("clothing1m", "resnet50"): {**CLOTHING, "stage_epochs": (20, 7)},
    }

    def fit(self, run: Run) -> None:
        """The stages, then confident examples, chosen anew every epoch."""
        learner, examples = run.learner(), run.examples
        parts, rest = self.parts(learner.net), Rest(run, self)
        first_epochs = self.train_stages(run, learner, parts)
        weights = torch.ones(examples.num_classes, device=examples.labels.device)
        # Differs: the authors spend epoch number T1 on the later stages; here it is a confident epoch.
        for epoch in run.epochs("confident", self.epochs - first_epochs):
            pool, confident = self.choose_confident(run, learner)
            if rest.begins(learner, parts, epoch, confident):
                step = self.plain_step(run, learner, weights)
            learner.lr = self.lr_at(first_epochs + epoch)
            chosen = pool.subset(confident)
            if len(chosen) < 2:  # Differs: the authors' scripts have no guard
                run.warn("The net agreed with no label in some epoch, which was trained on all examples.")
                chosen = pool
            # Differs from the text, where large classes weigh more; so run the authors' scripts, but that for
            # Clothing-1M, which counts classes in the clean validation part.
            weights.copy_(balanced_class_weights(chosen.labels, examples.num_classes))
            for batch in chosen.batches(self.batch_size):
                step(batch)
