import numpy as np
import pytest
import torch
from torch.nn import functional as F

import labelsift
from labelsift import CE, InputError
from labelsift.data import Examples
from labelsift.methods import DivideMix, make_method
from labelsift.methods.dividemix import Division
from labelsift.mixtures import fit_gaussians, to_unit
from labelsift.training import Learner
from toys import TinyNet, toy_data, watch_rates

SHORT = {"epochs": 2, "warm_up_epochs": 1, "batch_size": 32, "lr": 0.02}


def first(count):
    """Right labels are those of the first `count` examples, as both nets see it."""
    return lambda self, run, learner, pool: (torch.arange(len(pool)) < count).float()


def trust(monkeypatch, clean):
    monkeypatch.setattr(DivideMix, "clean_probs", clean)


def watch_batches(monkeypatch):
    """The places of the examples of every epoch of a net, and which places of a batch are labelled."""
    seen = []
    real = Division.batches

    def batches(self, *args):
        made = list(real(self, *args))
        seen.append((torch.stack([batch.index for batch in made]), self.labelled.clone()))
        yield from made

    monkeypatch.setattr(Division, "batches", batches)
    return seen


def finite(run):
    return all(torch.isfinite(p).all() for learner in run.learners for p in learner.net.parameters())


def test_it_begins_as_plain_training_of_two_nets(make_run):
    plain = make_run(folder="a")
    CE(epochs=1, batch_size=32, lr=0.02).fit(plain)
    own = make_run(folder="b")
    DivideMix(epochs=1, warm_up_epochs=3, batch_size=32, lr=0.02).fit(own)
    one, two = own.learners
    theirs = plain.learners[0].net.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in one.net.state_dict().items())
    assert not torch.equal(one.net.out.weight, two.net.out.weight)
    assert "none was left to divide" in own.warnings[0]


def test_all_labels_right_and_nothing_mixed_are_plain_training(make_run, monkeypatch):
    """With w = 1, T = 1, no mixing and no penalty it is cross-entropy on two views, here the same."""
    trust(monkeypatch, lambda self, run, learner, pool: torch.ones(len(pool)))
    monkeypatch.setattr("labelsift.methods.dividemix.mixing_share", lambda alpha: torch.tensor(1.0))
    monkeypatch.setattr(labelsift.data.Views, "random", lambda self, inputs, generator: self.plain(inputs))
    method = DivideMix(
        **{**SHORT, "batch_size": 16}, threshold=0, temperature=1, unlabelled_weight=0, prior_weight=0
    )
    own = make_run(folder="a")
    method.fit(own)

    plain = make_run(folder="b")
    learner, _ = plain.learner(), plain.learner()
    learner.begin(method.sgd(learner))
    for epoch in range(2):
        learner.lr = method.lr_at(epoch)
        for batch in plain.examples.batches(16):
            learner.update(F.cross_entropy(learner(batch.plain()), batch.labels))
        list(plain.examples.batches(16))  # those of the second net
    for (name, a), b in zip(own.learners[0].net.named_parameters(), learner.net.parameters(), strict=True):
        torch.testing.assert_close(a, b, msg=name, rtol=1e-3, atol=1e-5)
    assert own.warnings == [
        "Too few labels were doubted in some epoch to fill half a batch: it had labelled ones only."
    ]


def test_each_net_trains_on_the_division_of_the_other_made_before_either_trains(make_run, monkeypatch):
    run, events = make_run(), []
    real_update = Learner.update

    def update(self, loss, *more):
        events.append(("update", run.learners.index(self)))
        real_update(self, loss, *more)

    def clean(self, run, learner, pool):  # the first net trusts the first half, the second the second
        events.append(("divide", run.learners.index(learner)))
        half = torch.arange(len(pool)) < 120
        return (half if learner is run.learners[0] else ~half).float()

    seen = watch_batches(monkeypatch)
    trust(monkeypatch, clean)
    monkeypatch.setattr(Learner, "update", update)
    DivideMix(**SHORT).fit(run)
    after = events[events.index(("divide", 0)) :]
    assert after[:2] == [("divide", 0), ("divide", 1)]
    assert after[2:] == [("update", 0)] * 8 + [("update", 1)] * 8
    (of_first, labelled), (of_second, _) = seen
    assert (of_first[:, labelled] >= 120).all()
    assert (of_first[:, ~labelled] < 120).all()
    assert (of_second[:, labelled] < 120).all()
    assert (of_second[:, ~labelled] >= 120).all()


@pytest.mark.parametrize(
    ("right", "steps", "labelled", "warned"),
    [
        (160, 10, 16, ""),
        (100, 7, 16, ""),  # of the last step, some labelled ones come again
        (3, 1, 16, ""),
        (0, 8, 32, "No label was trusted"),
        (230, 8, 32, "Too few labels were doubted"),
        (240, 8, 32, "Too few labels were doubted"),
    ],
)
def test_every_batch_has_the_same_shape(make_run, monkeypatch, right, steps, labelled, warned):
    run, seen = make_run(), watch_batches(monkeypatch)
    trust(monkeypatch, first(right))
    DivideMix(**SHORT).fit(run)
    assert len(seen) == 2
    for index, mask in seen:
        assert index.shape == (steps, 32)
        assert mask.tolist() == [place < labelled for place in range(32)]
        if right:
            assert len(index[:, :labelled].unique()) == right  # each labelled one, in every epoch
            assert (index[:, :labelled] < right).all()
        assert (index[:, labelled:] >= right).all()
    assert [warning.startswith(warned) for warning in run.warnings] == [True] * bool(warned)
    assert finite(run)
    assert run.history[-1]["confident"] == right


def test_a_step_against_a_slow_one(make_run, monkeypatch):
    """One step with known draws: the loss is what the formulas say, row by row."""
    run, calls, losses, batches = make_run(), [], [], []
    trust(
        monkeypatch,
        lambda self, run, learner, pool: torch.where(pool.index < 120, 0.9 - pool.index / 400, 0.2),
    )
    monkeypatch.setattr("labelsift.methods.dividemix.mixing_share", lambda alpha: torch.tensor(0.2))
    monkeypatch.setattr("labelsift.losses.torch.rand", lambda n, **_: torch.arange(n).flip(0))
    real_call, real_update, real_batches = Learner.__call__, Learner.update, Examples.batches_of

    def call(self, view):
        logits = real_call(self, view)
        if batches:
            calls.append((run.learners.index(self), self.net.training, view.clone(), logits.detach().clone()))
        return logits

    def update(self, loss):
        losses.append(loss.item())
        real_update(self, loss)

    def batches_of(self, rows):
        for batch in real_batches(self, rows):
            if isinstance(rows, torch.Tensor):  # not those of plain training
                batches.append(batch)
                losses.clear()
            yield batch
            if len(batches) == 1:
                steps.append((losses[0], *calls))

    steps = []
    monkeypatch.setattr(Learner, "__call__", call)
    monkeypatch.setattr(Learner, "update", update)
    monkeypatch.setattr(Examples, "batches_of", batches_of)
    more = {"ramp_epochs": 0, "unlabelled_weight": 7.0, "prior_weight": 0.5}
    DivideMix(**{**SHORT, "batch_size": 8}, **more).fit(run)

    loss, *passes, mixed = steps[-1]
    # A pass for each half, with both its views; the other net guesses in evaluation mode; then the mixture.
    assert [(net, training) for net, training, *_ in passes] == 2 * [(0, True)] + 2 * [(1, False)]
    assert (mixed[0], mixed[1]) == (0, True)
    labels, index = batches[0].labels, batches[0].index
    halves = [[half for place in (0, 1) for half in passes[place][what].split(4)] for what in (2, 3)]
    seen, logits = (torch.cat([one[0], one[2], one[1], one[3]]) for one in halves)  # a view, then the other
    assert not torch.equal(seen[:8], seen[8:])  # two views of each
    assert torch.equal(torch.cat([passes[2][2], passes[3][2]]), torch.cat([seen[4:8], seen[12:]]))
    mine, theirs = logits.softmax(1), torch.cat([passes[2][3], passes[3][3]]).softmax(1)
    targets = []
    for place in range(8):
        mean = (mine[place] + mine[place + 8]) / 2
        if place < 4:
            clean = 0.9 - index[place] / 400
            target = clean * F.one_hot(labels[place], 3) + (1 - clean) * mean
        else:
            target = (mine[place] + mine[place + 8] + theirs[place - 4] + theirs[place]) / 4
        targets.append(target**2 / (target**2).sum())
    labelled, unlabelled = [], []
    for row in range(16):
        partner = 15 - row
        torch.testing.assert_close(mixed[2][row], 0.8 * seen[row] + 0.2 * seen[partner])
        target, z = 0.8 * targets[row % 8] + 0.2 * targets[partner % 8], mixed[3][row]
        if row % 8 < 4:
            labelled.append(-(target * z.log_softmax(0)).sum())
        else:
            unlabelled.append(((z.softmax(0) - target) ** 2).mean())
    mean = mixed[3].softmax(1).mean(0)
    expected = torch.stack(labelled).mean() + 7 * torch.stack(unlabelled).mean()
    expected += 0.5 * sum(torch.log((1 / 3) / p) / 3 for p in mean)
    assert loss == pytest.approx(expected.item(), rel=1e-4)


def test_refined_labels_have_the_golden_numbers(make_run, monkeypatch):
    run, seen = make_run(), []
    says = torch.tensor([0.5, 0.3, 0.2]).log()

    def call(self, view):
        return says.expand(len(view), 3) + 0 * self.net.out.weight.sum()

    def mix(views, targets, share):
        seen.append(targets[:8])
        return views, targets

    monkeypatch.setattr(Learner, "__call__", call)
    monkeypatch.setattr("labelsift.methods.dividemix.mix", mix)
    trust(monkeypatch, lambda self, run, learner, pool: torch.full((len(pool),), 0.8))
    run.examples.all_labels.zero_()
    DivideMix(**{**SHORT, "batch_size": 8}).fit(run)
    for targets in seen:
        golden = torch.tensor([0.993621, 0.004416, 0.001963]).expand(8, 3)
        torch.testing.assert_close(targets, golden, atol=1e-6, rtol=0)
    assert seen


def test_guessing_does_not_move_the_other_nets_statistics(make_run, monkeypatch):
    run, stages = make_run(), []
    trust(monkeypatch, first(120))
    real = Division.batches

    def batches(self, *args):
        means = [learner.net.conv[1].running_mean for learner in run.learners]
        before = [mean.clone() for mean in means]
        yield from real(self, *args)
        stages.append([torch.equal(a, b) for a, b in zip(before, means, strict=True)])

    monkeypatch.setattr(Division, "batches", batches)
    DivideMix(**SHORT).fit(run)
    assert stages == [[False, True], [True, False]]


def test_the_weight_of_the_unlabelled_loss_grows_within_an_epoch(make_run, monkeypatch):
    run, seen = make_run(), []
    trust(monkeypatch, first(80))
    real = Division.batches

    def batches(self, *args):
        for batch in real(self, *args):
            seen.append(self.progress.item())
            yield batch

    monkeypatch.setattr(Division, "batches", batches)
    DivideMix(**{**SHORT, "epochs": 3}).fit(run)
    epoch = [0, 0.2, 0.4, 0.6, 0.8]
    assert seen == pytest.approx(epoch * 2 + [1 + share for share in epoch] * 2)


def test_the_ramp_scales_the_unlabelled_loss(make_run, monkeypatch):
    """With a ramp of two epochs the first has from none to half of the weight."""
    trust(monkeypatch, first(120))
    mean_losses = {}
    for weight, ramp in ((0.0, 0), (1e3, 0), (1e3, 2)):
        run = make_run(folder=f"{weight}-{ramp}")
        method = DivideMix(**{**SHORT, "lr": 1e-9}, unlabelled_weight=weight, ramp_epochs=ramp)
        method.fit(run)
        mean_losses[weight, ramp] = run.history[-1]["train_loss"]
    none, full, ramped = mean_losses.values()
    shares = sum(step / 8 / 2 for step in range(8)) / 8
    assert (ramped - none) / (full - none) == pytest.approx(shares, rel=0.1)


def test_small_losses_are_clean_and_constant_ones_all_are(make_run, monkeypatch):
    run = make_run()
    learner, labels = run.learner(), run.examples.labels
    sure = F.one_hot((labels + (torch.arange(240) >= 150)) % 3, 3).float()
    monkeypatch.setattr(
        Learner, "pred_probs", lambda self, pool: sure
    )  # probabilities of 0: losses stay finite
    clean = DivideMix().clean_probs(run, learner, run.examples)
    assert ((clean > 0.5) == (torch.arange(240) < 150)).all()
    monkeypatch.setattr(Learner, "pred_probs", lambda self, pool: torch.full((240, 3), 1 / 3))
    assert DivideMix().clean_probs(run, learner, run.examples).tolist() == [1.0] * 240


def test_the_confidence_penalty_keeps_warm_up_unsure():
    sure = []
    for penalty in (False, True):
        method = DivideMix(epochs=5, warm_up_epochs=5, batch_size=32, confidence_penalty=penalty)
        result = labelsift.fit(toy_data(120), method=method, net=TinyNet, augment="none")
        sure.append(result.predict_proba(toy_data(120).inputs[:, 0]).max(1).mean())
    assert sure[1] < sure[0] - 0.05


def test_the_oracle_is_asked_by_name_only():
    data = toy_data(60, noise=0.0)
    short = {"epochs": 2, "warm_up_epochs": 1, "batch_size": 16}
    asked = {**short, "unlabelled_weight": "oracle", "confidence_penalty": "oracle"}
    told = labelsift.fit(data, method="dividemix", settings=asked, noise="pair:0.2", net=TinyNet)
    assert told.record["oracle"]
    plain = labelsift.fit(data, method="dividemix", settings=short, noise="pair:0.2", net=TinyNet)
    assert not plain.record["oracle"]
    with pytest.raises(InputError, match="do not ask the oracle"):
        labelsift.fit(data, method="dividemix", settings=asked, net=TinyNet)


@pytest.mark.parametrize(
    ("noise", "cifar10", "cifar100"),
    [
        ("symmetric:0.2", 0, 25),
        ("symmetric-inclusive:0.5", 25, 150),
        ("symmetric:0.8", 25, 150),
        ("symmetric:0.9", 50, 150),
        ("symmetric:0.3", 0, 25),
        ("pair:0.45", 0, 25),
        ("instance:0.4", 0, 25),
    ],
)
def test_the_authors_weights(make_run, noise, cifar10, cifar100):
    run = make_run()
    method = DivideMix(unlabelled_weight="oracle", confidence_penalty="oracle")
    for num_classes, wanted in ((10, cifar10), (100, cifar100)):
        object.__setattr__(run._judge, "noise", noise)
        object.__setattr__(run.examples, "num_classes", num_classes)
        assert method.by_noise(run) == (not noise.startswith("symmetric"), wanted)
    assert DivideMix().by_noise(run) == (False, 25)


def test_the_words_it_takes():
    from_text = make_method(
        "dividemix", "x", "y", "", {"unlabelled_weight": "5", "confidence_penalty": "true"}
    )
    assert (from_text.unlabelled_weight, from_text.confidence_penalty) == (5.0, True)
    for name in ("unlabelled_weight", "confidence_penalty"):
        with pytest.raises(InputError, match=f"{name} of dividemix cannot be guess.* or oracle"):
            DivideMix(**{name: "guess"})


def test_it_learns_what_the_wrong_labels_hide():
    method = DivideMix(epochs=6, warm_up_epochs=3, batch_size=64, lr=0.03)
    result = labelsift.fit(toy_data(480), method=method, net=TinyNet, augment="crop")
    assert result.test_accuracy["last"] > 0.95
    for row in result.history[3:]:
        assert row["confident_precision"] > 0.95  # of all labels 0.6 are right
        assert row["confident_recall"] > 0.9
    assert result.ensemble_test_accuracy["last"] > 0.95
    assert result.record["epochs"] == method.total_epochs == 6


def test_what_is_confident_is_what_the_first_net_trains_on_as_labelled(make_run, monkeypatch):
    run = make_run()
    trust(
        monkeypatch,
        lambda self, run, learner, pool: first(100 + 40 * run.learners.index(learner))(
            self, run, learner, pool
        ),
    )
    DivideMix(**SHORT).fit(run)
    assert run.history[-1]["confident"] == 140


def test_a_label_as_likely_as_the_threshold_is_not_trusted(make_run, monkeypatch):
    run, seen = make_run(), watch_batches(monkeypatch)
    trust(monkeypatch, lambda self, run, learner, pool: torch.where(torch.arange(240) < 90, 0.6, 0.5))
    DivideMix(**SHORT, threshold=0.5).fit(run)
    for index, labelled in seen:
        assert (index[:, labelled] < 90).all()
        assert (index[:, ~labelled] >= 90).all()


def test_a_few_examples_an_epoch_keep_their_own_probabilities(make_run, monkeypatch):
    run, seen = make_run(), []
    trust(monkeypatch, lambda self, run, learner, pool: 0.4 + pool.index / 480)
    real = Division.batches

    def batches(self, pool, clean, *more):
        made = real(self, pool, clean, *more)
        seen.append((pool, self.clean.clone()))
        return made

    monkeypatch.setattr(Division, "batches", batches)
    DivideMix(**SHORT, epoch_examples=120).fit(run)
    assert len(seen) == 2
    for pool, kept in seen:
        assert len(pool) == 120
        torch.testing.assert_close(kept[pool.index], 0.4 + pool.index / 480)


def test_losses_are_scaled_before_they_are_divided(make_run, monkeypatch):
    """Small losses are told apart as large ones are: what is added to the variances is of the unit range."""
    run, found = make_run(), []
    learner, labels = run.learner(), run.examples.labels
    torch.manual_seed(0)
    losses = torch.cat([torch.rand(150) * 0.4, 0.5 + torch.rand(90) * 0.4])
    for scale in (1.0, 0.01):
        right = (-scale * losses).exp()
        probs = ((1 - right) / 2)[:, None].expand(240, 3).scatter(1, labels[:, None], right[:, None])
        monkeypatch.setattr(Learner, "pred_probs", lambda self, pool, probs=probs: probs)
        found.append(DivideMix().clean_probs(run, learner, run.examples))
    unit = to_unit(losses)
    wanted = (1 - fit_gaussians(unit).posterior(unit)).float()
    for clean in found:
        torch.testing.assert_close(clean, wanted, rtol=0, atol=1e-3)
    assert ((wanted > 0.5) == (torch.arange(240) < 150)).all()


def test_the_confidence_penalty_is_the_negative_entropy(make_run, monkeypatch):
    run, seen, labels = make_run(), [], []
    real, batches = Learner.__call__, Examples.batches
    monkeypatch.setattr(Learner, "__call__", lambda self, view: seen.append(real(self, view)) or seen[-1])
    monkeypatch.setattr(
        Examples,
        "batches",
        lambda self, size, shuffle=True: (labels.append(b.labels) or b for b in batches(self, size, shuffle)),
    )
    DivideMix(epochs=1, warm_up_epochs=1, batch_size=240, confidence_penalty=True).fit(run)
    expected = 0.0
    for logits, given in zip(seen, labels, strict=True):  # of both nets
        p = logits.detach().softmax(1)
        expected += (-p.log()[torch.arange(240), given].mean() + (p * p.log()).sum(1).mean()).item() / 2
    assert run.history[0]["train_loss"] == pytest.approx(expected, rel=1e-5)


def test_both_nets_follow_one_schedule_through_both_stages(make_run, monkeypatch):
    run = make_run()
    rates = watch_rates(run, monkeypatch)
    trust(monkeypatch, first(120))
    method = DivideMix(epochs=4, warm_up_epochs=2, batch_size=240)
    method.fit(run)
    assert rates == [(net, pytest.approx(method.lr_at(epoch))) for epoch in range(4) for net in (0, 1)]


def test_the_weight_of_the_unlabelled_loss_stops_growing(make_run, monkeypatch):
    trust(monkeypatch, first(120))
    losses = []
    for ramp in (0, 1):
        run = make_run(folder=f"{ramp}")
        DivideMix(epochs=4, warm_up_epochs=1, batch_size=60, lr=1e-9, ramp_epochs=ramp).fit(run)
        losses.append([row["train_loss"] for row in run.history])
    assert losses[0][1] > losses[1][1]  # the first epoch of it
    assert losses[0][2:] == pytest.approx(losses[1][2:], rel=1e-5)


@pytest.mark.parametrize("size", [2, 3])
def test_half_a_batch_may_be_one_row(size):
    """Which batch norm refuses by itself, of feature rows."""
    x, y = np.random.default_rng(0).normal(size=(24, 4)), np.arange(24) % 2
    result = labelsift.fit(x, y, method=DivideMix(**{**SHORT, "batch_size": size}), net="mlp")
    assert np.isfinite(result.label_quality).all()
