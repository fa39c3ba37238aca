import dataclasses
import json
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelsift import CE, METHODS, PES, EarlyStopping, InputError
from labelsift.config import ELSEWHERE, Config, as_toml, convert, from_values, read_toml

scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
keys = st.from_regex(r"\A[a-z_]{1,12}\Z")


@given(st.dictionaries(keys, st.one_of(scalars, st.lists(scalars, max_size=4)), max_size=6))
def test_toml_round_trip(values):
    assert tomllib.loads(as_toml({**values, "settings": values}))["settings"] == values


@pytest.mark.parametrize("cls", METHODS.values())
def test_a_method_round_trips_through_toml_and_through_the_command_line(cls):
    for overrides in ({}, *cls.paper.values()):
        method = cls(**overrides)
        saved = tomllib.loads(as_toml(dataclasses.asdict(method)))
        assert from_values(cls, saved, "x") == method
        words = {k: ",".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in saved.items()}
        assert from_values(cls, words, "x") == method


def test_paper_settings_of_pes():
    cifar10 = PES(**PES.paper["cifar10", "resnet18"])
    assert (cifar10.stage_epochs, cifar10.epochs, cifar10.stage_lr) == ((25, 7, 5), 200, 1e-4)
    assert [round(cifar10.lr_at(e), 6) for e in (0, 99, 100, 149, 150, 199)] == [
        0.1,
        0.1,
        0.01,
        0.01,
        0.001,
        0.001,
    ]
    clothing = PES(**PES.paper["clothing1m", "resnet50"])
    assert [clothing.lr_at(e) for e in (19, 20, 30)] == pytest.approx([5e-3, 5e-4, 5e-5])


def test_cosine_ends_at_a_hundredth():
    method = CE(epochs=300, lr=0.02, schedule="cosine")
    assert method.lr_at(0) == pytest.approx(0.02)
    assert method.lr_at(150) == pytest.approx(0.02 * 0.505)
    assert method.lr_at(300) == pytest.approx(2e-4)


@pytest.mark.parametrize(
    ("cls", "values", "says"),
    [
        (PES, {"stage_epoch": "3"}, "did you mean 'stage_epochs'"),
        (PES, {"zzz": "3"}, "choose one of"),
        (CE, {"lr": "fast"}, "lr cannot be 'fast': it takes a finite number"),
        (CE, {"lr": "nan"}, "it takes a finite number"),
        (CE, {"epochs": "2.5"}, "a whole number"),
        (CE, {"epochs": 2.5}, "a whole number"),
        (CE, {"epochs": True}, "a whole number"),
        (PES, {"stage_epochs": "25,x"}, "a whole number"),
        (PES, {"renewed_rest": "maybe"}, "true or false"),
        (CE, {"epochs": "0"}, "1 to 1000000"),
        (CE, {"lr": "-1"}, "above 0"),
        (CE, {"lr": "1e300"}, "up to 1e.06"),
        (PES, {"stage_lr": 1e38}, "0 to 1e.06"),
        (CE, {"lr": 10**400}, "a finite number"),
        (PES, {"stage_epochs": "1,,1"}, "a whole number"),
        (CE, {"momentum": "1"}, "below 1"),
        (CE, {"batch_size": "1"}, "at least 2"),
        (CE, {"schedule": "cosin"}, "did you mean 'cosine'"),
        (PES, {"stage_epochs": ""}, "as in 25,7,5"),
        (PES, {"stage_epochs": "0,2"}, "as in 25,7,5"),
        (PES, {"stage_epochs": "5,-2"}, "as in 25,7,5"),
        (EarlyStopping, {"stop_epoch": "0"}, "at least 1"),
        (PES, {"cuts": "a", "stage_epochs": "2,2,2"}, "2 children for 3 stages"),
    ],
)
def test_settings_that_make_no_sense(cls, values, says):
    with pytest.raises(InputError, match=says):
        from_values(cls, values, cls.name)


def test_the_id_is_of_the_run_and_not_of_where_it_ran():
    config = Config("a.npz", "f00", "lenet", "ce", settings={"lr": 0.1})
    assert config.id == dataclasses.replace(config, data="b/a.npz", device="cuda").id
    others = {str: "other", int: 2, float: 0.5, dict: {"lr": 0.2}}
    for field in dataclasses.fields(Config):
        other = dataclasses.replace(config, **{field.name: others[type(getattr(config, field.name))]})
        assert (other.id == config.id) == (field.name in ELSEWHERE), field.name
    assert {"augment", "precision", "nets", "validation", "limit", "fingerprint"}.isdisjoint(ELSEWHERE)
    assert "lr = 0.2, not 0.1" in config.difference(dataclasses.replace(config, settings={"lr": 0.2}))
    tuples, lists = {"at": (0.5, 0.7), "lr": 0.1}, {"at": [0.5, 0.7], "lr": 0.2}  # as TOML has them
    mine, theirs = (dataclasses.replace(config, settings=settings) for settings in (tuples, lists))
    assert mine.difference(theirs) == "lr = 0.2, not 0.1"
    other = dataclasses.replace(config, settings={"at": [0.5], "lr": 0.1})
    assert mine.difference(other) == "at = 0.5, not 0.5,0.7"


def test_other_data_is_told_from_other_ways_to_read_it_and_from_settings_that_follow_from_it():
    config = Config("photos", "f00", "lenet", "ce", settings={"batch_size": 16})
    changed = dataclasses.replace(config, fingerprint="f01")
    assert config.difference(changed) == "the examples or labels of photos have changed since then"
    for other, says in {
        ("settings", "photos"): "of photos have changed",
        ("data", "./photos"): "of photos have changed",
        ("data", "pictures"): "data = pictures, not photos",
        ("noise", "pair:0.1"): "noise = pair:0.1, not ",
        ("image_size", 64): "image_size = 64, not 0",
    }.items():
        name, value = other
        new = {name: {"batch_size": 32} if name == "settings" else value}
        assert says in config.difference(dataclasses.replace(changed, **new))
    assert config.difference(dataclasses.replace(config, settings={"batch_size": 32}, data="b")) == (
        "batch_size = 32, not 16"
    )


def test_a_method_takes_numpys_numbers_and_lists_and_refuses_the_rest():
    method = PES(epochs=np.int64(9), lr=np.float32(0.5), stage_epochs=[3, 2, 1])
    assert (method.epochs, method.lr, method.stage_epochs) == (9, 0.5, (3, 2, 1))
    assert json.dumps(dataclasses.asdict(method))
    for wrong in ({"epochs": 2.0}, {"epochs": "two"}, {"stage_epochs": (1.5,)}):
        with pytest.raises(InputError):
            PES(**wrong)


def test_toml_that_is_none(tmp_path):
    file = tmp_path / "c.toml"
    for text in ("a = " + "1" * 5000, "a = " + "[" * 5000, "a = "):
        file.write_text(text)
        with pytest.raises(InputError, match="is not TOML"):
            read_toml(file)
    file.write_bytes("seed = 3".encode("utf-8-sig"))
    assert read_toml(file) == {"seed": 3}


def test_a_setting_may_be_a_number_or_a_word():
    assert convert(float | str, "0.5", "noise_rate") == 0.5
    assert convert(float | str, 1, "noise_rate") == 1.0
    assert convert(float | str, "oracle", "noise_rate") == "oracle"
    with pytest.raises(InputError, match="a finite number or a word"):
        convert(float | str, [], "noise_rate")
