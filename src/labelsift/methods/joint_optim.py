"""Joint optimisation of a net and of its labels, then a new net on the labels that were found.

Tanaka, Ikami, Yamasaki, Aizawa: Joint Optimization Framework for Learning with Noisy Labels. CVPR 2018.
With a high learning rate a net does not learn wrong labels by heart, so its own mean predictions may replace
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.data import Batch
from labelsift.losses import entropy, prior_divergence, soft_cross_entropy
from labelsift.methods.method import HIGHEST, Method, setting
from labelsift.training import Run

CIFAR = {"epochs": 320, "lr": 0.1, "final_lr": 0.2, "schedule": "step", "decay_at": (1 / 3, 2 / 3)}
CIFAR |= {"weight_decay": 1e-4, "batch_size": 128, "update_from": 0.35, "window": 10}
# As far as they are known; weight decay, and when labels follow, are ours.
CLOTHING = {"epochs": 20, "first_share": 0.5, "lr": 8e-4, "final_lr": 5e-4, "schedule": "step"}
CLOTHING |= {"decay_at": (0.5,), "weight_decay": 1e-3, "batch_size": 32, "update_from": 0.35, "window": 10}
CLOTHING |= {"prior_weight": 2.4, "entropy_weight": 0.8}
# Learning rate, alpha and beta that the authors chose for CIFAR-10, at 70 % and at 40 %.
BY_KIND = {"symmetric": (0.08, 1.2, 0.8), "asymmetric": (0.03, 0.8, 0.4)}


@dataclass(frozen=True)
class JointOptim(Method):
    """Labels follow the net's predictions while it learns from them; then a new net learns from them."""

    name: ClassVar[str] = "joint-optim"
    summary: ClassVar[str] = "labels follow the net's mean predictions, then a new net learns from them"
    citation: ClassVar[str] = "Tanaka et al., CVPR 2018"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "resnet18"): CIFAR,
        ("cifar100", "resnet34"): CIFAR,
        ("clothing1m", "resnet50"): CLOTHING,
    }
    oracle: ClassVar[Mapping[str, str]] = {"noise_kind": "oracle"}
    result_stage: ClassVar[str] = "retrain"

    lr: float = setting(0.05, "learning rate of SGD in the first step, in which it stays")
    first_share: float = setting(0.625, "share of the epochs in which the labels are found: the first step")
    update_from: float = setting(0.7, "share of the first step after which labels follow the predictions")
    window: int = setting(3, "latest predictions of an example that its label is the mean of")
    prior_weight: float = setting(1.0, "weight of the classes' being as frequent as the prior says", "alpha")
    entropy_weight: float = setting(0.5, "weight of the predictions' being certain", "beta")
    prior: str = setting("uniform", "how frequent the classes are: uniform, or given (as the labels)", "p")
    noise_kind: str = setting(
        "unknown", "lr, alpha and beta as set (unknown), or the authors' for symmetric, asymmetric or oracle"
    )
    final_lr: float = setting(0.0, "learning rate at the start of the second step; 0: that of the first")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("first_share", 0 < self.first_share <= 1, "above 0 and up to 1")
        self.check("update_from", 0 <= self.update_from <= 1, "0 to 1")
        self.check("window", self.window >= 1, "at least 1")
        self.check("prior_weight", self.prior_weight >= 0, "at least 0")
        self.check("entropy_weight", self.entropy_weight >= 0, "at least 0")
        self.check("prior", self.prior in ("uniform", "given"), "uniform or given")
        known = self.noise_kind in ("unknown", *BY_KIND, "oracle")
        self.check("noise_kind", known, "unknown, symmetric, asymmetric or oracle")
        self.check("final_lr", 0 <= self.final_lr <= HIGHEST, f"0 to {HIGHEST:g}")

    @property
    def first_epochs(self) -> int:
        """Epochs of the first step; the rest are the second's."""
        return max(1, round(self.first_share * self.epochs))

    def fit(self, run: Run) -> None:
        """Find the labels at a constant rate, then train a new net on them."""
        learner, examples = run.learner(), run.examples
        device, count, classes = examples.labels.device, len(examples.inputs), examples.num_classes
        soft = F.one_hot(examples.all_labels, classes).float()
        # Differs: each example has a ring of its own, so that an epoch may be a sample of a large set.
        recent = torch.zeros(self.window * count, classes, device=device)
        visits = torch.zeros(count, dtype=torch.long, device=device)
        run.keep(soft=soft, recent=recent, visits=visits)
        lr, prior_weight, entropy_weight = self.by_kind(run)
        given = soft[examples.index].mean(0)
        prior = given if self.prior == "given" else torch.full_like(given, 1 / classes)

        def find(batch: Batch) -> None:
            logits, index = learner(batch.view()), batch.index
            loss = soft_cross_entropy(logits, soft[index]).mean()
            loss = loss + prior_weight * prior_divergence(logits, prior)
            loss = loss + entropy_weight * entropy(logits).mean()
            learner.update(loss)
            probs = logits.detach().softmax(1)
            recent[visits[index] % self.window * count + index] = probs
            visits[index] += 1
            run.tally(loss, logits, batch.labels)
            run.remember(index, probs)

        def learn(batch: Batch) -> None:
            logits = learner(batch.view())
            loss = soft_cross_entropy(logits, soft[batch.index]).mean()
            learner.update(loss)
            run.tally(loss, logits, batch.labels)
            run.remember(batch.index, logits.softmax(1))

        learner.begin(learner.sgd(lr, self.momentum, self.weight_decay))
        step = run.capture(find, self.batch_size)
        for epoch in run.epochs("labels", self.first_epochs):
            pool = self.epoch_of(examples)
            for batch in pool.batches(self.batch_size):
                step(batch)
            if epoch + 1 >= round(self.update_from * self.first_epochs):
                soft.copy_(self.mean_predictions(recent, visits, soft))
            run.note_confident(soft[pool.index].argmax(1) == pool.labels, pool)

        final_epochs = self.epochs - self.first_epochs
        if not final_epochs:
            return
        # A new net: it starts as the first one did, with other weights where these are drawn.
        learner.renew()
        learner.begin(self.sgd(learner))
        step = run.capture(learn, self.batch_size)
        for epoch in run.epochs("retrain", final_epochs):
            learner.lr = replace(self, epochs=final_epochs, lr=self.final_lr or lr).lr_at(epoch)
            pool = self.epoch_of(examples)
            for batch in pool.batches(self.batch_size):
                step(batch)
            run.note_confident(soft[pool.index].argmax(1) == pool.labels, pool)

    def by_kind(self, run: Run) -> tuple[float, float, float]:
        """Learning rate of the first step, alpha and beta: as they are set, or the authors' for the noise."""
        kind = run.true_noise() if self.noise_kind == "oracle" else self.noise_kind
        if kind == "unknown":
            return self.lr, self.prior_weight, self.entropy_weight
        return BY_KIND["symmetric" if kind.startswith("symmetric") else "asymmetric"]

    def mean_predictions(self, recent: Tensor, visits: Tensor, labels: Tensor) -> Tensor:
        """The mean of each example's latest predictions; its label, where it was never predicted."""
        total = recent.view(self.window, *labels.shape).sum(0)
        mean = total / visits.clamp(1, self.window)[:, None]
        return torch.where(visits[:, None] > 0, mean, labels)
