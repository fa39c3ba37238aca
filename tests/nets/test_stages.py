"""Where nets are cut that do not say so themselves."""

import itertools

import pytest
import torch
from torch import nn

from labelsift import InputError
from labelsift.nets import NETS, net_factory, standard_cuts
from labelsift.nets.stages import classifier, find_cuts, layers
from labelsift.parts import split

SHAPE = (3, 64, 64)
EIGHT = {
    "resnet50": ("layer4", "fc"),
    "convnext_tiny": ("stages.3", "head.fc"),
    "efficientnet_b0": ("blocks.6", "classifier"),
    "vit_small_patch16_224": ("blocks.9", "head"),
    "swin_tiny_patch4_window7_224": ("layers.3", "head.fc"),
    "mobilenetv3_small_100": ("blocks.4", "classifier"),
    "densenet121": ("features.denseblock4", "classifier"),
    "regnety_002": ("s4", "head.fc"),
}


@pytest.fixture(scope="module", params=EIGHT)
def eight(request, timm):
    """Each of eight nets of timm, without memory for its weights: shapes are all that is asked."""
    with torch.device("meta"):
        return request.param, net_factory(f"timm:{request.param}", SHAPE)(7, 3)


def called(net):
    """The layers in the order in which a forward pass calls them, and the logits."""
    order = []
    for name in layers(net):
        net.get_submodule(name).register_forward_pre_hook(lambda *_, name=name: order.append(name))
    with torch.device("meta"):
        logits = net.eval()(torch.zeros(2, *SHAPE))
    return [name for name in order if name], logits


def test_classifier_last_stage_and_rest(eight):
    name, net = eight
    assert standard_cuts(net, 3) == EIGHT[name]
    assert standard_cuts(net, 2) == EIGHT[name][1:]
    assert standard_cuts(net, 1) == ()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 20])
def test_parts_hold_every_parameter_once(eight, count):
    net = eight[1]
    parts = split(net, standard_cuts(net, count))
    assert len(parts) == count
    held = [id(parameter) for part in parts for parameter in part.parameters()]
    assert sorted(held) == sorted(id(parameter) for parameter in net.parameters())
    assert [key for part in parts for key in part.modules] == [key for key, _ in net.named_modules()]
    if count > 1:
        weight, bias = parts[-1].parameters()  # the classifier, alone
        assert (weight.shape[0], bias.shape) == (7, (7,))


def test_parts_follow_one_another_in_a_forward_pass(eight):
    net = eight[1]
    order, logits = called(net)
    assert logits.shape == (2, 7)
    parts = split(net, standard_cuts(net, 3))
    owner = {name: place for place, part in enumerate(parts) for name in part.modules}
    places = [owner[name] for name in order]
    assert places == sorted(places)
    assert set(places) == {0, 1, 2}


def test_one_forward_pass_with_real_numbers(timm):
    net = net_factory("timm:regnety_002", (1, 40, 30))(4, 1)
    logits = net.eval()(torch.randn(2, 1, 40, 30))
    assert logits.shape == (2, 4)
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", NETS)
def test_what_is_found_is_what_the_paper_takes(name):
    with torch.device("meta"):
        net = NETS[name](10, 3)
    wanted = {"lenet": ("fc2", "fc3")}.get(name, net.cuts[3])  # two linear layers are a stage each
    assert find_cuts(net, 3) == wanted
    assert find_cuts(net, 2) == net.cuts[2]


def test_more_parts_are_more_stages_then_blocks_then_layers():
    net = NETS["resnet18"](10, 3)
    assert standard_cuts(net, 4) == ("layer3", "layer4", "fc")
    assert standard_cuts(net, 6) == ("layer1", "layer2", "layer3", "layer4", "fc")
    assert standard_cuts(net, 7) == ("layer2.1", "layer3.0", "layer3.1", "layer4.0", "layer4.1", "fc")
    most = len(layers(net))
    assert len(split(net, standard_cuts(net, most))) == most
    with pytest.raises(InputError, match=f"ResNet has too few layers for {most + 1} parts"):
        standard_cuts(net, most + 1)


class Stem(nn.Sequential):
    pass


def convs(*widths):
    pairs = itertools.pairwise(widths)
    return [layer for pair in pairs for layer in (nn.Conv2d(*pair, 3), nn.BatchNorm2d(pair[1]), nn.ReLU())]


@pytest.mark.parametrize(
    ("net", "parts", "cuts"),
    [
        (nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 3)), 3, ("2", "3")),
        (nn.Sequential(nn.Linear(9, 8), nn.Linear(8, 3)), 2, ("1",)),
        # A VGG: the last quarter of its convolutions, each with what follows it.
        (
            nn.Sequential(nn.Sequential(*convs(3, *[4] * 13)), nn.Linear(4, 9), nn.Linear(9, 2)),
            3,
            ("0.30", "2"),
        ),
        # The stem is a container as well, but not of the kind of a stage.
        (
            nn.ModuleDict(
                {
                    "stem": nn.Sequential(*convs(3, 4)),
                    "stages": nn.Sequential(*(nn.Sequential(Stem(*convs(4, 4))) for _ in range(4))),
                    "fc": nn.Linear(4, 2),
                }
            ),
            3,
            ("stages.3", "fc"),
        ),
        # A classifier by a convolution of 1 x 1.
        (nn.Sequential(*convs(3, 4, 4), nn.Conv2d(4, 2, 1)), 3, ("3", "6")),
    ],
)
def test_nets_of_ones_own(net, parts, cuts):
    assert find_cuts(net, parts) == cuts
    assert len(split(net, cuts)) == parts


def test_heads_side_by_side_are_one_classifier():
    net = nn.ModuleDict({"body": nn.Linear(6, 5), "head": nn.Linear(5, 3), "head2": nn.Linear(4, 3)})
    assert classifier(net) == ["head", "head2"]
    assert find_cuts(net, 2) == ("head",)
    inner = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 3))  # one behind the other: the last alone
    assert classifier(inner) == ["1"]


@pytest.mark.parametrize(
    ("net", "parts", "says"),
    [
        (nn.Sequential(nn.Linear(4, 2)), 2, "too few layers for 2 parts, 1"),
        (nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), 3, "too few layers for 3 parts, 2"),
        (nn.Sequential(nn.Linear(4, 2), nn.Conv2d(3, 4, 3)), 2, "ends with '1', which is no linear layer"),
        (
            nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)),
            2,
            "register its children in the order of forward",
        ),
        (nn.Sequential(nn.ReLU()), 2, "nothing to train"),
    ],
)
def test_nets_that_cannot_be_cut(net, parts, says):
    with pytest.raises(InputError, match=says):
        standard_cuts(net, parts)
