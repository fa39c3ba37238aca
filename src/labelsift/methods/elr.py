"""Early-learning regularisation, with one net (ELR) and with two (ELR+).

Liu, Niles-Weed, Razavian, Fernandez-Granda: Early-Learning Regularization Prevents Memorization of Noisy
Labels. NeurIPS 2020. Before a net learns wrong labels by heart it often predicts the right ones. Each example
keeps a running mean of what was predicted for it, and agreeing with that memory is rewarded, which outweighs
the pull of a wrong label.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.data import Batch, Examples
from labelsift.losses import (
    bounded_probs,
    cross_entropy,
    elr_regulariser,
    mix,
    mixing_share,
    soft_cross_entropy,
)
from labelsift.methods.method import Method, setting
from labelsift.training import Learner, Run
from labelsift.training.schedule import cosine_lr, exponential_ramp

LOWEST = 0.05  # of the learning rate, before a restart
CIFAR10 = {"epochs": 150, "lr": 0.02, "schedule": "cosine", "restart_epochs": 10, "weight_decay": 1e-3}
CIFAR10 |= {"batch_size": 128}
CIFAR100 = {"epochs": 150, "lr": 0.02, "schedule": "step", "decay_at": (80 / 150, 0.8), "decay_factor": 0.01}
CIFAR100 |= {"weight_decay": 1e-3, "batch_size": 128}
ONE_NET = {"epochs": 10, "lr": 1e-3, "schedule": "step", "decay_at": (0.5,), "decay_factor": 0.01}
ONE_NET |= {"weight_decay": 1e-3, "batch_size": 64}  # Clothing-1M: of the paper, not of the code
HUNDRED = {"memory_share": 0.9, "memory_weight": 7.0, "asymmetric_share": 0.9, "asymmetric_weight": 7.0}
PLUS10 = {"epochs": 200, "lr": 0.02, "schedule": "step", "decay_at": (0.75,), "decay_factor": 0.1}
PLUS10 |= {"weight_decay": 5e-4, "batch_size": 128, "average_ramp_steps": 40_000}
PLUS100 = {**PLUS10, **HUNDRED, "epochs": 250, "decay_at": (0.8,), "weight_ramp_steps": 40_000}
PLUS100 |= {"targets_by_memory": True}
CLOTHING = {"epochs": 15, "lr": 2e-3, "schedule": "step", "decay_at": (7 / 15,), "decay_factor": 0.1}
CLOTHING |= {"weight_decay": 1e-3, "batch_size": 64, "epoch_examples": 192_000}
CLOTHING |= {"average_ramp": "mean", "average_share": 0.9999}


@dataclass(frozen=True)
class ELR(Method):
    """Plain training with a reward for agreeing with one's own earlier predictions."""

    name: ClassVar[str] = "elr"
    summary: ClassVar[str] = "plain training that holds to what the net predicted before it learned by heart"
    citation: ClassVar[str] = "Liu et al., NeurIPS 2020"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        **{("cifar10", net): CIFAR10 for net in ("resnet18", "resnet34", "preact-resnet18")},
        **{("cifar100", net): {**CIFAR100, **HUNDRED} for net in ("resnet34", "preact-resnet18")},
        ("clothing1m", "resnet50"): ONE_NET,
    }
    oracle: ClassVar[Mapping[str, str]] = {"noise_kind": "oracle"}

    memory_share: float = setting(0.7, "how much of the memory stays when a prediction joins it", "beta")
    memory_weight: float = setting(3.0, "weight of agreeing with the memory", "lambda")
    asymmetric_share: float = setting(0.9, "memory_share, where the noise is taken as asymmetric", "beta")
    asymmetric_weight: float = setting(1.0, "memory_weight, where the noise is taken as asymmetric", "lambda")
    noise_kind: str = setting(
        "symmetric", "what the noise is taken for: symmetric, asymmetric, or oracle (what it truly is)"
    )
    restart_epochs: int = setting(0, "cosine schedule: epochs after which it begins anew; 0: never", "T_0")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("memory_share", "asymmetric_share"):
            self.check(name, 0 <= getattr(self, name) <= 1, "0 to 1")
        for name in ("memory_weight", "asymmetric_weight", "restart_epochs"):
            self.check(name, getattr(self, name) >= 0, "at least 0")
        known = self.noise_kind in ("symmetric", "asymmetric", "oracle")
        self.check("noise_kind", known, "symmetric, asymmetric or oracle")

    def fit(self, run: Run) -> None:
        """Remember each prediction, then train on the given label and on the memory."""
        learner, examples = run.learner(), run.examples
        share, weight = self.memory_settings(run)
        memory = new_memory(examples)
        run.keep(memory=memory)

        def step(batch: Batch) -> None:
            logits = learner(batch.view())
            with torch.no_grad():
                probs = bounded_probs(logits)
                remembered = join(memory, batch.index, probs / probs.sum(1, keepdim=True), share)
            loss = cross_entropy(logits, batch.labels) + weight * elr_regulariser(logits, remembered).mean()
            learner.update(loss)
            run.tally(loss, logits, batch.labels)
            run.remember(batch.index, logits.softmax(1))

        learner.begin(self.sgd(learner))
        captured = run.capture(step, self.batch_size)
        for epoch in run.epochs("train", self.epochs):
            learner.lr = self.lr_at(epoch)
            pool = self.epoch_of(examples)
            for batch in pool.batches(self.batch_size):
                captured(batch)
            run.note_confident(memory[pool.index].argmax(1) == pool.labels, pool)

    def memory_settings(self, run: Run) -> tuple[float, float]:
        """The memory's share and weight for the kind of noise."""
        # Differs: the authors' schedule for CIFAR-10 depends on the kind too; this changes the memory alone.
        kind = run.true_noise() if self.noise_kind == "oracle" else self.noise_kind
        if kind.startswith("symmetric"):
            return self.memory_share, self.memory_weight
        return self.asymmetric_share, self.asymmetric_weight

    def lr_at(self, epoch: float) -> float:
        """As in plain training; or a cosine that begins anew after some epochs."""
        if self.schedule == "cosine" and self.restart_epochs:
            return cosine_lr(self.lr, epoch % self.restart_epochs, self.restart_epochs, LOWEST)
        return super().lr_at(epoch)


@dataclass(frozen=True)
class ELRPlus(ELR):
    """Two nets, each with a memory of what the other one's weight average predicts; and mixtures."""

    name: ClassVar[str] = "elr-plus"
    summary: ClassVar[str] = "elr with two nets that remember for each other, weight averages and mixtures"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "preact-resnet18"): PLUS10,
        ("cifar100", "preact-resnet18"): PLUS100,
        ("clothing1m", "resnet50"): CLOTHING,
    }

    lr: float = setting(0.05, "learning rate of SGD at the start")
    alpha: float = setting(1.0, "mixing: Beta(alpha, alpha)", "alpha")
    weight_ramp_steps: int = setting(0, "steps in which the weight of the memory grows; 0: none")
    targets_by_memory: bool = setting(False, "mixed labels are multiplied with the memory and scaled anew")
    average_share: float = setting(0.997, "how much of itself a weight average keeps in a step", "gamma")
    average_ramp: str = setting("exponential", "how that share grows: exponential, or mean (of all so far)")
    average_ramp_steps: int = setting(0, "steps in which it grows exponentially; 0: half of all")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_mixing("alpha")
        self.check("weight_ramp_steps", self.weight_ramp_steps >= 0, "at least 0")
        self.check("average_share", 0 <= self.average_share <= 1, "0 to 1")
        self.check("average_ramp", self.average_ramp in ("exponential", "mean"), "exponential or mean")
        self.check("average_ramp_steps", self.average_ramp_steps >= 0, "at least 0")

    def fit(self, run: Run) -> None:
        """In every epoch the first net passes over the data, then the second."""
        examples = run.examples
        learners = run.learner(), run.learner()
        averages = run.learner(judged=False), run.learner(judged=False)  # with other weights at first
        memories = new_memory(examples), new_memory(examples)
        counts = [torch.zeros((), dtype=torch.long, device=examples.labels.device) for _ in learners]
        run.keep(memory=memories[0], memory2=memories[1], steps=counts[0], steps2=counts[1])
        for learner in learners:
            learner.begin(self.sgd(learner))
        for average in averages:  # never updated by it, but in training mode and compiled like the others
            average.begin(average.sgd(self.lr, 0.0, 0.0))
        steps = [
            self.net_step(run, learners[net], averages[net], averages[1 - net], memories[net], counts[net])
            for net in (0, 1)
        ]
        for epoch in run.epochs("train", self.epochs):
            pool = self.epoch_of(examples)  # Differs: a sample is that of both nets, and anew every epoch
            for learner, step in zip(learners, steps, strict=True):
                learner.lr = self.lr_at(epoch)
                for batch in pool.batches(self.batch_size):
                    step(batch)
            run.note_confident(memories[0][pool.index].argmax(1) == pool.labels, pool)

    def net_step(
        self, run: Run, learner: Learner, average: Learner, partner: Learner, memory: Tensor, count: Tensor
    ) -> Callable[[Batch], None]:
        """A step of one net, whose memory holds what the `partner`, the other one's average, predicts."""
        examples, (share, weight) = run.examples, self.memory_settings(run)
        alpha = torch.tensor(self.alpha, device=examples.labels.device)
        length = self.average_ramp_steps or max(1, self.steps_in(len(examples)) // 2)

        def step(batch: Batch) -> None:
            view = batch.view()
            given = F.one_hot(batch.labels, examples.num_classes).float()
            with torch.no_grad():  # the partner stays in training mode
                probs = partner(view).softmax(1)
                remembered = join(memory, batch.index, probs, share)
                part = mixing_share(alpha)
                # Labels and memories side by side, so that they have the partners of the inputs.
                both = torch.cat([given, remembered], 1)
                mixed, mixed_both = mix(view, both, torch.maximum(part, 1 - part))
                targets, mixed_memory = mixed_both.chunk(2, 1)
                if self.targets_by_memory:
                    targets = scaled_by(targets, mixed_memory)
                growth = exponential_ramp(count, self.weight_ramp_steps)
            logits = learner(mixed)
            loss = soft_cross_entropy(logits, targets).mean()
            loss = loss + weight * growth * elr_regulariser(logits, mixed_memory).mean()
            learner.update(loss)
            count.add_(1)
            average.average(learner, self.share_of_average(count, length))
            run.tally(loss, logits, targets.argmax(1))
            run.remember(batch.index, probs)

        return run.capture(step, self.batch_size)

    def steps_in(self, examples: int) -> int:
        """Steps of one net in all."""
        return self.epochs * math.ceil(min(examples, self.epoch_examples or examples) / self.batch_size)

    def share_of_average(self, steps: Tensor, length: int) -> Tensor:
        """How much of itself a weight average keeps after so many steps."""
        if self.average_ramp == "mean":
            return (1 - 1 / steps).clamp(max=self.average_share)
        return self.average_share * exponential_ramp(steps, length)


def new_memory(examples: Examples) -> Tensor:
    """Nothing remembered yet, for every example of the whole set."""
    return torch.zeros(len(examples.inputs), examples.num_classes, device=examples.labels.device)


def join(memory: Tensor, index: Tensor, probs: Tensor, share: float) -> Tensor:
    """Let predictions join the memories of these examples; gives what is remembered now."""
    remembered = share * memory[index] + (1 - share) * probs
    memory[index] = remembered
    return remembered


def scaled_by(targets: Tensor, weights: Tensor) -> Tensor:
    """Distributions times weights, summing to 1 again; left alone where nothing of them would remain."""
    # Differs: the authors divide also where that is by nothing.
    product = targets * weights
    total = product.sum(1, keepdim=True)
    return torch.where(total > 1e-8, product / total.clamp(min=1e-8), targets)
