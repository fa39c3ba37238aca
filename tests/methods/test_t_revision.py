import copy
import dataclasses
from dataclasses import dataclass

import pytest
import torch

from labelsift import Method
from labelsift.losses import importance_weights
from labelsift.methods import TRevision
from labelsift.methods.held_out import held_out_accuracy
from labelsift.training import Learner

SHORT = {"epochs": 3, "estimate_epochs": 2, "revision_epochs": 2, "batch_size": 16}
NOISE = torch.tensor([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])


def estimate_as(monkeypatch, matrix):
    monkeypatch.setattr("labelsift.methods.held_out.anchor_transition", lambda *_: matrix)


def weights_of(learner):
    return {name: tensor.clone() for name, tensor in learner.net.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@dataclass(frozen=True)
class Twice(Method):
    """Plain training without and then with momentum."""

    name = "twice"

    def fit(self, run):
        learner = run.learner()
        for stage, count, momentum in (("a", 2, 0.0), ("b", 3, self.momentum)):
            learner.begin(learner.sgd(self.lr, momentum, self.weight_decay))
            step = self.plain_step(run, learner)
            for epoch in run.epochs(stage, count):
                learner.lr = self.lr if stage == "a" else self.lr_at(epoch)
                for batch in self.batches(run.examples):
                    step(batch)


def test_without_noise_it_is_plain_training(make_run, monkeypatch):
    plain = make_run(folder="a")
    Twice(epochs=3, batch_size=16).fit(plain)
    estimate_as(monkeypatch, torch.eye(3))
    weighted = make_run(folder="b")
    TRevision(**{**SHORT, "revision_epochs": 0}, estimate_momentum=0.0).fit(weighted)
    losses = [[row["train_loss"] for row in run.history] for run in (plain, weighted)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    a, b = weights_of(plain.learners[0]), weights_of(weighted.learners[0])
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=1e-6, msg=name)


def test_each_training_starts_from_the_best_epoch_of_the_one_before(make_run, monkeypatch):
    run = make_run()
    ends, beginnings, stages = {}, [], []
    scores = iter([0.1, 0.3, 0.2, 0.5, 0.4, 0.3])
    real = Learner.begin

    def begin(self, optimiser, parts=None):
        beginnings.append(weights_of(self))
        real(self, optimiser, parts)

    def score(run, learner, last, transition=None):
        ends[len(run.history) + 1] = weights_of(learner)
        stages.append((last, transition is not None))
        return next(scores)

    monkeypatch.setattr(Learner, "begin", begin)
    monkeypatch.setattr("labelsift.methods.t_revision.held_out_accuracy", score)
    TRevision(epochs=3, estimate_epochs=3, revision_epochs=1, batch_size=16).fit(run)
    assert same(beginnings[1], ends[2])
    assert same(beginnings[2], ends[4])
    assert stages == [
        (False, False),
        (False, False),
        (True, False),
        (False, True),
        (False, True),
        (True, True),
    ]


def test_accuracy_on_held_out_labels_is_measured_after_the_noise(make_run, monkeypatch):
    run = make_run()
    learner = run.learner()
    assert held_out_accuracy(run, learner, last=True) == 0
    assert held_out_accuracy(run, learner, last=False) == -torch.inf
    held = run.examples.subset(torch.arange(60))
    run._judge = dataclasses.replace(run._judge, validation=held)
    hot = torch.nn.functional.one_hot(held.labels, 3).float()
    monkeypatch.setattr(Learner, "pred_probs", lambda *_: hot)
    next_one = torch.eye(3).roll(1, 1)
    assert held_out_accuracy(run, learner, last=False) == 1
    assert held_out_accuracy(run, learner, False, next_one) == 0
    monkeypatch.setattr(Learner, "pred_probs", lambda *_: hot @ next_one.T)
    assert held_out_accuracy(run, learner, False, next_one) == 1


def test_the_revision_begins_with_the_weighted_loss_and_moves_matrix_and_net(make_run, monkeypatch):
    estimate_as(monkeypatch, NOISE)
    run = make_run()
    seen = []
    real = Learner.update

    def update(self, loss):
        if len(run.history) == 5:
            seen.append((loss.item(), weights_of(self), run._kept["0/delta"].clone()))
        real(self, loss)

    monkeypatch.setattr(Learner, "update", update)
    views = []
    call = Learner.__call__

    def watch(self, view):
        logits = call(self, view)
        if self.net.training:
            views.append(logits.detach())
        return logits

    batches = []
    monkeypatch.setattr(Learner, "__call__", watch)
    monkeypatch.setattr(
        "labelsift.methods.t_revision.importance_weights",
        lambda probs, labels, matrix: batches.append(labels) or importance_weights(probs, labels, matrix),
    )
    method = TRevision(**SHORT, revision_lr=1e-3, weight_decay=0.0)
    method.fit(run)
    # The first step of the revision by hand. An epoch has 15 batches; the first two have no weights.
    logits, labels = views[5 * 15], batches[3 * 15]
    rows = []
    for row, label in zip(logits, labels.tolist(), strict=True):
        p = row.softmax(0)
        rows.append(p[label] / (p @ NOISE)[label] * -p[label].log())
    assert seen[0][0] == pytest.approx(torch.stack(rows).mean().item(), rel=1e-4)
    assert not seen[0][2].any()
    delta = run._kept["0/delta"]
    assert (delta != 0).all()  # every class is a label of some batch
    assert delta.abs().max() < 1.5e-3 * 30  # Adam goes by its rate, 30 times
    assert torch.equal(run._kept["0/transition"], NOISE)
    assert not same(seen[0][1], weights_of(run.learners[0]))


def test_wrong_labels_count_less(make_run, data):
    run = make_run()
    TRevision(epochs=2, estimate_epochs=4, revision_epochs=0, batch_size=16, lr=0.03).fit(run)
    probs = run.learners[0].pred_probs(run.examples)
    found = importance_weights(probs, run.examples.labels, run._kept["0/transition"])
    wrong = torch.from_numpy(data.labels != data.true_labels)
    assert found[wrong].mean() < 0.7 * found[~wrong].mean()


@pytest.mark.parametrize("revised", [False, True])
def test_gradients_go_through_the_weights_in_the_revision_alone(make_run, monkeypatch, revised):
    """The gradients of the last step of a training against those of the formula; delta is added once."""
    estimate_as(monkeypatch, NOISE)
    run, steps = make_run(), []
    call, update = Learner.__call__, Learner.update

    def watched_call(self, view):
        if self.net.training:
            steps.append([view, copy.deepcopy(self.net), None, run._kept["0/delta"].clone()])
        return call(self, view)

    def watched_update(self, loss):
        update(self, loss)
        steps[-1][2] = [p.grad for group in self.optimiser.param_groups for p in group["params"]]

    monkeypatch.setattr(Learner, "__call__", watched_call)
    monkeypatch.setattr(Learner, "update", watched_update)
    labels = []
    monkeypatch.setattr(
        "labelsift.methods.t_revision.importance_weights",
        lambda probs, given, matrix: labels.append(given) or importance_weights(probs, given, matrix),
    )
    method = TRevision(epochs=2, estimate_epochs=1, revision_epochs=2 * revised, batch_size=240)
    dataclasses.replace(method, revision_lr=0.01).fit(run)
    view, net, found, delta = steps[-1]
    assert delta.any() == revised
    delta.requires_grad_()
    log_probs = net(view).log_softmax(1)
    loss = 0.0
    for row, label in zip(log_probs, labels[-1].tolist(), strict=True):
        weight = row.exp()[label] / (row.exp() @ (NOISE + delta))[label]
        loss = loss - (weight if revised else weight.detach()) * row[label] / 240
    wanted = torch.autograd.grad(loss, [*net.parameters(), *([delta] if revised else [])])
    torch.testing.assert_close(found, list(wanted), rtol=1e-3, atol=1e-6)


def test_weight_decay_acts_in_every_training(make_run, monkeypatch):
    seen = []
    real = Learner.begin

    def begin(self, optimiser, parts=None):
        seen.append((type(optimiser).__name__, optimiser.param_groups[0]["weight_decay"]))
        real(self, optimiser, parts)

    monkeypatch.setattr(Learner, "begin", begin)
    TRevision(epochs=1, estimate_epochs=1, revision_epochs=1, batch_size=240, weight_decay=0.25).fit(
        make_run()
    )
    assert seen == [("SGD", 0.25), ("SGD", 0.25), ("Adam", 0.25)]
