"""Two-component mixtures of one-dimensional values, fitted by expectation and maximisation (EM).

Small losses belong to right labels, large ones to wrong labels: DivideMix tells them apart by two Gaussians,
M-correction by two Betas. Nothing is drawn at random, so the same values have the same mixture.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Beta, Normal

EDGE = 1e-4  # Betas are fitted to values this far inside of 0 and 1
LEAST_VARIANCE = 1e-6  # of a Beta: without spread its parameters would have no bound
APART = 1e-9  # means that are nearer to one another are not told apart


@dataclass(frozen=True)
class Mixture:
    """Two components and their shares; the one with the larger mean is the high one, else the second."""

    components: Normal | Beta
    shares: Tensor

    def posterior(self, values: Tensor) -> Tensor:
        """The probability of the high component, given each of the values."""
        belongs = self.expect(values)[0]
        first, second = self.components.mean
        swapped = (first - second > APART) & (self.shares > 0).all()  # an empty component is nowhere
        return torch.where(swapped, belongs[:, 0], belongs[:, 1])

    def expect(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The share of each value that each component has, and the mean log-likelihood."""
        values = values.double()
        if isinstance(self.components, Beta):
            values = values.clamp(EDGE, 1 - EDGE)
        joint = self.components.log_prob(values[:, None]) + self.shares.log()  # type: ignore[no-untyped-call]
        return joint.softmax(1), joint.logsumexp(1).mean()


def to_unit(values: Tensor) -> Tensor:
    """The values moved and scaled such that they reach from 0 to 1; all 0, where they are all the same."""
    values = values.double()
    spread = values.max() - values.min()
    return (values - values.min()) / torch.where(spread > 0, spread, 1.0)


def fit_gaussians(
    values: Tensor, iterations: int = 10, tolerance: float = 1e-2, added_variance: float = 5e-4
) -> Mixture:
    """Two Gaussians: from the best cut into two groups on, until the likelihood hardly grows.

    Differs: the authors of DivideMix begin with a random cut (k-means).
    Values that are all the same belong to the low one.
    """
    values = values.double()
    upper = upper_group(values)
    belongs = torch.stack([~upper, upper], dim=1).double()
    last = -torch.inf
    for _ in range(iterations):
        belongs, likelihood = _gaussians(values, belongs, added_variance).expect(values)
        if abs(float(likelihood) - last) < tolerance:
            break
        last = float(likelihood)
    return _gaussians(values, belongs, added_variance)


def fit_betas(values: Tensor, iterations: int = 10) -> Mixture:
    """Two Betas on values of 0 to 1: by the method of moments, from Beta(1, 2) and Beta(2, 1) on.

    The first posterior of a value is the value itself, and stays so where values are symmetric about 0.5.
    Differs: the authors of M-correction take the second component for that of wrong labels, not the one with
    the larger mean, and put a floor under small densities.
    """
    values = values.double().clamp(EDGE, 1 - EDGE)
    begin = torch.tensor([1.0, 2.0], dtype=torch.float64, device=values.device)
    mixture = Mixture(Beta(begin, begin.flip(0), validate_args=False), torch.full_like(begin, 0.5))
    for _ in range(iterations):
        mean, variance, shares = _moments(values, mixture.expect(values)[0])
        both = mean * (1 - mean) / variance.clamp(min=LEAST_VARIANCE) - 1  # above 0, the values being inside
        mixture = Mixture(Beta(mean * both, (1 - mean) * both, validate_args=False), shares)
    return mixture


def upper_group(values: Tensor) -> Tensor:
    """Which values are in the upper of the two groups with the least squares within: 2-means, exactly."""
    if len(values) < 2:
        return torch.zeros_like(values, dtype=torch.bool)
    ordered = (values - values.mean()).sort().values
    lower = torch.arange(1, len(values), device=values.device)  # how many are in the lower group
    sums = ordered.cumsum(0)[:-1]  # of the lower group; that of the upper one is its negative
    between = sums.square() / (lower * (len(values) - lower))  # the squares between them, up to a factor
    return values - values.mean() > ordered[between.argmax()]


def _gaussians(values: Tensor, belongs: Tensor, added_variance: float) -> Mixture:
    mean, variance, shares = _moments(values, belongs)
    return Mixture(Normal(mean, (variance + added_variance).sqrt(), validate_args=False), shares)


def _moments(values: Tensor, belongs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and share of each component; one that has nothing gets the moments of all values."""
    counts = belongs.sum(0)
    weights = torch.where(counts > 0, belongs, 1.0)
    weights = weights / weights.sum(0)
    mean = (values[:, None] * weights).sum(0)
    variance = ((values[:, None] - mean).square() * weights).sum(0)
    return mean, variance, counts / len(values)
