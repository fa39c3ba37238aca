import pytest
import torch
from torch.nn import functional as F

import labelsift
from labelsift import CE
from labelsift.methods import ELRPlus
from labelsift.methods.elr import scaled_by
from labelsift.training import Learner
from toys import TinyNet, toy_data, watch_rates


def weights(learner):
    return dict(learner.net.named_parameters())


def watch(monkeypatch):
    """Which net saw which view and what it answered, in every training step."""
    seen = []
    real = Learner.__call__

    def call(self, view):
        logits = real(self, view)
        if self.net.training:
            seen.append((self, view.clone(), logits.detach().clone()))
        return logits

    monkeypatch.setattr(Learner, "__call__", call)
    return seen


def losses_of(monkeypatch):
    seen = []
    real = Learner.update
    monkeypatch.setattr(Learner, "update", lambda self, loss: seen.append(loss.item()) or real(self, loss))
    return seen


def mix_with(monkeypatch, share):
    """Known draws: this share, and the batch backwards as partners."""
    monkeypatch.setattr("labelsift.methods.elr.mixing_share", lambda alpha: torch.tensor(share))
    monkeypatch.setattr("labelsift.losses.torch.rand", lambda n, **_: torch.arange(n).flip(0))


def test_without_mixtures_and_weight_its_first_net_is_plain_training(make_run, monkeypatch):
    plain = make_run(folder="a")
    CE(epochs=1, batch_size=16).fit(plain)
    mix_with(monkeypatch, 1.0)
    plus = make_run(folder="b")
    ELRPlus(epochs=1, batch_size=16, lr=0.02, memory_weight=0).fit(plus)
    a, b = weights(plain.learners[0]), weights(plus.learners[0])
    for name in a:
        torch.testing.assert_close(a[name], b[name], msg=name)


@pytest.mark.parametrize("by_memory", [False, True])
def test_a_step_against_a_slow_one(make_run, monkeypatch, by_memory):
    run = make_run()
    seen, losses = watch(monkeypatch), losses_of(monkeypatch)
    mix_with(monkeypatch, 0.2)  # the larger part counts: 0.8
    ELRPlus(epochs=1, batch_size=240, targets_by_memory=by_memory).fit(run)
    first, second, average, partner = run.learners
    assert [learner for learner, _, _ in seen] == [partner, first, average, second]  # each the other's
    order = torch.Generator().manual_seed(0)
    index = torch.randperm(240, generator=order)
    view, guess = seen[0][1], seen[0][2].softmax(1)
    mixed, z = seen[1][1], seen[1][2]
    memory, total = run._kept["0/memory"], 0.0
    for row in range(240):
        other = 239 - row
        torch.testing.assert_close(memory[index[row]], 0.3 * guess[row])  # from the view that is not mixed
        torch.testing.assert_close(mixed[row], 0.8 * view[row] + 0.2 * view[other])
        labels = run.examples.labels[index[[row, other]]]
        target = 0.8 * F.one_hot(labels[0], 3) + 0.2 * F.one_hot(labels[1], 3)
        remembered = 0.8 * 0.3 * guess[row] + 0.2 * 0.3 * guess[other]
        if by_memory:
            target = target * remembered / (target * remembered).sum()
        p = z[row].softmax(0).clamp(1e-4, 1 - 1e-4)
        total += -(target * z[row].log_softmax(0)).sum() + 3 * (1 - (p * remembered).sum()).log()
    assert losses[0] == pytest.approx(total.item() / 240, rel=1e-5)


def test_a_weight_average_that_keeps_nothing_is_the_net(make_run):
    run = make_run()
    ELRPlus(epochs=1, batch_size=32, average_share=0).fit(run)
    for learner, average in zip(run.learners[:2], run.learners[2:], strict=True):
        for name, tensor in weights(average).items():
            assert torch.equal(tensor, weights(learner)[name])
        means = [each.net.conv[1].running_mean for each in (learner, average)]
        assert not torch.equal(*means)  # it has statistics of its own


def test_weight_averages_follow_their_nets_as_a_slow_loop_does(make_run, monkeypatch):
    run = make_run()
    live = []
    real = Learner.average

    def average(self, other, share):
        before = {name: tensor.clone() for name, tensor in weights(self).items()}
        real(self, other, share)
        live.append((self, other, share.item()))
        for name, tensor in weights(self).items():
            expected = share * before[name] + (1 - share) * weights(other)[name]
            torch.testing.assert_close(tensor, expected)

    monkeypatch.setattr(Learner, "average", average)
    ELRPlus(epochs=2, batch_size=60).fit(run)  # four steps an epoch, half of all are four
    a, b, average_a, average_b = run.learners
    assert [pair[:2] for pair in live] == 2 * ([(average_a, a)] * 4 + [(average_b, b)] * 4)
    ramp = [0.997 * torch.tensor(-5 * (1 - step / 4) ** 2).exp().item() for step in (1, 2, 3, 4)]
    assert [share for _, _, share in live[:4]] == pytest.approx(ramp)
    assert [share for _, _, share in live[8:12]] == pytest.approx([0.997] * 4)
    assert [run._kept[f"0/{name}"].item() for name in ("steps", "steps2")] == [8, 8]


def test_weight_averages_start_apart_stay_in_training_and_are_not_judged(make_run):
    run = make_run()
    ELRPlus(epochs=1, batch_size=32, average_share=1, average_ramp_steps=1).fit(run)  # they stay
    assert run.judged == run.learners[:2]
    starts = [weights(learner)["out.weight"] for learner in run.learners[2:]]
    assert not torch.equal(*starts)
    assert all(learner.net.training for learner in run.learners[2:])
    assert not any(p.grad is not None for learner in run.learners[2:] for p in learner.net.parameters())


def test_the_share_of_a_mean_of_all_weights_so_far():
    method = ELRPlus(average_ramp="mean", average_share=0.9)
    shares = [method.share_of_average(torch.tensor(steps), 100).item() for steps in (1, 2, 4, 50)]
    assert shares == pytest.approx([0, 0.5, 0.75, 0.9])


def test_the_weight_of_the_memory_grows_with_the_steps(make_run, monkeypatch):
    losses = losses_of(monkeypatch)
    mix_with(monkeypatch, 1.0)
    for name, more in {"none": {"memory_weight": 0}, "all": {}, "ramp": {"weight_ramp_steps": 100}}.items():
        ELRPlus(epochs=1, batch_size=240, **more).fit(make_run(folder=name))
    none, whole, ramp = losses[::2]
    assert whole < none
    assert (ramp - none) / (whole - none) == pytest.approx(0.006738, rel=0.01)


def test_targets_by_memory():
    one_hot, remembered = torch.eye(3), torch.tensor([[0.2, 0.3, 0.1]]).expand(3, 3)
    torch.testing.assert_close(scaled_by(one_hot, remembered), one_hot)
    mixed = torch.tensor([[0.8, 0.2, 0.0]])
    torch.testing.assert_close(
        scaled_by(mixed, torch.tensor([[0.1, 0.6, 0.3]])), torch.tensor([[0.4, 0.6, 0]])
    )
    assert torch.equal(scaled_by(mixed, torch.tensor([[0.0, 0.0, 0.9]])), mixed)  # nothing would be left


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"alpha": 0}, "at least 0.05"),
        ({"average_ramp": "x"}, "exponential or"),
        ({"average_share": 2}, "0 to 1"),
    ],
)
def test_settings_without_sense_are_refused(wrong, said):
    with pytest.raises(labelsift.InputError, match=said):
        ELRPlus(**wrong)


def test_both_nets_resist_wrong_labels():
    method = ELRPlus(epochs=8, batch_size=32, lr=0.03)
    result = labelsift.fit(toy_data(240), method=method, net=TinyNet, augment="none")
    assert result.test_accuracy["last"] > 0.95
    assert result.ensemble_test_accuracy["last"] > 0.95
    assert result.history[-1]["confident_precision"] > 0.95


def test_both_nets_follow_the_schedule(make_run, monkeypatch):
    run = make_run()
    rates = watch_rates(run, monkeypatch)
    method = ELRPlus(epochs=3, batch_size=240)
    method.fit(run)
    assert rates == [(net, pytest.approx(method.lr_at(epoch))) for epoch in range(3) for net in (0, 1)]


def test_predictions_join_the_memory_as_they_are(make_run):
    """Unlike with one net they are not held away from 0 and from 1."""
    run = make_run()
    real = run.learner

    def sure(judged=True):
        learner = real(judged)
        with torch.no_grad():
            learner.net.out.weight.mul_(1e4)
        return learner

    run.learner = sure
    ELRPlus(epochs=1, batch_size=240).fit(run)
    assert run._kept["0/memory"].max().item() == pytest.approx(0.3, abs=1e-6)
