import pytest
import torch

from labelsift import InputError
from labelsift.methods import CDR, CoTeaching, make_method
from labelsift.methods.noise_rate import NoiseRate
from labelsift.training import Learner


@pytest.mark.parametrize("cls", [CDR, CoTeaching])
def test_a_rate_is_a_number_or_one_of_two_words(cls):
    for wrong in ("guess", "1", "-0.1", 1.0, ""):
        with pytest.raises(InputError, match=r"noise_rate .* must be a number from 0 to below 1, estimate"):
            cls(noise_rate=wrong)
    assert cls(noise_rate="oracle").noise_rate == "oracle"
    assert make_method(cls.name, "toy", "lenet", "", {"noise_rate": "0.3"}).noise_rate == 0.3
    assert cls().noise_rate == "estimate"


def test_a_known_rate_is_not_estimated(make_run):
    run = make_run()
    learner = run.learner()
    for setting, rate in ((0.2, 0.2), ("oracle", run.true_noise_rate())):
        known = NoiseRate(run, setting)
        known.estimate([learner], run.examples)
        assert float(known) == pytest.approx(rate)


def test_the_estimate_is_of_the_mean_of_the_nets(make_run, monkeypatch):
    run = make_run()
    hot = torch.nn.functional.one_hot(run.examples.labels, 3).float()
    says = {}
    monkeypatch.setattr(Learner, "pred_probs", lambda self, examples, views=0: says[self])
    sure, doubting = run.learner(), run.learner()
    says |= {sure: hot, doubting: hot}
    rate = NoiseRate(run, "estimate")
    assert float(rate) == 0
    rate.estimate([sure, doubting], run.examples)
    assert float(rate) == pytest.approx(0, abs=1e-6)
    quarter = torch.arange(len(hot)) % 4 == 0  # the mean is sure that these labels are wrong
    says[doubting] = torch.where(quarter[:, None], 4 * hot.roll(1, 1), hot)
    rate.estimate([sure, doubting], run.examples)
    assert float(rate) == pytest.approx(0.25, abs=0.01)


def test_nets_that_know_nothing_do_not_make_all_labels_wrong(make_run, monkeypatch):
    run = make_run()
    wrong = torch.nn.functional.one_hot(run.examples.labels, 3).float().roll(1, 1)
    monkeypatch.setattr(Learner, "pred_probs", lambda self, examples, views=0: wrong)
    rate = NoiseRate(run, "estimate")
    rate.estimate([run.learner()], run.examples)
    assert float(rate) == pytest.approx(2 / 3)
