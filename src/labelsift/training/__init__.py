"""Training: the learner, the run and the judge."""

from labelsift.training.best import Best
from labelsift.training.device import Machine
from labelsift.training.judge import Judge, mean_probs
from labelsift.training.learner import Learner
from labelsift.training.predictions import Predictions
from labelsift.training.run import Record, Run

__all__ = ["Best", "Judge", "Learner", "Machine", "Predictions", "Record", "Run", "mean_probs"]
