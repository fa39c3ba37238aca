import pytest
import torch
from torch import nn

from labelsift import InputError
from labelsift.nets import NETS
from labelsift.parts import restart, split, train_only
from toys import TinyNet


def snapshot(net):
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def changed(net, before):
    return {name for name, tensor in net.state_dict().items() if not torch.equal(tensor, before[name])}


def test_parts_hold_every_tensor_once_and_in_order():
    net = NETS["resnet18"](10, 3)
    parts = split(net, ("layer4", "fc"))
    names = [name for part in parts for name, _ in part.tensors()]
    assert sorted(names) == sorted(net.state_dict())
    assert {name.split(".")[0] for name, _ in parts[1].tensors()} == {"layer4"}
    assert [name for name, _ in parts[2].tensors()] == ["fc.weight", "fc.bias"]


def test_any_number_of_parts_at_dotted_names():
    net = NETS["resnet18"](10, 3)
    cuts = ("bn1", "layer1.1", "layer2", "layer3.0.bn2", "fc")
    parts = split(net, cuts)
    assert [next(name for name, _ in part.tensors()) for part in parts] == [
        "conv1.weight", "bn1.weight", "layer1.1.conv1.weight", "layer2.0.conv1.weight",
        "layer3.0.bn2.weight", "fc.weight",
    ]  # fmt: skip
    assert len(split(net, ())) == 1


def test_a_parameter_of_the_net_itself_is_in_the_first_part():
    net = TinyNet(3, 1)
    net.token = nn.Parameter(torch.zeros(3))
    assert "token" in dict(split(net, ("out",))[0].tensors())


def test_a_part_names_its_largest_pieces():
    net = NETS["resnet18"](10, 3)
    net.token = nn.Parameter(torch.zeros(3))
    first, second, third = split(net, ("layer3.1", "layer4.0.conv2"))
    assert first.children(net) == ["token", "conv1", "bn1", "layer1", "layer2", "layer3.0"]
    assert second.children(net) == ["layer3.1", "layer4.0.conv1", "layer4.0.bn1"]
    assert third.children(net) == [
        "layer4.0.conv2", "layer4.0.bn2", "layer4.0.downsample", "layer4.1", "fc",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cuts", "says"),
    [
        (("layer5",), "did you mean 'layer4'"),
        (("shortcut",), "choose one of bn1, conv1, fc, layer1, layer2, layer3, layer4, maxpool"),
        (("layer4.2",), "did you mean 'layer4.1'"),
        (("fc", "layer4"), "not in the order"),
        (("layer4", "layer4"), "not in the order"),
        (("",), "no child"),
        (("conv1",), "nothing to train before the first cut"),
        (("maxpool", "layer1"), "nothing to train from maxpool"),
    ],
)
def test_cuts_that_make_no_sense(cuts, says):
    with pytest.raises(InputError, match=says):
        split(NETS["resnet18"](10, 3), cuts)


def test_restart_renews_the_named_parts_in_place_and_nothing_else():
    net = TinyNet(3, 1)
    net(torch.randn(8, 1, 12, 12))  # moves the running statistics
    parts = split(net, ("hidden", "out"))
    before, identity = snapshot(net), {name: id(p) for name, p in net.named_parameters()}
    fresh = TinyNet(3, 1)
    restart(parts[1:], fresh)
    assert {name.split(".")[0] for name in changed(net, before)} == {"hidden", "out"}
    for name, tensor in net.state_dict().items():
        if not name.startswith("conv"):
            assert torch.equal(tensor, fresh.state_dict()[name])
    assert {name: id(p) for name, p in net.named_parameters()} == identity


def test_train_only_freezes_exactly_the_rest():
    net = TinyNet(3, 1)
    parts = split(net, ("hidden", "out"))
    train_only(net, parts[1:2])
    assert {n.split(".")[0] for n, p in net.named_parameters() if p.requires_grad} == {"hidden"}
    train_only(net, parts)
    assert all(p.requires_grad for p in net.parameters())
