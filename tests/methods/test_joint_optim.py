import pytest
import torch
from torch.nn import functional as F

import labelsift
from labelsift import CE, InputError
from labelsift.methods import JointOptim
from labelsift.training import Learner
from toys import TinyNet, toy_data

NEVER = {"first_share": 1.0, "update_from": 1.0}
PLAIN = {**NEVER, "prior_weight": 0.0, "entropy_weight": 0.0}


def soft_of(run):
    return run._kept["0/soft"]


def look(run, monkeypatch, what):
    """What there is to see at the end of every epoch."""
    seen = []
    monkeypatch.setattr(run, "_observe", lambda record: "stage" in record and seen.append(what()))
    return seen


def watch_predictions(monkeypatch):
    """Each example's predictions in training, one row of places and probabilities a step."""
    places, seen = [], []
    real_batches, real_call = labelsift.Examples.batches_of, Learner.__call__

    def batches_of(self, rows):
        places.extend(rows)
        return real_batches(self, rows)

    def call(self, view):
        logits = real_call(self, view)
        if self.net.training:
            seen.append(logits.detach().softmax(1))
        return logits

    monkeypatch.setattr(labelsift.Examples, "batches_of", batches_of)
    monkeypatch.setattr(Learner, "__call__", call)
    return places, seen


def test_without_penalties_and_new_labels_it_is_plain_training(make_run):
    plain = make_run(folder="a")
    CE(epochs=3, batch_size=16, schedule="constant").fit(plain)
    joint = make_run(folder="b")
    JointOptim(epochs=3, batch_size=16, lr=0.02, **PLAIN).fit(joint)
    a, b = (run.learners[0].net.state_dict() for run in (plain, joint))
    assert all(torch.equal(a[name], b[name]) for name in a)
    losses = [[row["train_loss"] for row in run.history] for run in (plain, joint)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize(("window", "epochs", "latest"), [(3, 5, 3), (4, 4, 4), (10, 2, 2)])
def test_a_label_is_the_mean_of_the_latest_predictions(make_run, monkeypatch, window, epochs, latest):
    run = make_run()
    places, seen = watch_predictions(monkeypatch)
    JointOptim(epochs=epochs, batch_size=50, window=window, **NEVER).fit(run)
    mean = torch.zeros(240, 3)
    for index, probs in list(zip(places, seen, strict=True))[-5 * latest :]:
        mean[index] += probs / latest
    torch.testing.assert_close(soft_of(run), mean)
    torch.testing.assert_close(mean.sum(1), torch.ones(240))


def test_labels_follow_from_an_epoch_on_and_are_then_at_rest(make_run, monkeypatch):
    run = make_run()
    seen = look(run, monkeypatch, lambda: soft_of(run).clone())
    JointOptim(epochs=8, batch_size=60, first_share=0.5, update_from=0.75).fit(run)
    given = F.one_hot(run.examples.labels, 3).float()
    same = [torch.equal(a, b) for a, b in zip([given, *seen], seen, strict=False)]
    assert same == [True, True, False, False, True, True, True, True]
    assert [row["stage"] for row in run.history] == ["labels"] * 4 + ["retrain"] * 4


def test_examples_that_were_never_predicted_keep_their_label():
    method, labels = JointOptim(window=2), torch.eye(3)
    recent = torch.zeros(2, 3, 3)
    recent[:, 1] = torch.tensor([[0.2, 0.2, 0.6], [0.4, 0.4, 0.2]])
    recent[0, 2] = torch.tensor([0.5, 0.3, 0.2])
    soft = method.mean_predictions(recent.view(6, 3), torch.tensor([0, 7, 1]), labels)
    torch.testing.assert_close(soft, torch.tensor([[1, 0, 0], [0.3, 0.3, 0.4], [0.5, 0.3, 0.2]]))


def test_a_few_examples_an_epoch_are_enough(make_run):
    run = make_run()
    JointOptim(epochs=2, batch_size=40, epoch_examples=80, update_from=0, first_share=1).fit(run)
    changed = (soft_of(run).max(1).values < 1).sum()
    assert 80 < changed <= 160
    torch.testing.assert_close(soft_of(run).sum(1), torch.ones(240))


@pytest.mark.parametrize("prior", ["uniform", "given"])
def test_the_loss_of_the_first_step(make_run, monkeypatch, prior):
    run = make_run()
    places, seen = watch_predictions(monkeypatch)
    method = JointOptim(epochs=1, batch_size=240, prior=prior, prior_weight=1.2, entropy_weight=0.8, **NEVER)
    method.fit(run)
    (index,), (p,) = places, seen
    labels = run.examples.labels
    wanted = torch.bincount(labels) / 240 if prior == "given" else torch.full((3,), 1 / 3)
    cross = -p.log()[torch.arange(240), labels[index]].mean()
    divergence = (wanted * (wanted / p.mean(0)).log()).sum()
    expected = cross + 1.2 * divergence - 0.8 * (p * p.log()).sum(1).mean()
    assert run.history[0]["train_loss"] == pytest.approx(expected.item(), rel=1e-5)


def test_the_prior_keeps_the_classes_alive(make_run, data):
    """Labels that are all one class pull the net there; the prior pulls against it."""
    shares = []
    for weight in (0.0, 5.0):
        run = make_run(folder=f"weight{weight}")
        run.examples.all_labels.zero_()
        JointOptim(epochs=6, batch_size=40, prior_weight=weight, entropy_weight=0.1, **NEVER).fit(run)
        shares.append(soft_of(run)[:, 0].mean())
    assert shares[0] > 0.8
    assert shares[1] < 0.6


def test_the_second_step_is_a_new_net_at_its_own_rate(make_run, monkeypatch):
    run = make_run()
    begun = []
    real = Learner.begin

    def begin(self, optimiser, parts=None):
        real(self, optimiser, parts)
        momentum = any(memory["momentum_buffer"].any() for memory in optimiser.state.values())
        begun.append((self.net.out.weight.detach().clone(), momentum, self.net.conv[1].running_mean.clone()))

    monkeypatch.setattr(Learner, "begin", begin)
    seen = look(run, monkeypatch, lambda: run.learners[0].net.out.weight.detach().clone())
    options = {"schedule": "step", "decay_at": (1 / 3, 2 / 3), "lr": 0.04, "final_lr": 0.02}
    JointOptim(epochs=6, batch_size=60, first_share=0.5, **options).fit(run)
    (first, *_), (second, momentum, means) = begun
    assert not torch.equal(first, second)
    assert not torch.equal(seen[2], second)
    assert not momentum
    assert not means.any()  # batch norm forgot too
    rates = [row["lr"] for row in run.history]
    assert rates == pytest.approx([0.04, 0.04, 0.04, 0.02, 0.002, 0.0002])


def test_without_a_second_step_the_net_stays_as_it_was(make_run, monkeypatch):
    run = make_run()
    seen = look(run, monkeypatch, lambda: run.learners[0].net.out.weight.detach().clone())
    JointOptim(epochs=2, batch_size=60, first_share=1).fit(run)
    assert torch.equal(seen[-1], run.learners[0].net.out.weight)


def test_the_labels_become_better_than_the_given_ones(make_run, data):
    run = make_run()
    JointOptim(epochs=12, batch_size=32, lr=0.03, window=3).fit(run)
    truth = torch.from_numpy(data.true_labels)
    given = (run.examples.labels == truth).float().mean()
    found = (soft_of(run).argmax(1) == truth).float().mean()
    assert given < 0.65
    assert found > 0.95
    assert run.history[-1]["confident_precision"] > 0.95


def test_it_learns_what_the_wrong_labels_hide():
    method = JointOptim(epochs=12, batch_size=32, lr=0.03)
    result = labelsift.fit(toy_data(240), method=method, net=TinyNet, augment="none")
    assert result.test_accuracy["last"] > 0.95


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"prior": "flat"}, "uniform or given"),
        ({"first_share": 0}, "above 0 and up to 1"),
        ({"window": 0}, "at least 1"),
        ({"prior_weight": -1}, "at least 0"),
    ],
)
def test_settings_without_sense_are_refused(wrong, said):
    with pytest.raises(InputError, match=said):
        JointOptim(**wrong)


def test_the_loss_of_the_second_step_is_the_cross_entropy_of_the_found_labels(make_run, monkeypatch):
    run = make_run()
    places, seen = watch_predictions(monkeypatch)
    JointOptim(epochs=2, first_share=0.5, update_from=0, batch_size=240).fit(run)
    (_, index), (_, p) = places, seen
    soft = soft_of(run)[index]
    assert (soft.max(1).values < 0.9).any()  # they are no longer the given ones
    assert run.history[1]["train_loss"] == pytest.approx(-(soft * p.log()).sum(1).mean().item(), rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "noise", "expected"),
    [
        ("unknown", "pair:0.4", (0.05, 1.0, 0.5)),
        ("symmetric", "", (0.08, 1.2, 0.8)),
        ("asymmetric", "", (0.03, 0.8, 0.4)),
        ("oracle", "symmetric-inclusive:0.5", (0.08, 1.2, 0.8)),
        ("oracle", "instance:0.4", (0.03, 0.8, 0.4)),
    ],
)
def test_the_authors_choice_for_a_kind_of_noise_is_there_by_name(make_run, kind, noise, expected):
    run = make_run(folder="a")
    object.__setattr__(run._judge, "noise", noise)
    method = JointOptim(epochs=3, batch_size=60, noise_kind=kind)
    assert method.by_kind(run) == expected
    assert run.oracle == (kind == "oracle")
    lr, alpha, beta = expected
    method.fit(run)
    other = make_run(folder="b")
    JointOptim(epochs=3, batch_size=60, lr=lr, prior_weight=alpha, entropy_weight=beta).fit(other)
    drop = lambda rows: [(row["lr"], row["train_loss"]) for row in rows]  # noqa: E731
    assert drop(run.history) == drop(other.history)


def test_the_oracle_is_asked_by_name_only(make_run):
    assert JointOptim.oracle == {"noise_kind": "oracle"}
    with pytest.raises(InputError, match="do not ask the oracle"):
        JointOptim(noise_kind="oracle").fit(make_run())
    with pytest.raises(
        InputError, match="noise_kind of joint-optim cannot be pair: it must be unknown, symm"
    ):
        JointOptim(noise_kind="pair")
