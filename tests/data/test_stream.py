import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import labelsift
from labelsift import Dataset, InputError
from labelsift.data import Examples, Views
from labelsift.data.dataset import ImageFiles
from labelsift.data.stream import Decoders, FileStore
from toys import TinyNet, toy_arrays

CPU = torch.device("cpu")


def colour(count):
    """The toy pictures in colour, with every channel of its own, channels last."""
    x, y = toy_arrays(count)
    return np.stack([x, x[:, ::-1], 255 - x], axis=-1), y


@pytest.fixture
def files(tmp_path):
    """Seventy pictures as files; their names are not in the order of their places."""
    pictures, _ = colour(70)
    paths = tuple(f"{place % 7}/{99 - place}.png" for place in range(len(pictures)))
    for path, picture in zip(paths, pictures, strict=True):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        Image.fromarray(picture).save(tmp_path / path)
    return ImageFiles(tmp_path, paths, 12)


def examples_of(inputs):
    pictures, labels = colour(70)
    tensor = torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous()
    views = Views.of(tensor, "crop+flip", size=10)
    return Examples.of(tensor if inputs is None else inputs, torch.from_numpy(labels), 3, views, seed=5)


def workers(pid="self"):
    """The processes that decode for this one, or for another."""
    lists = [file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    children = [Path("/proc", child) for some in lists for child in some]
    return [child for child in children if b"decode.py" in (child / "cmdline").read_bytes()]


def same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.labels, other.labels)
        assert torch.equal(one.index, other.index)
        assert torch.equal(one.view(), other.view())
        assert one.plain().stride() == other.plain().stride()  # or nets would round differently


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_stream_gives_the_batches_of_memory(files, count):
    streamed, held = examples_of(FileStore(files, CPU, count)), examples_of(None)
    same(streamed.batches(23), held.batches(23))
    rows = held.draw(40).view(2, 20)
    assert torch.equal(streamed.draw(40).view(2, 20), rows)
    same(streamed.batches_of(rows), held.batches_of(rows))
    assert not workers()


def test_more_pieces_than_slots_come_in_order(files, monkeypatch):
    monkeypatch.setattr("labelsift.data.stream.PIECE", 4)
    monkeypatch.setattr("labelsift.data.stream.AHEAD", 3)
    same(examples_of(FileStore(files, CPU, 1)).batches(30), examples_of(None).batches(30))


def test_batches_are_copied_only_where_they_are_kept_and_stay_as_they_are(files, monkeypatch):
    copied, placed = [], FileStore._placed
    monkeypatch.setattr(
        FileStore, "_placed", lambda s, pixels: copied.append(pixels.base is None) or placed(s, pixels)
    )
    chunks = [torch.randperm(70)[:9] for _ in range(40)]
    for _ in FileStore(files, CPU, 2).stream(chunks):
        assert copied.pop() is False
    kept = list(FileStore(files, CPU, 2).stream(chunks))
    assert any(copied)
    whole = FileStore(files, CPU, 0).take(torch.arange(70))
    assert all(torch.equal(batch, whole[chunk]) for batch, chunk in zip(kept, chunks, strict=True))


def test_a_slice_holds_the_memory_of_its_batch(files):
    stream = FileStore(files, CPU, 1).stream(torch.arange(70).repeat(10).split(10))
    some = next(stream)[3:5, :, 2:]
    before = some.clone()
    for _ in stream:
        assert torch.equal(some, before)


def test_an_empty_pass_has_one_empty_batch_as_in_memory(files):
    nothing = torch.zeros(70, dtype=torch.bool)
    for inputs in (None, FileStore(files, CPU, 1)):
        batches = list(examples_of(inputs).subset(nothing).batches(8))
        assert [batch.inputs.shape for batch in batches] == [(0, 3, 12, 12)]


def test_images_of_any_kind_and_size_become_colour_of_one_size(tmp_path):
    grey = Image.fromarray(np.full((40, 30), 70, np.uint8))
    for place, mode in enumerate(("L", "P", "RGBA", "CMYK")):
        grey.convert(mode).save(tmp_path / f"{place}.tiff")
    paths = tuple(f"{place}.tiff" for place in range(4))
    images = FileStore(ImageFiles(tmp_path, paths, 16), CPU, 0).some()
    assert images.shape == (4, 3, 16, 16)
    assert (images.float() - 70).abs().max() <= 1


@pytest.mark.parametrize("count", [0, 1])
def test_an_image_that_cannot_be_read_is_named(files, count):
    bad = files.folder / files.paths[33]
    store = FileStore(files, CPU, count)
    for content in (b"", b"no image", bad.read_bytes()[:150], None):
        if content is None:
            bad.unlink()
        else:
            bad.write_bytes(content)
        with pytest.raises(InputError, match=rf"{bad} cannot be read \(.+\): replace it"):
            list(examples_of(store).batches(10))
    assert not workers()


def test_an_abandoned_pass_leaves_no_process(files):
    for _ in examples_of(FileStore(files, CPU, 2)).batches(10):
        assert len(workers()) == 2
        break
    assert not workers()


def test_a_worker_that_dies_is_an_error_and_no_hang(files):
    decoders = Decoders(12, 1, 1)
    decoders._workers[0].kill()
    decoders._workers[0].wait()
    decoders.ask(["a.png"])
    with pytest.raises(InputError, match="ended"):
        decoders.answer()
    decoders.close()


SCRIPT = """
import sys, torch
from pathlib import Path
from labelsift.data.dataset import ImageFiles
from labelsift.data.stream import FileStore
paths = tuple(sorted(str(file) for file in Path(sys.argv[1]).rglob("*.png")))
store = FileStore(ImageFiles(Path(), paths * 1000, 12), torch.device("cpu"), 2)
for _ in store.stream(torch.arange(len(store)).split(10)):
    print("begun", flush=True)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_process(files, end):
    command = [sys.executable, "-c", SCRIPT, str(files.folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    children = workers(process.pid)
    assert len(children) == 2
    process.send_signal(end)
    _, said = process.communicate()
    assert "decode.py" not in said
    deadline = time.monotonic() + 30
    while any(child.exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_fingerprint_of_files_knows_paths_and_sizes(files):
    def fingerprint(**changes):
        parts = {"inputs": files, "labels": colour(70)[1], "classes": ("a", "b", "c"), **changes}
        return Dataset("d", **parts).fingerprint

    before = fingerprint()
    moved = ImageFiles(files.folder, files.paths[::-1], 12)
    others = [fingerprint(inputs=moved), fingerprint(mean=(0.5,) * 3, std=(1.0,) * 3), fingerprint(crop=10)]
    others.append(fingerprint(validation_inputs=files, validation_labels=colour(70)[1]))
    with (files.folder / files.paths[3]).open("ab") as out:
        out.write(b"0")
    again = ImageFiles(files.folder, files.paths, 12)
    assert len({before, fingerprint(inputs=again), *others}) == 6
    with pytest.raises(InputError, match="nowhere"):
        fingerprint(inputs=ImageFiles(files.folder, ("nowhere.png",), 12))


def test_fit_gives_the_same_from_files_as_from_memory(files, tmp_path):
    pictures, labels = colour(70)
    arrays = pictures.transpose(0, 3, 1, 2).copy()
    options = {"method": "ce", "net": TinyNet, "settings": {"epochs": 2, "batch_size": 16}, "device": "cpu"}
    results = []
    for inputs in (files, arrays):
        data = Dataset(
            "toy", inputs, labels, ("a", "b", "c"), None, inputs, labels, mean=(0.4,) * 3, std=(0.2,) * 3
        )
        results.append(labelsift.fit(data, **options))
    streamed, held = results
    assert (streamed.label_quality == held.label_quality).all()
    assert streamed.test_accuracy == held.test_accuracy
    assert [row["path"] for row in streamed.examples] == list(files.paths)
    assert (streamed.predict_checked(files, "cpu") == held.predict_checked(arrays, "cpu")).all()
