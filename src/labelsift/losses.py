"""Pure functions on tensors: what a method minimises, and the weights it minimises it with."""

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
