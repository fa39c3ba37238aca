import pytest
import torch
from torch import nn

from labelsift import InputError
from labelsift.nets import NETS, blueprint, default_net, net_name, standard_cuts
from labelsift.parts import split

SHAPES = {"lenet": (1, 28, 28), "mlp": (20,), "resnet50": (3, 64, 64)}


def parameters(net):
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("classes", [2, 14])
def test_any_number_of_classes_and_channels(name, classes):
    shape = SHAPES.get(name, (3, 32, 32))
    for first in (shape[0], 4):
        net = blueprint(name, classes, (first, *shape[1:])).initial()
        assert net(torch.randn(2, first, *shape[1:])).shape == (2, classes)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_net_has_cuts_for_the_papers_two_and_three_parts(name, count):
    net = NETS[name](10, 3)
    parts = split(net, standard_cuts(net, count))
    assert len(parts) == count
    sizes = [sum(p.numel() for p in part.parameters()) for part in parts]
    assert sum(sizes) == parameters(net)
    last = dict(net.named_parameters())[f"{list(parts[-1].modules)[-1]}.weight"]
    if count > 1:
        assert last.shape[0] == 10  # the last part is the classifier alone
        assert len(list(parts[-1].parameters())) == 2


@pytest.mark.parametrize(
    ("name", "channels", "millions"),
    [("lenet", 1, 0.0617), ("resnet18", 3, 11.174), ("resnet34", 3, 21.282), ("preact-resnet18", 3, 11.172)],
)
def test_sizes_are_those_of_the_field(name, channels, millions):
    assert parameters(NETS[name](10, channels)) / 1e6 == pytest.approx(millions, rel=2e-3)


def test_resnet50_has_torchvisions_names_and_shapes():
    state = NETS["resnet50"](1000, 3).state_dict()
    assert sum(v.numel() for k, v in state.items() if "running" not in k and "tracked" not in k) == 25_557_032
    expected = {"conv1.weight", "fc.weight", "fc.bias"}
    batch_norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    expected |= {f"bn1.{name}" for name in batch_norm}
    for layer, depth in enumerate((3, 4, 6, 3), start=1):
        for block in range(depth):
            prefix = f"layer{layer}.{block}"
            for number in (1, 2, 3):
                expected.add(f"{prefix}.conv{number}.weight")
                expected |= {f"{prefix}.bn{number}.{name}" for name in batch_norm}
        expected.add(f"layer{layer}.0.downsample.0.weight")
        expected |= {f"layer{layer}.0.downsample.1.{name}" for name in batch_norm}
    assert set(state) == expected
    assert state["layer2.0.conv2.weight"].shape == (128, 128, 3, 3)
    assert NETS["resnet50"](1000, 3).layer2[0].conv2.stride == (2, 2)


def test_lenet_is_two_convolutions_and_three_linear_layers():
    kinds = [type(m) for m in NETS["lenet"](10, 1).modules() if not list(m.children())]
    assert kinds == [nn.Conv2d, nn.Conv2d, nn.Linear, nn.Linear, nn.Linear]


def test_preact_resnet_pools_straight_after_block_4():
    net = NETS["preact-resnet18"](10, 3).eval()
    seen = {}
    net.layer4.register_forward_hook(lambda m, i, out: seen.update(block=out))
    net.fc.register_forward_hook(lambda m, i, out: seen.update(pooled=i[0]))
    net(torch.randn(2, 3, 32, 32))
    torch.testing.assert_close(seen["pooled"], seen["block"].mean((2, 3)))
    assert (seen["pooled"] < 0).any()


def test_every_shortcut_of_preact_resnet_begins_behind_batch_norm_and_relu():
    """That of a second block too, which changes nothing: without a residual it is what comes out."""
    net = NETS["preact-resnet18"](10, 3).eval()
    x = torch.randn(2, 64, 8, 8)
    for block, shape in ((net.layer1[1], None), (net.layer2[0], (2, 128, 4, 4))):
        nn.init.zeros_(block.conv2.weight)
        nn.init.uniform_(block.bn1.weight, 0.5, 2.0)
        active = torch.relu(block.bn1(x))
        expected = active if shape is None else block.shortcut(active)
        assert shape is None or expected.shape == shape
        torch.testing.assert_close(block(x), expected)


def test_default_net_follows_from_the_shape():
    assert default_net((30,)) == "mlp"
    assert {default_net((1, size, size)) for size in (12, 28, 32)} == {"lenet"}
    small = [(1, 8, 8), (1, 33, 33), (3, 28, 28), (3, 64, 64)]
    assert {default_net(shape) for shape in small} == {"resnet18"}
    assert default_net((3, 224, 224)) == default_net((1, 20, 65)) == "resnet50"


def test_a_net_of_ones_own_starts_from_its_weights_and_restarts_from_new_ones():
    net = nn.Sequential(nn.Flatten(), nn.Linear(9, 3))
    plan = blueprint(net, 3, (1, 3, 3))
    assert torch.equal(plan.initial()[1].weight, net[1].weight)
    assert plan.initial()[1].weight is not net[1].weight
    assert not torch.equal(plan.fresh()[1].weight, net[1].weight)
    assert net_name(net) == "python:torch.nn.modules.container.Sequential"


def test_a_net_that_cannot_be_drawn_anew_is_refused():
    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(9, 3))

        def forward(self, x):
            return x.flatten(1) @ self.weight

    with pytest.raises(InputError, match="reset_parameters"):
        blueprint(Bare(), 3, (1, 3, 3))
    assert blueprint(lambda classes, channels: Bare(), 3, (1, 3, 3)).fresh() is not None


@pytest.mark.parametrize(
    ("net", "shape", "says"),
    [
        ("lenet", (20,), "does not take feature rows of 20"),
        ("lenet", (1, 8, 8), "does not take images of 1 x 8 x 8"),
        ("mlp", (1, 8, 8), "does not take images"),
        ("resnet81", (3, 32, 32), "did you mean 'resnet18'"),
        (lambda classes, channels: nn.Flatten(), (3, 4, 4), "outputs for 5 classes"),
    ],
)
def test_a_net_that_does_not_fit(net, shape, says):
    with pytest.raises(InputError, match=says):
        blueprint(net, 5, shape)


def test_building_a_plan_draws_nothing_from_the_generator():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    blueprint("lenet", 10, (1, 28, 28))
    assert torch.equal(before, torch.get_rng_state())
