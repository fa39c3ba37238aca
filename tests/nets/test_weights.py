import os
import pickle

import pytest
import torch
from safetensors.torch import save_file

import labelsift
from labelsift import InputError
from labelsift.nets import blueprint
from labelsift.nets.resnet import BasicBlock, ResNet
from labelsift.nets.weights import load_weights, read_weights
from toys import TinyNet


def tiny(classes=3, channels=1, seed=0):
    torch.manual_seed(seed)
    return TinyNet(classes, channels)


def saved(tmp_path, weights, suffix):
    file = tmp_path / f"weights{suffix}"
    save_file(weights, file) if suffix == ".safetensors" else torch.save(weights, file)
    return file


def read_saved(tmp_path, weights, suffix):
    return read_weights(saved(tmp_path, weights, suffix))


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
def test_a_round_trip(tmp_path, suffix):
    source, net = tiny(seed=1), tiny(seed=2)
    load_weights(net, read_saved(tmp_path, source.state_dict(), suffix))
    for name, tensor in source.state_dict().items():
        assert torch.equal(net.state_dict()[name], tensor)


def test_a_checkpoint_with_more_around_the_weights(tmp_path):
    source, net = tiny(seed=1), tiny(seed=2)
    load_weights(net, read_saved(tmp_path, {"state_dict": source.state_dict(), "epoch": 3}, ".pth"))
    assert torch.equal(net.out.weight, source.out.weight)


def test_a_classifier_of_other_classes_is_left_out(tmp_path):
    source, net = tiny(classes=10, seed=1), tiny(classes=3, seed=2)
    before = net.out.weight.clone()
    load_weights(net, read_saved(tmp_path, source.state_dict(), ".pth"))
    assert torch.equal(net.out.weight, before)
    assert torch.equal(net.conv[0].weight, source.conv[0].weight)
    bare = {name: tensor for name, tensor in source.state_dict().items() if not name.startswith("out.")}
    load_weights(net, bare)
    assert torch.equal(net.out.weight, before)


def test_older_checkpoints_do_not_count_batches():
    net = tiny(seed=2)
    old = {name: t for name, t in tiny(seed=1).state_dict().items() if "num_batches" not in name}
    load_weights(net, old)
    assert torch.equal(net.conv[0].weight, old["conv.0.weight"])


def test_torchvisions_names_fit_the_residual_net():
    net = ResNet(BasicBlock, (1, 1, 1, 1), 14, 3, small=False)
    theirs = ResNet(BasicBlock, (1, 1, 1, 1), 1000, 3, small=False).state_dict()
    assert {"conv1.weight", "layer2.0.downsample.1.running_var", "fc.bias"} <= theirs.keys()
    load_weights(net, theirs)
    assert torch.equal(net.layer4[0].conv2.weight, theirs["layer4.0.conv2.weight"])


def changed(**changes):
    return tiny(seed=1).state_dict() | {name.replace("__", "."): tensor for name, tensor in changes.items()}


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (
            tiny(channels=3).state_dict(),
            r"'conv.0.weight' has the shape \(8, 3, 3, 3\) in .* but \(8, 1, 3, 3\)",
        ),
        (
            {"conv.0.weight": torch.zeros(8, 1, 3, 3)},
            "There is no 'conv.0.bias' in .*: choose the weights of",
        ),
        (changed(more__weight=torch.zeros(2)), "The net has no 'more.weight'"),
    ],
)
def test_weights_of_another_net_change_nothing(tmp_path, weights, says):
    net, before = tiny(seed=2), tiny(seed=2).state_dict()
    with pytest.raises(InputError, match=says):
        load_weights(net, read_saved(tmp_path, weights, ".safetensors"))
    assert all(torch.equal(net.state_dict()[name], tensor) for name, tensor in before.items())


class Bomb:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    target = tmp_path / "harmed"
    file = saved(tmp_path, tiny().state_dict() | {"out.bias": Bomb(str(target))}, ".pth")
    with pytest.raises(InputError, match="was not loaded"):
        read_weights(file)
    assert not target.exists()


def test_files_that_cannot_be_read(tmp_path):
    whole = saved(tmp_path, tiny().state_dict(), ".safetensors").read_bytes()
    for name, content in {
        "a.safetensors": whole[:100],
        "b.pth": b"",
        "c.pt": whole,
        "d.pth": b"\x80",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name} is damaged"):
            read_weights(tmp_path / name)
    with pytest.raises(InputError, match="is damaged or holds more than named tensors"):
        read_weights(saved(tmp_path, {"conv.0.weight": 3}, ".pth"))
    with pytest.raises(InputError, match="There is no file"):
        read_weights(tmp_path / "nowhere.pth")
    with pytest.raises(InputError, match="no file of weights"):
        read_weights(tmp_path / "weights.npz")


def test_a_pickle_that_would_do_more_is_refused_without_another_word(tmp_path, recwarn):
    (tmp_path / "w.pt").write_bytes(pickle.dumps(print, protocol=4))
    with pytest.raises(InputError, match="holds more than named tensors, and was not loaded"):
        read_weights(tmp_path / "w.pt")
    assert len(recwarn) == 0


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_weights_of_another_content_are_told_apart(tmp_path, kind):
    source = labelsift.NETS["lenet"](3, 1)
    found = []
    for more in (0, 0, 1):
        weights = {name: (tensor + more).to(kind) for name, tensor in source.state_dict().items()}
        file = saved(tmp_path, weights, ".safetensors")
        found.append(blueprint("lenet", 3, (1, 28, 28), str(file)).weights)
    assert found[0] == found[1] != found[2]
    assert blueprint("lenet", 3, (1, 28, 28)).weights == ""
