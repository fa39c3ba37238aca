"""A first stage that goes on until wrong labels are learned by heart."""

import dataclasses

import pytest
import torch
from torch.nn import functional as F

import labelsift
from labelsift import CE, PES, PESSemi, estimates
from labelsift.cli.progress import Reporter
from labelsift.methods import gauge
from labelsift.methods.gauge import Gauge
from labelsift.training import Learner
from toys import StopError, TinyNet, stop_after, toy_data

PATIENT = PES(epochs=16, stage_epochs=(3, 1, 1), batch_size=16, patient=True)
SHORT = PES(epochs=10, stage_epochs=(2, 1, 1), batch_size=16, lr=0.05, patient=True)
FEW_WRONG = toy_data(240, noise=0.2)
SEMI = PESSemi(epochs=10, stage_epochs=(2, 1), batch_size=16, lr=0.05, patient=True)


REAL = dict(vars(gauge))  # before


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch):
    monkeypatch.setattr(gauge, "HELD_OUT", 0.2)
    monkeypatch.setattr(gauge, "LEAST", 10)
    monkeypatch.setattr(gauge, "ENOUGH", 240)
    monkeypatch.setattr(gauge, "MANY", 1)  # but for tests that say otherwise, no examples are few


def fit(method, **options):
    data = options.pop("data", None) or toy_data(240)
    return labelsift.fit(data, method=method, net=TinyNet, augment="none", **options)


def stages(result):
    return [row["stage"] for row in result.history]


@pytest.mark.parametrize("validation", [0.0, 0.3])
def test_it_ends_when_the_net_learns_labels_by_heart(validation):
    result = fit(PATIENT, validation=validation)
    first = stages(result).count("part 1")
    assert 3 <= first < 12
    assert stages(result)[first:] == ["part 2", "part 3"] + ["confident"] * (16 - first)
    if validation:
        last = result.history[first - 1]
        assert last["train_accuracy"] - last["noisy_validation_accuracy"] > 0.05


def test_a_net_that_learns_none_by_heart_is_trained_plainly_and_says_so():
    options = {"data": toy_data(noise=0), "validation": 0.3}
    patient = fit(dataclasses.replace(SHORT, stage_epochs=(2,)), **options)
    plain = fit(CE(epochs=10, batch_size=16, lr=0.05), **options)
    assert stages(patient) == ["part 1"] * 10
    assert patient.record["warnings"][0].startswith("The net learned no wrong labels by heart")
    assert patient.history[-1]["train_loss"] == plain.history[-1]["train_loss"]
    assert patient.test_accuracy == plain.test_accuracy


def few_wrong(monkeypatch, **options):
    """A run to the end, as if its wrong labels were too few to show: it knows them all at last."""
    monkeypatch.setattr(Gauge, "by_heart", lambda *about, **more: False)
    return fit(dataclasses.replace(PATIENT, epochs=24), data=FEW_WRONG, **options)


def found(result):
    return int(((result.label_quality < 0.5) & (FEW_WRONG.labels != FEW_WRONG.true_labels)).sum())


def test_what_was_predicted_once_few_wrong_labels_were_known_by_heart_is_forgotten(monkeypatch):
    result = few_wrong(monkeypatch)
    assert stages(result) == ["part 1"] * 25
    assert result.history[-1]["train_accuracy"] > 0.95
    assert result.record["warnings"][0].startswith("Too few labels are wrong to stop for")
    monkeypatch.setattr(estimates, "HIDDEN", 0.0)
    remembered = few_wrong(monkeypatch)
    assert remembered.record["warnings"][0].startswith("The net learned no wrong labels by heart")
    assert remembered.history[-1]["train_loss"] == result.history[-1]["train_loss"]
    assert found(result) > found(remembered)


@pytest.mark.parametrize("epoch", [8, 15, 25])  # before half-way, after it, at the end
def test_what_is_forgotten_is_so_after_a_stop_too(tmp_path, monkeypatch, epoch):
    whole = few_wrong(monkeypatch)
    with pytest.raises(StopError):
        few_wrong(monkeypatch, out=tmp_path, observe=stop_after(epoch), checkpoint_seconds=0)
    resumed = few_wrong(monkeypatch, out=tmp_path, resume=True)
    assert resumed.record["warnings"] == whole.record["warnings"]
    assert resumed.label_quality.tolist() == whole.label_quality.tolist()


@pytest.mark.parametrize("noise", [0, 0.4])
def test_before_mixmatch_it_is_patient_too(noise):
    result = fit(SEMI, data=toy_data(240, noise=noise), validation=0.3)
    first = stages(result).count("part 1")
    rest = ["part 2"] + ["mixmatch"] * (10 - first)
    assert (stages(result)[first:], first > 2) == (rest if noise else [], True)


def test_the_time_of_stages_that_are_left_out_is_the_first_ones():
    patient = fit(dataclasses.replace(SHORT, stage_epochs=(2, 3, 1)), data=toy_data(noise=0), validation=0.3)
    assert stages(patient) == ["part 1"] * 12
    rates = [row["lr"] for row in patient.history]
    assert rates[:7] == [SHORT.lr_at(epoch) for epoch in range(7)]
    assert rates[7:] == pytest.approx([SHORT.lr_at(epoch) for epoch in (7, 7.6, 8.2, 8.8, 9.4)])


@pytest.mark.parametrize(("noise", "ends_at"), [(0, "epoch 12/12"), (0.4, "epoch 14/14")])
def test_the_epochs_that_are_left_out_do_not_count_as_left(capsys, noise, ends_at):
    method = dataclasses.replace(SHORT, stage_epochs=(2, 3, 1))
    with Reporter() as reporter:
        fit(method, data=toy_data(240, noise=noise), validation=0.3, observe=reporter)
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch ")]
    assert told[0].startswith("epoch 1/14 ")
    assert told[-1].startswith(ends_at)
    assert told[-1].endswith("left 0:00")


def test_nobody_is_patient_unasked(monkeypatch):
    monkeypatch.setattr(Gauge, "of", None)  # called, it would fail
    fit(PES(epochs=3, stage_epochs=(1, 1, 1), batch_size=16))
    fit(PESSemi(epochs=3, stage_epochs=(1, 1), batch_size=16))


def test_a_few_examples_are_held_out_the_same_ones_again(make_run):
    run = make_run()
    one, again = Gauge.of(run, 3), Gauge.of(make_run(), 3)
    assert len(one.held_out) == round(0.2 * len(run.examples))
    both = torch.cat([one.trained.index, one.held_out.index])
    assert torch.equal(both.sort().values, run.examples.index)
    assert torch.equal(one.held_out.index, again.held_out.index)


def test_too_few_of_them_tell_nothing(make_run, monkeypatch):
    assert Gauge.of(make_run(), 3) is not None
    monkeypatch.setattr(gauge, "ENOUGH", 241)
    assert Gauge.of(make_run(), 3) is None
    assert stages(fit(PATIENT)).count("part 1") == 3
    monkeypatch.setattr(gauge, "LEAST", 48)
    assert stages(fit(PATIENT, validation=0.2)).count("part 1") > 3  # 48 are held out
    monkeypatch.setattr(gauge, "LEAST", 49)
    assert stages(fit(PATIENT, validation=0.2)).count("part 1") == 3


def test_where_a_run_holds_out_too_few_others_are_lent(make_run, monkeypatch):
    run = make_run()
    run._judge = dataclasses.replace(run._judge, validation=run.examples.subset(run.examples.index < 9))
    assert Gauge.of(run, 3).lent
    monkeypatch.setattr(gauge, "LEAST", 9)
    assert not Gauge.of(run, 3).lent


def test_so_many_are_lent_that_they_tell_something():
    assert REAL["lent_of"](REAL["ENOUGH"]) >= REAL["LEAST"]
    # As the page of pes says.
    assert (REAL["MANY"], REAL["LENT"], REAL["MOST"], REAL["ENOUGH"]) == (6000, 180, 1000, 200)


@pytest.mark.parametrize(("held_out", "by_heart"), [(180, True), (400, True), (100, False)])
def test_a_rise_of_five_hundredths_tells_from_180_held_out_ones_on(make_run, monkeypatch, held_out, by_heart):
    run = make_run()
    monkeypatch.setattr(gauge, "MANY", len(run.examples) + 1)
    leads = torch.tensor([0.0] * 4 + [0.1] * 3)
    losses = torch.tensor([1.6] * 5 + [1.65, 1.66])
    some = run.examples.subset(torch.arange(held_out) % len(run.examples))
    assert (
        Gauge(run.examples, some, leads, leads, losses, leads, run.predictions).by_heart(run, 7, safe=4)
        == by_heart
    )


@pytest.mark.parametrize(
    ("count", "lent"),
    [(200, 30), (700, 105), (1200, 180), (6000, 180), (10_000, 300), (33_000, 990), (50_000, 1000)],
)
def test_of_few_examples_a_larger_share_is_lent(monkeypatch, count, lent):
    monkeypatch.undo()
    assert gauge.lent_of(count) == lent
    assert lent >= gauge.LEAST


@pytest.mark.parametrize(
    ("validation", "batches"),
    [
        (0.0, [48] * 6 + [84] * 3),  # 192 of 240; then all of them, the 48 others three times
        (0.2, [48] * 9),
    ],
)
def test_what_was_held_out_catches_up_when_the_trial_is_over(monkeypatch, validation, batches):
    trained, real = [], Learner.update

    def update(self, loss):
        trained[-1] += 1
        real(self, loss)

    monkeypatch.setattr(Learner, "update", update)
    method = PES(epochs=8, stage_epochs=(2, 1, 1), batch_size=4, lr=1e-5, patient=True)
    trained.append(0)
    fit(method, validation=validation, observe=lambda e: trained.append(0) if "epoch" in e else None)
    assert trained == [*batches, 0]


@pytest.mark.parametrize(
    ("leads", "by_heart"),
    [
        ([0.0] * 7, False),
        ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.14], False),  # a single epoch may be unlucky
        ([0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.1], True),
        ([0.5, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1], False),  # by the luck of the draw ahead from the beginning
        ([0.5, 0.5, 0.1, 0.1, 0.2, 0.2, 0.2], True),
        ([0.0, 0.0, -0.1, -0.1, 0.04, 0.04, 0.04], False),  # what it caught up does not count
    ],
)
def test_a_lead_that_grows_tells(make_run, leads, by_heart):
    run, level = make_run(), torch.full((7,), 0.6)
    mine = Gauge(run.examples, run.examples, torch.tensor(leads), level, level, level, run.predictions)
    assert mine.by_heart(run, 7, safe=4) == by_heart


@pytest.mark.parametrize(
    ("accuracies", "by_heart"),
    [
        ([0.3, 0.4, 0.5, 0.5, 0.5, 0.5, 0.51], False),  # it learns hard examples, and that helps
        ([0.3, 0.4, 0.5, 0.5, 0.5, 0.5, 0.5], True),
        ([0.3, 0.4, 0.5, 0.5, 0.51, 0.5, 0.5], False),  # a single epoch may be unlucky
        ([0.3, 0.4, 0.5, 0.6, 0.5, 0.5, 0.51], False),  # worse, but better than four epochs ago
        ([0.5, 0.6, 0.5, 0.5, 0.5, 0.5, 0.55], True),  # but not than at best before
    ],
)
def test_but_not_where_held_out_labels_are_met_more_often(make_run, accuracies, by_heart):
    run, grown = make_run(), torch.tensor([0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.1])
    run.remember(run.examples.index, F.one_hot(run.examples.labels, 3).float())  # no label is doubted
    mine = Gauge(run.examples, run.examples, grown, torch.tensor(accuracies), grown, grown, run.predictions)
    assert mine.by_heart(run, 7, safe=4) == by_heart


@pytest.mark.parametrize(("doubted", "by_heart"), [(1, False), (2, True)])
def test_unless_the_net_doubts_labels_where_it_is_sure(make_run, doubted, by_heart):
    run = make_run()  # it meets 120 of 240 labels, and doubts some of the 24 that it is surest of
    labels, place = run.examples.labels, torch.arange(240)
    met = (place >= doubted) & (place < 120 + doubted)
    sure = torch.where(place < 24, 0.9, 0.6)[:, None]
    said = torch.where(met, labels, (labels + 1) % 3)
    run.remember(run.examples.index, F.one_hot(said, 3) * sure + (1 - sure) / 3)
    grown, better = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]])
    mine = Gauge(run.examples, run.examples, grown, better, grown, grown, run.predictions)
    assert mine.by_heart(run, 7, safe=4) == by_heart


@pytest.mark.parametrize(
    ("lead", "wrong", "better", "by_heart"),
    [
        (0.04, True, 0.0, True),
        (0.02, True, 0.0, False),  # it learns nothing by heart
        (0.04, False, 0.0, False),  # hard examples, and little of them by heart
        (0.04, True, 0.1, False),  # it still learns what classes look like
    ],
)
def test_at_the_last_look_half_the_lead_is_enough_if_all_signs_agree(make_run, lead, wrong, better, by_heart):
    run, level = make_run(), torch.tensor([0.6] * 4 + [0.6 + better] * 3)
    said = torch.where(run.examples.index % 4 < wrong, (run.examples.labels + 1) % 3, run.examples.labels)
    run.remember(run.examples.index, F.one_hot(said, 3).float())
    mine = Gauge(
        run.examples, run.examples, torch.tensor([0.0] * 4 + [lead] * 3), level, level, level, run.predictions
    )
    assert mine.by_heart(run, 7, safe=4, last=True) == by_heart
    assert not mine.by_heart(run, 7, safe=4)


def test_the_lead_is_that_of_trained_labels_over_held_out_ones(make_run, monkeypatch):
    run = make_run()
    half = run.examples.index < 120
    leads, accuracies, losses = torch.zeros(3, 4)
    trained, held_out = run.examples.subset(~half), run.examples.subset(half)
    mine = Gauge(
        trained, held_out, leads, accuracies, losses, torch.zeros(gauge.MEMORY, 120, 3), run.predictions
    )

    def probs(learner, examples):  # 60 % of the labels are met
        labels = examples.labels
        met = torch.arange(len(labels)) < 72
        return F.one_hot(torch.where(met, labels, (labels + 1) % 3), 3).float()

    monkeypatch.setattr(Learner, "pred_probs", probs)
    run.history = [{"train_accuracy": 0.75}]
    mine.look(run, run.learner(), 2)
    assert mine.leads.tolist() == pytest.approx([0, 0.15, 0, 0])
    assert mine.accuracies.tolist() == pytest.approx([0, 0.6, 0, 0])
    assert run.predictions.times.tolist() == [1.0] * 120 + [0.0] * 120  # what it saw is remembered


def test_accuracy_and_loss_are_those_of_the_mean_over_the_last_epochs(make_run, monkeypatch):
    run = make_run()
    leads, accuracies, losses = torch.zeros(3, 8)
    mine = Gauge(
        run.examples,
        run.examples,
        leads,
        accuracies,
        losses,
        torch.zeros(gauge.MEMORY, 240, 3),
        run.predictions,
    )
    sure = iter([0.9, 0.9, 0.0, 0.0, 0.0, 0.9, 0.9, 0.9])  # of the given label; the next one has the rest

    def probs(learner, examples):
        given, p = F.one_hot(examples.labels, 3), next(sure)
        return p * given + (1 - p) * given.roll(1, 1)

    monkeypatch.setattr(Learner, "pred_probs", probs)
    run.history = [{"train_accuracy": 1.0}]
    for epoch in range(1, 9):
        mine.look(run, run.learner(), epoch)
    # In the mean 0.9, 0.9, 0.6, 0.45, then over five 0.36, 0.36, 0.36, 0.54.
    assert accuracies.tolist() == [1, 1, 1, 0, 0, 0, 0, 1]
    met = torch.tensor([0.9, 0.9, 0.6, 0.45, 0.36, 0.36, 0.36, 0.54])
    assert losses.tolist() == pytest.approx((-met.log()).tolist())


@pytest.mark.parametrize(
    ("lead", "losses", "by_heart"),
    [
        (0.1, [2.0, 1.8, 1.7, 1.6, 1.6, 1.65, 1.7], True),
        (0.05, [2.0, 1.8, 1.7, 1.6, 1.6, 1.65, 1.7], False),  # it gets no more labels right than before
        (0.1, [2.0, 1.8, 1.7, 1.6, 1.6, 1.62, 1.64], False),  # by chance
        (0.1, [2.0, 1.8, 1.7, 1.6, 1.6, 1.7, 1.6], False),  # and not any more
        (0.1, [2.0, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4], False),  # it still learns what classes look like
    ],
)
def test_of_few_examples_the_loss_of_held_out_ones_tells(make_run, monkeypatch, lead, losses, by_heart):
    run = make_run()
    monkeypatch.setattr(gauge, "MANY", len(run.examples) + 1)
    leads, better = torch.tensor([[0.0] * 4 + [lead] * 3, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]])
    held_out = run.examples.subset(run.examples.index < 180)
    mine = Gauge(run.examples, held_out, leads, better, torch.tensor(losses), leads, run.predictions)
    assert mine.by_heart(run, 7, safe=4) == by_heart
    fewer = dataclasses.replace(mine, held_out=run.examples.subset(run.examples.index < 40))
    assert not fewer.by_heart(run, 7, safe=4)  # chance has more of a say


@pytest.mark.parametrize(
    ("method", "noise", "nets", "every"),
    [(SHORT, 0.4, 1, 1), (SHORT, 0, 1, 4), (SHORT, 0.4, 2, 6), (SEMI, 0.4, 1, 3)],
)
def test_resumed_at_any_epoch_equals_uninterrupted(tmp_path, method, noise, nets, every):
    options = {"data": toy_data(noise=noise), "nets": nets, "checkpoint_seconds": 0.0}
    whole = fit(method, out=tmp_path / "whole", **options)
    assert (("mixmatch" if method is SEMI else "confident") in stages(whole)) == (noise > 0)
    for stop in range(1, len(whole.history) + 1, every):
        folder = tmp_path / f"stopped{stop}"
        with pytest.raises(StopError):
            fit(method, out=folder, observe=stop_after(stop), **options)
        resumed = fit(method, out=folder, resume=True, **options)
        drop = lambda rows: [{k: v for k, v in row.items() if k != "seconds"} for row in rows]  # noqa: E731
        assert drop(resumed.history) == drop(whole.history), f"stopped after epoch {stop}"
        assert resumed.examples == whole.examples
