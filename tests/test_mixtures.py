import importlib
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labelsift.mixtures import Mixture, fit_betas, fit_gaussians, to_unit, upper_group

GOLDEN = torch.tensor([0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.6, 0.8, 0.9], dtype=torch.float64)
AT = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)


def close(found, *wanted):
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), atol=1e-6, rtol=0)


def clusters(low=0.1, high=0.8, counts=(300, 200), spread=0.005):
    torch.manual_seed(0)
    both = [torch.randn(count) * spread + centre for count, centre in zip(counts, (low, high), strict=True)]
    return torch.cat(both)


def test_betas_have_the_golden_numbers():
    once, ten, fifty = (fit_betas(GOLDEN, iterations) for iterations in (1, 10, 50))
    close(once.components.concentration1, 0.333377, 1.164307)
    close(once.components.concentration0, 1.826690, 0.595068)
    close(once.shares, 0.686667, 0.313333)
    close(ten.components.concentration1, 0.808687, 0.926633)
    close(ten.components.concentration0, 7.287383, 0.582450)
    close(ten.shares, 0.584855, 0.415145)
    close(ten.posterior(AT), 0.124224, 0.898245, 0.999998)
    close(fifty.components.concentration1, 3.610411, 8.047183)
    close(fifty.components.concentration0, 38.048376, 2.449262)
    close(fifty.shares, 0.666662, 0.333338)


def test_the_first_posterior_of_betas_is_the_value_itself():
    torch.testing.assert_close(fit_betas(GOLDEN, 0).posterior(AT), AT)


def test_values_symmetric_about_a_half_tell_betas_nothing():
    values = torch.tensor([0.1, 0.3, 0.35, 0.65, 0.7, 0.9], dtype=torch.float64)
    torch.testing.assert_close(fit_betas(values, 30).posterior(values), values)


@pytest.mark.parametrize("fit", [fit_betas, fit_gaussians])
def test_two_tight_clusters_are_told_apart(fit):
    values = clusters()
    high = fit(values).posterior(values)
    assert (high[:300] < 1e-3).all()
    assert (high[300:] > 1 - 1e-3).all()


def test_gaussians_of_two_tight_clusters_are_the_clusters():
    values = clusters().double()
    found = fit_gaussians(values)
    parts = values[:300], values[300:]
    torch.testing.assert_close(found.components.mean, torch.stack([part.mean() for part in parts]))
    variance = torch.stack([part.var(correction=0) for part in parts]) + 5e-4
    torch.testing.assert_close(found.components.variance, variance)
    close(found.shares, 0.6, 0.4)


def test_gaussians_that_overlap_are_those_of_scikit_learn():
    mixture = importlib.import_module("sklearn.mixture")
    torch.manual_seed(1)
    values = to_unit(torch.cat([torch.randn(600) * 0.1 + 0.2, torch.randn(400) * 0.15 + 0.6]))
    theirs = mixture.GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0)
    theirs.fit(values[:, None].numpy())
    high = theirs.predict_proba(values[:, None].numpy())[:, theirs.means_.argmax()]
    torch.testing.assert_close(
        fit_gaussians(values).posterior(values), torch.from_numpy(high), atol=1e-3, rtol=0
    )


def test_em_of_gaussians_makes_overlapping_values_likelier():
    torch.manual_seed(1)
    values = torch.cat([torch.randn(600) * 0.1 + 0.2, torch.randn(400) * 0.15 + 0.6])
    likelihood = [
        float(fit_gaussians(values, iterations, tolerance=0, added_variance=0).expect(values)[1])
        for iterations in range(8)
    ]
    assert likelihood == sorted(likelihood)
    assert likelihood[-1] > likelihood[0] + 1e-3
    stopped = fit_gaussians(values, 50, tolerance=1e9)  # once there is a likelihood to compare with
    assert stopped.shares.tolist() == fit_gaussians(values, 2, tolerance=0).shares.tolist()


def test_em_of_gaussians_stops_where_a_step_makes_values_by_less_than_a_hundredth_likelier():
    torch.manual_seed(1)
    values = torch.cat([torch.randn(600) * 0.1 + 0.2, torch.randn(400) * 0.15 + 0.6])
    likelihood = [float(fit_gaussians(values, n, tolerance=0).expect(values)[1]) for n in range(9)]
    steps = [after - before for before, after in itertools.pairwise(likelihood)]
    wanted = next(n for n, step in enumerate(steps, 1) if step < 0.01)
    assert (
        fit_gaussians(values).shares.tolist()
        == fit_gaussians(values, wanted + 1, tolerance=0).shares.tolist()
    )


@pytest.mark.parametrize(("scale", "shift"), [(7.0, 3.0), (1e-3, 0.0), (1e3, -50.0)])
@pytest.mark.parametrize("fit", [fit_betas, fit_gaussians])
def test_moved_and_scaled_losses_have_the_same_posterior(fit, scale, shift):
    losses = clusters(spread=0.1).double()
    unit, moved = to_unit(losses), to_unit(losses * scale + shift)
    torch.testing.assert_close(fit(unit).posterior(unit), fit(moved).posterior(moved))


@pytest.mark.parametrize("fit", [fit_betas, fit_gaussians])
def test_a_mixture_is_fitted_without_a_draw(fit):
    values = clusters(spread=0.1)
    state = torch.get_rng_state()
    first, second = fit(values).posterior(values), fit(values).posterior(values)
    assert torch.equal(first, second)
    assert torch.equal(state, torch.get_rng_state())


def test_the_high_component_is_the_one_with_the_larger_mean():
    """A narrow group inside of a wide one: EM may end with the means the other way round."""
    found = fit_gaussians(GOLDEN)
    turned = type(found)(
        torch.distributions.Normal(found.components.loc.flip(0), found.components.scale.flip(0)),
        found.shares.flip(0),
    )
    torch.testing.assert_close(turned.posterior(GOLDEN), found.posterior(GOLDEN))


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0, 1e6])
def test_gaussians_take_constant_losses_as_low(value):
    values = torch.full((40,), value)
    for each in (values, to_unit(values)):
        assert fit_gaussians(each).posterior(each).tolist() == [0.0] * 40


def test_what_is_constant_is_0_in_the_unit_range():
    assert to_unit(torch.full((3,), 5.0)).tolist() == [0, 0, 0]
    assert to_unit(torch.tensor([3.0, 5.0, 4.0])).tolist() == [0, 1, 0.5]


@settings(max_examples=15)
@given(st.lists(st.sampled_from([0.0, 1e-9, 0.1, 0.5, 0.7, 1.0]), min_size=1, max_size=12))
def test_no_values_make_a_posterior_that_is_none(values):
    values = torch.tensor(values)
    for mixture in (fit_gaussians(values), fit_betas(values)):
        found = mixture.posterior(torch.linspace(0, 1, 11))
        assert ((found >= 0) & (found <= 1)).all()


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12))
def test_no_other_cut_leaves_less_within_the_groups(values):
    values = torch.tensor(values, dtype=torch.float64)

    def within(upper):
        return sum(float((part - part.mean()).square().sum()) for part in (values[upper], values[~upper]))

    upper = upper_group(values)
    if not upper.any():
        assert values.max() - values.min() < 1e-6
        return
    for cut in values.unique()[:-1]:
        assert within(upper) <= within(values > cut) + 1e-12


def test_a_component_that_has_nothing_is_never_the_high_one():
    values = torch.tensor([0.2, 0.9], dtype=torch.float64)
    normal = torch.distributions.Normal(torch.tensor([0.9, 0.1]), torch.tensor([0.1, 0.1]))
    found = Mixture(normal, torch.tensor([1.0, 0.0]))
    assert found.posterior(values).tolist() == [0, 0]


def test_betas_take_ten_steps():
    close(fit_betas(GOLDEN).shares, 0.584855, 0.415145)
