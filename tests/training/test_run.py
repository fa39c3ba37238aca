import dataclasses
import gc
import itertools
import math
import time
import weakref

import pytest
import torch

from labelsift import CE, PES, InputError
from labelsift.data import Examples, Views
from labelsift.data.examples import Memory
from labelsift.losses import cross_entropy
from labelsift.training import Best, Judge, Learner, Machine
from toys import toy_data, toy_examples


def test_history_says_what_happened(make_run):
    run = make_run()
    PES(epochs=3, stage_epochs=(2, 1, 1), batch_size=32).fit(run)
    rows = run.history
    assert [(r["epoch"], r["stage"], r["stage_epoch"]) for r in rows] == [
        (1, "part 1", 1), (2, "part 1", 2), (3, "part 2", 1), (4, "part 3", 1), (5, "confident", 1),
    ]  # fmt: skip
    assert "confident" not in rows[0]
    assert 0 < rows[-1]["confident"] <= 240
    assert "test_accuracy" not in rows[0]  # unknown here, so absent
    assert rows[2]["lr"] == 1e-2
    assert all(r["seconds"] > 0 for r in rows)


def test_tally_is_the_mean_over_examples(make_run):
    run = make_run()
    learner = run.learner()
    learner.begin(learner.sgd(1e-9, 0, 0))
    losses, hits = 0.0, 0
    for _ in run.epochs("s", 1):
        for batch in run.examples.batches(50):  # the last one is smaller
            logits = learner(batch.plain())
            loss = cross_entropy(logits, batch.labels)
            learner.update(loss)
            run.tally(loss, logits, batch.labels)
            losses += loss.item() * len(batch.labels)
            hits += (logits.argmax(1) == batch.labels).sum().item()
    assert run.history[0]["train_loss"] == pytest.approx(losses / 240, rel=1e-5)
    assert run.history[0]["train_accuracy"] == pytest.approx(hits / 240)


def test_confident_quality():
    judge = Judge(true_labels=torch.tensor([0, 0, 1, 1, 2]))
    inputs = Memory(torch.zeros(5, 2))
    views = Views.of(torch.zeros(5, 2), "none")
    labels = Examples.of(inputs, torch.tensor([0, 1, 1, 1, 0]), 3, views, seed=0)
    found = judge.confident(torch.tensor([True, True, True, False, False]), labels)
    part = labels.subset(torch.tensor([1, 2]))
    assert judge.confident(torch.tensor([True, True]), part)["confident_precision"] == 0.5
    assert found == {"confident": 3, "confident_precision": 2 / 3, "confident_recall": 2 / 3}
    assert judge.confident(torch.zeros(5, dtype=torch.bool), labels) == {
        "confident": 0,
        "confident_recall": 0,
    }
    assert Judge().confident(torch.ones(5, dtype=torch.bool), labels) == {"confident": 5}


def test_a_method_cannot_reach_the_judge_by_a_public_name(make_run):
    run = make_run()
    public = {name for name in dir(run) if not name.startswith("_")}
    assert public == {
        "begin_net", "capture", "captured", "compiled", "epoch", "epochs", "examples", "finish", "folder",
        "history", "judged", "keep", "learner", "learners", "machine", "note_agreement", "note_confident",
        "oracle", "predictions", "remember", "save_checkpoint", "shorten", "tally", "times", "true_noise",
        "true_noise_rate", "validation", "warn", "warnings",
    }  # fmt: skip


def test_the_mean_of_what_was_predicted_is_remembered(make_run):
    run = make_run()
    for sure in (0.5, 1.0):
        run.remember(torch.tensor([3, 5]), torch.tensor([[sure, 1 - sure, 0.0], [0.0, 0.0, 1.0]]))
    some = run.examples.subset(torch.tensor([5, 4, 3]))  # of one nothing is known
    probs, labels = run.predictions.mean(some)
    assert probs.tolist() == [[0, 0, 1], [0.75, 0.25, 0]]
    assert torch.equal(labels, run.examples.all_labels[[5, 3]])


def test_a_loss_that_is_no_number_stops_with_a_remedy(make_run):
    with pytest.raises(InputError, match="lower the learning rate"):
        CE(epochs=3, lr=1e6, weight_decay=1e6, batch_size=32).fit(make_run())


def test_a_warning_is_said_once(make_run):
    run = make_run()
    said = []
    run._observe = said.append
    run.warn("careful")
    run.warn("careful")
    assert said == [{"warning": "careful"}]


def test_same_seed_same_bits(make_run):
    weights = []
    for name in ("a", "b"):
        run = make_run(folder=name)
        PES(epochs=3, stage_epochs=(2, 1, 1), batch_size=32).fit(run)
        weights.append(run.learners[0].net.state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert not torch.equal(toy_examples(toy_data()).labels, torch.from_numpy(toy_data().true_labels))


def test_what_a_method_keeps_is_resumed_and_a_helper_is_not_judged(make_run):
    def epochs(run, count):
        learner, helper = run.learner(), run.learner(judged=False)
        learner.begin(learner.sgd(1e-3, 0, 0))
        memory = torch.zeros(3)
        run.keep(memory=memory)
        best = Best(run, learner, "best")
        for epoch in run.epochs("s", count):
            memory += 1
            with torch.no_grad():
                learner.net.out.bias.fill_(epoch)
            assert best.offer([0.1, 0.7, 0.7, 0.3][epoch]) == (epoch < 2)
        return learner, helper, memory, best

    first = make_run()
    learner, *_ = epochs(first, 3)
    first.save_checkpoint()
    again = make_run()
    learner, helper, memory, best = epochs(again, 4)
    assert memory.tolist() == [4, 4, 4]
    assert learner.net.out.bias.tolist() == [3, 3, 3]
    best.load()
    assert learner.net.out.bias.tolist() == [1, 1, 1]
    assert again.judged == [learner]
    assert again.learners == [learner, helper]


def test_the_oracle_is_asked_by_name_and_that_is_noted(make_run, data):
    run = make_run()
    assert not run.oracle
    assert run.true_noise_rate() == pytest.approx((data.labels != data.true_labels).mean())
    assert run.oracle
    with pytest.raises(InputError, match="oracle"):
        run.true_noise()


def test_predictions_are_remembered_over_epochs(make_run):
    run = make_run()
    index = torch.tensor([3, 5])
    run.remember(index, torch.tensor([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0]]))
    run.remember(index[:1], torch.tensor([[0.4, 0.6, 0.0]]))
    last = torch.full((240, 3), 1 / 3)
    last[3] = torch.tensor([0.0, 1.0, 0.0])
    mean, agreement = run.predictions.with_last(last, run.examples.labels)
    torch.testing.assert_close(mean[3], torch.tensor([1.2, 1.8, 0.0]) / 3)
    torch.testing.assert_close(mean[0], torch.full((3,), 1 / 3))
    label = int(run.examples.labels[3])
    assert agreement[3].item() == pytest.approx([1 / 3, 2 / 3, 0][label])


def test_times_say_where_a_run_spent_its_time(make_run):
    run = make_run()
    run._checkpoint_seconds = math.inf
    began = time.perf_counter()
    CE(epochs=3, batch_size=32).fit(run)
    whole = time.perf_counter() - began
    times = run.times()
    assert times["epochs"] == pytest.approx(sum(row["seconds"] for row in run.history), rel=0.5)
    assert 0 < times["epochs"] <= whole
    assert times["saves"] == 0
    began = time.perf_counter()
    run.save_checkpoint()
    assert 0 < run.times()["saves"] <= time.perf_counter() - began
    assert times["start"] >= 0
    assert times["finish"] >= 0


def test_the_nets_of_a_former_run_do_not_stay_on_a_gpu(make_run, monkeypatch):
    run = make_run()
    learner = run.learner()
    learner.pred_probs(run.examples)
    net = weakref.ref(learner.net)
    gc.disable()  # a device may well be full before it runs by itself
    try:
        del run, learner
        make_run(folder="b")
        assert net() is not None
        monkeypatch.setattr(Machine, "cuda", True)
        make_run(folder="c")
        assert net() is None
    finally:
        gc.enable()


def test_what_was_confident_is_said_for_its_epoch_alone(make_run):
    run = make_run()
    learner = run.learner()
    learner.begin(learner.sgd(1e-3, 0, 0))
    for epoch in run.epochs("s", 2):
        if epoch == 0:
            run.note_confident(torch.ones(240, dtype=torch.bool), run.examples)
    assert [row.get("confident") for row in run.history] == [240, None]


def test_a_net_of_an_ensemble_is_captured_and_judged_without_those_before_it(make_run):
    run = make_run()
    run.begin_net(1)
    first = run.learner()
    run.begin_net(2)
    second = run.learner()
    first.compiled = second.compiled = lambda view: view
    seen = []
    captured = run.capture(lambda batch: seen.append((first.fast, second.fast)), 32)
    captured._fast = True
    captured(next(run.examples.batches(32)))
    assert seen == [(False, True)]
    second.begin(second.sgd(0.5, 0, 0))
    for _ in run.epochs("s", 1):
        pass
    assert (run.history[0]["net"], run.history[0]["lr"]) == (2, 0.5)


def test_nets_that_are_finished_predict_once_and_leave_no_optimiser_in_a_state(make_run, monkeypatch):
    run, asked = make_run(), []
    part = run.examples
    run._judge = dataclasses.replace(run._judge, test=part)
    real = Learner.pred_probs
    monkeypatch.setattr(
        Learner, "pred_probs", lambda self, *seen: asked.append(run.learners.index(self)) or real(self, *seen)
    )
    for number in (1, 2, 3):
        run.begin_net(number)
        learner = run.learner()
        learner.begin(learner.sgd(0.01, 0.9, 0))
        for _ in run.epochs("s", 2):
            pass
    assert asked == [0, 0, 0, 1, 1, 1, 2, 2]
    assert [bool(learner.optimisers) for learner in run.learners] == [False, False, True]


class Sure:
    """A learner that is as sure of one class as it says, whatever the example."""

    def __init__(self, place: int, probability: float) -> None:
        self.probs = torch.full((1, 3), (1 - probability) / 2)
        self.probs[0, place] = probability

    def pred_probs(self, examples):
        return self.probs.expand(len(examples), 3)


def test_a_net_is_judged_alone_and_all_of_them_together():
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    part = Examples.of(torch.zeros(6, 2), labels, 3, Views.of(torch.zeros(6, 2), "none"), seed=0)
    found = Judge(test=part).accuracies([Sure(0, 0.9), Sure(1, 0.6), Sure(2, 0.4)], first=1)
    assert found == {"test_accuracy": 3 / 6, "ensemble_test_accuracy": 2 / 6}
    assert Judge(validation=part).accuracies([Sure(2, 0.5)]) == {"noisy_validation_accuracy": 1 / 6}


def test_states_are_saved_for_a_hundredth_of_the_time_at_most(make_run):
    run = make_run()
    learner = run.learner()
    learner.begin(learner.sgd(1e-3, 0, 0))
    counts = []
    run._checkpoint_seconds = 1e-9
    for _ in run.epochs("s", 3):
        counts.append(len(run._saves))
        run._saves[-1] = 0.0 if len(counts) == 1 else 1e6  # seconds that the last one took
    assert counts == [1, 2, 2]


def saved_epochs(run, monkeypatch, count, seconds=10.0):
    """The epochs after which the state is saved, each of which takes a second by a clock of our own."""
    now, saved = [0.0], []
    monkeypatch.setattr("labelsift.training.run.time.perf_counter", lambda: now[0])
    run._saved, run._checkpoint_seconds, real = now[0], seconds, run.save_checkpoint
    run.save_checkpoint = lambda: (saved.append(run.epoch), real())
    learner = run.learner()
    learner.begin(learner.sgd(1e-3, 0, 0))
    for _ in run.epochs("s", count):
        now[0] += 1
    return saved


def test_a_run_that_is_stopped_early_loses_a_tenth_and_a_long_one_the_seconds_asked_for(
    make_run, monkeypatch
):
    saved = saved_epochs(make_run(), monkeypatch, 160)
    assert saved[:10] == list(range(1, 11))
    gaps = [after - before for before, after in itertools.pairwise(saved)]
    assert all(gap <= 1 + 0.1 * after for gap, after in zip(gaps, saved[1:], strict=True))
    assert gaps == sorted(gaps)
    assert gaps[-4:] == [10] * 4


def test_states_are_saved_after_every_epoch_or_never_where_that_is_asked_for(make_run, monkeypatch):
    assert saved_epochs(make_run(), monkeypatch, 30, 0) == list(range(1, 31))
    assert saved_epochs(make_run(folder="b"), monkeypatch, 30, math.inf) == []


def test_drawing_leaves_the_generator_of_the_process_as_it_was():
    before = torch.get_rng_state()
    with Machine(torch.device("cpu")).seeded(3):
        drawn = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with Machine(torch.device("cpu")).seeded(3):
        assert torch.equal(torch.rand(3), drawn)


def test_a_resumed_run_compiles_where_the_whole_one_does(make_run, monkeypatch):
    """Which is decided by the length of a stage, all of it."""
    expected = []
    monkeypatch.setattr(Learner, "expect", lambda self, epochs, examples: expected.append(epochs))
    for count in (2, 6):
        run = make_run()
        run._checkpoint_seconds = 0
        learner = run.learner()
        learner.begin(learner.sgd(1e-3, 0, 0))
        for epoch in run.epochs("s", 6):
            if epoch == count:
                break
    assert expected == [6, 6]
    assert run.epoch == 6


def test_a_resumed_run_does_again_what_was_not_saved_and_says_where_it_began(make_run, monkeypatch):
    def train(run, count):
        learner = run.learner()
        learner.begin(learner.sgd(1e-3, 0, 0))
        for _ in run.epochs("s", count):
            pass
        return run

    first = make_run()
    first._checkpoint_seconds = math.inf
    train(first, 2)
    first.warn("Something of before.")
    file = first.folder.file("epochs.jsonl")
    assert len(file.read_text().splitlines()) == 2
    make_run()
    assert file.read_text() == ""  # no state was saved, so all of it is done again
    monkeypatch.setattr(Machine, "description", "a GPU")
    first.save_checkpoint()
    file.write_text("a third epoch\n")  # which was killed before its state was saved
    monkeypatch.undo()
    again = train(make_run(), 3)
    assert [row["epoch"] for row in again.folder.epochs()] == [1, 2, 3]
    assert again.warnings == [
        "Something of before.",
        "This run began on a GPU: the last digits of its result may differ.",
    ]
    again.finish()
    short = train(make_run(), 1)
    with pytest.raises(InputError, match="damaged"):
        short.finish()
