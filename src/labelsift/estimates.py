"""What predictions say about the noise: pure functions of class probabilities and given labels."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

SUREST, SURE = 0.1, 0.2  # shares of the examples that are predicted most surely, and surely
WEAK = 0.2  # more labels, in all, that a weak net contradicts than where it is sure
HIDDEN = 0.25  # of the noise that earlier predictions showed: where less shows now, labels are known by heart
EVEN = 0.1  # of that noise, which shows at least where a net is sure, if labels are wrong and not only hard
LEAST_KEPT = 0.02  # share of a class's labels that are taken as right at the least


def joint_of_labels(pred_probs: Tensor, labels: Tensor) -> Tensor:
    """The joint distribution of given (rows) and true labels (columns), by confident learning.

    Northcutt, Jiang, Chuang, JAIR 2021: an example is counted as of class j if its probability of j reaches
    the mean that examples with the label j have. Rows are then scaled to the counts of the given labels.
    """
    num_classes = pred_probs.shape[1]
    given = F.one_hot(labels, num_classes).to(pred_probs.dtype)
    counts = given.sum(0)
    thresholds = (given * pred_probs).sum(0) / counts.clamp(min=1)
    thresholds = torch.where(counts > 0, thresholds, torch.inf)  # nothing is known of a class without label
    sure = pred_probs >= thresholds
    likely = torch.where(sure, pred_probs, -1.0).argmax(1)
    assigned = F.one_hot(likely, num_classes).to(pred_probs.dtype) * sure.any(1, keepdim=True)
    joint = given.T @ assigned
    unknown = joint.sum(1) == 0
    joint = joint + torch.diag((unknown & (counts > 0)).to(joint.dtype))
    joint = joint / joint.sum(1, keepdim=True).clamp(min=1) * counts[:, None]
    return joint / joint.sum().clamp(min=1)


def noise_rate(pred_probs: Tensor, labels: Tensor) -> float:
    """The estimated share of wrong labels."""
    return float(1 - joint_of_labels(pred_probs, labels).trace())


def joint_over_training(mean_probs: Tensor, last_probs: Tensor, labels: Tensor) -> Tensor:
    """The joint distribution of given and true labels, by the mean of all predictions and the last ones.

    The mean hides what the net has come to know since. At last it is too sure of its own errors, if it was
    trained on what it agrees with: so midway between them. If it has learned wrong labels by heart, it hides
    them at last and shows less noise than the mean, which then counts alone. A weak net takes hard examples
    for wrong labels, but not where it is sure: how often it contradicts those tells how many are wrong.
    """
    joint = joint_of_labels(mean_probs, labels)
    if noise_rate(last_probs, labels) > 1 - joint.trace():
        joint = joint_of_labels((mean_probs + last_probs) / 2, labels)
    sure, all_ = _contradicted(last_probs, labels, SURE)
    rate = float(1 - joint.trace())
    if all_ - sure > WEAK and sure < rate:
        joint = sure / rate * joint + (1 - sure / rate) * torch.diag(joint.sum(1))
    return joint


def doubt_where_sure(pred_probs: Tensor, labels: Tensor) -> float:
    """How often the surest tenth of the predictions contradicts its labels, against all predictions.

    Labels that are wrong are so whether predictions are sure or not, and this is near 1; labels that are
    right are contradicted where an example is hard, and hardly ever where it is not: this is near 0.
    """
    surest, all_ = _contradicted(pred_probs, labels, SUREST)
    return surest / max(all_, 1 / len(labels))


def hidden_since(earlier: Tensor, labels: Tensor, rate: float) -> bool:
    """Whether wrong labels that showed earlier no longer do: the noise now seems to be of this rate.

    A net that learns all labels by heart shows no noise at last. Earlier hard examples look wrong, too: it
    must not have been weak then, and have contradicted labels where it was sure.
    """
    shown = noise_rate(earlier, labels)
    sure, all_ = _contradicted(earlier, labels, SURE)
    return rate < HIDDEN * shown and all_ - sure <= WEAK and sure > EVEN * shown


def _contradicted(pred_probs: Tensor, labels: Tensor, share: float) -> tuple[float, float]:
    """How many labels this share of the predictions, the surest ones, contradict; and how many all do."""
    sureness, predicted = pred_probs.max(1)
    contradicted = (predicted != labels).float()
    surest = sureness.topk(math.ceil(share * len(labels))).indices
    return float(contradicted[surest].mean()), float(contradicted.mean())


def transition(pred_probs: Tensor, labels: Tensor) -> Tensor:
    """Estimated P(given j | true i), by confident learning."""
    return transition_of(joint_of_labels(pred_probs, labels))


def transition_of(joint: Tensor) -> Tensor:
    """P(given j | true i); a class that nothing seems to belong to keeps its labels."""
    columns = joint.T
    missing = columns.sum(1) == 0
    columns = columns + torch.diag(missing.to(columns.dtype))
    return columns / columns.sum(1, keepdim=True)


def anchor_transition(pred_probs: Tensor, filter_outliers: bool = True) -> Tensor:
    """Estimated P(given j | true i), read off the example that is most surely of class i (its anchor).

    Patrini et al., CVPR 2017. The probabilities are of given labels: those of a net that was trained on them
    and has not learned them by heart. With `filter_outliers` the 3 % that are surest are passed over.
    """
    last = len(pred_probs) - 1
    # Differs: the authors set the 3 % to 0, in place, and know no least diagonal.
    # The one just below the 97th percentile ("higher" of two). By rank and not by value: an over-sure net
    # gives many examples the same probability, and what lies below it is no anchor.
    place = max(-(-97 * last // 100) - 1, 0) if filter_outliers else last
    anchors = pred_probs.sort(dim=0, stable=True).indices[place]
    rows = pred_probs[anchors]
    rows = rows + torch.diag((LEAST_KEPT - rows.diagonal()).clamp(min=0))
    return rows / rows.sum(1, keepdim=True)


def one_way_transition(pred_probs: Tensor, labels: Tensor) -> Tensor:
    """The transition without what the net itself confuses.

    Two classes that are alike are taken for one another both ways, by the net as by those who label. Only
    what goes from one to the other much more often than back (by 5 % of the class and three standard errors)
    is taken as noise of that pair; all else is spread evenly over the classes.
    """
    full = transition(pred_probs, labels)
    num_classes = len(full)
    apart = 1 - torch.eye(num_classes, dtype=full.dtype, device=full.device)
    off = full * apart
    counts = torch.bincount(pred_probs.argmax(1), minlength=num_classes).clamp(min=1)
    error = ((off + off.T) / torch.minimum(counts[:, None], counts)).sqrt()
    excess = off - off.T
    one_way = torch.where(excess > (3 * error).clamp(min=0.05), excess, 0.0)
    rest = (off - one_way).sum(1).mean().clamp(min=0.01)  # never 0: a rare error is an error still
    noise = one_way + rest / max(num_classes - 1, 1) * apart
    return noise + torch.diag((1 - noise.sum(1)).clamp(min=0))
