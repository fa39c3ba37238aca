"""What training showed about each label: a quality score, a suggestion, and why it is doubted."""

from dataclasses import dataclass

import torch
from torch import Tensor

from labelsift.estimates import joint_over_training, one_way_transition

NEVER, CHANGED, NARROW = "never learned", "disagreement over epochs", "low margin"
STEADY = 0.8  # share of predictions that met the labels a net agrees with at last, if it can judge labels


@dataclass(frozen=True)
class LabelIssues:
    """Per example: the class that is suggested, how good its label is, how often the nets agreed with it."""

    suggested_labels: Tensor
    label_quality: Tensor  # 0..1, low is suspicious; below a half another class is suggested
    agreement: Tensor  # share of all predictions
    confident: Tensor  # whether the last prediction agrees
    joint: Tensor  # of all of them: the estimated distribution of given and true labels


def find_issues(mean_probs: Tensor, agreement: Tensor, last_probs: Tensor, labels: Tensor) -> LabelIssues:
    """Judge given labels by the mean over all predictions that training made of the same examples.

    The quality is the probability that a label is right, given those predictions and the estimated noise: a
    label is the more doubtful the more probable a class is from which it is often got wrong. Means over
    epochs are too timid, so the odds are shifted until as many labels are doubted as the noise estimate says.
    """
    label = labels[:, None]
    confident = last_probs.argmax(1) == labels
    ways = mean_probs * one_way_transition(mean_probs, labels)[:, labels].T  # true class and label, jointly
    right = ways.gather(1, label).squeeze(1) / ways.sum(1).clamp(min=torch.finfo(ways.dtype).tiny)
    joint = joint_over_training(mean_probs, last_probs, labels)
    rate = float(1 - joint.trace())
    even = right.sort().values[min(int(rate * len(right)), len(right) - 1)].clamp(1e-6, 1 - 1e-6)
    quality = right * (1 - even) / (right * (1 - even) + (1 - right) * even)
    rival = mean_probs.scatter(1, label, -1.0).argmax(1)
    return LabelIssues(torch.where(quality < 0.5, rival, labels), quality, agreement, confident, joint)


def unsteady(issues: LabelIssues) -> str:
    """What to say of a net that changed its mind too often for its doubts to be trusted; nothing else.

    On pictures of clothes LeNet met 88 to 96 % of the labels that it agreed with at last, whatever their
    noise; on photos, half of which it gets wrong, 73 to 77 %. Its list is then still in order, worst first.
    """
    met = float(issues.agreement[issues.confident].mean()) if issues.confident.any() else 0.0
    if met >= STEADY:
        return ""
    return (
        f"Over training the net met only {100 * met:.0f} % of the very labels that it agrees with at last: "
        "it is weak on these data or learned labels by heart, and some that it doubts are right. The worst "
        "come first in the list; a stronger net is mistaken less often."
    )


def reason(agreement: float) -> str:
    """Why a label is doubted: by how many of the predictions that training made it was hardly ever met, by
    the fewer, or by most and yet not surely."""
    if agreement < 0.05:
        return NEVER
    return CHANGED if agreement < 0.5 else NARROW
