"""What predictions say about the noise: pure functions of class probabilities and given labels."""

import torch
from torch import Tensor
from torch.nn import functional as F


def joint_of_labels(pred_probs: Tensor, labels: Tensor) -> Tensor:
    """The joint distribution of given (rows) and true labels (columns), by confident learning.

    Northcutt, Jiang, Chuang, JAIR 2021: an example is counted as of class j if its probability of j reaches
    the mean that examples with the label j have. Rows are then scaled to the counts of the given labels.
    """
    num_classes = pred_probs.shape[1]
    given = F.one_hot(labels, num_classes).to(pred_probs.dtype)
    counts = given.sum(0)
    thresholds = (given * pred_probs).sum(0) / counts.clamp(min=1)
    thresholds = torch.where(counts > 0, thresholds, torch.inf)  # nothing is known of a class without label
    sure = pred_probs >= thresholds
    likely = torch.where(sure, pred_probs, -1.0).argmax(1)
    assigned = F.one_hot(likely, num_classes).to(pred_probs.dtype) * sure.any(1, keepdim=True)
    joint = given.T @ assigned
    unknown = joint.sum(1) == 0
    joint = joint + torch.diag((unknown & (counts > 0)).to(joint.dtype))
    joint = joint / joint.sum(1, keepdim=True).clamp(min=1) * counts[:, None]
    return joint / joint.sum().clamp(min=1)


def noise_rate(pred_probs: Tensor, labels: Tensor) -> float:
    """The estimated share of wrong labels."""
    return float(1 - joint_of_labels(pred_probs, labels).trace())


def transition(pred_probs: Tensor, labels: Tensor) -> Tensor:
    """Estimated P(given j | true i); a class that nothing seems to belong to keeps its labels."""
    columns = joint_of_labels(pred_probs, labels).T
    missing = columns.sum(1) == 0
    columns = columns + torch.diag(missing.to(columns.dtype))
    return columns / columns.sum(1, keepdim=True)
