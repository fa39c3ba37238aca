"""The noise rate, for methods whose authors took it as known: a number, an estimate, or the oracle's."""

from collections.abc import Sequence

import torch

from labelsift import estimates
from labelsift.data import Examples
from labelsift.methods.method import Method
from labelsift.training import Learner, Run, mean_probs

MEANING = "share of wrong labels: a number, estimate, or oracle (the true one)"


def check_noise_rate(method: Method, value: float | str) -> None:
    """Refuse a noise rate that is none of the three."""
    known = 0 <= value < 1 if isinstance(value, float) else value in ("estimate", "oracle")
    method.check("noise_rate", known, "a number from 0 to below 1, estimate or oracle")


class NoiseRate:
    """The noise rate a method goes by, as the setting has it; saved with the run's checkpoints, and resumed.

    Where it is estimated it is 0 until the method asks its nets for the first time.
    """

    def __init__(self, run: Run, setting: float | str) -> None:
        self.estimated = setting == "estimate"
        known = run.true_noise_rate() if setting == "oracle" else 0.0 if self.estimated else setting
        self._value = torch.tensor(known, dtype=torch.float64)
        run.keep(noise_rate=self._value)

    def __float__(self) -> float:
        return float(self._value)

    def estimate(self, learners: Sequence[Learner], examples: Examples) -> None:
        """Ask the nets what they think of the labels; a rate that is known stays."""
        if self.estimated:
            rate = estimates.noise_rate(mean_probs(learners, examples), examples.labels)
            self._value.fill_(min(rate, 1 - 1 / examples.num_classes))  # nets that know nothing say more
