"""Pure functions on tensors: what a method minimises, and the targets and weights it does so with."""

import torch
from torch import Tensor
from torch.nn import functional as F


def cross_entropy(logits: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """Mean cross-entropy; with weights the mean in which an example of class k counts `class_weights[k]`."""
    return F.cross_entropy(logits, labels, weight=class_weights)


def balanced_class_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Weights by which every class that occurs counts the same: the mean class count over the class's own.

    A class without an example weighs 0. The mean is over the classes that occur.
    """
    counts = torch.bincount(labels, minlength=num_classes).float()
    present = counts > 0
    mean = counts.sum() / present.sum().clamp(min=1)
    return torch.where(present, mean / counts.clamp(min=1), 0.0)


def soft_cross_entropy(logits: Tensor, targets: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """Cross-entropy of each row against a distribution; with weights a class k counts `class_weights[k]`."""
    terms = targets * logits.log_softmax(1)
    return -(terms if class_weights is None else terms * class_weights).sum(1)


def squared_error(logits: Tensor, targets: Tensor) -> Tensor:
    """Squared error of each row between the predicted and the target distribution, mean over classes."""
    return (logits.softmax(1) - targets).square().mean(1)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of each row's predicted distribution."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


def prior_divergence(logits: Tensor, prior: Tensor) -> Tensor:
    """How far the mean prediction is from a prior over the classes (Kullback-Leibler): 0 where they agree.

    A class that no row predicts would cost infinitely much; its mean is taken as 1e-8.
    """
    mean = logits.softmax(1).mean(0).clamp(min=1e-8)
    return (torch.xlogy(prior, prior) - prior * mean.log()).sum()


def bounded_probs(logits: Tensor) -> Tensor:
    """Predicted probabilities that stay 1e-4 away from 0 and from 1."""
    return logits.softmax(1).clamp(1e-4, 1 - 1e-4)


def elr_regulariser(logits: Tensor, remembered: Tensor) -> Tensor:
    """Early-learning regularisation of each row: the lower, the more it agrees with what is remembered."""
    return (1 - (bounded_probs(logits) * remembered).sum(1)).log()


def label_losses(pred_probs: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of each label, out of class probabilities; finite also where one of them is 0."""
    return -pred_probs.gather(1, labels[:, None]).squeeze(1).clamp(min=1e-30).log()


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of the values where the mask is true, and 0 where it is nowhere true."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


def sharpen(probs: Tensor, temperature: float) -> Tensor:
    """Distributions with their differences drawn out: powers of 1 / temperature, summing to 1 again."""
    return (probs.log() / temperature).softmax(1)


def mix(inputs: Tensor, targets: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Each row with `share` of itself and the rest of a partner: a random permutation of the rows."""
    partner = torch.rand(len(inputs), device=inputs.device).argsort()
    mixed = share * inputs + (1 - share) * inputs[partner]
    return mixed, share * targets + (1 - share) * targets[partner]


def mixing_share(alpha: Tensor) -> Tensor:
    """One draw of Beta(alpha, alpha), on the device of `alpha` and without waiting for it."""
    return torch.distributions.Beta(alpha, alpha, validate_args=False).sample()
