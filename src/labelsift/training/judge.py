"""The judge: the test set and the true labels live here and nowhere else."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from labelsift.data import Examples
from labelsift.training.learner import Learner


@dataclass(frozen=True)
class Judge:
    """Measures nets by what their method must not see."""

    test: Examples | None = None  # with true labels
    validation: Examples | None = None  # with given (noisy) labels
    true_labels: Tensor | None = None  # of the whole set, by `index`
    clean_validation: Examples | None = None  # with true labels, where the data set brings such a part
    noise: str = ""  # that was put on the labels, as in symmetric:0.5
    # What nets of an ensemble that are finished predict, by place and part.
    predicted: dict[tuple[int, str], Tensor] = field(default_factory=dict)

    def accuracies(self, learners: Sequence[Learner], first: int = 0) -> dict[str, float]:
        """Accuracy of the net at place `first` on the parts that are there, and of all nets together.

        The nets before it are finished, and predict once and for all.
        """
        parts = {
            "noisy_validation_accuracy": self.validation,
            "clean_validation_accuracy": self.clean_validation,
            "test_accuracy": self.test,
        }
        found = {}
        for name, part in parts.items():
            if part is None:
                continue
            for place, learner in enumerate(learners[:first]):
                if (place, name) not in self.predicted:
                    self.predicted[place, name] = learner.pred_probs(part)
            known = [self.predicted[place, name] for place in range(first)]
            probs = torch.stack([*known, *(learner.pred_probs(part) for learner in learners[first:])])
            found[name] = _accuracy(probs[first], part)
            if len(learners) > 1:
                # Differs: DivideMix and ELR+ take the mean of logits.
                found[f"ensemble_{name}"] = _accuracy(probs.mean(0), part)
        return found

    def confident(self, confident: Tensor, among: Examples) -> dict[str, float]:
        """How many examples were called confident and, where the truth is known, how rightly.

        Precision: the share of the confident ones whose label is true. Recall: the share of all true labels
        that are among them.
        """
        count = int(confident.sum())
        found: dict[str, float] = {"confident": count}
        if self.true_labels is not None:
            right = among.labels == self.true_labels[among.index]
            hits = int((confident & right).sum())
            if count:
                found["confident_precision"] = hits / count
            if right.any():
                found["confident_recall"] = hits / int(right.sum())
        return found


@torch.no_grad()
def mean_probs(learners: Sequence[Learner], examples: Examples, views: int = 0) -> Tensor:
    """The mean of the nets' class probabilities."""
    return torch.stack([learner.pred_probs(examples, views) for learner in learners]).mean(0)


def _accuracy(probs: Tensor, part: Examples) -> float:
    return int((probs.argmax(1) == part.labels).sum()) / len(part)
