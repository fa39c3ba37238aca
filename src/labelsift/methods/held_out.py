"""What methods that choose an epoch, or read the noise off a net, ask of it: the held-out labels too."""

import math

import torch
from torch import Tensor

from labelsift.data import Examples
from labelsift.estimates import anchor_transition
from labelsift.training import Learner, Run


def held_out_accuracy(run: Run, learner: Learner, last: bool, transition: Tensor | None = None) -> float:
    """On the labels that were held out, after the noise; without them only the last epoch counts."""
    if run.validation is None:
        return 0.0 if last else -math.inf
    probs = learner.pred_probs(run.validation)
    noisy = probs if transition is None else probs @ transition
    return (noisy.argmax(1) == run.validation.labels).double().mean().item()


def anchor_transition_of(run: Run, learner: Learner, pool: Examples, filter_outliers: bool) -> Tensor:
    """The transition matrix that a net shows at its anchors, among the held-out examples too."""
    seen = [learner.pred_probs(pool)]
    seen += [learner.pred_probs(run.validation)] if run.validation is not None else []
    return anchor_transition(torch.cat(seen), filter_outliers)
