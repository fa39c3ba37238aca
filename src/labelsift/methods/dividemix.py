"""DivideMix: Li, Socher, Hoi, "DivideMix: Learning with Noisy Labels as Semi-supervised Learning", ICLR 2020.

Two nets. Each divides the examples by its losses into labelled and unlabelled ones for the *other* to train
on, by MixMatch (Berthelot et al., NeurIPS 2019) with labels that both nets refine and guess.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.data import Batch, Examples
from labelsift.losses import (
    cross_entropy,
    entropy,
    label_losses,
    masked_mean,
    mix,
    mixing_share,
    prior_divergence,
    sharpen,
    soft_cross_entropy,
    squared_error,
)
from labelsift.methods.method import Method, setting
from labelsift.mixtures import fit_gaussians, to_unit
from labelsift.training import Learner, Run

CIFAR = {"epochs": 300, "lr": 0.02, "schedule": "step", "decay_at": (0.5,), "weight_decay": 5e-4}
CIFAR |= {"batch_size": 128, "warm_up_epochs": 10}
CLOTHING = {"epochs": 82, "lr": 2e-3, "schedule": "step", "decay_at": (0.5,), "weight_decay": 1e-3}
CLOTHING |= {"batch_size": 64, "epoch_examples": 32_000, "warm_up_epochs": 2, "confidence_penalty": True}
CLOTHING |= {"alpha": 0.5, "unlabelled_weight": 0.0}
# The authors' weights of the unlabelled loss by the rate of symmetric noise, for CIFAR-10 and CIFAR-100.
SYMMETRIC = {0.2: (0.0, 25.0), 0.5: (25.0, 150.0), 0.8: (25.0, 150.0), 0.9: (50.0, 150.0)}
OTHERWISE = (0.0, 25.0)  # theirs for asymmetric noise on CIFAR-10, and their least for CIFAR-100


@dataclass(frozen=True)
class DivideMix(Method):
    """Two nets that divide the examples for one another, and MixMatch."""

    name: ClassVar[str] = "dividemix"
    summary: ClassVar[str] = "two nets divide the examples by loss for one another; MixMatch on both parts"
    citation: ClassVar[str] = "Li et al., ICLR 2020"
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, object]]] = {
        ("cifar10", "preact-resnet18"): CIFAR,
        ("cifar100", "preact-resnet18"): {**CIFAR, "warm_up_epochs": 30},
        ("clothing1m", "resnet50"): CLOTHING,
    }
    oracle: ClassVar[Mapping[str, str]] = {"confidence_penalty": "oracle", "unlabelled_weight": "oracle"}

    lr: float = setting(0.05, "learning rate of SGD at the start")
    warm_up_epochs: int = setting(5, "epochs of plain training before the first division")
    confidence_penalty: bool | str = setting(
        False,
        "whether plain training keeps the nets unsure: true, false or oracle (if noise is not symmetric)",
    )
    threshold: float = setting(0.5, "probability of a right label above which an example is labelled", "tau")
    temperature: float = setting(0.5, "sharpens the refined and guessed labels; 1 leaves them", "T")
    alpha: float = setting(4.0, "mixing: Beta(alpha, alpha)", "alpha")
    unlabelled_weight: float | str = setting(
        25.0, "weight of the unlabelled loss: a number, or oracle (the authors' for this noise)", "lambda_u"
    )
    ramp_epochs: int = setting(16, "epochs in which that weight grows from 0")
    prior_weight: float = setting(1.0, "weight of the penalty on predictions of few classes only", "lambda_r")

    def __post_init__(self) -> None:
        super().__post_init__()
        weight = self.unlabelled_weight
        self.check("warm_up_epochs", self.warm_up_epochs >= 1, "at least 1")
        words = isinstance(self.confidence_penalty, bool) or self.confidence_penalty == "oracle"
        self.check("confidence_penalty", words, "true, false or oracle")
        self.check("threshold", 0 <= self.threshold < 1, "at least 0 and below 1")
        self.check("temperature", 0 < self.temperature <= 1, "above 0 and up to 1")
        self.check_mixing("alpha")
        words = weight == "oracle" if isinstance(weight, str) else weight >= 0
        self.check("unlabelled_weight", words, "a number of at least 0, or oracle")
        self.check("ramp_epochs", self.ramp_epochs >= 0, "at least 0")
        self.check("prior_weight", self.prior_weight >= 0, "at least 0")

    def fit(self, run: Run) -> None:
        """Plain training, then a division and an epoch of MixMatch for each net, again and again."""
        pair, examples = (run.learner(), run.learner()), run.examples
        penalty, weight = self.by_noise(run)
        optimisers = [self.sgd(learner) for learner in pair]
        for learner, sgd in zip(pair, optimisers, strict=True):
            learner.begin(sgd)
        steps = [self.warm_up_step(run, learner, penalty) for learner in pair]
        count = min(self.warm_up_epochs, self.epochs)
        for epoch in run.epochs("warm-up", count):
            for learner, step in zip(pair, steps, strict=True):
                learner.lr = self.lr_at(epoch)
                for batch in self.batches(examples):
                    step(batch)

        if count == self.epochs:
            run.warn(f"All {self.epochs} epochs were the warm-up's: none was left to divide the examples.")
        for learner, sgd in zip(pair, optimisers, strict=True):
            learner.begin(sgd)
        division = Division(run, self.batch_size // 2)
        steps = [self.mixmatch_step(run, *nets, division, weight) for nets in (pair, pair[::-1])]
        for epoch in run.epochs("mixmatch", self.epochs - count):
            pool = self.epoch_of(examples)
            clean = [self.clean_probs(run, learner, pool) for learner in pair]  # both, before either trains
            run.note_confident(clean[1] > self.threshold, pool)
            for learner, step, theirs in zip(pair, steps, clean[::-1], strict=True):
                learner.lr = self.lr_at(count + epoch)
                for batch in division.batches(pool, theirs, self.threshold, epoch):
                    step(batch)

    def by_noise(self, run: Run) -> tuple[bool, float]:
        """Whether there is a confidence penalty, and the weight of the unlabelled loss."""
        penalty, weight = self.confidence_penalty, self.unlabelled_weight
        if penalty == "oracle":
            penalty = not run.true_noise().startswith("symmetric")
        if isinstance(weight, str):
            weight = authors_weight(run.true_noise(), run.examples.num_classes)
        return bool(penalty), weight

    def warm_up_step(self, run: Run, learner: Learner, penalty: bool) -> Callable[[Batch], None]:
        """Cross-entropy on the given labels; less the entropy of the predictions, with the penalty."""
        if not penalty:
            return self.plain_step(run, learner)

        def step(batch: Batch) -> None:
            logits = learner(batch.view())
            loss = cross_entropy(logits, batch.labels) - entropy(logits).mean()
            learner.update(loss)
            run.tally(loss, logits, batch.labels)
            run.remember(batch.index, logits.softmax(1))

        return run.capture(step, self.batch_size)

    def clean_probs(self, run: Run, learner: Learner, pool: Examples) -> Tensor:
        """How likely each label is right: that its loss is of the lower of two Gaussians (w)."""
        probs = learner.pred_probs(pool)
        run.remember(pool.index, probs)
        losses = to_unit(label_losses(probs, pool.labels))
        return (1 - fit_gaussians(losses).posterior(losses)).float()

    def mixmatch_step(
        self, run: Run, learner: Learner, other: Learner, division: "Division", weight: float
    ) -> Callable[[Batch], None]:
        """A step of a net: the first half of a batch is labelled, by the other net; the rest is not."""
        num_classes, device, half = run.examples.num_classes, run.machine.device, division.half
        alpha = torch.tensor(self.alpha, device=device)
        prior = torch.full((num_classes,), 1 / num_classes, device=device)

        def step(batch: Batch) -> None:
            one, two = batch.view(), batch.view()
            with torch.no_grad():
                # In training mode, and each half by itself. Differs: the authors have a pass for each view.
                own = torch.cat(
                    [learner.guess(one[:half], two[:half]), learner.guess(one[half:], two[half:])]
                )
                with other.evaluating():
                    theirs = other.guess(one[half:], two[half:])
                clean = division.clean[batch.index][:, None]
                refined = clean * F.one_hot(batch.labels, num_classes) + (1 - clean) * own
                guessed = torch.cat([own[:half], (own[half:] + theirs) / 2])
                targets = sharpen(torch.where(division.labelled[:, None], refined, guessed), self.temperature)
                share = mixing_share(alpha)
                mixed, targets = mix(
                    torch.cat([one, two]), targets.repeat(2, 1), torch.maximum(share, 1 - share)
                )
            # Differs: on Clothing-1M (lambda_u = 0) the authors leave the unlabelled half out here.
            logits = learner(mixed)
            labelled = division.labelled.repeat(2)
            ramp = (division.progress / self.ramp_epochs).clamp(max=1) if self.ramp_epochs else 1.0
            loss = masked_mean(soft_cross_entropy(logits, targets), labelled)
            loss = loss + weight * ramp * masked_mean(squared_error(logits, targets), ~labelled)
            loss = loss + self.prior_weight * prior_divergence(logits, prior)
            learner.update(loss)
            division.progress.add_(division.stride)
            run.tally(loss, own, batch.labels)
            run.remember(batch.index, own)

        return run.capture(step, 2 * half)


class Division:
    """What a net has to learn in an epoch: in device tensors, so that steps keep their shapes."""

    def __init__(self, run: Run, half: int) -> None:
        self.warn, device, self.half = run.warn, run.machine.device, half
        self.clean = torch.zeros(len(run.examples.inputs), device=device)  # w of every example
        self.labelled = torch.ones(2 * half, dtype=torch.bool, device=device)  # which places of a batch are
        self.progress = torch.zeros((), device=device)  # in epochs, by fractions
        self.stride = torch.zeros((), device=device)

    def batches(self, pool: Examples, clean: Tensor, threshold: float, epoch: int) -> Iterator[Batch]:
        """A pass over the labelled examples: the first half of each batch, beside unlabelled ones."""
        chosen, others = pool.subset(clean > threshold), pool.subset(clean <= threshold)
        alone = len(others) < self.half
        if not len(chosen):  # Differs: the authors' code stops there
            self.warn("No label was trusted in some epoch, which took all of them, refined.")
            chosen, alone = pool, True
        elif alone:
            self.warn(
                "Too few labels were doubted in some epoch to fill half a batch: it had labelled ones only."
            )
        count = 2 * self.half if alone else self.half  # of labelled examples in a batch
        steps = math.ceil(len(chosen) / count)  # Differs: the last one is filled up with what came before
        rows = [chosen.draw(steps * count).view(steps, count)]
        if not alone:
            rows.append(others.draw(steps * count).view(steps, count))
        self.clean[pool.index] = clean
        self.labelled.copy_(torch.arange(2 * self.half, device=clean.device) < count)
        self.progress.fill_(epoch)
        self.stride.fill_(1 / steps)
        return pool.batches_of(torch.cat(rows, dim=1))


def authors_weight(noise: str, num_classes: int) -> float:
    """The weight of the unlabelled loss that the authors chose for this noise, or for the nearest to it."""
    kind, _, rate = noise.partition(":")
    if not kind.startswith("symmetric"):
        return OTHERWISE[num_classes >= 100]
    return SYMMETRIC[min(SYMMETRIC, key=lambda known: abs(known - float(rate)))][num_classes >= 100]
