import pytest
import torch
from torch.nn import functional as F

import labelsift
from labelsift import CE, METHODS
from labelsift.losses import LEAST_ALPHA, mixing_share
from labelsift.methods import MixUp
from labelsift.training import Learner
from toys import TinyNet, toy_data


def test_a_mixture_that_is_all_of_the_first_is_plain_training(make_run, monkeypatch):
    plain = make_run(folder="a")
    CE(epochs=2, batch_size=16).fit(plain)
    monkeypatch.setattr("labelsift.methods.mixup.mixing_share", lambda alpha: torch.tensor(1.0))
    mixed = make_run(folder="b")
    MixUp(epochs=2, batch_size=16).fit(mixed)
    a, b = (run.learners[0].net.state_dict() for run in (plain, mixed))
    for name in a:
        torch.testing.assert_close(a[name], b[name], msg=name)


def test_mixtures_slow_the_learning_by_heart():
    agreed = []
    for method in (
        CE(epochs=8, batch_size=16, lr=0.03),
        MixUp(epochs=8, batch_size=16, lr=0.03, alpha=8.0),
    ):
        result = labelsift.fit(toy_data(240), method=method, net=TinyNet, augment="none")
        agreed.append(result.confident.mean())  # with the given labels, of which 0.4 are wrong
    assert agreed[1] < agreed[0] - 0.1


def test_a_step_against_the_papers_two_terms(make_run, monkeypatch):
    """One share for the whole batch, as it is drawn: also where the partner's part is the larger one."""
    run, seen, drawn = make_run(), [], []
    monkeypatch.setattr(
        "labelsift.methods.mixup.mixing_share", lambda alpha: drawn.append(alpha.item()) or torch.tensor(0.3)
    )
    monkeypatch.setattr("labelsift.losses.torch.rand", lambda n, **_: torch.arange(n).flip(0))
    real, view = Learner.__call__, labelsift.data.Batch.view

    def call(self, mixed):
        seen.append((mixed.clone(), real(self, mixed)))
        return seen[-1][1]

    views, labels = [], []

    def one_view(self):
        labels.append(self.labels)
        views.append(view(self))
        return views[-1]

    monkeypatch.setattr(Learner, "__call__", call)
    monkeypatch.setattr(labelsift.data.Batch, "view", one_view)
    MixUp(epochs=1, batch_size=240, alpha=8.0).fit(run)
    assert drawn == [8.0]
    ((mixed, logits),), (x,), (y,) = seen, views, labels
    torch.testing.assert_close(mixed, 0.3 * x + 0.7 * x.flip(0))
    expected = 0.3 * F.cross_entropy(logits, y) + 0.7 * F.cross_entropy(logits, y.flip(0))
    assert run.history[0]["train_loss"] == pytest.approx(expected.item(), rel=1e-5)


def test_a_batch_that_is_its_own_partner_is_plain_training(make_run, monkeypatch):
    plain = make_run(folder="a")
    CE(epochs=2, batch_size=16).fit(plain)
    monkeypatch.setattr("labelsift.losses.torch.rand", lambda n, **_: torch.arange(n))
    mixed = make_run(folder="b")
    MixUp(epochs=2, batch_size=16).fit(mixed)
    losses = [[row["train_loss"] for row in run.history] for run in (plain, mixed)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_small_shares_are_nearly_nothing_or_all_and_smaller_ones_are_refused():
    torch.manual_seed(0)
    draws = torch.stack([mixing_share(torch.tensor(LEAST_ALPHA)) for _ in range(2000)])
    assert ((draws < 0.01) | (draws > 0.99)).float().mean() > 0.7  # 1 - 0.05 log 99, about
    assert abs(draws.mean() - 0.5) < 0.03
    drawn = {name: ["alpha"] for name in ("mixup", "m-correction", "dividemix", "elr-plus")}
    for method, names in (drawn | {"pes-semi": ["alpha", "alpha_late"]}).items():
        for name in names:
            METHODS[method](**{name: LEAST_ALPHA})
            says = f"{name} of {method} cannot be 0.01: it must be at least"
            with pytest.raises(labelsift.InputError, match=says):
                METHODS[method](**{name: 0.01})
