import pytest
import torch
from torch.nn import functional as F

from labelsift.nets import blueprint, folding


def with_history(net):
    """A net in evaluation mode whose batch norms have seen something."""
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for tensor in (module.running_var, module.weight.data):
                tensor.uniform_(0.5, 2)
            for tensor in (module.running_mean, module.bias.data):
                tensor.normal_(0, 0.3)
    return net.eval()


@pytest.fixture
def fused_kernels(monkeypatch):
    """What cuDNN's fused kernels compute, where there is no cuDNN; the names of those that were called."""
    called = []

    def relu(x, weight, bias, *place):
        called.append("relu")
        return F.relu(F.conv2d(x, weight, bias, *place))

    def add_relu(x, weight, shortcut, share, bias, *place):
        called.append("add_relu")
        return F.relu(F.conv2d(x, weight, bias, *place) + share * shortcut)

    monkeypatch.setattr(torch, "cudnn_convolution_relu", relu)
    monkeypatch.setattr(torch, "cudnn_convolution_add_relu", add_relu)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float32)
    monkeypatch.setattr(
        folding, "_folds", lambda conv, norm, x: not norm.training and conv.in_channels % 8 == 0
    )
    return called


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("resnet18", {"relu": 8, "add_relu": 8}), ("resnet50", {"relu": 32, "add_relu": 16})],
)
def test_a_folded_residual_net_predicts_the_same(name, kernels, fused_kernels, monkeypatch):
    torch.manual_seed(0)
    net = with_history(blueprint(name, 10, (3, 32, 32)).fresh())
    images = torch.randn(4, 3, 32, 32)
    fused_kernels.clear()  # a blueprint tries its net
    with torch.no_grad():
        folded = net(images)
        assert {kernel: fused_kernels.count(kernel) for kernel in set(fused_kernels)} == kernels
        monkeypatch.setattr(folding, "_folds", lambda *_: False)
        torch.testing.assert_close(folded, net(images), rtol=1e-3, atol=1e-3)


def test_a_folded_preact_net_predicts_the_same(fused_kernels, monkeypatch):
    torch.manual_seed(0)
    net = with_history(blueprint("preact-resnet18", 10, (3, 32, 32)).fresh())
    images = torch.randn(4, 3, 32, 32)
    fused_kernels.clear()  # a blueprint tries its net
    with torch.no_grad():
        folded = net(images)
        assert fused_kernels == ["relu"] * 8
        monkeypatch.setattr(folding, "_folds", lambda *_: False)
        torch.testing.assert_close(folded, net(images), rtol=1e-3, atol=1e-3)


def test_a_net_that_trains_folds_nothing(fused_kernels):
    net = blueprint("resnet18", 10, (3, 32, 32)).fresh().train()
    fused_kernels.clear()
    net(torch.randn(4, 3, 32, 32)).sum().backward()
    assert fused_kernels == []
    assert all(parameter.grad is not None for parameter in net.parameters())


@pytest.mark.parametrize("grad", [True, False])
def test_on_a_cpu_nothing_is_folded(grad):
    conv, norm = torch.nn.Conv2d(8, 8, 1), torch.nn.BatchNorm2d(8).eval()
    with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16):
        assert not folding._folds(conv, norm, torch.randn(2, 8, 4, 4))


def test_folded_weights_do_what_batch_norm_does():
    torch.manual_seed(0)
    conv, norm = torch.nn.Conv2d(3, 5, 3, bias=False), with_history(torch.nn.BatchNorm2d(5))
    images = torch.randn(2, 3, 8, 8)
    weight, shift = folding.folded(conv, norm, torch.float32)
    torch.testing.assert_close(F.conv2d(images, weight, shift), norm(conv(images)), rtol=1e-4, atol=1e-5)
