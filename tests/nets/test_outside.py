"""Nets by names that are not built in: timm:NAME and package.module:factory."""

import sys

import pytest
import torch
from torch import nn

from labelsift import InputError
from labelsift.nets import PRETRAINED, blueprint, net_factory, net_name
from labelsift.nets.outside import own_factory, timm_weights

OWN = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, num_classes, channels):
        super().__init__(nn.Flatten(), nn.Linear(9 * channels, 8), nn.ReLU(), nn.Linear(8, num_classes))

def bare():
    return Net(2, 1)

def seven(num_classes, channels):
    return 7

answer = 42
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with modules of one's own, which is the current one."""
    (tmp_path / "own_nets.py").write_text(OWN)
    (tmp_path / "own_broken.py").write_text("import something_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_nets", None)


def test_a_net_of_ones_own_is_imported_from_here(own):
    plan = blueprint("own_nets:Net", 4, (2, 3, 3))
    assert plan.name == "own_nets:Net"
    assert plan.initial()(torch.zeros(5, 2, 3, 3)).shape == (5, 4)
    torch.manual_seed(1)
    assert not torch.equal(plan.fresh()[1].weight, plan.fresh()[1].weight)
    assert sys.path[-1] == str(own)  # last: a file here hides no module


@pytest.mark.parametrize(
    ("net", "says"),
    [
        ("own_netz:Net", "There is no module 'own_netz' for the net own_netz:Net"),
        ("own_nets.deep:Net", "There is no module 'own_nets.deep'"),
        ("own_nets:Nett", "did you mean 'Net'"),
        ("own_nets:answer", "no function of own_nets named 'answer': choose one of Net, bare, seven"),
        ("own_nets:seven", "gives a int: it should give a torch.nn.Module"),
        ("own_nets:bare", r"own_nets:bare\(4, 2\) failed \(TypeError: .*number of classes and of channels"),
        ("own_broken:Net", "own_broken cannot be imported .*something_that_is_not_there"),
        ("own-nets:Net", "write package.module:factory"),
        ("own_nets:", "write package.module:factory"),
        (":Net", "write package.module:factory"),
        ("python:own_nets.Net-12345678", "has no name to build it by"),
    ],
)
def test_names_that_lead_nowhere(own, net, says):
    with pytest.raises(InputError, match=says):
        blueprint(net, 4, (2, 3, 3))


def test_a_name_without_a_colon_may_be_meant_for_another_door():
    with pytest.raises(InputError, match=r"choose one of lenet, .*package.module:factory.*timm:NAME"):
        net_name("convnext_tiny")


def test_pretrained_weights_come_with_timm_only(own):
    with pytest.raises(InputError, match="use --weights FILE, or --net timm:resnet50 --pretrained"):
        blueprint("resnet50", 4, (3, 64, 64), PRETRAINED)
    for net in ("lenet", "own_nets:Net"):
        with pytest.raises(InputError, match=r"use --weights FILE\."):
            blueprint(net, 4, (1, 28, 28), PRETRAINED)


def test_timm_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    for ask in (lambda: net_factory("timm:resnet50", (3, 32, 32)), lambda: timm_weights("resnet50")):
        with pytest.raises(InputError, match=r"pip install 'labelsift\[timm\]'"):
            ask()


def test_torchvision_is_for_another_torch(monkeypatch):
    def fails(name):
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr("importlib.import_module", fails)
    with pytest.raises(
        InputError, match=r"torchvision::nms does not exist\): install torchvision for torch 2"
    ):
        net_factory("timm:resnet50", (3, 32, 32))


def test_a_net_of_timm_is_built_for_the_data(timm):
    for name, shape in {"test_vit": (1, 32, 48), "test_resnet": (2, 33, 20)}.items():
        plan = blueprint(f"timm:{name}", 5, shape)
        torch.manual_seed(0)
        net = plan.initial()
        assert net(torch.zeros(2, *shape)).shape == (2, 5)
        torch.manual_seed(0)
        again = plan.fresh()
        assert all(torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize(
    ("net", "shape", "says"),
    [
        ("timm:resnet51", (3, 32, 32), "no net 'resnet51' in timm: did you mean resnet"),
        ("timm:swin_tiny", (3, 32, 32), "did you mean swin_tiny_patch4_window7_224"),
        ("timm:mobilenetv3_small", (3, 32, 32), "mobilenetv3_small_050 or mobilenetv3_small_075 or"),
        ("timm:", (3, 32, 32), "see timm.list_models"),
        ("timm:test_vit.nothing", (3, 32, 32), "did you mean 'test_vit'"),
        ("timm:test_vit", (1, 30, 30), r"images of 1 x 30 x 30 \(.*divisible by patch size"),
        ("timm:test_vit", (20,), "does not take feature rows of 20"),
        ("timm:efficientvit_m0", (3, 64, 48), "made for images of 224 x 224 and cannot be built for 64 x 48"),
    ],
)
def test_nets_of_timm_that_do_not_fit(timm, net, shape, says):
    with pytest.raises(InputError, match=says):
        blueprint(net, 4, shape)


def test_a_net_of_timm_starts_from_a_file(timm, tmp_path):
    torch.manual_seed(3)
    source = timm.create_model("test_resnet", num_classes=9)
    torch.save(source.state_dict(), tmp_path / "weights.pth")
    net = blueprint("timm:test_resnet", 5, (3, 32, 32), str(tmp_path / "weights.pth")).initial()
    assert torch.equal(net.layer4[0].conv1.weight, source.layer4[0].conv1.weight)
    assert net.fc.weight.shape[0] == 5


@pytest.fixture
def hub(timm, monkeypatch):
    """What would be downloaded, without a network: a net with weights that one knows again."""
    torch.manual_seed(3)
    source = timm.create_model("test_vit")
    state = source.state_dict()
    monkeypatch.setattr("timm.models._builder.load_state_dict_from_hf", lambda *_, **__: dict(state))
    return source


def test_pretrained_weights_are_fitted_to_the_data(hub):
    for weights in (PRETRAINED, "timm:test_vit", "timm:test_vit.r160_in1k"):
        torch.manual_seed(0)
        before = torch.get_rng_state()
        plan = blueprint("timm:test_vit", 5, (1, 32, 32), weights)
        assert torch.equal(before, torch.get_rng_state())
        first, second = plan.initial(), plan.initial()
        key = "blocks.0.attn.qkv.weight"
        for net in (first, second):
            assert torch.equal(net.state_dict()[key], hub.state_dict()[key])
            torch.testing.assert_close(net.patch_embed.proj.weight, hub.patch_embed.proj.weight.sum(1, True))
            assert net(torch.zeros(2, 1, 32, 32)).shape == (2, 5)
        assert not torch.equal(first.head.weight, second.head.weight)  # drawn, as the seed has it
        assert not torch.equal(plan.fresh().state_dict()[key], hub.state_dict()[key])


def test_a_pretrained_classifier_of_as_many_classes_stays(hub):
    net = blueprint("timm:test_vit", 1000, (3, 32, 32), PRETRAINED).initial()
    assert torch.equal(net.head.weight, hub.head.weight)


def test_pretrained_weights_that_are_not_there(timm, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for ask in (
        lambda: blueprint("timm:test_vit", 5, (1, 32, 32), PRETRAINED),
        lambda: timm_weights("test_vit"),
    ):
        with pytest.raises(InputError, match=r"test_vit could not be downloaded .* --weights"):
            ask()
    with pytest.raises(InputError, match="no pretrained weights of test_vit4"):
        blueprint("timm:test_vit4", 5, (1, 32, 32), PRETRAINED)
    with pytest.raises(InputError, match="timm:test_vit cannot start from timm:resnet50"):
        blueprint("timm:test_vit", 5, (1, 32, 32), "timm:resnet50")


def test_a_built_in_net_takes_weights_of_timm(hub, monkeypatch):
    assert timm_weights("test_vit").keys() == hub.state_dict().keys()
    monkeypatch.setattr("labelsift.nets.timm_weights", lambda name: {"1.weight": torch.ones(2, 9)})
    net = blueprint(
        lambda classes, channels: nn.Sequential(nn.Flatten(), nn.Linear(9, 2, False)), 2, (1, 3, 3), "timm:x"
    )
    assert net.initial()[1].weight.eq(1).all()


def test_an_own_net_is_called_with_classes_and_channels(own):
    assert own_factory("own_nets:Net")(3, 2)[1].in_features == 18
