import gc
import os
import pickle
import subprocess
import sys
import tempfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import labelsift
from labelsift import CE, PES, InputError, Result, make_dataset
from labelsift.data.dataset import ImageFiles
from labelsift.results.store import RunFolder
from toys import StopError, TinyNet, stop_after, toy_arrays, toy_data

QUICK = CE(epochs=2, batch_size=16)


def test_arrays_in_a_result_out(tmp_path):
    x, y = toy_arrays(480)
    test = toy_arrays(90, seed=1)
    method = PES(epochs=10, stage_epochs=(4, 3, 2), batch_size=32, lr=0.03)
    options = {"method": method, "net": TinyNet, "augment": "crop", "noise": "symmetric:0.3"}
    result = labelsift.fit(x, y, test=test, out=tmp_path / "r", **options)
    wrong = result.labels != y
    assert result.record["noise"]["rate"] == pytest.approx(wrong.mean())
    assert result.test_accuracy["last"] > 0.9
    assert result.label_quality[wrong].mean() < 0.3 < 0.6 < result.label_quality[~wrong].mean()
    assert (result.suggested_labels == y).mean() > 0.85
    worst = [float(row["label_quality"]) for row in result.suspicious(10)]
    assert worst == sorted(result.label_quality[~result.confident])[:10]
    assert (result.predict(test[0]) == test[1]).mean() == pytest.approx(result.test_accuracy["last"])
    assert result.config.data == "arrays"
    assert "test_accuracy" in repr(result)


@pytest.mark.parametrize(("threads", "epochs"), [(1, 1), (2, 2)])
def test_one_epoch_and_one_thread_are_singular(monkeypatch, threads, epochs):
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    told, words = [], {1: ("1 epoch on", "CPU, 1 thread"), 2: ("2 epochs on", "CPU, 2 threads")}
    settings = {"epochs": epochs, "batch_size": 32}
    result = labelsift.fit(
        *toy_arrays(60), method="ce", settings=settings, net=TinyNet, device="cpu", observe=told.append
    )
    sentence = next(event["begin"]["sentence"] for event in told if "begin" in event)
    assert f", {words[epochs][0]} " in sentence
    assert sentence.endswith(words[threads][1])
    assert result.record["device"].endswith(words[threads][1])


@pytest.mark.parametrize(
    ("count", "said"), [(2, "2 classes (c0, c1);"), (4, "4 classes (c0, c1, c2 and 1 more);")]
)
def test_the_classes_are_named_at_the_beginning(count, said):
    told = []
    names = np.array([f"c{number}" for number in range(count)])
    x, _ = toy_arrays(60)
    labelsift.fit(x, names[np.arange(60) % count], method=QUICK, net=TinyNet, observe=told.append)
    assert said in next(event["begin"]["sentence"] for event in told if "begin" in event)


def test_feature_rows_have_no_random_views():
    rows, labels = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 2
    with pytest.raises(InputError, match="arrays holds feature rows and no images: leave out --augment flip"):
        labelsift.fit(rows, labels, method=QUICK, augment="flip")
    assert labelsift.fit(rows, labels, method=QUICK, augment="none").config.augment == "none"


def test_a_short_run_in_a_folder_goes_on_where_it_was_stopped(tmp_path):
    """Also if the state is to be saved every ten seconds, which it does not take."""
    options = {"method": CE(epochs=6, batch_size=16), "net": TinyNet, "out": tmp_path / "r"}
    with pytest.raises(StopError):
        labelsift.fit(*toy_arrays(60), observe=stop_after(1), **options)
    begun = []
    labelsift.fit(*toy_arrays(60), resume=True, observe=begun.append, **options)
    assert next(event["epoch"] for event in begun if "epoch" in event) == 2


def test_a_result_is_its_folder(tmp_path):
    x, y = toy_arrays(60)
    fitted = labelsift.fit(x, y, method=QUICK, net="lenet", out=tmp_path / "r")
    loaded = Result(tmp_path / "r")
    assert loaded.examples == fitted.examples
    assert (loaded.predict_proba(x) == fitted.predict_proba(x)).all()


def test_a_folder_that_nobody_named_goes_with_its_result(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    x, y = toy_arrays(60)
    result = labelsift.fit(x, y, method=QUICK, net="lenet", checkpoint_seconds=0)
    assert result.folder.parent == tmp_path
    assert len(result.predict(x)) == 60
    again = pickle.loads(pickle.dumps(result))
    del result
    assert len(again.predict(x)) == 60  # a copy, maybe in another process, keeps it
    kept = os.listdir(tmp_path)
    result = labelsift.fit(x, y, method=QUICK, net="lenet")
    assert len(os.listdir(tmp_path)) == 2
    del result
    assert os.listdir(tmp_path) == kept


def test_a_run_that_broke_off_in_a_folder_that_nobody_named_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def stop(event):
        if "epoch" in event:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        labelsift.fit(*toy_arrays(60), method=QUICK, net="lenet", observe=stop)
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_without_truth_or_test_what_is_unknown_is_absent(tmp_path):
    x, y = toy_arrays(60)
    result = labelsift.fit(x, y, method=QUICK, net=TinyNet, out=tmp_path / "r")
    assert result.test_accuracy == {}
    assert "true_label" not in result.examples[0]
    assert "noise" not in result.record
    assert "test_accuracy" not in result.history[0]
    assert result.record["confident"].keys() == {"confident"}


def test_held_out_examples_are_not_trained_on_but_judged():
    seen = set()

    class Watch(CE):
        def fit(self, run):
            seen.update(run.examples.index.tolist())
            super().fit(run)

    x, y = toy_arrays(100)
    result = labelsift.fit(x, y, method=Watch(epochs=1, batch_size=16), net=TinyNet, validation=0.1)
    assert len(seen) == 90
    assert len(result.examples) == 100
    assert 0 <= result.history[0]["noisy_validation_accuracy"] <= 1


def test_noise_goes_on_the_true_labels_where_they_are_known():
    data = toy_data(90)
    result = labelsift.fit(data, method=QUICK, net=TinyNet, noise="pair:1.0")
    assert (result.labels == (data.true_labels + 1) % 3).all()
    assert [int(row["true_label"]) for row in result.examples] == data.true_labels.tolist()


def test_a_ready_made_net_starts_from_its_weights():
    torch.manual_seed(3)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 3))
    before = net[1].weight.clone()
    method = CE(epochs=1, lr=1e-12, weight_decay=0, batch_size=16)
    x, y = toy_arrays(60)
    result = labelsift.fit(x, y, method=method, net=net)
    torch.testing.assert_close(result._files.read_tensors("model.safetensors")[0]["1.weight"], before)
    assert torch.equal(net[1].weight, before)  # the user's own stays as it was
    assert result.predict(x).shape == (60,)
    with pytest.raises(InputError, match="Result\\(folder, net\\)"):
        Result(result.folder).predict(x)
    assert (Result(result.folder, net).predict(x) == result.predict(x)).all()


def test_the_process_keeps_its_own_random_numbers():
    x, y = toy_arrays(60)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    labelsift.fit(x, y, method=QUICK, net=TinyNet, seed=9)
    assert torch.equal(torch.rand(3), expected)


def test_a_finished_run_is_not_run_again(tmp_path):
    x, y = toy_arrays(60)
    labelsift.fit(x, y, method=QUICK, net=TinyNet, out=tmp_path / "r")
    events = []
    labelsift.fit(x, y, method=QUICK, net=TinyNet, out=tmp_path / "r", observe=events.append)
    assert events == []


def test_leftovers_of_a_kill_are_cleared_away(tmp_path):
    x, y = toy_arrays(60)
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / ".checkpoint.safetensors.1f.labelsift-part").write_bytes(b"half")
    labelsift.fit(x, y, method=QUICK, net=TinyNet, out=tmp_path / "r", checkpoint_seconds=0)
    assert not list((tmp_path / "r").glob("*checkpoint*"))


def test_settings_by_name_and_by_the_method():
    x, y = toy_arrays(60)
    result = labelsift.fit(x, y, method="ce", settings={"epochs": 1, "batch_size": 16}, net=TinyNet)
    assert result.config.settings["epochs"] == 1
    with pytest.raises(InputError, match="in the method itself"):
        labelsift.fit(x, y, method=QUICK, settings={"epochs": 1}, net=TinyNet)
    seeded = labelsift.fit(x, y, method=QUICK, net=TinyNet, seed=np.int64(3))
    assert seeded.config.seed == 3
    for wrong in ({"seed": 1.5}, {"nets": "two"}, {"limit": -1}):
        with pytest.raises(InputError):
            labelsift.fit(x, y, method=QUICK, net=TinyNet, **wrong)
    with pytest.raises(InputError, match="no labels"):
        labelsift.fit(x)
    with pytest.raises(InputError, match="brings its own"):
        labelsift.fit("fashion-demo", y)
    with pytest.raises(InputError, match="too few layers for 6 parts"):
        labelsift.fit(x, y, method=PES(stage_epochs=(2, 1, 1, 1, 1, 1), batch_size=16), net="lenet")


def test_the_paper_settings_follow_the_data_set_and_the_net():
    from labelsift.methods import make_method

    assert make_method("pes", "cifar10", "resnet18", "", {}).stage_epochs == (25, 7, 5)
    assert make_method("pes", "cifar100", "resnet34", "pair:0.45", {"epochs": "50"}).stage_epochs == (
        30,
        7,
        5,
    )
    assert make_method("pes", "mine.npz", "resnet18", "", {}) == PES()
    assert np.isclose(make_method("ce", "clothing1m", "resnet50", "", {}).lr, 5e-3)


def test_a_net_starts_from_weights_and_restarts_without_them(tmp_path):
    torch.manual_seed(8)
    source = labelsift.NETS["lenet"](7, 1)
    file = tmp_path / "weights.pth"
    torch.save(source.state_dict(), file)
    x, y = toy_arrays(60)
    method = CE(epochs=1, lr=1e-12, weight_decay=0, batch_size=16)
    result = labelsift.fit(x, y, method=method, net="lenet", weights=str(file))
    trained = result._files.read_tensors("model.safetensors")[0]
    torch.testing.assert_close(trained["conv1.weight"], source.conv1.weight.data)
    assert trained["fc3.weight"].shape == (3, 84)  # a classifier of other classes is left out
    assert result.config.weights == str(file)
    moved = file.rename(tmp_path / "moved.pth")
    again = labelsift.fit(x, y, method=method, net="lenet", weights=str(moved))
    assert again.config.id == result.config.id  # wherever they lie, they are the same
    torch.save({key: tensor + 1 for key, tensor in torch.load(moved).items()}, moved)
    other = labelsift.fit(x, y, method=method, net="lenet", weights=str(moved))
    assert other.config.id != result.config.id
    with pytest.raises(InputError, match="There is no file"):
        labelsift.fit(x, y, method=method, net="lenet", weights="nowhere.pth")


def test_an_epoch_may_be_a_number_of_examples():
    seen = []

    class Watch(CE):
        def epoch_of(self, examples):
            chosen = super().epoch_of(examples)
            seen.append(chosen.index.tolist())
            return chosen

    x, y = toy_arrays(100)
    labelsift.fit(x, y, method=Watch(epochs=3, batch_size=16, epoch_examples=40), net=TinyNet)
    assert [len(set(index)) for index in seen] == [40, 40, 40]
    assert len({tuple(index) for index in seen}) == 3
    small = PES(epochs=4, stage_epochs=(2, 1, 1), batch_size=16, epoch_examples=40)
    result = labelsift.fit(toy_data(120), method=small, net=TinyNet)
    assert all(row["confident"] <= 40 for row in result.history if "confident" in row)


def test_two_nets_without_a_name_are_two_runs(tmp_path):
    x, y = toy_arrays(60)
    first = nn.Sequential(nn.Flatten(), nn.Linear(144, 3))
    labelsift.fit(x, y, method=QUICK, net=first, out=tmp_path / "r")
    labelsift.fit(x, y, method=QUICK, net=first, out=tmp_path / "r")  # the same: not run again
    again = nn.Sequential(nn.Flatten(), nn.Linear(144, 3))
    for other in (again, lambda classes, channels: nn.Sequential(nn.Flatten(), nn.Linear(144, classes))):
        with pytest.raises(InputError, match="holds another run"):
            labelsift.fit(x, y, method=QUICK, net=other, out=tmp_path / "r")


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    def stop(event):
        if event.get("epoch") == 2:
            raise KeyboardInterrupt

    x, y = toy_arrays(60)
    options = {"method": CE(epochs=4, batch_size=16), "net": TinyNet, "checkpoint_seconds": 0}
    with pytest.raises(KeyboardInterrupt):
        labelsift.fit(x, y, out=tmp_path / "r", observe=stop, **options)
    files = RunFolder(tmp_path / "r")
    tensors, about = files.read_tensors("checkpoint.safetensors")
    row = about["history"][0]
    for wrong in (
        (tensors, {**about, "epoch": 99}),
        (tensors, {**about, "epoch": 99, "history": [row] * 99}),
        (tensors, {}),
        ({name: t for name, t in tensors.items() if name != "order"}, about),
        ({name: t for name, t in tensors.items() if "conv" not in name}, about),
    ):
        files.write_tensors("checkpoint.safetensors", *wrong)
        with pytest.raises(InputError, match=r"damaged|does not fit"):
            labelsift.fit(x, y, out=tmp_path / "r", resume=True, **options)
        assert not files.finished
    files.write_tensors("checkpoint.safetensors", tensors, {**about, "machine": "another machine"})
    result = labelsift.fit(x, y, out=tmp_path / "r", resume=True, **options)
    assert "began on another machine" in result.record["warnings"][-1]


def test_files_that_stream_give_the_result_of_images_in_memory(tmp_path):
    x, y = toy_arrays(48)
    colours = np.stack([x, x // 2, 255 - x], axis=-1)
    names = tuple(f"{place}.png" for place in range(48))
    for name, image in zip(names, colours, strict=True):
        Image.fromarray(image).save(tmp_path / name)
    statistics = {"mean": (0.4, 0.2, 0.6), "std": (0.2, 0.1, 0.2)}
    memory = make_dataset("toy", colours, y, y, colours, y, **statistics)
    files = ImageFiles(tmp_path, names, 12)
    streamed = replace(memory, inputs=files, test_inputs=files, validation_inputs=files, validation_labels=y)
    method = PES(epochs=2, stage_epochs=(1, 1, 1), batch_size=16, epoch_examples=32)
    first, second = (labelsift.fit(data, method=method, net=TinyNet) for data in (memory, streamed))
    a, b = (result._files.read_tensors("model.safetensors")[0] for result in (first, second))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert [row["path"] for row in second.examples] == list(names)
    assert first.label_quality.tolist() == second.label_quality.tolist()
    assert second.history[-1]["clean_validation_accuracy"] == second.history[-1]["test_accuracy"]
    assert "best_on_clean_validation" in second.test_accuracy
    with pytest.raises(InputError, match="too large"):
        labelsift.fit(streamed, method=method, net=TinyNet, noise="instance:0.2")


def test_the_public_names_are_there_and_importing_them_is_no_work():
    code = "import labelsift, sys; assert 'torch' not in sys.modules; "
    code += "print(labelsift.PES().name, *dir(labelsift))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert out[0] == "pes"
    for name in ("CE", "METHODS", "NETS", "Result", "fit", "load", "make_dataset", "__version__"):
        assert name in out
        assert getattr(labelsift, name)
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        labelsift.fitt  # noqa: B018


def test_noise_is_known_however_its_rate_is_written():
    """By it the paper's settings are found, and the run."""
    runs = [
        labelsift.fit(toy_data(60), method=QUICK, net=TinyNet, noise=f"pair:{rate}")
        for rate in (".3", "0.30")
    ]
    assert [run.config.noise for run in runs] == ["pair:0.3"] * 2
    assert runs[0].config.id == runs[1].config.id


def test_the_precision_that_was_asked_for_is_part_of_the_run(tmp_path):
    options = {"method": QUICK, "net": TinyNet, "out": tmp_path / "r"}
    half = labelsift.fit(toy_data(60), precision="bf16", **options)
    assert half.record["precision"] == "bf16"
    with pytest.raises(InputError, match="another run \\(precision = bf16, not auto\\)"):
        labelsift.fit(toy_data(60), **options)
    assert 'precision = "bf16"' in (tmp_path / "r" / "config.toml").read_text()


def test_one_class_left_to_train_on_is_refused():
    x, _ = toy_arrays(60)
    lonely = np.zeros(60, dtype=int)
    lonely[np.random.default_rng((1, 1)).permutation(60)[0]] = 1  # which is held out
    with pytest.raises(InputError, match="hold out less with --validation"):
        labelsift.fit(x, lonely, method=QUICK, net=TinyNet, validation=0.4)


def test_who_watches_may_stop_a_run_before_it_begins(tmp_path):
    def stop(event):
        raise StopError

    options = {"method": QUICK, "net": TinyNet, "out": tmp_path / "r"}
    with pytest.raises(StopError):
        labelsift.fit(toy_data(60), observe=stop, **options)
    assert labelsift.fit(toy_data(60), resume=True, **options).record  # nobody holds the folder any more


def test_a_folder_in_which_a_process_runs_is_said_to_be_so(tmp_path):
    options = {"method": QUICK, "net": TinyNet, "out": tmp_path / "r"}

    def again(event):
        if "begin" in event:
            labelsift.fit(toy_data(60), **options)

    with pytest.raises(InputError, match="Another process is running"):
        labelsift.fit(toy_data(60), observe=again, **options)
    with pytest.raises(InputError, match="broken off: add --resume"):
        labelsift.fit(toy_data(60), **options)
