"""Pure functions on tensors: what a method minimises, and the targets and weights it does so with."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.fusion import fused

LARGEST_WEIGHT = 100.0  # of an example; estimates.anchor_transition keeps diagonals above its inverse
LEAST_ALPHA = 0.05  # of Beta(alpha, alpha): far below, draws of 0 or 1 come out as one half
DMI_GUARD = 0.001  # what the authors add to the determinant
SINGULAR = 1e-80  # a pivot so small is taken as 0 ...
NO_DETERMINANT = -1e6  # ... and this as its logarithm: nothing beside the guard, but a number


@fused
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


@fused
def soft_cross_entropy(logits: Tensor, targets: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """Cross-entropy of each row against a distribution; with weights a class k counts `class_weights[k]`."""
    terms = targets * logits.log_softmax(1)
    return -(terms if class_weights is None else terms * class_weights).sum(1)


@fused
def squared_error(logits: Tensor, targets: Tensor) -> Tensor:
    """Squared error of each row between the predicted and the target distribution, mean over classes."""
    return (logits.softmax(1) - targets).square().mean(1)


@fused
def entropy(logits: Tensor) -> Tensor:
    """Entropy of each row's predicted distribution."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


@fused
def prior_divergence(logits: Tensor, prior: Tensor) -> Tensor:
    """How far the mean prediction is from a prior over the classes (Kullback-Leibler): 0 where they agree.

    A class that no row predicts would cost infinitely much; its mean is taken as 1e-8. (Differs: the authors
    have no such bound.)
    """
    mean = logits.softmax(1).mean(0).clamp(min=1e-8)
    return (torch.xlogy(prior, prior) - prior * mean.log()).sum()


@fused
def bounded_probs(logits: Tensor) -> Tensor:
    """Predicted probabilities that stay 1e-4 away from 0 and from 1."""
    return logits.softmax(1).clamp(1e-4, 1 - 1e-4)


@fused
def elr_regulariser(logits: Tensor, remembered: Tensor) -> Tensor:
    """Early-learning regularisation of each row: the lower, the more it agrees with what is remembered."""
    return (1 - (bounded_probs(logits) * remembered).sum(1)).log()


def label_losses(pred_probs: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of each label, out of class probabilities; finite also where one of them is 0."""
    return -pred_probs.gather(1, labels[:, None]).squeeze(1).clamp(min=1e-30).log()


@fused
def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of the values where the mask is true, and 0 where it is nowhere true."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


@fused
def sharpen(probs: Tensor, temperature: float) -> Tensor:
    """Distributions with their differences drawn out: powers of 1 / temperature, summing to 1 again."""
    return (probs.log() / temperature).softmax(1)


def mix(inputs: Tensor, targets: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Each row with `share` of itself and the rest of a partner: a random permutation of the rows."""
    partner = torch.rand(len(inputs), device=inputs.device).argsort()
    return _blend(inputs, partner, share), _blend(targets, partner, share)


@fused
def _blend(rows: Tensor, partner: Tensor, share: Tensor) -> Tensor:
    return share * rows + (1 - share) * rows[partner]


def mixing_share(alpha: Tensor) -> Tensor:
    """One draw of Beta(alpha, alpha), on the device of `alpha` and without waiting for it."""
    return torch.distributions.Beta(alpha, alpha, validate_args=False).sample()


@fused
def forward_cross_entropy(logits: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """Mean cross-entropy after the predicted probabilities went through the noise: -log (p^T T)_label.

    In logarithms throughout, so that a label the net holds impossible still gives a gradient. (Differs: the
    authors cut predictions off at 1e-7.)
    """
    to_label = transition.clamp(min=torch.finfo(transition.dtype).tiny).log().T[labels]
    return -(logits.log_softmax(1) + to_label).logsumexp(1).mean()


@fused
def importance_weights(pred_probs: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """How much more likely each label is as a true than as a given one: p_label / (p^T T)_label.

    A matrix that is being learned may have entries below 0: the weights then stop at `LARGEST_WEIGHT`.
    (Differs: the authors' do not.)
    """
    true = pred_probs.gather(1, labels[:, None]).squeeze(1)
    given = (pred_probs * transition.T[labels]).sum(1)
    floor = (true / LARGEST_WEIGHT).clamp(min=torch.finfo(true.dtype).tiny)
    return true / torch.maximum(given, floor)


def log_abs_det(matrix: Tensor) -> Tensor:
    """log |det| by elimination; far below that of any other matrix, and without a gradient, where it is 0.

    Torch's own may wait for the device, which a CUDA graph does not allow, and its gradient is not a number
    where the determinant is 0.
    """
    total = matrix.new_zeros(())
    while len(matrix):
        best = matrix[:, 0].abs().argmax()
        row = matrix.index_select(0, best[None])
        fine = ~(row[0, 0].abs() <= SINGULAR)  # so said that "not a number" stays one
        pivot = torch.where(fine, row[0, 0], 1.0)
        total = total + torch.where(fine, pivot.abs().log(), NO_DETERMINANT)
        place = torch.arange(len(matrix), device=matrix.device)[:, None]
        others = torch.where(place == best, matrix[:1], matrix)[1:]  # the first row moves to the best's place
        matrix = others[:, 1:] - others[:, :1] / pivot * row[:, 1:]
    return total


@fused
def dmi_loss(pred_probs: Tensor, labels: Tensor, absent: Tensor | None = None) -> Tensor:
    """-log(|det U| + 0.001) with U[i, j] the sum of the predictions of j over the examples labelled i.

    Classes in the mask `absent` are left out of U. Any other class without an example makes the determinant
    0: the loss is then at its highest and has no gradient.
    """
    given = F.one_hot(labels, pred_probs.shape[1]).double()  # float32 holds no determinant of many classes
    joint = given.T @ pred_probs.double()
    if absent is not None:
        joint = joint + torch.diag(absent.double())  # in a row of zeros: what remains is the minor
    size = log_abs_det(joint)
    return -torch.logaddexp(size, torch.full_like(size, math.log(DMI_GUARD))).float()
