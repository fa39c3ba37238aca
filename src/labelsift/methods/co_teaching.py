"""Co-teaching: Han, Yao, Yu, Niu, Xu, Hu, Tsang, Sugiyama, "Co-teaching: Robust Training of Deep Neural
Networks with Extremely Noisy Labels", NeurIPS 2018.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.data import Batch
from labelsift.losses import masked_mean
from labelsift.methods.method import Method, setting
from labelsift.methods.noise_rate import MEANING, NoiseRate, check_noise_rate
from labelsift.training import Run

CIFAR = {"epochs": 200, "lr": 1e-3, "batch_size": 128, "ramp_epochs": 10}


@dataclass(frozen=True)
class CoTeaching(Method):
    """Two nets; each learns what the other finds easy."""

    name: ClassVar[str] = "co-teaching"
    summary: ClassVar[str] = "two nets teach each other the examples of a batch that have a small loss"
    citation: ClassVar[str] = "Han et al., NeurIPS 2018"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "resnet18"): {**CIFAR, "decay_at": (0.4,)},
        ("cifar100", "resnet34"): {**CIFAR, "decay_at": (0.5,)},
    }
    oracle: ClassVar[Mapping[str, str]] = {"noise_rate": "oracle"}

    noise_rate: float | str = setting("estimate", MEANING, "tau")
    ramp_epochs: int = setting(10, "epochs in which the forgotten share grows to the noise rate", "T_k")
    lr: float = setting(1e-3, "learning rate of Adam at the start")
    momentum: float = setting(0.9, "beta1 of Adam", "beta1")
    late_momentum: float = setting(0.1, "beta1 of Adam once a linear schedule falls", "beta1")
    weight_decay: float = setting(0.0, "weight decay of Adam")
    schedule: str = setting("linear", "how the learning rate falls: constant, step, linear or cosine")
    decay_at: tuple[float, ...] = setting(
        (0.4,), "shares of the epochs: linear falls from the first on, step at each"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise_rate(self, self.noise_rate)
        self.check("ramp_epochs", self.ramp_epochs >= 1, "at least 1")
        self.check("late_momentum", 0 <= self.late_momentum < 1, "at least 0 and below 1")

    @property
    def late_epoch(self) -> int:
        """The epoch from which a linear schedule falls."""
        linear = self.schedule == "linear" and bool(self.decay_at)
        return round(self.decay_at[0] * self.epochs) if linear else self.epochs

    def forget_rate(self, epoch: int, noise_rate: float) -> float:
        """The share of a batch that is left out, R(T): from 0 to the noise rate, in a straight line."""
        # Differs: the authors begin to count at 1, so that they never train on whole batches.
        return noise_rate * min(1.0, epoch / (self.ramp_epochs - 1)) if self.ramp_epochs > 1 else noise_rate

    def fit(self, run: Run) -> None:
        """Each net takes its step on what the other one chose, both by their losses before either step."""
        first, second, examples = run.learner(), run.learner(), run.examples
        noise_rate = NoiseRate(run, self.noise_rate)
        share = torch.ones((), dtype=torch.float64, device=examples.labels.device)  # of a batch that is kept
        chosen = torch.zeros(len(examples.inputs), dtype=torch.bool, device=examples.labels.device)

        def step(batch: Batch) -> None:
            view = batch.view()
            logits, other_logits = first(view), second(view)
            losses = F.cross_entropy(logits, batch.labels, reduction="none")
            other_losses = F.cross_entropy(other_logits, batch.labels, reduction="none")
            easy, other_easy = smallest(losses, share), smallest(other_losses, share)
            # Differs: the authors divide the mean by the number kept once more, which Adam hardly notices.
            loss = masked_mean(losses, other_easy)
            first.update(loss)
            second.update(masked_mean(other_losses, easy))
            chosen[batch.index] = other_easy
            run.tally(loss, logits, batch.labels)
            run.remember(batch.index, (logits.softmax(1) + other_logits.softmax(1)) / 2)

        for learner in (first, second):
            learner.begin(learner.adam(self.lr, self.weight_decay))
        # The betas are written into a captured step, so another beta1 begins another stage.
        for stage, begin, end, beta1 in (
            ("train", 0, self.late_epoch, self.momentum),
            ("decay", self.late_epoch, self.epochs, self.late_momentum),
        ):
            for learner in (first, second):
                learner.optimisers["adam"].param_groups[0]["betas"] = (beta1, 0.999)
            captured = run.capture(step, self.batch_size)
            for epoch in run.epochs(stage, end - begin):
                first.lr = second.lr = self.lr_at(begin + epoch)
                share.fill_(1 - self.forget_rate(begin + epoch, float(noise_rate)))
                pool = self.epoch_of(examples)
                for batch in pool.batches(self.batch_size):  # Differs: the last, smaller one too
                    captured(batch)
                run.note_confident(chosen[pool.index], pool)
                if begin + epoch < self.ramp_epochs:
                    noise_rate.estimate((first, second), pool)


def smallest(losses: Tensor, share: Tensor) -> Tensor:
    """A mask of this share of the losses (rounded down, but one at least), the smallest ones."""
    ranks = losses.detach().argsort(stable=True).argsort()
    return ranks < (share * len(losses)).long().clamp(min=1)
