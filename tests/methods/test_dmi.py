import pytest
import torch

import labelsift
from labelsift import CE, EarlyStopping, make_dataset
from labelsift.methods import DMI
from labelsift.training import Learner
from toys import TinyNet, toy_arrays, toy_data, toy_examples

SHORT = {"epochs": 4, "pretrain_epochs": 2, "dmi_epochs": 2, "batch_size": 16}


def weights_of(learner):
    return {name: tensor.detach().clone() for name, tensor in learner.net.named_parameters()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def watch(monkeypatch, run):
    """The weights before every step of the new loss, and the places of its examples."""
    seen = []
    real_batches = labelsift.Examples.batches_of

    def batches_of(self, rows):
        for batch in real_batches(self, rows):
            if len(run.history) >= 2 and len(run.examples) == len(self):
                seen.append((weights_of(run.learners[0]), batch.index))
            yield batch

    monkeypatch.setattr(labelsift.Examples, "batches_of", batches_of)
    return seen


def test_without_an_epoch_of_the_new_loss_it_is_plain_training(make_run):
    plain = make_run(folder="a")
    CE(epochs=3, batch_size=16).fit(plain)
    dmi = make_run(folder="b")
    DMI(epochs=3, pretrain_epochs=9, dmi_epochs=0, batch_size=16).fit(dmi)
    assert same(weights_of(plain.learners[0]), weights_of(dmi.learners[0]))


def test_it_begins_with_early_stopping(make_run):
    stopped = make_run(folder="a")
    EarlyStopping(epochs=4, stop_epoch=2, batch_size=16).fit(stopped)
    dmi = make_run(folder="b")
    DMI(**SHORT).fit(dmi)
    assert [row["train_loss"] for row in stopped.history] == [row["train_loss"] for row in dmi.history[:2]]
    assert [row["stage"] for row in dmi.history] == ["pretrain", "pretrain", "dmi", "dmi"]


def test_the_new_loss_starts_from_the_best_epoch(make_run, monkeypatch):
    run = make_run()
    ends, scores = [], iter([0.2, 0.6, 0.4])

    def score(run, learner, last):
        ends.append(weights_of(learner))
        return next(scores)

    began = []
    real = Learner.begin

    def begin(self, optimiser, parts=None):
        began.append(weights_of(self))
        real(self, optimiser, parts)

    monkeypatch.setattr(Learner, "begin", begin)
    monkeypatch.setattr("labelsift.methods.dmi.held_out_accuracy", score)
    DMI(epochs=3, dmi_epochs=1, batch_size=16).fit(run)
    assert same(began[1], ends[1])


@pytest.mark.parametrize(("asked", "size"), [(0, 75), (50, 50), (240, 240), (999, 240)])
def test_its_batches_are_full_and_hold_an_example_once(make_run, monkeypatch, asked, size):
    run = make_run()
    seen = watch(monkeypatch, run)
    DMI(epochs=2, dmi_epochs=1, batch_size=32, dmi_batch_size=asked).fit(run)
    assert {len(index) for _, index in seen} == {size}
    assert len(torch.cat([index for _, index in seen]).unique()) == 240 // size * size


def test_its_batches_grow_with_the_classes():
    ten = toy_examples(make_dataset("ten", toy_arrays(500)[0], list(range(10)) * 50))
    assert DMI(batch_size=64).full_batch(ten) == 250
    assert DMI(batch_size=256).full_batch(ten) == 256
    assert DMI(batch_size=64, epoch_examples=80).full_batch(ten) == 80
    assert DMI(batch_size=64, dmi_batch_size=20).full_batch(ten) == 20


def test_it_learns_also_where_a_class_is_in_no_label(make_run, monkeypatch):
    x, y = toy_arrays(240)
    run = make_run()
    run.examples = toy_examples(make_dataset("gap", x, y % 2, classes=["a", "b", "never"]))
    seen = watch(monkeypatch, run)
    DMI(**SHORT, momentum=0.0, weight_decay=0.0).fit(run)
    assert not same(seen[0][0], seen[-1][0])
    losses = [row["train_loss"] for row in run.history[2:]]
    assert max(losses) < -2


def test_a_batch_without_some_class_teaches_nothing_and_breaks_nothing(make_run, monkeypatch):
    run = make_run()
    seen = watch(monkeypatch, run)
    DMI(epochs=2, dmi_epochs=1, dmi_batch_size=2, momentum=0.0, weight_decay=0.0, dmi_lr=0.1).fit(run)
    assert same(seen[0][0], seen[-1][0])
    assert run.history[-1]["train_loss"] == pytest.approx(6.907755)


def test_it_mends_what_plain_training_has_learned_by_heart():
    method = DMI(epochs=9, pretrain_epochs=4, dmi_epochs=5, batch_size=32, lr=0.03, dmi_lr=1e-3)
    result = labelsift.fit(toy_data(480), method=method, net=TinyNet, augment="none")
    losses = [row["train_loss"] for row in result.history[4:]]
    assert losses[-1] < losses[0] < 0
    assert result.history[-1]["test_accuracy"] > result.history[3]["test_accuracy"] + 0.1


@pytest.mark.parametrize(("limit", "changed"), [(0.0, False), (1e9, False), (1e-3, True)])
def test_gradients_are_limited(make_run, limit, changed):
    ends = []
    for number, value in enumerate((0.0, limit)):
        run = make_run(folder=f"{number}")
        DMI(**SHORT, dmi_lr=0.01, momentum=0.0, weight_decay=0.0, gradient_limit=value).fit(run)
        ends.append(weights_of(run.learners[0]))
    assert same(*ends) != changed
    way = {name: (ends[0][name] - ends[1][name]).norm() for name in ends[0]}
    assert (max(way.values()) > 1e-3) == changed


def test_it_is_unmoved_by_a_permutation_of_the_labels(make_run, monkeypatch):
    """Whatever the classes are called from there on, the new loss has the same gradients."""
    ends, losses = [], []
    for names in ([0, 1, 2], [2, 0, 1]):
        run = make_run(folder=f"{names[0]}")

        def rename(record, run=run, names=names):
            if record["stage"] == "pretrain":  # which is done with this
                run.examples.all_labels.copy_(torch.tensor(names)[run.examples.all_labels])

        monkeypatch.setattr(run, "_observe", rename)
        DMI(epochs=1, dmi_epochs=2, batch_size=60, dmi_lr=1e-3).fit(run)
        ends.append(weights_of(run.learners[0]))
        losses.append([row["train_loss"] for row in run.history])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert not same(ends[0], weights_of(make_run(folder="new").learner()))
    for name in ends[0]:
        torch.testing.assert_close(ends[0][name], ends[1][name], rtol=1e-3, atol=1e-5, msg=name)


def test_the_rate_of_the_new_loss_is_constant_or_halved(make_run):
    for shares, wanted in (
        ((), [1, 1, 1, 1]),
        ((0.5,), [1, 1, 0.5, 0.5]),
        ((0.25, 0.5), [1, 0.5, 0.25, 0.25]),
    ):
        run = make_run(folder=f"{len(shares)}")
        DMI(epochs=1, dmi_epochs=4, batch_size=120, dmi_lr=1e-4, dmi_halve_at=shares).fit(run)
        assert [row["lr"] for row in run.history[1:]] == pytest.approx([1e-4 * part for part in wanted])
    with pytest.raises(labelsift.InputError, match=r"dmi_halve_at of dmi cannot be 2\.0: it must be shares"):
        DMI(dmi_halve_at=(2,))
