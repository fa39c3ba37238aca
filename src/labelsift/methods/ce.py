"""Plain training with cross-entropy on the labels as they are given; and the same, stopped early."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from labelsift.methods.method import Method, setting
from labelsift.training import Run

STEPS = {"epochs": 200, "lr": 0.1, "schedule": "step", "decay_at": (0.5, 0.75), "weight_decay": 1e-4}
STEPS |= {"batch_size": 128}
COSINE = {"epochs": 300, "lr": 0.02, "schedule": "cosine", "weight_decay": 5e-4, "batch_size": 128}
CLOTHING = {"epochs": 50, "lr": 5e-3, "schedule": "step", "decay_at": (0.4, 0.6), "weight_decay": 1e-3}
CLOTHING |= {"batch_size": 64, "epoch_examples": 100_000}


@dataclass(frozen=True)
class CE(Method):
    """Minimise the mean cross-entropy of all examples, wrong labels and all."""

    name: ClassVar[str] = "ce"
    summary: ClassVar[str] = "plain training: cross-entropy on the labels as given"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "resnet18"): STEPS,
        ("cifar100", "resnet34"): STEPS,
        ("cifar10", "preact-resnet18"): COSINE,
        ("cifar100", "preact-resnet18"): COSINE,
        ("clothing1m", "resnet50"): CLOTHING,
    }

    def fit(self, run: Run) -> None:
        """Train the whole net on everything."""
        learner = run.learner()
        learner.begin(self.sgd(learner))
        step = self.plain_step(run, learner)
        for epoch in run.epochs("train", self.total_epochs):
            learner.lr = self.lr_at(epoch)
            for batch in self.batches(run.examples):
                step(batch)


@dataclass(frozen=True)
class EarlyStopping(CE):
    """Plain training that ends while the net still resists the wrong labels."""

    name: ClassVar[str] = "early-stopping"
    summary: ClassVar[str] = "plain training, stopped before the wrong labels are learned by heart"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "resnet18"): {**STEPS, "stop_epoch": 25},
        ("cifar100", "resnet34"): {**STEPS, "stop_epoch": 30},
    }

    stop_epoch: int = setting(10, "epochs that are trained; `epochs` shapes the schedule", "T1")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("stop_epoch", self.stop_epoch >= 1, "at least 1")

    @property
    def total_epochs(self) -> int:
        """Only those before the stop."""
        return min(self.stop_epoch, self.epochs)
