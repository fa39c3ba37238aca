"""What is counted in passing, on the device and without waiting for it."""

import torch
from torch import Tensor

from labelsift.fusion import fused


@fused
def count_batch(tally: Tensor, loss: Tensor, scores: Tensor, labels: Tensor) -> None:
    """Add the loss, the hits and the examples of a batch."""
    size = len(labels)
    tally[0] += loss * size
    tally[1] += (scores.argmax(1) == labels).sum()
    tally[2] += size


@fused
def add_predictions(
    predicted: Tensor, agreed: Tensor, times: Tensor, index: Tensor, labels: Tensor, probs: Tensor
) -> None:
    """Add what was predicted for some examples, and whether their labels were met, in their places."""
    agrees = (probs.argmax(1) == labels).float()
    predicted.index_add_(0, index, probs)
    agreed.index_add_(0, index, agrees)
    times.index_add_(0, index, torch.ones_like(agrees))
