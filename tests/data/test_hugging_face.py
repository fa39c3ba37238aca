"""Data sets of Hugging Face: with the library, where it is installed, and with a stand-in for it."""

import importlib
import io
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image as Pillow

from labelsift import InputError, load
from labelsift.data import Reading
from labelsift.data.hugging_face import list_hugging_face
from toys import toy_arrays

NAMES = ("ant", "bee", "cat", "never")


@dataclass(frozen=True)
class Image:
    decode: bool = True


@dataclass(frozen=True)
class ClassLabel:
    names: tuple[str, ...]


@dataclass(frozen=True)
class Value:
    dtype: str


@dataclass(frozen=True)
class Split:
    """Columns of a data set, as `datasets.Dataset` gives them."""

    columns: dict
    features: dict

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, place):
        rows = {name: values[place] for name, values in self.columns.items()}
        for name in [name for name in rows if self.features[name] == Image()]:
            pytest.fail(f"{name} was decoded by the library, with all of its faults")
        return rows

    def select_columns(self, names):
        return Split(*({name: both[name] for name in names} for both in (self.columns, self.features)))

    def cast_column(self, name, kind):
        return replace(self, features=self.features | {name: kind})


class StandIn:
    """The part of the library that is used; what was saved is found by its folder."""

    def __init__(self):
        self.saved = {}
        self.module = SimpleNamespace(load_from_disk=lambda folder: self.saved[folder])

    def make(self, columns, labels, names):
        kinds = {"bytes": Image()}
        features = {name: kinds.get(name, Value("int64")) for name in columns}
        return Split(columns, features | {labels: ClassLabel(tuple(names)) if names else Value("string")})

    def save(self, data, folder):
        folder.mkdir()
        (folder / ("dataset_dict.json" if isinstance(data, dict) else "state.json")).touch()
        self.saved[str(folder)] = data


class Library:
    """The library itself."""

    def __init__(self):
        self.module = importlib.import_module("datasets")
        self.module.disable_progress_bars()

    def make(self, columns, labels, names):
        kind = self.module
        features = {name: kind.Image() if name == "bytes" else kind.Value("int64") for name in columns}
        features[labels] = kind.ClassLabel(names=list(names)) if names else kind.Value("string")
        return kind.Dataset.from_dict(columns, features=kind.Features(features))

    def save(self, data, folder):
        whole = self.module.DatasetDict(data) if isinstance(data, dict) else data
        whole.save_to_disk(str(folder))


@pytest.fixture(params=[StandIn, Library])
def library(request, monkeypatch, tmp_path):
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "cache"))
    found = request.param()
    monkeypatch.setitem(sys.modules, "datasets", found.module)
    return found


def content(array):
    out = io.BytesIO()
    Pillow.fromarray(array).save(out, "PNG")
    return {"bytes": out.getvalue(), "path": None}


def columns(count=12, seed=0, **more):
    images, labels = toy_arrays(count, seed)
    return {"bytes": [content(image) for image in images], "label": labels.tolist(), **more}


def test_splits_become_parts_and_class_labels_names(library, tmp_path):
    train = columns(true_label=[0] * 12)
    train["bytes"][5] = {"bytes": b"no image", "path": None}
    train["bytes"][6] = None
    splits = {
        "train": library.make(train, "label", NAMES),
        "test": library.make(columns(6, 1), "label", NAMES),
    }
    library.save(splits, tmp_path / "saved")
    data = load(str(tmp_path / "saved"), reading=Reading(image_size=12))
    expected, labels = toy_arrays(12)
    keep = ~np.isin(np.arange(12), (5, 6))
    assert (data.inputs[:, 0] == expected[keep]).all()
    assert data.labels.tolist() == labels[keep].tolist()
    assert set(data.true_labels.tolist()) == {0}
    assert data.classes == NAMES  # also one that no example has
    assert data.left_out == tuple((f"row {n}", "no known kind of image") for n in (5, 6))
    assert (data.test_inputs[:, 0] == toy_arrays(6, 1)[0]).all()
    assert load(str(tmp_path / "saved"), reading=Reading(image_size=12)).fingerprint == data.fingerprint


def test_one_split_with_names_as_labels(library, tmp_path):
    words = columns()
    words["kind"] = [NAMES[label] for label in words.pop("label")]
    library.save(library.make(words, "kind", None), tmp_path / "saved")
    with pytest.raises(InputError, match=r"Which column .* is a label.*--label-column"):
        load(str(tmp_path / "saved"))
    data = load(str(tmp_path / "saved"), reading=Reading(label_column="kind"))
    assert data.classes == NAMES[:3]
    assert data.test_inputs is None


def test_labels_that_are_missing_or_kept_secret(library, tmp_path):
    secret = columns(6) | {"label": [-1] * 6}
    splits = {"train": library.make(columns(), "label", NAMES), "test": library.make(secret, "label", NAMES)}
    library.save(splits, tmp_path / "secret")
    assert load(str(tmp_path / "secret")).test_inputs is None
    lacking = columns()
    lacking["label"][7] = -1
    library.save(library.make(lacking, "label", NAMES), tmp_path / "lacking")
    with pytest.raises(InputError, match=r"Row 7 of .* has no label"):
        load(str(tmp_path / "lacking"))


def test_labels_that_are_no_classes_and_true_ones_in_an_order_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "cache"))
    library = StandIn()
    monkeypatch.setitem(sys.modules, "datasets", library.module)
    for place, (label, names) in enumerate([(9, NAMES), (-2, NAMES), (["ant"], None)]):
        strange = columns()
        strange["label"][7] = label
        library.save(library.make(strange, "label", names), tmp_path / f"{place}")
        with pytest.raises(InputError, match=r"Row 7 of .* which is no class: mend it"):
            load(str(tmp_path / f"{place}"))
    numbers = columns()["label"]
    made = library.make(columns(true_label=[3 - n for n in numbers]), "label", NAMES)
    made.features["true_label"] = ClassLabel(NAMES[::-1])
    library.save(made, tmp_path / "turned")
    assert load(str(tmp_path / "turned")).true_labels.tolist() == numbers


def test_what_cannot_be_used_is_said(library, tmp_path):
    library.save(library.make({"n": [1, 2], "label": [0, 1]}, "label", NAMES), tmp_path / "numbers")
    with pytest.raises(InputError, match=r"Which column .* is an image, none of n, label"):
        load(str(tmp_path / "numbers"))
    with pytest.raises(InputError, match="holds no images"):
        load(str(tmp_path / "numbers"), reading=Reading(path_column="n"))
    with pytest.raises(InputError, match="did you mean 'label'"):
        load(str(tmp_path / "numbers"), reading=Reading(path_column="n", label_column="labl"))
    library.save(
        {"a": library.make(columns(), "label", NAMES)} | {"b": library.make(columns(), "label", NAMES)},
        tmp_path / "two",
    )
    with pytest.raises(InputError, match="no split named train, but a, b"):
        load(str(tmp_path / "two"))


def test_a_saved_set_names_no_files_outside_of_it(monkeypatch, tmp_path):
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "datasets", stand_in.module)
    outside = columns()
    outside["bytes"][3] = {"bytes": None, "path": "/etc/hostname"}
    stand_in.save(stand_in.make(outside, "label", NAMES), tmp_path / "saved")
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError, match=r"Row 3 of .* names /etc/hostname, which is not in it"):
        load(str(tmp_path / "saved"))


def test_by_name_from_the_hub(monkeypatch):
    stand_in, asked = StandIn(), []

    def load_dataset(name, config):
        asked.append((name, config))
        if name == "nobody/nothing":
            raise ConnectionError("no\nnetwork")
        return {"train": stand_in.make(columns(), "label", NAMES)}

    stand_in.module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", stand_in.module)
    assert list_hugging_face("hf:me/mine:small", Reading())["train"].labels[:3] == ["ant", "bee", "cat"]
    assert list_hugging_face("hf:mine", Reading()).keys() == {"train"}
    assert asked == [("me/mine", "small"), ("mine", None)]
    with pytest.raises(InputError, match=r"nobody/nothing cannot be loaded \(no network\)"):
        list_hugging_face("hf:nobody/nothing", Reading())


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'labelsift\[hf\]'"):
        load("hf:mnist")
