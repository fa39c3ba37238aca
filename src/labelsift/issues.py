"""What a trained net says about each label: a quality score, a suggestion, and whether it agrees."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LabelIssues:
    """Per example: the class the net would give, the probability it gives the label, and agreement."""

    suggested_labels: Tensor
    label_quality: Tensor  # 0..1, low is suspicious
    confident: Tensor


def find_issues(pred_probs: Tensor, labels: Tensor) -> LabelIssues:
    """Judge given labels by class probabilities of the same examples."""
    suggested = pred_probs.argmax(1)
    quality = pred_probs.gather(1, labels[:, None]).squeeze(1)
    return LabelIssues(suggested, quality.clamp(0, 1), suggested == labels)
