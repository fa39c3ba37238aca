"""Learning rates as functions of the epoch."""

import math
from collections.abc import Sequence

SCHEDULES = ("constant", "step", "cosine")


def step_lr(lr: float, epoch: int, epochs: int, decay_at: Sequence[float], factor: float) -> float:
    """`lr`, times `factor` from each of these shares of the epochs on; epochs count from 0."""
    drops = sum(epoch >= round(share * epochs) for share in decay_at)
    return lr * factor**drops


def cosine_lr(lr: float, epoch: int, epochs: int, end: float = 0.01) -> float:
    """Half a cosine from `lr` down to `end` times it."""
    return lr * (end + (1 - end) * (1 + math.cos(math.pi * epoch / epochs)) / 2)
