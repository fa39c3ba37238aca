"""`labelsift parts`, and the flags of `fit` that choose a net, its weights and its parts."""

import tomllib

import numpy as np
import pytest

from toys import toy_arrays

SHORT = ("--epochs", 2, "--set", "stage_epochs=1,1,1", "--set", "batch_size=32", "--quiet")
OWN = """
from torch import nn

def tiny(num_classes, channels):
    stem = nn.Sequential(nn.Conv2d(channels, 4, 3, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    return nn.Sequential(stem, nn.Linear(100, 9), nn.ReLU(), nn.Linear(9, num_classes))
"""


def rows(out):
    """The first line of each part, in words."""
    return [line.split() for line in out.splitlines()[2:] if line[0] != " "]


def test_a_table_of_parts(cli):
    code, out, err = cli("parts", "resnet18", "--classes", 100, "--channels", 1)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "resnet18: 11,218,980 parameters; --cuts layer4,fc"
    assert out.splitlines()[1].split() == ["part", "begins", "with", "children", "parameters", "share"]
    assert rows(out) == [
        ["1", "conv1", "conv1,", "bn1,", "...,", "layer3", "2,773,952", "24.7", "%"],
        ["2", "layer4", "layer4", "8,393,728", "74.8", "%"],
        ["3", "fc", "fc", "51,300", "0.5", "%"],
    ]


@pytest.mark.parametrize(
    ("words", "firsts"),
    [
        (("lenet",), ["conv1", "fc1", "fc3"]),
        (("mlp", "--channels", 20, "--parts", 2), ["hidden1", "out"]),
        (("lenet", "--parts", 1), ["conv1"]),
        (("lenet", "--parts", 5), ["conv1", "conv2", "fc1", "fc2", "fc3"]),
        (("resnet18", "--parts", 4), ["conv1", "layer3", "layer4", "fc"]),
        (("resnet18", "--cuts", "layer2.1, layer3.0.bn2"), ["conv1", "layer2.1", "layer3.0.bn2"]),
    ],
)
def test_parts_begin_where_they_are_cut(cli, words, firsts):
    code, out, _ = cli("parts", *words)
    assert code == 0
    assert [row[1] for row in rows(out)] == firsts
    shares = [float(row[-2]) for row in rows(out)]
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_parts_of_a_net_of_timm(cli, timm):
    code, out, _ = cli("parts", "timm:test_convnext", "--size", 64)
    assert code == 0
    assert [row[1] for row in rows(out)] == ["stem", "stages.3", "head.fc"]
    assert "stages.3, head.norm" in out
    assert "timm:test_convnext: " in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("resnet81",), "did you mean 'resnet18'"),
        (("nowhere.nets:tiny",), "no module 'nowhere'"),
        (("resnet18", "--cuts", "layer5,fc"), "did you mean 'layer4'"),
        (("resnet18", "--cuts", "downsample.1"), "did you mean 'layer4.0.downsample.1'"),
        (("resnet18", "--cuts", "fc,layer4"), "not in the order of the net"),
        (("resnet18", "--cuts", "fc", "--parts", 3), "make 2 parts, not 3"),
        (("lenet", "--parts", 6), "too few layers for 6 parts, 5"),
        (("lenet", "--parts", 0), "--parts"),
        (("lenet", "--classes", 1), "--classes"),
    ],
)
def test_parts_refuses(refuses, words, says):
    assert says in refuses("parts", *words)


def test_a_run_with_a_net_of_ones_own_is_predicted_with_again(cli, toy_file, tmp_path):
    (tmp_path / "cli_own_nets.py").write_text(OWN)
    words = ("fit", toy_file, "--net", "cli_own_nets:tiny", *SHORT)
    assert cli(*words, "--out", "run") == (0, "", "")
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["net"] == "cli_own_nets:tiny"
    code, out, _ = cli("predict", "run", toy_file, "--out", "p.csv")
    assert code == 0
    assert "150 examples predicted" in out
    assert cli("fit", "--config", "run/config.toml", "--out", "again", "--quiet") == (0, "", "")
    model = "model.safetensors"
    assert (tmp_path / "run" / model).read_bytes() == (tmp_path / "again" / model).read_bytes()


def test_a_run_with_a_net_of_timm_is_predicted_with_again(cli, timm, tmp_path):
    x, y = toy_arrays(90)
    np.savez(tmp_path / "large.npz", x=x.repeat(3, 1).repeat(3, 2), y=y)
    assert cli("fit", "large.npz", "--net", "timm:test_resnet", "--out", "run", *SHORT) == (0, "", "")
    code, out, _ = cli("predict", "run", "large.npz", "--out", "p.csv")
    assert code == 0
    assert "90 examples predicted" in out


def test_cuts_are_short_for_a_setting(cli, refuses, toy_file, tmp_path):
    words = ("fit", toy_file, "--net", "lenet", *SHORT)
    assert cli(*words, "--cuts", "conv2,fc3", "--set", "cuts=conv2,fc3", "--out", "run")[0] == 0
    settings = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["settings"]
    assert settings["cuts"] == ["conv2", "fc3"]
    for cuts, says in {
        ("--cuts", "conv2,fc3", "--set", "cuts=fc2,fc3"): "give one of them",
        ("--cuts", "fc9,fc3"): "no child of the net 'fc9'",
        ("--cuts", "fc3"): "2 children for 3 stages",
    }.items():
        assert says in refuses(*words, *cuts, "--out", "other")


def test_pretrained_is_short_for_weights(refuses, toy_file):
    words = ("fit", toy_file, *SHORT, "--pretrained")
    assert "or --net timm:resnet50 --pretrained" in refuses(*words, "--net", "resnet50")
    assert "use --weights FILE" in refuses(*words)
    assert "give one of them" in refuses(*words, "--weights", "w.pth")
