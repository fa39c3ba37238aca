"""MixUp: Zhang, Cisse, Dauphin, Lopez-Paz, "mixup: Beyond Empirical Risk Minimization", ICLR 2018."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn import functional as F

from labelsift.data import Batch
from labelsift.losses import mix, mixing_share, soft_cross_entropy
from labelsift.methods.method import Method, setting
from labelsift.training import Run

# The authors set the rate after an epoch was judged, so that it falls one epoch after 100 and 150.
CIFAR = {"epochs": 200, "lr": 0.1, "schedule": "step", "decay_at": (101 / 200, 151 / 200)}
CIFAR |= {"weight_decay": 1e-4, "batch_size": 128}


@dataclass(frozen=True)
class MixUp(Method):
    """Plain training on mixtures of two examples and of their labels."""

    name: ClassVar[str] = "mixup"
    summary: ClassVar[str] = "plain training on mixtures of pairs of examples and of their labels"
    citation: ClassVar[str] = "Zhang et al., ICLR 2018"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "preact-resnet18"): CIFAR,
        ("cifar100", "preact-resnet18"): CIFAR,
    }

    alpha: float = setting(1.0, "mixing: Beta(alpha, alpha); more resists more noise", "alpha")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_mixing("alpha")

    def fit(self, run: Run) -> None:
        """Mix each batch with a permutation of itself, one share per batch."""
        learner, examples = run.learner(), run.examples
        alpha = torch.tensor(self.alpha, device=examples.labels.device)

        def step(batch: Batch) -> None:
            given = F.one_hot(batch.labels, examples.num_classes).float()
            mixed, targets = mix(batch.view(), given, mixing_share(alpha))
            logits = learner(mixed)
            loss = soft_cross_entropy(logits, targets).mean()
            learner.update(loss)
            run.tally(loss, logits, targets.argmax(1))

        learner.begin(self.sgd(learner))
        captured = run.capture(step, self.batch_size)
        for epoch in run.epochs("train", self.epochs):
            learner.lr = self.lr_at(epoch)
            for batch in self.batches(examples):
                captured(batch)
