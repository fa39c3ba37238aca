import pytest
import torch

import labelsift
from labelsift import CE, InputError
from labelsift.losses import bounded_probs
from labelsift.methods import ELR, ELRPlus
from labelsift.training import Learner
from toys import TinyNet, toy_data


def weights(run):
    return run.learners[0].net.state_dict()


def memory_of(run):
    return run._kept["0/memory"]


def watch_logits(monkeypatch):
    """The logits of every training step."""
    seen = []
    real = Learner.__call__

    def call(self, view):
        logits = real(self, view)
        if self.net.training:
            seen.append(logits.detach().clone())
        return logits

    monkeypatch.setattr(Learner, "__call__", call)
    return seen


@pytest.mark.parametrize("neutral", [{"memory_weight": 0}, {"memory_share": 1}])
def test_without_weight_or_memory_it_is_plain_training(make_run, neutral):
    plain = make_run(folder="a")
    CE(epochs=3, batch_size=16).fit(plain)
    elr = make_run(folder="b")
    ELR(epochs=3, batch_size=16, **neutral).fit(elr)
    assert [row["train_loss"] for row in plain.history] == [row["train_loss"] for row in elr.history]
    assert all(torch.equal(tensor, weights(elr)[name]) for name, tensor in weights(plain).items())


def test_the_memory_is_updated_before_it_is_used(make_run, monkeypatch):
    run = make_run()
    logits = watch_logits(monkeypatch)
    ELR(epochs=1, batch_size=240).fit(run)
    (z,) = logits
    p = z.softmax(1).clamp(1e-4, 1 - 1e-4)
    remembered = 0.3 * p / p.sum(1, keepdim=True)
    reward = (1 - (p * remembered).sum(1)).log().mean()
    assert reward < 0
    order = run.examples.generator.manual_seed(0)
    labels = run.examples.labels[torch.randperm(240, generator=order)]
    cross = -z.log_softmax(1)[torch.arange(240), labels].mean()
    assert run.history[0]["train_loss"] == pytest.approx((cross + 3 * reward).item(), rel=1e-5)


def test_a_memory_that_keeps_nothing_is_the_last_prediction(make_run, monkeypatch):
    run = make_run()
    places = []
    real = labelsift.Examples.batches_of
    monkeypatch.setattr(
        labelsift.Examples, "batches_of", lambda self, rows: real(self, places.extend(rows) or rows)
    )
    logits = watch_logits(monkeypatch)
    ELR(epochs=2, batch_size=50, memory_share=0).fit(run)
    for index, z in zip(places[-5:], logits[-5:], strict=True):
        probs = bounded_probs(z)
        torch.testing.assert_close(memory_of(run)[index], probs / probs.sum(1, keepdim=True))


def test_a_memory_grows_to_one_and_is_not_scaled(make_run):
    run = make_run()
    ELR(epochs=3, batch_size=50, memory_share=0.7).fit(run)
    torch.testing.assert_close(memory_of(run).sum(1), torch.full((240,), 1 - 0.7**3))


def test_examples_that_are_held_out_have_no_memory(make_run):
    run = make_run()
    run.examples = run.examples.subset(torch.arange(0, 240, 2))
    ELR(epochs=2, batch_size=50).fit(run)
    assert memory_of(run).shape == (240, 3)
    assert (memory_of(run)[::2].sum(1) > 0).all()
    assert not memory_of(run)[1::2].any()


def test_it_does_not_learn_by_heart_and_its_memory_tells_wrong_labels():
    agreed, accuracies = [], []
    options = {"epochs": 8, "batch_size": 16, "lr": 0.03}
    for method in (CE(**options), ELR(**options, memory_weight=7)):
        result = labelsift.fit(toy_data(240), method=method, net=TinyNet, augment="none")
        agreed.append(result.confident.mean())  # with the given labels, of which 0.4 are wrong
        accuracies.append(result.test_accuracy["last"])
    assert agreed[1] < agreed[0] - 0.2
    assert accuracies[1] > accuracies[0] + 0.2
    assert result.history[-1]["confident_precision"] > 0.95  # of all labels 0.6 are right


def test_the_kind_of_noise_chooses_the_memory(make_run):
    run = make_run()
    assert ELR().memory_settings(run) == (0.7, 3)
    assert ELR(noise_kind="asymmetric").memory_settings(run) == (0.9, 1)
    assert not run.oracle
    with pytest.raises(InputError, match="do not ask the oracle"):
        ELR(noise_kind="oracle").memory_settings(run)
    with pytest.raises(InputError, match="noise_kind of elr cannot be pair: it must be symmetric, asymm"):
        ELR(noise_kind="pair")


@pytest.mark.parametrize(
    ("noise", "expected"),
    [("symmetric:0.4", (0.7, 3)), ("symmetric-inclusive:0.5", (0.7, 3)), ("pair:0.45", (0.9, 1))],
)
def test_the_oracle_knows_the_kind_and_is_recorded(make_run, monkeypatch, noise, expected):
    run = make_run()
    object.__setattr__(run._judge, "noise", noise)
    assert ELR(noise_kind="oracle").memory_settings(run) == expected
    assert run.oracle


def test_a_cosine_begins_anew():
    method = ELR(epochs=25, lr=0.02, restart_epochs=10)
    rates = [method.lr_at(epoch) for epoch in (0, 5, 10, 15, 20)]
    assert rates == pytest.approx([0.02, 0.0105, 0.02, 0.0105, 0.02])
    assert min(method.lr_at(epoch) for epoch in range(25)) > 0.001
    assert ELR(epochs=25).lr_at(24) < 0.001  # never, by default


def test_predictions_that_join_a_memory_sum_to_one(make_run):
    run = make_run()
    real = run.learner

    def sure():
        learner = real()
        with torch.no_grad():
            learner.net.out.weight.mul_(1e4)  # so that predictions are held away from 0 and from 1
        return learner

    run.learner = sure
    ELR(epochs=1, batch_size=240).fit(run)
    torch.testing.assert_close(memory_of(run).sum(1), torch.full((240,), 0.3), rtol=0, atol=1e-6)
    assert memory_of(run).max() < 0.3 * (1 - 1e-4)


@pytest.mark.parametrize("cls", [ELR, ELRPlus])
def test_what_the_noise_is_taken_for_is_what_it_is_trained_for(make_run, cls):
    settings = {"epochs": 2, "batch_size": 60, "asymmetric_share": 0.5, "asymmetric_weight": 2}
    as_set = {**settings, "memory_share": 0.5, "memory_weight": 2}
    losses = []
    for number, more in enumerate(({**settings, "noise_kind": "asymmetric"}, as_set, settings)):
        run = make_run(folder=f"{number}")
        cls(**more).fit(run)
        losses.append([row["train_loss"] for row in run.history])
    assert losses[0] == losses[1] != losses[2]
