import pytest
import torch
from torch.nn import functional as F

import labelsift
from labelsift import CE, InputError
from labelsift.methods import MCorrection, MixUp
from labelsift.methods.m_correction import Doubt, rising
from labelsift.mixtures import fit_betas
from labelsift.training import Learner
from toys import TinyNet, toy_data

SHORT = {"epochs": 3, "mixup_epochs": 1, "batch_size": 16}


def parameters(run):
    return dict(run.learners[0].net.named_parameters())


def doubt_all(monkeypatch, wrong):
    """Every label is wrong with this probability, whatever the losses are; and no view is drawn for them."""
    monkeypatch.setattr(Doubt, "fit", lambda self, losses: self.table.fill_(wrong))
    monkeypatch.setattr(Learner, "pred_probs", lambda self, pool, views=0: torch.ones(len(pool), 3) / 3)


def fitted(losses):
    doubt = Doubt(torch.device("cpu"))
    doubt.fit(losses)
    return doubt


def two_groups():
    torch.manual_seed(0)
    return torch.cat([torch.rand(600) * 0.4, 2 + torch.rand(400)])


def test_it_begins_as_mixup(make_run):
    mixup = make_run(folder="a")
    MixUp(epochs=3, alpha=32.0, batch_size=16).fit(mixup)
    own = make_run(folder="b")
    MCorrection(epochs=3, alpha=32.0, batch_size=16, lr=0.02, mixup_epochs=2).fit(own)
    for a, b in zip(mixup.history[:2], own.history[:2], strict=True):
        assert a["train_loss"] == b["train_loss"]
    assert mixup.history[2]["train_loss"] != own.history[2]["train_loss"]


def test_labels_that_nobody_doubts_are_plain_mixup(make_run, monkeypatch):
    mixup = make_run(folder="a")
    MixUp(epochs=3, alpha=2.0, batch_size=16).fit(mixup)
    own = make_run(folder="b")
    doubt_all(monkeypatch, 0.0)
    MCorrection(**SHORT, alpha=2.0, lr=0.02, prior_weight=0.0).fit(own)
    for name, parameter in parameters(mixup).items():
        assert torch.equal(parameter, parameters(own)[name]), name


def test_labels_that_are_surely_wrong_do_not_matter(make_run, monkeypatch):
    doubt_all(monkeypatch, 1.0)
    given = make_run(folder="a")
    MCorrection(**SHORT).fit(given)
    changed = make_run(folder="b")
    before = changed.examples.labels.clone()

    def change(record):
        if record["stage"] == "mixup":  # which is done with this
            changed.examples.all_labels.add_(1).remainder_(3)

    monkeypatch.setattr(changed, "_observe", change)
    MCorrection(**SHORT).fit(changed)
    assert not torch.equal(before, changed.examples.labels)
    for name, parameter in parameters(given).items():
        assert torch.equal(parameter, parameters(changed)[name]), name


def test_no_mixing_no_doubt_and_no_penalty_are_plain_training(make_run, monkeypatch):
    plain = make_run(folder="a")
    CE(epochs=3, batch_size=16).fit(plain)
    own = make_run(folder="b")
    doubt_all(monkeypatch, 0.0)
    monkeypatch.setattr("labelsift.methods.m_correction.mixing_share", lambda alpha: torch.tensor(1.0))
    MCorrection(**SHORT, lr=0.02, prior_weight=0.0).fit(own)
    for name, parameter in parameters(plain).items():
        torch.testing.assert_close(parameter, parameters(own)[name], msg=name)


@pytest.mark.parametrize("guess", ["hard", "soft"])
def test_a_step_against_the_papers_four_terms(make_run, monkeypatch, guess):
    run = make_run()
    monkeypatch.setattr("labelsift.methods.m_correction.mixing_share", lambda alpha: torch.tensor(0.3))
    monkeypatch.setattr("labelsift.losses.torch.rand", lambda n, **_: torch.arange(n).flip(0))
    calls, losses, batches, tables = [], [], [], []
    real_call, real_update, real_fit = Learner.__call__, Learner.update, Doubt.fit
    real_batches = labelsift.Examples.batches

    def call(self, view):
        logits = real_call(self, view)
        calls.append((self.net.training, view.clone(), logits.detach().clone()))
        return logits

    def update(self, loss):
        losses.append(loss.item())
        real_update(self, loss)

    def batches_of(self, size, shuffle=True):
        for batch in real_batches(self, size, shuffle):
            if shuffle:
                calls.clear()  # of the predictions of all examples
                losses.clear()
                batches.append(batch)
            yield batch

    def fit(self, all_losses):
        real_fit(self, all_losses)
        tables.append(self)

    monkeypatch.setattr(Learner, "__call__", call)
    monkeypatch.setattr(Learner, "update", update)
    monkeypatch.setattr(labelsift.Examples, "batches", batches_of)
    monkeypatch.setattr(Doubt, "fit", fit)
    steps = []
    real_tally = run.tally
    monkeypatch.setattr(
        run, "tally", lambda *args: (steps.append((*losses, *calls, batches[-1])), real_tally(*args))
    )
    MCorrection(epochs=2, mixup_epochs=1, batch_size=8, guess=guess, prior_weight=0.7).fit(run)

    loss, own, eyed, mixed, batch = steps[-1]
    assert [training for training, _, _ in (own, eyed, mixed)] == [True, False, True]
    view, labels = own[1], batch.labels
    assert torch.equal(view, eyed[1])
    predicted = own[2].softmax(1) if guess == "soft" else F.one_hot(own[2].argmax(1), 3).float()
    (doubt,) = tables
    total = 0.0
    for i in range(8):
        j = 7 - i
        torch.testing.assert_close(mixed[1][i], 0.3 * view[i] + 0.7 * view[j])
        log_probs = mixed[2][i].log_softmax(0)
        for share, k in ((0.3, i), (0.7, j)):
            own_loss = F.cross_entropy(eyed[2][k], labels[k])
            place = ((own_loss - doubt.low) / doubt.spread).clamp(1e-3, 1 - 1e-3)
            wrong = doubt.table[int(100 * place)]
            total -= share * (1 - wrong) * log_probs[labels[k]]
            total -= share * wrong * (predicted[k] * log_probs).sum()
    mean = mixed[2].softmax(1).mean(0)
    expected = total / 8 + 0.7 * sum(torch.log((1 / 3) / p) / 3 for p in mean)
    assert loss == pytest.approx(expected.item(), rel=1e-4)


def test_large_losses_are_doubted_and_small_ones_are_not():
    losses = two_groups()
    wrong = fitted(losses)(losses)
    assert (wrong[:600] < 0.1).all()
    assert (wrong[600:] > 0.9).all()


def test_the_table_is_the_posterior_of_the_losses_between_the_twentieths():
    losses = torch.cat([two_groups(), torch.full((20,), 1e4), torch.full((20,), 1e-9)])
    doubt = fitted(losses)
    low, high = losses.quantile(0.05), losses.quantile(0.95)
    assert high < 4  # the outliers do not count
    middle = losses[(losses >= low) & (losses <= high)]
    unit = ((middle - low - 1e-5) / (high - low - 1e-5 + 1e-6)).clamp(1e-3, 1 - 1e-3)
    expected = fit_betas(unit, 10).posterior(torch.linspace(0, 1, 100))
    torch.testing.assert_close(
        doubt.table.double(), rising(expected).clamp(1e-4, 1 - 1e-4), rtol=1e-4, atol=1e-6
    )
    assert doubt(torch.tensor([1e9, -1.0])).tolist() == [doubt.table[99], doubt.table[0]]


@pytest.mark.parametrize(
    ("posterior", "held"),
    [
        ([0.1, 0.4, 0.9], [0.1, 0.4, 0.9]),
        ([0.1, 0.9, 0.4], [0.1, 0.9, 0.9]),  # the authors' rule
        ([0.99, 0.2, 0.7, 0.6], [0.2, 0.2, 0.7, 0.7]),  # by theirs, all would be 0.99
        ([1.0, 1.0, 0.2, 1.0], [0.2, 0.2, 0.2, 1.0]),
        ([0.9, 0.5, 0.1], [0.1, 0.1, 0.1]),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    ],
)
def test_a_larger_loss_is_never_trusted_more(posterior, held):
    torch.testing.assert_close(rising(torch.tensor(posterior)), torch.tensor(held))


def test_losses_of_wrong_labels_near_0_do_not_make_all_labels_wrong():
    """Where the high Beta has the heavier tail at 0, its posterior is near 1 there."""
    torch.manual_seed(0)
    losses = torch.cat([0.3 + 0.02 * torch.randn(700), torch.rand(300)]).clamp(min=0)
    wrong = fitted(losses)(losses)
    assert wrong[:700].median() < 0.5
    assert wrong.max() > 0.9


@pytest.mark.parametrize("losses", [[1.0] * 30, [0.0] * 30, [0.5, 2.0], [0.5] * 29 + [3.0], [1.0]])
def test_losses_that_say_nothing_make_no_trouble(losses):
    losses = torch.tensor(losses)
    wrong = fitted(losses)(losses)
    assert ((wrong > 0) & (wrong < 1)).all()
    if len(losses.unique()) == 1:
        assert (wrong < 0.5).all()  # no loss stands out


def test_confident_labels_are_more_often_right_than_the_base_rate():
    method = MCorrection(epochs=8, mixup_epochs=4, batch_size=32, lr=0.03)
    result = labelsift.fit(toy_data(480), method=method, net=TinyNet, augment="crop")
    rows = [row for row in result.history if "confident" in row]
    assert len(rows) == 4
    for row in rows:
        assert row["confident_precision"] > 0.75  # of all labels 0.6 are right
        assert row["confident_recall"] > 0.8
    assert result.test_accuracy["last"] > 0.95


def test_fewer_epochs_than_mixup_has_leave_none_for_corrected_labels(make_run):
    run = make_run()
    MCorrection(epochs=2, mixup_epochs=5, batch_size=32).fit(run)
    assert [row["stage"] for row in run.history] == ["mixup", "mixup"]
    assert "none was left" in run.warnings[0]


def test_the_words_it_takes():
    with pytest.raises(InputError, match="no guess 'sofd': did you mean 'soft'"):
        MCorrection(guess="sofd")
    with pytest.raises(InputError, match="mixup_epochs of m-correction cannot be 0"):
        MCorrection(mixup_epochs=0)


def test_losses_that_are_no_numbers_are_said_to_be():
    doubt = fitted(two_groups())
    assert doubt(torch.tensor([torch.nan])).item() == doubt.table[0]
    settings = {"lr": 1e6, "weight_decay": 1e6, "epochs": 2, "mixup_epochs": 1, "batch_size": 120}
    with pytest.raises(InputError, match="lower the learning rate"):
        labelsift.fit(toy_data(120), method="m-correction", settings=settings, net=TinyNet)


def test_every_epoch_fits_the_losses_of_one_random_view(make_run, monkeypatch):
    asked, fits = [], []
    real, real_fit = Learner.pred_probs, Doubt.fit
    monkeypatch.setattr(Doubt, "fit", lambda self, losses: fits.append(losses) or real_fit(self, losses))

    def pred_probs(self, examples, views=0):
        asked.append((len(examples), views))
        return real(self, examples, views)

    monkeypatch.setattr(Learner, "pred_probs", pred_probs)
    MCorrection(**SHORT).fit(make_run())
    assert asked == [(240, 1)] * 2
    assert len(fits) == 2
    assert not torch.equal(*fits)
