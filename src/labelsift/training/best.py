"""The best epoch so far, for methods that go on from it."""

import torch

from labelsift.training.learner import Learner
from labelsift.training.run import Run


class Best:
    """The weights of a learner's best epoch so far; saved with the run's checkpoints, and resumed."""

    def __init__(self, run: Run, learner: Learner, name: str) -> None:
        self._net = learner.net
        self._weights = {key: tensor.clone() for key, tensor in learner.net.state_dict().items()}
        self._score = torch.full((), -torch.inf, dtype=torch.float64, device=run.machine.device)
        run.keep(**{f"{name}/{key}": tensor for key, tensor in self._weights.items()})
        run.keep(**{f"{name}/score": self._score})

    def offer(self, score: float) -> bool:
        """Keep the weights as they are now, if the score is higher than all before."""
        better = score > float(self._score)
        if better:
            self._score.fill_(score)
            for key, tensor in self._net.state_dict().items():
                self._weights[key].copy_(tensor)
        return better

    def load(self) -> None:
        """Give the net the weights of the best epoch; those it began with, if there was none."""
        self._net.load_state_dict(self._weights)
