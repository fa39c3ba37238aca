"""One contract for all methods."""

import dataclasses

import numpy as np
import pytest
import torch

import labelsift
from labelsift import METHODS, make_dataset
from labelsift.results.store import CHECKPOINT, RunFolder
from toys import StopError, TinyNet, stop_after, toy_arrays, toy_data

SHORT = {
    "ce": {"epochs": 3},
    "early-stopping": {"epochs": 4, "stop_epoch": 2},
    "forward": {"epochs": 2, "estimate_epochs": 2},
    "t-revision": {"epochs": 2, "estimate_epochs": 2, "revision_epochs": 2},
    "dmi": {"epochs": 2, "dmi_epochs": 2},
    "pes": {"epochs": 4, "stage_epochs": (2, 1, 1)},
    "pes-semi": {"epochs": 5, "stage_epochs": (2, 1), "ramp_epochs": 1, "clean_share": 0.0},  # none rests
    "mixup": {"epochs": 3},
    "m-correction": {"epochs": 4, "mixup_epochs": 2},
    "dividemix": {"epochs": 4, "warm_up_epochs": 2, "ramp_epochs": 2},
    "joint-optim": {"epochs": 5, "window": 2},
    "elr": {"epochs": 3},
    "elr-plus": {"epochs": 3},
    "co-teaching": {"epochs": 4, "lr": 0.01, "ramp_epochs": 2},
    "cdr": {"epochs": 4, "estimate_epochs": 2},
}
LONG = {"pes": {"stage_epochs": (4, 3, 2)}, "pes-semi": {"stage_epochs": (4, 3)}}
LONG |= {"dmi": {"pretrain_epochs": 5, "dmi_epochs": 5}}
LONG |= {"cdr": {"estimate_epochs": 4}}
LONG |= {"m-correction": {"mixup_epochs": 5}, "dividemix": {"warm_up_epochs": 4}}
methods = pytest.mark.parametrize("name", METHODS)


def short(name, **more):
    return METHODS[name](**{"batch_size": 16, "lr": 0.05, **SHORT[name], **more})


def weights(result):
    return result._files.read_tensors("model.safetensors")[0]


def same_weights(first, second):
    a, b = weights(first), weights(second)
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@methods
def test_fits_and_predicts_probabilities(name, tmp_path):
    data = toy_data(120)
    result = labelsift.fit(data, method=short(name), net=TinyNet, augment="crop", out=tmp_path / "run")
    probs = result.predict_proba(toy_arrays(30)[0])
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)
    assert len(result.history) == short(name).total_epochs
    assert result.config.settings == {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(short(name)).items()
    }


@methods
def test_the_best_epoch_is_of_the_stage_that_the_method_is_about(name, monkeypatch):
    """Accuracy that falls from epoch to epoch: the best would be the first."""
    falling = iter(range(99, 0, -1))
    monkeypatch.setattr(
        "labelsift.training.judge.Judge.accuracies",
        lambda *judged: dict.fromkeys(("test_accuracy", "noisy_validation_accuracy"), next(falling) / 100),
    )
    result = labelsift.fit(toy_data(60), method=short(name), net=TinyNet, validation=0.2)
    stages = [row["stage"] for row in result.history]
    wanted = METHODS[name].result_stage
    assert not wanted or wanted in stages
    first = stages.index(wanted) if wanted else 0
    assert result.test_accuracy["best"] == result.history[first]["test_accuracy"]
    assert result.test_accuracy["best_epoch"] == first + 1
    assert result.test_accuracy["best_on_noisy_validation"] == result.test_accuracy["best"]
    assert result.test_accuracy["last"] == result.history[-1]["test_accuracy"]


def test_without_its_stage_the_best_is_among_all_epochs():
    method = short("t-revision", revision_epochs=0)
    result = labelsift.fit(toy_data(60), method=method, net=TinyNet)
    assert result.test_accuracy["best"] == max(row["test_accuracy"] for row in result.history)


@methods
def test_learns_under_forty_percent_noise(name):
    method = METHODS[name](epochs=10, lr=0.03, **LONG.get(name, {}))
    result = labelsift.fit(toy_data(480), method=method, net=TinyNet, augment="crop")
    assert result.test_accuracy["best"] > 0.95
    confident = result.record["confident"]
    assert confident["confident_precision"] > 0.9  # of all labels 0.6 are right
    assert confident["confident_recall"] > 0.9


@methods
def test_resumed_at_any_epoch_equals_uninterrupted(name, tmp_path):
    method = short(name)
    options = {"method": method, "net": TinyNet, "augment": "crop+flip", "checkpoint_seconds": 0.0}
    whole = labelsift.fit(toy_data(80), out=tmp_path / "whole", **options)
    for stop in range(1, method.total_epochs + 1):
        folder = tmp_path / f"stopped{stop}"

        with pytest.raises(StopError):
            labelsift.fit(toy_data(80), out=folder, observe=stop_after(stop), **options)
        assert not (folder / "result.json").exists()
        assert RunFolder(folder).read_tensors(CHECKPOINT)[1]["epoch"] == stop
        resumed = labelsift.fit(toy_data(80), out=folder, resume=True, **options)
        assert same_weights(whole, resumed), f"stopped after epoch {stop}"
        assert resumed.examples == whole.examples
        drop = lambda rows: [{k: v for k, v in row.items() if k != "seconds"} for row in rows]  # noqa: E731
        assert drop(resumed.history) == drop(whole.history)


@methods
def test_same_seed_same_bits_and_another_seed_other_ones(name):
    def run(seed):
        return labelsift.fit(toy_data(60), method=short(name), net=TinyNet, seed=seed, augment="crop")

    first, second, other = run(1), run(1), run(2)
    assert same_weights(first, second)
    assert not same_weights(first, other)


@methods
def test_survives_a_class_that_nobody_has(name):
    x, y = toy_arrays(60)
    data = make_dataset("gap", x[y < 2], y[y < 2], classes=["a", "b", "never"])
    result = labelsift.fit(data, method=short(name), net=TinyNet)
    assert np.isfinite(result.label_quality).all()


@methods
def test_survives_a_remainder_of_one_and_a_batch_as_large_as_the_set(name):
    for size in (20, 61):
        result = labelsift.fit(toy_data(61), method=short(name, batch_size=size), net=TinyNet)
        assert np.isfinite(result.label_quality).all()


@methods
def test_takes_feature_rows(name):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = rng.normal(size=(90, 5)) + 3 * y[:, None]
    result = labelsift.fit(x, y, method=short(name, epochs=6), test=(x, y))
    assert result.config.net == "mlp"
    assert result.test_accuracy["best"] > 0.6


@methods
def test_two_nets_are_an_ensemble_and_resume_too(name, tmp_path):
    method = short(name)
    options = {"method": method, "net": TinyNet, "nets": 2, "augment": "crop", "checkpoint_seconds": 0.0}
    data = toy_data(80)
    both = labelsift.fit(data, out=tmp_path / "both", **options)
    alone = labelsift.fit(data, out=tmp_path / "alone", **{**options, "nets": 1})
    length = method.total_epochs
    assert [row["net"] for row in both.history] == [1] * length + [2] * length
    for row, same in zip(both.history, alone.history, strict=False):
        assert row["train_loss"] == same["train_loss"]  # the first net does not know of the second
    assert both.test_accuracy == alone.test_accuracy
    single = "out.weight" in weights(alone)  # some methods train two nets in any case
    assert ("ensemble_test_accuracy" not in both.history[0]) == single
    assert both.ensemble_test_accuracy["last"] == both.history[-1]["ensemble_test_accuracy"]
    accuracy = (both.predict(data.test_inputs[:, 0]) == data.test_labels).mean()
    assert accuracy == pytest.approx(both.ensemble_test_accuracy["last"])
    packed = weights(both)
    first = weights(alone)["out.weight" if single else "1/out.weight"]
    assert torch.equal(packed["1/out.weight"], first)
    assert not torch.equal(packed["1/out.weight"], packed["2/out.weight"])

    with pytest.raises(StopError):
        labelsift.fit(data, out=tmp_path / "stopped", observe=stop_after(length + 1), **options)
    resumed = labelsift.fit(data, out=tmp_path / "stopped", resume=True, **options)
    assert same_weights(both, resumed)
