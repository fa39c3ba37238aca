"""A folder with a subfolder per class: what is taken, what is left out and why, and what is refused."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from labelsift import InputError, load
from labelsift.data import Reading
from labelsift.data.examples import Examples, Memory, open_inputs
from labelsift.data.folder import find_images, list_folder
from labelsift.data.listing import default_size, in_order, shown
from labelsift.data.readers import Look
from labelsift.data.stores import Mapped
from labelsift.data.views import Views
from pictures import band_folder, bomb, save

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "cache"))


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_the_class_is_the_first_folder_however_deep_an_image_lies(tmp_path):
    names = (
        "b/2.png",
        "a/x/y/1.JPG",
        "a/0.tiff",
        "b/.hidden.png",
        ".git/a.png",
        "b/notes.txt",
        "b/Thumbs.db",
    )
    touch(tmp_path / "p", *names, "__MACOSX/._1.png")
    listing = list_folder(tmp_path / "p")["train"]
    assert listing.paths == ["a/0.tiff", "a/x/y/1.JPG", "b/2.png"]
    assert listing.labels == ["a", "a", "b"]
    assert [os.path.relpath(source, tmp_path / "p") for source in listing.sources] == listing.paths
    assert listing.left_out == ()
    assert len(find_images(tmp_path / "p").other) == 5


def test_links_that_lead_out_are_left_out_and_listed(tmp_path):
    touch(tmp_path, "secret.png", "elsewhere/1.png", "p/a/1.png", "p/b/2.png", "readme")
    for link, target in {
        "a/out.png": "../../secret.png",
        "a/in.png": "1.png",
        "dir": "../elsewhere",
        "round": "a",
        "b/readme": "../../readme",
        "b/self.png": "self.png",
        "b/self": "self",
    }.items():
        (tmp_path / "p" / link).symlink_to(target)
    listing = list_folder(tmp_path / "p")["train"]
    assert listing.paths == ["a/1.png", "a/in.png", "b/2.png", "b/self.png"]  # what is read is seen later
    assert dict(listing.left_out) == {
        "a/out.png": "a link that leads out of the folder",
        "dir": "a link that leads out of the folder",
        "round": "a link to a folder",
    }
    (tmp_path / "alias").symlink_to("p")  # but the folder itself may be one
    assert list_folder(tmp_path / "alias")["train"].paths == listing.paths


def test_train_and_test_are_parts_where_they_share_classes(tmp_path):
    both = touch(tmp_path / "both", "train/a/1.png", "train/b/2.png", "test/a/3.png", "test/b/4.png", "5.png")
    parts = list_folder(both)
    assert {name: part.paths for name, part in parts.items()} == {
        "train": ["train/a/1.png", "train/b/2.png"],
        "test": ["test/a/3.png", "test/b/4.png"],
    }
    assert parts["test"].labels == ["a", "b"]
    assert [path for path, _ in parts["train"].left_out] == ["5.png"]
    three = touch(tmp_path / "three", "Train/a/1.png", "val/a/2.png", "test/a/3.png")
    assert {name: part.paths[0] for name, part in list_folder(three).items()} == {
        "train": "Train/a/1.png",
        "validation": "val/a/2.png",
        "test": "test/a/3.png",
    }
    held_out = touch(tmp_path / "held", "train/a/1.png", "valid/a/2.png")
    assert list_folder(held_out)["test"].paths == ["valid/a/2.png"]
    vehicles = touch(tmp_path / "vehicles", "train/1.png", "bus/2.png", "test/3.png")
    assert list_folder(vehicles)["train"].labels == ["bus", "test", "train"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            ("train/a/1.png", "train/b/2.png", "test/3.png"),
            "P/test holds no class of P/train: give P/train as the data, and use predict .* of P/test",
        ),
        (
            ("train/a/1.png", "train/b/2.png", "test/A/3.png", "5.png"),
            "P/test holds no class of P/train: name its folders as those of P/train, or give P/train",
        ),
        (("Train/a/1.png", "Train/b/2.png"), "All images of P are in P/Train: give P/Train as the data"),
        (("train/1.png", "test/2.png"), "P/train holds no folders of classes: give each class a folder"),
    ],
)
def test_parts_are_not_taken_for_classes(tmp_path, names, says):
    folder = touch(tmp_path / "p", *names)
    with pytest.raises(InputError, match=says.replace("P", str(folder))):
        list_folder(folder)


def test_classes_may_be_called_as_parts_are(tmp_path):
    names = ("train/old/1.png", "bus/2.png", "tram/new/3.png", "test/4.png")
    assert list_folder(touch(tmp_path / "p", *names))["train"].labels == ["bus", "test", "train", "tram"]
    pair = touch(tmp_path / "q", "test/1.png", "tram/2.png")
    assert list_folder(pair)["train"].labels == ["test", "tram"]


def test_folders_without_images_and_images_without_folders_are_said(tmp_path):
    for names, says in {
        (): "no images",
        ("a/readme.txt",): "such as a/readme.txt",
        ("1.png", "2.png"): "a folder of its own",
    }.items():
        folder = touch(tmp_path / str(len(names)), *names)
        folder.mkdir(exist_ok=True)
        with pytest.raises(InputError, match=says):
            list_folder(folder)


def test_names_that_are_no_text_or_try_to_be_more(tmp_path):
    folder = os.fsencode(tmp_path / "p")
    os.makedirs(folder + b"/\xff")
    for name in (b"/\xff/1\xfe.png", b"/\xff/<script>.png"):
        Path(os.fsdecode(folder + name)).touch()
    listing = list_folder(tmp_path / "p")["train"]
    assert listing.labels == ["\\xff", "\\xff"]
    assert listing.paths == ["\\xff/1\\xfe.png", "\\xff/<script>.png"]
    assert all(os.path.exists(source) for source in listing.sources)
    assert shown("a\x1b[31m\nb") == "a?[31m?b"
    assert len(shown("x" * 5000)) < 250


def test_numbers_are_ordered_as_numbers():
    assert in_order({"10", "9", "0"}) == ("0", "9", "10")
    assert in_order({"10", "9", "b"}) == ("10", "9", "b")


def test_the_size_is_a_usual_one_near_that_of_the_images():
    def size(*sides):
        return default_size([Look("", side, side * 3, False) for side in sides], 3)

    assert [size(side) for side in (9, 28, 32, 50, 64, 200, 4000)] == [28, 28, 32, 64, 64, 224, 224]
    assert size(30, 500, 5000) == 224  # a photo too large is no reason, nor one too small


def test_as_many_images_as_would_not_fit_in_memory_are_smaller(monkeypatch):
    monkeypatch.setattr("labelsift.data.listing._memory", lambda: 2 * 3 * 100 * 100**2)
    assert default_size([Look("", 500, 500, False)] * 100, 3) == 96
    assert default_size([Look("", 500, 500, False)] * 100_000, 3) == 28
    assert default_size([Look("", 500, 500, False)] * 100, 3, largest=64) == 64
    assert default_size([Look("", 500, 500, False)] * 100_000, 3, largest=64) == 28


def test_everything_of_a_mixed_folder(tmp_path):
    """Grey and colour, of several sizes, with a bomb, a lie and a copy under another label."""
    folder = band_folder(tmp_path / "p", 12)
    red = np.zeros((30, 20, 3), np.uint8)
    red[..., 0] = 200
    save(folder / "ant" / "red.jpg", red, quality=95)
    save(folder / "bee" / "copy.png", Image.open(folder / "ant" / "000.png"))
    (folder / "cat" / "bomb.png").write_bytes(bomb())
    (folder / "cat" / "lie.jpg").write_text("a letter")
    (folder / "cat" / "cut.png").write_bytes((folder / "cat" / "002.png").read_bytes()[:-60])
    events = []
    data = load(str(folder), observe=events.append, reading=Reading(image_size=14))
    assert data.inputs.shape == (14, 3, 14, 14)
    assert data.classes == ("ant", "bee", "cat")
    assert [data.classes[label] for label in data.labels] == [path.split("/")[0] for path in data.paths]
    reds = data.inputs[data.paths.index("ant/red.jpg")]
    assert np.abs(reds.mean((1, 2)) - (200, 0, 0)).max() < 3
    assert {path: why.split()[0] for path, why in data.left_out} == {
        "cat/bomb.png": "it",
        "cat/lie.jpg": "no",
        "cat/cut.png": "image",
    }
    assert data.notes == (
        "1 image is there again with a different label, first ant/000.png (ant) as bee/copy.png (bee).",
        "3 files are left out, first cat/bomb.png (it claims so many pixels that it may be a decompression "
        "bomb).",
    )
    assert events[-1]["images"] == {"name": str(folder), "what": "decoded", "done": 15, "total": 15}
    again = load(str(folder), reading=Reading(image_size=14))
    assert again.fingerprint == data.fingerprint
    assert again.notes == data.notes
    assert load(str(folder), reading=Reading(image_size=13)).fingerprint != data.fingerprint


def test_all_grey_stays_grey_and_tensors_read_the_cache_itself(tmp_path, recwarn):
    data = load(str(band_folder(tmp_path / "p", 30)))
    assert data.inputs.shape == (30, 1, 28, 28)
    assert isinstance(data.inputs, np.memmap)
    store = open_inputs(data.inputs, CPU)
    assert isinstance(store, Memory)
    assert store.tensor.data_ptr() == data.inputs.ctypes.data  # no copy
    assert [str(warning.message) for warning in recwarn] == []
    with pytest.raises(ValueError, match="read-only"):
        data.inputs[0] = 0
    part = data.limited(7, seed=1)
    assert part.paths == tuple(path for path in data.paths if path in part.paths)
    assert len(part.paths) == 7
    places = [data.paths.index(path) for path in part.paths]
    assert (data.inputs[places] == part.inputs).all()


def test_inputs_too_large_for_a_device_come_batch_by_batch(tmp_path, monkeypatch):
    data = load(str(band_folder(tmp_path / "p", 30)))
    monkeypatch.setattr("labelsift.data.examples.fits", lambda array, device: False)
    mapped = open_inputs(data.inputs, CPU)
    assert isinstance(mapped, Mapped)

    def batches(store):
        views = Views.of(store.some(), "none", data.mean, data.std)
        examples = Examples.of(store, torch.from_numpy(data.labels), 3, views, seed=3)
        return [(batch.index, batch.inputs, batch.plain()) for batch in examples.batches(8)]

    for one, other in zip(
        batches(mapped), batches(Memory(torch.from_numpy(data.inputs.copy()))), strict=True
    ):
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))
    stopped = mapped.stream([torch.arange(4)] * 20)
    next(stopped)
    stopped.close()  # and does not wait for the others


def test_a_test_part_of_ones_own(tmp_path):
    train, test = band_folder(tmp_path / "p", 30), band_folder(tmp_path / "t", 9, seed=4)
    data = load(str(train), reading=Reading(test=str(test)))
    assert data.test_inputs.shape == (9, 1, 28, 28)
    assert data.test_labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    save(test / "dog" / "1.png", np.zeros((12, 12), np.uint8))
    with pytest.raises(InputError, match=r"label 'dog' of dog/1\.png in .* none of the 3 classes"):
        load(str(train), reading=Reading(test=str(test)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda p: save(p / "dog" / "1.png", np.zeros((9, 9), np.uint8)),
            "'dog' .* one example only, dog/1.png",
        ),
        (
            lambda p: (p / "dog").mkdir() or (p / "dog" / "1.png").write_text("x"),
            "'dog' .* no image that can",
        ),
        (lambda p: [f.write_text("x") for f in p.rglob("*.png")], "None of the images .* ant/000.png"),
        (lambda p: [f.unlink() for f in p.rglob("*.png") if "ant" not in str(f)], "nothing to tell apart"),
    ],
)
def test_folders_that_cannot_be_learned_from(tmp_path, change, says):
    folder = band_folder(tmp_path / "p", 12)
    change(folder)
    with pytest.raises(InputError, match=says):
        load(str(folder))


def test_what_makes_no_difference_is_refused(tmp_path, toy_file):
    folder = band_folder(tmp_path / "p", 6)
    for source, reading, says in (
        (folder, Reading(label_column="x"), "--label-column x"),
        (toy_file, Reading(image_size=20), "--image-size 20"),
        ("fashion-demo", Reading(test="x"), "--test x"),
        (folder, Reading(image_size=-3), "-3 pixels"),
        (folder, Reading(image_size=9999), "9999 pixels"),
        (folder, Reading(test=str(toy_file)), "no data this version reads|no test part"),
    ):
        with pytest.raises(InputError, match=says):
            load(str(source), reading=reading)
