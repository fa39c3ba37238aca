import numpy as np
import pytest
import torch
from torch.nn import functional as F

import labelsift
from labelsift import PES
from labelsift.data import Batch
from labelsift.methods import PESSemi, make_method
from labelsift.training import Learner
from toys import TinyNet, toy_data

SHORT = {"epochs": 4, "stage_epochs": (1, 1), "batch_size": 32, "ramp_epochs": 1}


def agree_with(monkeypatch, mask):
    """Let the selection see predictions that agree with the given label where `mask` says so."""

    def pred_probs(self, examples, views=0):
        hot = F.one_hot(examples.labels, 3).float()
        return torch.where(mask(examples)[:, None], hot, 1 - hot)

    monkeypatch.setattr(Learner, "pred_probs", pred_probs)


def watch_rows(monkeypatch):
    """The places of the examples of every step, and how many of them are labelled, per epoch."""
    seen = []
    real = PESSemi.rows

    def rows(self, chosen, others, count, steps):
        index = real(self, chosen, others, count, steps)
        seen.append((index, count))
        return index

    monkeypatch.setattr(PESSemi, "rows", rows)
    return seen


def first(count):
    return lambda examples: torch.arange(len(examples)) < count


@pytest.mark.parametrize(
    ("confident", "labelled", "warned"),
    [
        (60, 16, False),  # the others are more: half of the batch
        (180, 24, False),  # 60 of 240 are unlabelled: 8 of 32
        (238, 32, True),  # too few others for one place
        (240, 32, True),
        (3, 16, True),  # fewer than a batch holds
        (0, 32, True),
    ],
)
def test_batches_hold_the_share_of_unlabelled_examples(make_run, monkeypatch, confident, labelled, warned):
    run = make_run()
    seen = watch_rows(monkeypatch)
    agree_with(monkeypatch, first(confident))
    PESSemi(**SHORT).fit(run)
    assert len(seen) == 3
    for index, count in seen:
        assert count == labelled
        assert index.shape == (240 // 32, 32)
        if confident:
            assert (index[:, :count] < confident).all()
            assert (index[:, count:] >= confident).all()
    assert len(run.warnings) == int(warned)
    assert all(torch.isfinite(p).all() for p in run.learners[0].net.parameters())
    assert [row["confident"] for row in run.history[-3:]] == [confident] * 3


def test_each_labelled_example_comes_as_often_as_another(make_run, monkeypatch):
    run = make_run()
    seen = watch_rows(monkeypatch)
    agree_with(monkeypatch, first(30))
    PESSemi(**SHORT).fit(run)
    index, count = seen[0]
    times = torch.bincount(index[:, :count].flatten(), minlength=30)
    assert times.max() - times.min() <= 1


def test_a_class_without_a_confident_example_does_not_stop_the_training(make_run, monkeypatch):
    run = make_run()
    agree_with(monkeypatch, lambda examples: examples.labels != 2)
    PESSemi(**SHORT).fit(run)
    assert all(torch.isfinite(p).all() for p in run.learners[0].net.parameters())


def test_its_stages_are_those_of_pes(make_run):
    pes = make_run(folder="a")
    PES(epochs=3, stage_epochs=(2, 1), batch_size=32).fit(pes)
    semi = make_run(folder="b")
    PESSemi(epochs=3, stage_epochs=(2, 1), batch_size=32).fit(semi)
    for a, b in zip(pes.history[:3], semi.history[:3], strict=True):
        assert a["train_loss"] == b["train_loss"]
    assert semi.history[3]["stage"] == "mixmatch"


def test_the_final_layer_rests(make_run):
    run = make_run()
    weights = []
    run._observe = lambda record: weights.append(run.learners[0].net.out.weight.detach().clone())
    PESSemi(**SHORT).fit(run)
    assert torch.equal(weights[1], weights[-1])


def test_a_step_of_mixmatch_against_a_slow_one(make_run, monkeypatch):
    """One step with known draws: the loss is what the formulas say, row by row."""
    run = make_run()
    losses = []
    agree_with(monkeypatch, first(120))
    monkeypatch.setattr("labelsift.methods.pes_semi.mixing_share", lambda alpha: torch.tensor(0.2))
    monkeypatch.setattr("labelsift.losses.torch.rand", lambda n, **_: torch.arange(n).flip(0))
    views, nets, seen = [], [], []
    real_call, real_view = Learner.__call__, Batch.view

    def call(self, view):
        logits = real_call(self, view)
        if len(run.history) == 2:
            views.append(view.clone())
            nets.append(logits.detach().clone())
        return logits

    def view(self):
        made = real_view(self)
        if len(run.history) == 2:
            seen.append(made)
        return made

    real_update = Learner.update

    def update(self, loss):
        if len(run.history) == 2:
            losses.append(loss.item())
        real_update(self, loss)

    batches = []
    real_batches = labelsift.Examples.batches_of

    def batches_of(self, rows):
        for made in real_batches(self, rows):
            if len(run.history) == 2:
                batches.append(made)
            yield made

    monkeypatch.setattr(Learner, "__call__", call)
    monkeypatch.setattr(Learner, "update", update)
    monkeypatch.setattr(Batch, "view", view)
    monkeypatch.setattr(labelsift.Examples, "batches_of", batches_of)
    method = PESSemi(epochs=2, stage_epochs=(1, 1), batch_size=8, ramp_epochs=0, unlabelled_weight=7.0)
    monkeypatch.setattr(PESSemi, "adam_lr", lambda *_: 1e-9)
    method.fit(run)

    both, mixed = views[:2]  # the guess's forward pass, then the mixture's
    assert torch.equal(both, torch.cat([seen[0][4:], seen[1][4:]]))
    seen = torch.cat(seen[:2])
    probs = (nets[0][:4].softmax(1) + nets[0][4:].softmax(1)) / 2
    labels = batches[0].labels
    targets = []
    for row in range(16):
        place = row % 8
        if place < 4:
            targets.append(F.one_hot(labels[place], 3).float())
        else:
            q = probs[place - 4] ** 2  # temperature 0.5
            targets.append(q / q.sum())
    counts = torch.bincount(run.examples.labels[:120], minlength=3).float()
    weights = (counts.mean() / counts).clamp(max=3)
    labelled, unlabelled = [], []
    for row in range(16):
        partner = 15 - row
        torch.testing.assert_close(mixed[row], 0.8 * seen[row] + 0.2 * seen[partner])
        target = 0.8 * targets[row] + 0.2 * targets[partner]
        z = nets[1][row]
        if row % 8 < 4:
            labelled.append(-(weights * target * z.log_softmax(0)).sum())
        else:
            unlabelled.append(((z.softmax(0) - target) ** 2).mean())
    expected = torch.stack(labelled).mean() + 7.0 * torch.stack(unlabelled).mean()
    assert losses[0] == pytest.approx(expected.item(), rel=1e-4)


def test_a_rare_class_weighs_no_more_than_the_limit(make_run, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "labelsift.methods.pes_semi.soft_cross_entropy",
        lambda logits, targets, weights: seen.append(weights.clone()) or logits.sum(1),
    )
    for limit in (3.0, 100.0):
        run = make_run(folder=str(limit))
        rare = lambda examples: (examples.labels != 2) | (examples.index < 9)  # noqa: E731
        agree_with(monkeypatch, rare)
        PESSemi(**SHORT, weight_limit=limit).fit(run)
        counts = torch.bincount(run.examples.labels[rare(run.examples)], minlength=3).float()
        exact = counts.mean() / counts
        assert exact.max() > 10
        torch.testing.assert_close(seen[-1], exact.clamp(max=limit))


def test_alpha_falls_at_half_of_the_epochs(make_run, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "labelsift.methods.pes_semi.mixing_share",
        lambda alpha: torch.tensor(seen.append(float(alpha)) or 1.0),
    )
    run = make_run()
    PESSemi(**{**SHORT, "epochs": 8}, alpha=4.0, alpha_late=0.75).fit(run)
    steps = len(run.examples) // SHORT["batch_size"]
    assert seen == [4.0] * 3 * steps + [0.75] * 4 * steps  # the first epoch is the first stage's


def test_the_weight_of_the_unlabelled_loss_grows():
    assert [PESSemi(ramp_epochs=4).ramp(epoch) for epoch in (0, 0.5, 1, 4, 9)] == [0, 0.125, 0.25, 1, 1]
    assert PESSemi(ramp_epochs=0).ramp(0) == 1


def test_it_grows_from_step_to_step(make_run, monkeypatch):
    places = []
    monkeypatch.setattr(PESSemi, "ramp", lambda method, epoch: places.append(epoch) or 1.0)
    run = make_run()
    PESSemi(**{**SHORT, "epochs": 3}).fit(run)
    steps = len(run.examples) // SHORT["batch_size"]
    assert steps > 1
    assert places == pytest.approx([step / steps for step in range(2 * steps)])


def test_the_papers_settings_follow_the_noise():
    weight = lambda *words: make_method("pes-semi", *words, {}).unlabelled_weight  # noqa: E731
    assert weight("cifar10", "preact-resnet18", "symmetric-inclusive:0.5") == 15
    assert weight("cifar10", "preact-resnet18", "pair:0.45") == 5
    assert weight("cifar100", "preact-resnet18", "symmetric-inclusive:0.8") == 100
    assert weight("cifar100", "preact-resnet18", "symmetric:0.4") == 50  # which the paper has not
    assert weight("cifar100n", "resnet34", "") == 75
    paper = make_method("pes-semi", "cifar10n:worst", "resnet34", "", {})
    assert (paper.epochs, paper.stage_epochs, paper.unlabelled_weight) == (300, (20, 5), 5)


def test_it_learns_what_the_wrong_labels_hide():
    method = PESSemi(epochs=12, stage_epochs=(4, 3), batch_size=64, lr=0.03, ramp_epochs=4)
    result = labelsift.fit(toy_data(480), method=method, net=TinyNet, augment="crop")
    assert result.test_accuracy["last"] > 0.95
    assert result.record["confident"]["confident_precision"] > 0.95


@pytest.mark.parametrize("size", [2, 3])
def test_half_a_batch_may_be_one_row(size):
    """Which batch norm refuses by itself, of feature rows."""
    x, y = np.random.default_rng(0).normal(size=(24, 4)), np.arange(24) % 2
    result = labelsift.fit(x, y, method=PESSemi(**{**SHORT, "batch_size": size}), net="mlp")
    assert np.isfinite(result.label_quality).all()
