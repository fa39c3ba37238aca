from itertools import pairwise

import pytest
import torch

import labelsift
from labelsift import CE, PES, EarlyStopping, PESSemi
from labelsift.methods.progressive import Rest
from labelsift.training import Learner, Run
from toys import TinyNet, toy_data


def last_weights(run):
    return run.learners[0].net.state_dict()


def equal(a, b):
    return all(torch.equal(a[key], b[key]) for key in a)


def test_without_a_later_stage_it_is_plain_training(make_run):
    plain = make_run(folder="a")
    CE(epochs=3, batch_size=16).fit(plain)
    pes = make_run(folder="b")
    PES(epochs=3, batch_size=16, stage_epochs=(3,)).fit(pes)
    assert equal(last_weights(plain), last_weights(pes))


def test_its_first_stage_is_early_stopping(make_run):
    stopped = make_run(folder="a")
    EarlyStopping(epochs=6, stop_epoch=3, batch_size=16).fit(stopped)
    pes = make_run(folder="b")
    PES(epochs=6, stage_epochs=(3, 1, 1), batch_size=16).fit(pes)
    for a, b in zip(stopped.history, pes.history[:3], strict=True):
        assert a["train_loss"] == b["train_loss"]


def test_it_notes_what_the_net_agrees_with_at_the_end_of_the_first_stage_and_draws_nothing(
    make_run, monkeypatch
):
    pes = PES(epochs=6, stage_epochs=(3, 1, 1), batch_size=16)
    noting = make_run(folder="a")
    pes.fit(noting)
    assert ["confident" in row for row in noting.history] == [False, False, True, False, False, *[True] * 3]
    assert {"confident_precision", "confident_recall"} <= noting.history[2].keys()
    monkeypatch.setattr(Run, "note_agreement", lambda self, learner: None)
    silent = make_run(folder="b")
    pes.fit(silent)
    assert "confident" not in silent.history[2]
    assert equal(last_weights(noting), last_weights(silent))


def watch(run, monkeypatch):
    """The weights at the end of every epoch, by stage."""
    seen = []

    def look(record):
        if "stage" not in record:
            return
        net = run.learners[0].net
        seen.append((record["stage"], {n: p.detach().clone() for n, p in net.named_parameters()}))

    monkeypatch.setattr(run, "_observe", look)
    return seen


def moving(seen, stage):
    """The children whose weights moved between the epochs of a stage."""
    snapshots = [weights for name, weights in seen if name == stage]
    assert len(snapshots) > 1
    return {
        name.split(".")[0]
        for first, second in pairwise(snapshots)
        for name in first
        if not torch.equal(first[name], second[name])
    }


@pytest.mark.parametrize(("rest", "confident"), [(True, {"conv"}), (False, {"conv", "hidden", "out"})])
def test_each_stage_trains_its_part_and_renewed_parts_rest_or_train_on(
    make_run, monkeypatch, rest, confident
):
    run = make_run()
    seen = watch(run, monkeypatch)
    PES(epochs=5, stage_epochs=(2, 2, 2), batch_size=16, renewed_rest=rest).fit(run)
    assert moving(seen, "part 1") == {"conv", "hidden", "out"}
    assert moving(seen, "part 2") == {"hidden", "out"}
    assert moving(seen, "part 3") == {"out"}
    assert moving(seen, "confident") == confident


@pytest.mark.parametrize(("share", "confident"), [(0.0, {"conv", "hidden", "out"}), (1.0, {"conv"})])
def test_renewed_parts_train_on_where_most_labels_are_agreed_with(make_run, monkeypatch, share, confident):
    run = make_run()
    seen = watch(run, monkeypatch)
    PES(epochs=5, stage_epochs=(2, 2, 2), batch_size=16, clean_share=share).fit(run)
    assert 0 < run.history[-3]["confident"] < 240
    assert moving(seen, "confident") == confident


@pytest.mark.parametrize(("epoch", "parts"), [(0, 3), (1, 1)])
def test_whether_they_rest_is_decided_in_the_first_confident_epoch(make_run, epoch, parts):
    """A run that is resumed in a later one keeps to that, however many labels the net agrees with by then."""
    run = make_run()
    method = PES(clean_share=0.75)
    learner = run.learner()
    learner.begin(method.sgd(learner))
    own = method.parts(learner.net)
    assert Rest(run, method).begins(learner, own, epoch, torch.ones(240, dtype=torch.bool))
    trained = [part for part in own if all(p.requires_grad for p in part.parameters())]
    assert len(trained) == parts


def test_the_paper_rests_whatever_the_net_agrees_with():
    for cls in (PES, PESSemi):
        for known, settings in cls.paper.items():
            assert settings.get("clean_share", 1.0) == 1.0, known
            assert len(known) == 3 or "clean_share" in settings


def test_any_number_of_parts_at_any_cuts(make_run, monkeypatch):
    run = make_run()
    seen = watch(run, monkeypatch)
    PES(epochs=2, stage_epochs=(2, 2, 2, 2), cuts=("conv.1", "hidden", "out"), batch_size=16).fit(run)
    assert moving(seen, "part 2") == {"conv", "hidden", "out"}
    assert moving(seen, "part 4") == {"out"}
    assert torch.equal(seen[2][1]["conv.0.weight"], seen[7][1]["conv.0.weight"])


def test_the_schedule_goes_on_where_the_first_stage_left_it(make_run):
    run = make_run()
    method = PES(epochs=6, stage_epochs=(3, 1, 1), batch_size=32, lr=0.01, stage_lr=1e-3)
    method.fit(run)
    rates = [row["lr"] for row in run.history]
    assert rates == pytest.approx(
        [method.lr_at(e) for e in (0, 1, 2)] + [1e-3] * 2 + [method.lr_at(e) for e in (3, 4, 5)]
    )


def test_fewer_epochs_than_the_first_stage_leave_none_for_confident_examples(make_run):
    run = make_run()
    PES(epochs=2, stage_epochs=(10, 1, 1), batch_size=32).fit(run)
    assert [row["stage"] for row in run.history] == ["part 1", "part 1", "part 2", "part 3"]
    assert "none was left" in run.warnings[0]
    assert EarlyStopping(epochs=2, stop_epoch=10).total_epochs == 2


def test_a_later_stage_lets_adam_go_the_same_way_whatever_the_number_of_steps():
    method = PES(batch_size=100)
    assert method.adam_lr(epochs=5, examples=10_000) == pytest.approx(0.5 / 500)
    assert method.adam_lr(epochs=7, examples=9_999) == pytest.approx(0.5 / 700)
    assert method.adam_lr(epochs=7, examples=1_000_000) == 1e-4
    assert method.adam_lr(epochs=2, examples=500) == 1e-2
    assert PES(stage_lr=3e-4).adam_lr(epochs=2, examples=500) == 3e-4


def test_renewed_parts_of_a_small_set_are_not_left_half_trained():
    method = PES(epochs=10, stage_epochs=(10, 3, 2), lr=0.03, batch_size=16)
    result = labelsift.fit(toy_data(480), method=method, net=TinyNet, augment="crop")
    assert result.history[-1]["test_accuracy"] > 0.95


def test_confident_examples_are_more_often_right_than_the_base_rate():
    result = labelsift.fit(
        toy_data(480), method=PES(epochs=10, stage_epochs=(4, 3, 2), lr=0.03), net=TinyNet, augment="crop"
    )
    for row in (row for row in result.history if "confident" in row):
        assert row["confident_precision"] > 0.9  # of all labels 0.6 are right
        assert row["confident_recall"] > 0.8


def predict_as(monkeypatch, probs):
    """Let the selection see these predictions, so that the confident set is what we want."""
    monkeypatch.setattr(Learner, "pred_probs", lambda self, examples, views=0: probs(examples))


def test_an_empty_confident_set_does_not_stop_the_training(make_run, monkeypatch):
    run = make_run()
    predict_as(monkeypatch, lambda examples: 1 - torch.nn.functional.one_hot(examples.labels, 3).float())
    PES(epochs=4, stage_epochs=(1, 1, 1), batch_size=32).fit(run)
    assert [row["confident"] for row in run.history[3:]] == [0, 0, 0]
    assert all(row["train_loss"] > 0 for row in run.history)
    assert len(run.warnings) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 17])
def test_a_tiny_confident_set_does_not_stop_the_training(make_run, monkeypatch, count):
    def probs(examples):
        hot = torch.nn.functional.one_hot(examples.labels, 3).float()
        return torch.where(torch.arange(len(hot))[:, None] < count, hot, 1 - hot)

    run = make_run()
    predict_as(monkeypatch, probs)
    PES(epochs=3, stage_epochs=(1, 1, 1), batch_size=16).fit(run)
    assert run.history[-1]["confident"] == count


def test_a_confident_set_without_one_class_does_not_stop_the_training(make_run, monkeypatch):
    predict_as(
        monkeypatch,
        lambda examples: torch.nn.functional.one_hot(examples.labels % 2, 3).float(),
    )
    run = make_run()
    PES(epochs=3, stage_epochs=(1, 1, 1), batch_size=16).fit(run)
    labels = run.examples.labels
    assert run.history[-1]["confident"] == int((labels < 2).sum())
    assert all(torch.isfinite(p).all() for p in run.learners[0].net.parameters())
