import dataclasses

import pytest
import torch

import labelsift
from labelsift import CE, EarlyStopping
from labelsift.estimates import anchor_transition
from labelsift.losses import forward_cross_entropy
from labelsift.methods import Forward
from labelsift.nets import blueprint
from labelsift.training import Learner
from toys import TinyNet, toy_data

SHORT = {"epochs": 3, "estimate_epochs": 2, "batch_size": 16}
asked_how = []  # whether outliers are passed over


def estimate_as(monkeypatch, *matrices):
    """Let the estimates be these, one after the other; gives the predictions they were asked for."""
    asked = []

    def anchors(pred_probs, filter_outliers):
        asked.append(pred_probs)
        asked_how.append(filter_outliers)
        return matrices[min(len(asked), len(matrices)) - 1]

    monkeypatch.setattr("labelsift.methods.held_out.anchor_transition", anchors)
    return asked


def hold_out(run, count=60):
    """Take the last examples from the training part."""
    held, run.examples = run.examples.subset(slice(-count, None)), run.examples.subset(slice(None, -count))
    run._judge = dataclasses.replace(run._judge, validation=held)
    return held


def watch_beginnings(monkeypatch):
    """The weights at the beginning of every stage."""
    seen = []
    real = Learner.begin

    def begin(self, optimiser, parts=None):
        seen.append({name: tensor.clone() for name, tensor in self.net.state_dict().items()})
        real(self, optimiser, parts)

    monkeypatch.setattr(Learner, "begin", begin)
    return seen


def test_without_noise_it_is_plain_training_of_a_new_net(make_run, monkeypatch):
    plain = make_run(folder="a")
    EarlyStopping(epochs=3, stop_epoch=2, batch_size=16).fit(plain)
    CE(epochs=3, batch_size=16).fit(plain)  # a second learner, with newly drawn weights
    estimate_as(monkeypatch, torch.eye(3))
    corrected = make_run(folder="b")
    Forward(**SHORT).fit(corrected)
    assert [row["stage"] for row in corrected.history] == ["estimate"] * 2 + ["corrected"] * 3
    losses = [[row["train_loss"] for row in run.history] for run in (plain, corrected)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    a, b = plain.learners[1].net.state_dict(), corrected.learners[0].net.state_dict()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=1e-6, msg=name)


def test_labels_that_say_nothing_teach_nothing(make_run, monkeypatch):
    estimate_as(monkeypatch, torch.full((3, 3), 1 / 3))
    run = make_run()
    began = watch_beginnings(monkeypatch)
    Forward(**SHORT, weight_decay=0.0).fit(run)
    for name, parameter in run.learners[0].net.named_parameters():
        torch.testing.assert_close(parameter, began[1][name], msg=name)
    assert run.history[-1]["train_loss"] == pytest.approx(1.0986, abs=1e-3)


def test_the_new_net_starts_from_the_weights_that_were_given(make_run, monkeypatch):
    run = make_run()
    given = TinyNet(3, 1)
    run._plan = blueprint(given, 3, (1, 12, 12))
    began = watch_beginnings(monkeypatch)
    Forward(**SHORT).fit(run)
    assert len(began) == 2
    for name, tensor in given.state_dict().items():
        assert torch.equal(began[0][name], tensor)
        assert torch.equal(began[1][name], tensor)


def test_the_estimate_is_that_of_the_lowest_held_out_loss(make_run, monkeypatch):
    run = make_run()
    held = hold_out(run)
    matrices = [torch.eye(3).roll(shift, 1) for shift in (1, 0)]
    asked = estimate_as(monkeypatch, *matrices)
    losses = iter([3.0, 1.0, 2.0, 1.5])
    monkeypatch.setattr(Forward, "held_out_loss", lambda *_, last: next(losses))
    Forward(epochs=4, estimate_epochs=4, batch_size=16).fit(run)
    assert [len(probs) for probs in asked] == [len(run.examples) + len(held)] * 2
    assert torch.equal(run._kept["0/transition"], matrices[1])


def test_the_held_out_loss_is_the_cross_entropy_of_the_given_labels(make_run):
    run = make_run()
    held = hold_out(run)
    learner = run.learner()
    expected = torch.nn.functional.nll_loss(learner.pred_probs(held).log(), held.labels)
    for last in (False, True):
        assert Forward().held_out_loss(run, learner, last) == pytest.approx(expected.item(), rel=1e-5)


def test_without_a_held_out_part_the_last_epoch_is_asked_alone(make_run, monkeypatch):
    run = make_run()
    asked = estimate_as(monkeypatch, torch.eye(3))
    Forward(**SHORT).fit(run)
    assert [len(probs) for probs in asked] == [240]


def test_it_finds_noise_that_goes_one_way(monkeypatch):
    found = []
    monkeypatch.setattr(
        "labelsift.methods.held_out.anchor_transition",
        lambda probs, only: found.append(anchor_transition(probs, only)) or found[-1],
    )
    method = Forward(epochs=4, estimate_epochs=4, batch_size=32, lr=0.01)
    clean = toy_data(600, noise=0.0)
    result = labelsift.fit(clean, method=method, noise="pair:0.3", net=TinyNet, augment="none")
    truth = 0.7 * torch.eye(3) + 0.3 * torch.eye(3).roll(1, 1)
    torch.testing.assert_close(found[0], truth, atol=0.2, rtol=0)
    assert result.test_accuracy["last"] > 0.95


def test_the_estimate_is_no_longer_than_the_schedule():
    assert Forward(epochs=5, estimate_epochs=20).total_epochs == 10


def test_outliers_are_passed_over_as_set(make_run, monkeypatch):
    estimate_as(monkeypatch, torch.eye(3))
    asked_how.clear()
    for only in (True, False):
        Forward(epochs=1, estimate_epochs=1, filter_outliers=only).fit(make_run(folder=f"{only}"))
    assert asked_how == [True, False]


def test_a_label_that_no_class_is_said_to_get_breaks_nothing():
    transition = torch.tensor([[0.0, 1.0], [0.0, 1.0]])  # with a zero on the diagonal, too
    logits = torch.tensor([[2.0, -1.0], [0.0, 1.0]], requires_grad=True)
    loss = forward_cross_entropy(logits, torch.tensor([0, 1]), transition)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()
