"""CDR: Xia, Liu, Han, Gong, Wang, Ge, Chang, "Robust Early-Learning: Hindering the Memorization of Noisy
Labels", ICLR 2021.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from labelsift.data import Batch
from labelsift.fusion import fused
from labelsift.losses import cross_entropy
from labelsift.methods.method import Method, setting
from labelsift.methods.noise_rate import MEANING, NoiseRate, check_noise_rate
from labelsift.training import Run

CIFAR = {"epochs": 200, "lr": 0.01, "schedule": "step", "decay_at": (0.2, 0.4), "weight_decay": 1e-3}
CIFAR |= {"batch_size": 64}


@dataclass(frozen=True)
class CDR(Method):
    """Plain training in which only the weights that matter most follow their gradients."""

    name: ClassVar[str] = "cdr"
    summary: ClassVar[str] = "plain training in which only critical weights follow their gradients"
    citation: ClassVar[str] = "Xia et al., ICLR 2021"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "resnet18"): CIFAR,
        ("cifar100", "resnet34"): CIFAR,
    }
    oracle: ClassVar[Mapping[str, str]] = {"noise_rate": "oracle"}

    noise_rate: float | str = setting("estimate", MEANING, "tau")
    estimate_epochs: int = setting(10, "plain epochs before the noise rate is estimated, if it is")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise_rate(self, self.noise_rate)
        self.check("estimate_epochs", self.estimate_epochs >= 1, "at least 1")

    def fit(self, run: Run) -> None:
        """SGD on the given labels, with the gradients of all but the critical weights taken away."""
        learner, examples = run.learner(), run.examples
        noise_rate = NoiseRate(run, self.noise_rate)
        share = torch.ones((), dtype=torch.float64, device=examples.labels.device)  # of critical weights

        def step(batch: Batch) -> None:
            # Differs: the authors forward each batch twice, which moves batch norm's statistics twice.
            logits = learner(batch.view())
            loss = cross_entropy(logits, batch.labels)
            learner.update(loss, lambda: keep_critical(learner.net, share))
            run.tally(loss, logits, batch.labels)
            run.remember(batch.index, logits.softmax(1))

        learner.begin(self.sgd(learner))  # Differs from the paper: L2 as in the script, not L1
        captured = run.capture(step, self.batch_size)
        for epoch in run.epochs("train", self.epochs):
            learner.lr = self.lr_at(epoch)
            share.fill_(1 - float(noise_rate))
            pool = self.epoch_of(examples)
            for batch in pool.batches(self.batch_size):
                captured(batch)
            if epoch + 1 == self.estimate_epochs:
                noise_rate.estimate([learner], pool)


@torch.no_grad()
def keep_critical(net: nn.Module, share: Tensor) -> None:
    """Damp the gradients of the `share` of weights where weight x gradient is largest; the others get none.

    Biases and the weights of batch norm are left alone.
    """
    # Differs: the weights of convolutions over one or three dimensions count too.
    weights = [weight for weight in net.parameters() if weight.dim() > 1 and weight.grad is not None]
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    for gradient, kept in zip(gradients, critical(weights, gradients, share), strict=True):
        gradient.copy_(kept)


@fused
def critical(weights: Sequence[Tensor], gradients: Sequence[Tensor], share: Tensor) -> list[Tensor]:
    """The gradients, damped by `share` where weight x gradient is among that share of all, else 0."""
    scores = [(weight * gradient).abs() for weight, gradient in zip(weights, gradients, strict=True)]
    pooled = torch.cat([score.flatten() for score in scores])
    # Differs: at least one is critical; the script fails where none is.
    threshold = kth_largest(pooled, (share * len(pooled)).long().clamp(min=1))
    return [
        gradient * torch.where(score >= threshold, share.float(), 0.0)
        for gradient, score in zip(gradients, scores, strict=True)
    ]


def kth_largest(values: Tensor, k: Tensor) -> Tensor:
    """The k-th largest of non-negative float32 numbers, k on the device, found without sorting them.

    Such numbers are ordered as their bits are, so we find the 31 bits of the answer one after the other: one
    stays set if k of the values reach what there is so far.
    """
    bits = values.view(torch.int32)
    found = torch.zeros((), dtype=torch.int32, device=values.device)
    for place in reversed(range(31)):
        higher = found | (1 << place)
        found = torch.where((bits >= higher).sum() >= k, higher, found)
    return found.view(torch.float32)
