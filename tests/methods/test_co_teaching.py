import pytest
import torch
from torch.nn import functional as F

import labelsift
from labelsift.methods import CoTeaching, make_method
from labelsift.methods.co_teaching import smallest
from labelsift.training import Learner, Run
from toys import TinyNet, toy_data

SHORT = {"epochs": 4, "batch_size": 32, "lr": 0.01, "ramp_epochs": 2, "decay_at": (0.5,)}


def share(value):
    return torch.tensor(value, dtype=torch.float64)


def test_the_forgotten_share_grows_to_the_noise_rate():
    method = CoTeaching(ramp_epochs=10)
    rates = [method.forget_rate(epoch, 0.5) for epoch in range(12)]
    assert rates == pytest.approx([0.5 * epoch / 9 for epoch in range(10)] + [0.5, 0.5])
    assert rates[1] == pytest.approx(0.0556, abs=1e-4)
    assert [CoTeaching(ramp_epochs=1).forget_rate(epoch, 0.3) for epoch in (0, 1)] == [0.3, 0.3]


def test_the_share_is_rounded_down_whatever_the_size_of_the_batch():
    method = CoTeaching(ramp_epochs=10)
    generator = torch.Generator().manual_seed(0)
    for size in (2, 7, 64, 128):
        losses = torch.rand(size, generator=generator)
        for epoch in range(11):
            kept = 1 - method.forget_rate(epoch, 0.45)
            easy = smallest(losses, share(kept))
            assert int(easy.sum()) == max(int(kept * size), 1)
            assert losses[easy].max() <= losses[~easy].min() if not easy.all() else kept == 1
    assert smallest(torch.ones(10), share(0.35)).sum() == 3  # ties
    assert smallest(torch.tensor([3.0, 1.0, 2.0]), share(0.01)).tolist() == [False, True, False]


def follow(run, method, choose=lambda losses, keep: slice(None)):
    """The same by hand, slowly: two nets, Adam, and batches of which each net `choose`s for itself."""
    nets = [run.learner().net.train(), run.learner().net.train()]
    optimisers = [torch.optim.Adam(net.parameters(), method.lr) for net in nets]
    for epoch in range(method.epochs):
        for optimiser in optimisers:
            optimiser.param_groups[0]["lr"] = method.lr_at(epoch)
            optimiser.param_groups[0]["betas"] = (
                method.momentum if epoch < method.late_epoch else method.late_momentum,
                0.999,
            )
        kept = 1 - method.forget_rate(epoch, float(method.noise_rate))
        for batch in run.examples.batches(method.batch_size):
            view = batch.view()
            for net, optimiser in zip(nets, optimisers, strict=True):
                logits = net(view)
                losses = F.cross_entropy(logits, batch.labels, reduction="none")
                chosen = choose(losses.detach(), int(kept * len(losses)))
                optimiser.zero_grad()
                F.cross_entropy(logits[chosen], batch.labels[chosen]).backward()
                optimiser.step()
    return nets


def test_without_noise_it_is_two_plain_nets(make_run):
    method = CoTeaching(**SHORT, noise_rate=0.0, momentum=0.8, late_momentum=0.2)
    run = make_run(folder="a")
    method.fit(run)
    for learner, net in zip(run.learners, follow(make_run(folder="b"), method), strict=True):
        theirs = net.state_dict()
        for name, tensor in learner.net.state_dict().items():
            assert torch.equal(tensor, theirs[name]), name
    first, second = (learner.net.out.weight for learner in run.learners)
    assert not torch.equal(first, second)


def test_two_nets_alike_stay_so_and_choose_for_themselves(make_run, monkeypatch):
    real = Run.learner

    def learner(self, judged=True):
        made = real(self, judged)
        made.net.load_state_dict(self.learners[0].net.state_dict())
        return made

    monkeypatch.setattr(Run, "learner", learner)
    method = CoTeaching(**SHORT, noise_rate=0.4)
    run = make_run(folder="a")
    method.fit(run)
    a, b = (learner.net.state_dict() for learner in run.learners)
    assert all(torch.equal(a[name], b[name]) for name in a)
    other = make_run(folder="b")
    alone, _ = follow(other, method, lambda losses, keep: losses.argsort()[:keep])
    plain = other.examples.views.plain(other.examples.inputs.take(other.examples.index))
    with torch.no_grad():
        theirs = alone.eval()(plain).softmax(1)
    torch.testing.assert_close(run.learners[0].pred_probs(run.examples), theirs, rtol=0, atol=0.01)


def test_each_net_learns_what_the_other_chose_before_either_moved(make_run, monkeypatch):
    events, labels = [], []
    call, update = Learner.__call__, Learner.update

    def watched_call(self, view):
        logits = call(self, view)
        if self.net.training:
            events.append((self, logits.detach().clone()))
        return logits

    def watched_update(self, loss):
        events.append((self, loss.item()))
        update(self, loss)

    monkeypatch.setattr(Learner, "__call__", watched_call)
    monkeypatch.setattr(Learner, "update", watched_update)
    run = make_run()
    batches = run.examples.batches
    monkeypatch.setattr(
        labelsift.Examples,
        "batches",
        lambda self, size, shuffle=True: (labels.append(b.labels) or b for b in list(batches(size))),
    )
    CoTeaching(epochs=1, batch_size=32, ramp_epochs=1, noise_rate=0.4).fit(run)
    first, second = run.learners
    for step in range(len(labels)):
        (a, logits), (b, other), (c, loss), (d, other_loss) = events[4 * step : 4 * step + 4]
        assert (a, b, c, d) == (first, second, first, second)
        y = labels[step]
        losses, others = ([-z[k].log_softmax(0)[y[k]].item() for k in range(len(y))] for z in (logits, other))
        keep = int(0.6 * len(y))
        easy, other_easy = (
            sorted(range(len(y)), key=values.__getitem__)[:keep] for values in (losses, others)
        )
        assert easy != other_easy
        assert loss == pytest.approx(sum(losses[k] for k in other_easy) / keep, rel=1e-4)
        assert other_loss == pytest.approx(sum(others[k] for k in easy) / keep, rel=1e-4)


def test_a_huge_loss_leaves_no_gradient():
    logits = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    logits[5] = torch.tensor([0.0, 0.0, 1e4])
    logits.requires_grad_()
    losses = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long), reduction="none")
    labelsift.losses.masked_mean(losses, smallest(losses, share(0.99))).backward()
    assert logits.grad[5].abs().max() == 0
    assert (logits.grad.abs().sum(1) > 0).sum() == 7


def test_the_estimate_follows_the_nets_while_the_share_grows_and_then_stays(make_run, monkeypatch):
    estimates, seen = iter([0.1, 0.2, 0.3]), []
    monkeypatch.setattr("labelsift.estimates.noise_rate", lambda *_: next(estimates))
    real = CoTeaching.forget_rate

    def forget_rate(self, epoch, noise_rate):
        seen.append(noise_rate)
        return real(self, epoch, noise_rate)

    monkeypatch.setattr(CoTeaching, "forget_rate", forget_rate)
    CoTeaching(epochs=6, ramp_epochs=3, batch_size=32).fit(make_run())
    assert seen == pytest.approx([0, 0.1, 0.2, 0.3, 0.3, 0.3])


def test_the_oracle_is_the_true_rate_and_is_told():
    data = toy_data(120)
    rate = float((data.labels != data.true_labels).mean())
    asked, given, estimated = (
        labelsift.fit(data, method=CoTeaching(**SHORT, noise_rate=how), net=TinyNet, augment="none")
        for how in ("oracle", rate, "estimate")
    )
    assert asked.record["oracle"]
    assert not given.record["oracle"]
    assert not estimated.record["oracle"]
    losses = [[row["train_loss"] for row in result.history] for result in (asked, given)]
    assert losses[0] == losses[1]


def test_what_is_chosen_is_mostly_right():
    method = CoTeaching(epochs=10, batch_size=32, lr=0.01, ramp_epochs=5, noise_rate=0.4)
    result = labelsift.fit(toy_data(240), method=method, net=TinyNet, augment="crop")
    first, *_, last = result.history
    assert first["confident"] == 240  # nothing is forgotten yet
    assert last["confident"] == 7 * int(0.6 * 32) + int(0.6 * 16)
    assert last["confident_precision"] > 0.95  # of all labels 0.6 are right
    assert last["ensemble_test_accuracy"] > 0.95


def test_the_late_momentum_is_that_of_a_stage_of_its_own():
    late, same = (
        labelsift.fit(
            toy_data(120),
            method=CoTeaching(**SHORT, noise_rate=0.3, late_momentum=momentum),
            net=TinyNet,
            augment="none",
        ).history
        for momentum in (0.1, 0.9)
    )
    assert [row["stage"] for row in late] == ["train", "train", "decay", "decay"]
    equal = [a["train_loss"] == b["train_loss"] for a, b in zip(late, same, strict=True)]
    assert equal == [True, True, False, False]
    for schedule in ("constant", "cosine", "step"):
        assert CoTeaching(epochs=8, schedule=schedule).late_epoch == 8
    assert CoTeaching(epochs=8, decay_at=()).late_epoch == 8
    ten, hundred = (("cifar10", "resnet18"), ("cifar100", "resnet34"))
    assert [make_method("co-teaching", *place, "", {}).late_epoch for place in (ten, hundred)] == [80, 100]


def test_confident_are_those_that_the_first_net_is_taught(make_run, monkeypatch):
    def choose(losses, share):  # the first net chooses one, the second three
        counts.reverse()
        return torch.arange(len(losses)) < counts[0]

    counts = [3, 1]
    monkeypatch.setattr("labelsift.methods.co_teaching.smallest", choose)
    run = make_run()
    CoTeaching(epochs=1, batch_size=24, noise_rate=0.4).fit(run)
    assert run.history[0]["confident"] == 3 * 10
