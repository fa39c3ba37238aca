"""Learning rates as functions of the epoch, and weights that grow with the steps."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

SCHEDULES = ("constant", "step", "linear", "cosine")


def step_lr(lr: float, epoch: float, epochs: int, decay_at: Sequence[float], factor: float) -> float:
    """`lr`, times `factor` from each of these shares of the epochs on; epochs count from 0."""
    drops = sum(epoch >= round(share * epochs) for share in decay_at)
    return lr * factor**drops


def linear_lr(lr: float, epoch: float, epochs: int, decay_at: Sequence[float]) -> float:
    """`lr` up to the first of these shares of the epochs, and from there a straight line to 0."""
    begin = round(decay_at[0] * epochs) if decay_at else epochs
    return lr * min(1.0, (epochs - epoch) / max(epochs - begin, 1))


def cosine_lr(lr: float, epoch: float, epochs: int, end: float = 0.01) -> float:
    """Half a cosine from `lr` down to `end` times it."""
    return lr * (end + (1 - end) * (1 + math.cos(math.pi * epoch / epochs)) / 2)


def exponential_ramp(steps: Tensor, length: int) -> Tensor:
    """A share that grows with the steps done from almost nothing to 1, reached after `length` of them."""
    left = 1 - steps.clamp(max=length) / length if length else torch.zeros_like(steps, dtype=torch.float)
    return (-5 * left.square()).exp()
