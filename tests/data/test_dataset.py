import importlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import labelsift
from labelsift import InputError, load, make_dataset
from labelsift.data import Reading, load_inputs
from toys import toy_arrays

x, y = toy_arrays(30)
rows = np.random.default_rng(0).normal(size=(30, 4))


def changed(array, place, value):
    copy = array.copy()
    copy[place] = value
    return copy


def test_images_become_channels_first_bytes():
    assert make_dataset("a", x, y).inputs.shape == (30, 1, 12, 12)
    colour = np.stack([x, x, x], axis=-1)
    made = make_dataset("a", colour, y)
    assert made.inputs.shape == (30, 3, 12, 12)
    assert (made.inputs[:, 0] == x).all()
    for scaled in (x / 255, x.astype(np.float32), x.astype(np.int64)):
        assert (make_dataset("a", scaled, y).inputs == made.inputs[:, :1]).all()


def test_float_pixels_may_leave_their_range_by_a_hair_and_test_pixels_follow_the_training_ones():
    unit = x / 255
    plain = make_dataset("a", unit, y, None, unit, y)
    resized = make_dataset("a", changed(unit, (0, 0, 0), 1.0000001), y, None, unit * 0.001, y)
    assert (resized.inputs[1:] == plain.inputs[1:]).all()
    assert resized.test_inputs.max() == 0  # not taken for 0..255 on its own
    dark = make_dataset("a", x.astype(float), y, None, x * 0.001, y)
    assert dark.test_inputs.max() == 0
    assert (make_dataset("a", unit, y, None, x, y).test_inputs == plain.inputs).all()


def test_rows_stay_rows():
    made = make_dataset("a", rows, y)
    assert made.inputs.dtype == np.float32
    assert make_dataset("a", np.asfortranarray(rows), y).inputs.flags.c_contiguous
    assert made.shape == (4,)


def test_names_as_labels():
    names = np.array(["cat", "dog", "ant"])[y]
    made = make_dataset("a", x, names)
    assert made.classes == ("ant", "cat", "dog")
    assert [made.classes[label] for label in made.labels] == names.tolist()


def test_names_may_be_bytes(tmp_path):
    names = np.array(["käse", "wurst", "brot"])[y]
    raw = np.char.encode(names, "utf-8")
    assert raw.dtype.kind == "S"
    made = make_dataset("a", x, raw, names, x, raw)
    assert made.classes == ("brot", "käse", "wurst")
    assert [made.classes[label] for label in made.labels] == names.tolist()
    assert (made.labels == made.true_labels).all()
    assert make_dataset("a", x, names, raw).fingerprint == make_dataset("a", x, raw, names).fingerprint
    ordered = ["wurst", "käse", "brot"]
    file = npz(tmp_path / "a.npz", x=x, y=raw, classes=np.char.encode(ordered, "utf-8"))
    assert load(file).classes == tuple(ordered)
    _, labels, _ = load_inputs(file, "train")
    assert labels.tolist() == names.tolist()
    with pytest.raises(InputError, match=r"classes holds b'k\\xe4se', which is no UTF-8 text"):
        load(npz(tmp_path / "b.npz", x=x, y=y, classes=np.char.encode(ordered, "latin-1")))


def test_names_may_be_objects_as_pandas_has_them():
    names = np.array(["cat", "dog", "ant"])[y]
    for objects in (names.astype(object), names.astype(np.dtypes.StringDType())):
        made = make_dataset("a", x, objects, names, x, objects)
        assert made.classes == ("ant", "cat", "dog")
        assert [made.classes[label] for label in made.labels] == names.tolist()
        assert (made.labels == made.true_labels).all()
    assert (make_dataset("a", x, y.astype(object)).labels == y).all()


@pytest.mark.parametrize("kind", ["str", "category", "string", object])
def test_series_of_pandas(kind):
    pandas = importlib.import_module("pandas")  # not skipped where it is missing, but failed
    series = pandas.Series(np.array(["cat", "dog", "ant"])[y], index=range(100, 130)).astype(kind)
    made = make_dataset("a", pandas.DataFrame(rows), series)
    assert [made.classes[label] for label in made.labels] == series.tolist()
    series[104] = None
    with pytest.raises(InputError, match="Example 4 in y has no label: fill it in"):
        make_dataset("a", rows, series)


def test_fingerprint_knows_every_part():
    base = make_dataset("a", x, y, y, x, y)
    same = make_dataset("b", x, y, y, x, y)
    assert base.fingerprint == same.fingerprint
    others = [
        make_dataset("a", changed(x, (3, 3, 3), x[3, 3, 3] ^ 1), y, y, x, y),
        make_dataset("a", x, changed(y, 0, 2), y, x, y),
        make_dataset("a", x, y, changed(y, 0, 2), x, y),
        make_dataset("a", x, y, y, x, changed(y, 0, 2)),
        make_dataset("a", x, y, y),
    ]
    assert len({base.fingerprint, *(o.fingerprint for o in others)}) == 6


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ((x, y[:-1]), "30 examples in x but 29 labels"),
        ((x, changed(y, 4, -1)), "Label -1 of example 4 in y is outside 0..2"),
        ((x, y, changed(y, 5, 3)), "Label 3 of example 5 in true_y is outside 0..2"),
        ((x, changed(y, y == 1, 7)), "No example has label 1"),
        ((x, np.zeros(30, int)), "the same class"),
        ((x, y + 0.5), "float64, not whole numbers or names: number the classes 0..K-1"),
        ((x, np.where(y == 1, np.nan, y)), r"Example 1 in y has no label: fill it in, .* \(10 in all\)"),
        ((x, changed(y.astype(object), 7, None)), "Example 7 in y has no label: fill it in"),
        ((x, changed(y.astype(object), 7, "a")), "object, not whole numbers or names"),
        ((x, y[:, None]), "2 dimensions"),
        ((changed(rows, (6, 1), np.nan), y), "Row 6 of x holds NaN"),
        ((changed(rows, (6, 1), np.inf), y), "Row 6 of x holds NaN, infinity"),
        ((x * 1.0 - 500, y), "scale them"),
        ((changed(x / 255, (0, 0, 0), np.nan), y), "NaN or infinite"),
        ((x, changed(y, 3, 10**12)), "larger than the number of examples"),
        ((x, np.where(y == 1, 1e300, y)), "not whole numbers"),
        (([[1.0, 2.0], [1.0]], y), "not all of one shape"),
        ((rows * 1j, y), "not real numbers"),
        ((x, np.array(["a", "b", "c"])[y], y), "those in true_y are not"),
        ((x, y, None, None, None, ["a", "b", "a"]), "Two classes are named 'a'"),
        ((x, np.array(["a", "", "c"])[y]), "Example 1 in y has no label: fill it in"),
        ((x, np.array([b"a", b" ", b"c"])[y]), "Example 1 in y has no label"),
        ((x, y, None, None, None, ["a", "b", ""]), "Class 2 of 3 has an empty name: give it one"),
        ((x, np.array([b"a", b"\xff", b"c"])[y]), r"y holds b'\\xff', which is no UTF-8 text"),
        ((x, np.array([b"a", b"b", b"c"])[y], y), "those in true_y are not"),
        ((x[:0], y[:0]), "empty"),
        ((np.zeros((30, 3, 32, 32)), y), "move the channels to the end"),
        ((np.zeros((30, 2, 2, 2, 2)), y), "5 dimensions"),
        ((np.zeros(30), y), "1 dimensions"),
        ((np.array(["a"] * 30), y), "not real numbers"),
        ((x, y, None, x), "both test_x and test_y"),
        ((x, y, None, x[:, :10], y), "shape"),
        ((x, y, None, x, y[:-1]), "30 examples in test_x but 29"),
    ],
)
def test_arrays_that_cannot_be_used(arrays, says):
    with pytest.raises(InputError, match=says):
        make_dataset("a", *arrays)


def npz(file, **arrays):
    np.savez(file, **arrays)
    return str(file)


def test_an_archive_through_the_door(tmp_path):
    file = npz(tmp_path / "a.npz", x=x, y=y, true_y=y, test_x=x, test_y=y, classes=["a", "b", "c", "d"])
    made = load(file)
    assert made.name == "a.npz"
    assert made.classes == ("a", "b", "c", "d")
    assert made.test_labels.tolist() == y.tolist()
    inputs, labels, columns = load_inputs(npz(tmp_path / "b.npz", x=x), "train")
    assert inputs.shape == (30, 1, 12, 12)
    assert (labels, columns) == (None, ())


def test_the_name_of_an_archive_may_be_in_capitals(tmp_path):
    npz(tmp_path / "a.npz", x=x, y=y)
    file = (tmp_path / "a.npz").rename(tmp_path / "A.NPZ")
    assert load(str(file), reading=Reading(test=str(file))).test_labels.tolist() == y.tolist()


def test_archives_that_cannot_be_used(tmp_path):
    whole = tmp_path / "whole.npz"
    npz(whole, x=x, y=y)
    content = whole.read_bytes()
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.npz").write_text("x,y")
    npz(tmp_path / "pickled.npz", x=np.array([{}] * 30, dtype=object), y=y)
    npz(tmp_path / "named.npz", x=x, y=np.array(["a", "b", "c"], dtype=object)[y])
    npz(tmp_path / "bare.npz", y=y)
    inner = io.BytesIO()
    np.save(inner, x)
    with zipfile.ZipFile(tmp_path / "inner.npz", "w") as archive:
        archive.writestr("x.npy", inner.getvalue()[:200])
        archive.writestr("y.npy", b"no array")
    flipped = bytearray(content)
    flipped[300] ^= 255
    (tmp_path / "flipped.npz").write_bytes(bytes(flipped))
    for name, says in {
        "empty": "is empty",
        "cut": "damaged",
        "text": "damaged",
        "inner": "damaged",
        "flipped": "damaged",
        "pickled": "array 'x' .* never loaded: save an array of numbers",
        "named": r"array 'y' .* never loaded: save y\.astype\(str\)",
        "bare": "no array 'x'",
        "nowhere": "There is no file",
    }.items():
        with pytest.raises(InputError, match=says):
            load(str(tmp_path / f"{name}.npz"))


def test_fashion_demo_is_balanced_and_small():
    data = load("fashion-demo")
    assert data.inputs.shape == (6000, 1, 28, 28)
    assert data.test_inputs.shape == (2000, 1, 28, 28)
    assert np.bincount(data.labels).tolist() == [600] * 10
    assert np.bincount(data.test_labels).tolist() == [200] * 10
    assert data.classes[9] == "Ankle boot"
    folder = Path(labelsift.data.__file__).parent / "embedded"
    assert sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) <= 4_000_000
    assert "Zalando" in (folder / "LICENSE-fashion-mnist.txt").read_text(encoding="utf-8")


def test_unknown_sources(tmp_path):
    (tmp_path / "a.doc").write_text("")
    with pytest.raises(InputError, match="did you mean 'fashion-demo'"):
        load("fashion_demo")
    with pytest.raises(InputError, match="no data this version reads"):
        load(str(tmp_path / "a.doc"))
    with pytest.raises(InputError, match="no part"):
        load_inputs("fashion-demo", "third")


def test_fewer_examples_are_fewer_in_every_part():
    x, y = toy_arrays(60)
    data = replace(make_dataset("a", x, y, y, x, y), validation_inputs=x[:, None], validation_labels=y)
    part = data.limited(12, seed=3)
    assert (part.inputs == data.inputs[list(part.index)]).all()
    assert (part.limited(5, seed=1).inputs == data.inputs[list(part.limited(5, seed=1).index)]).all()
    for inputs, labels in (
        (part.inputs, part.labels),
        (part.test_inputs, part.test_labels),
        (part.validation_inputs, part.validation_labels),
    ):
        assert len(inputs) == len(labels) == 12
        assert all((image == x[:, None]).all((1, 2, 3)).any() for image in inputs)
        places = [int((image == x[:, None]).all((1, 2, 3)).argmax()) for image in inputs]
        assert (labels == y[places]).all()
    assert (data.limited(12, seed=3).validation_inputs == part.validation_inputs).all()
    assert len(data.limited(100, seed=3).validation_labels) == 60
    without_test = replace(data, test_inputs=None, test_labels=None)
    assert len(without_test.limited(12, seed=3).validation_labels) == 12


def test_rows_of_numbers_and_truths_are_taken_as_pandas_has_them():
    x = np.array([[1, True, 0.5], [2, False, 1.5], [3, np.True_, np.int64(2)]], dtype=object)
    assert make_dataset("a", x, [0, 1, 0]).inputs.tolist() == [[1, 1, 0.5], [2, 0, 1.5], [3, 1, 2]]
    with pytest.raises(InputError, match=r"encode names as numbers, and give x\.astype\(float\)"):
        make_dataset("a", np.array([[1, "a"], [2, "b"]], dtype=object), [0, 1])


def test_classes_whose_names_are_numbers_are_in_their_order():
    names = [str(number % 11) for number in range(33)]
    assert make_dataset("a", np.zeros((33, 2)), names).classes == tuple(map(str, range(11)))
