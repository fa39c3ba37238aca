"""Residual nets with the parameter names of torchvision's, so that its checkpoints load."""

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from labelsift.nets.folding import conv_norm_relu


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """A 3 x 3 convolution that keeps the size (over the stride)."""
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv3x3(inputs, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = _shortcut(inputs, planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        out = conv_norm_relu(self.conv1, self.bn1, x)
        return conv_norm_relu(self.conv2, self.bn2, out, self.downsample(x))


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (which carries the stride) and 1 x 1 convolutions."""

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = conv3x3(planes, planes, stride)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, 4 * planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.downsample = _shortcut(inputs, 4 * planes, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        out = conv_norm_relu(self.conv1, self.bn1, x)
        out = conv_norm_relu(self.conv2, self.bn2, out)
        return conv_norm_relu(self.conv3, self.bn3, out, self.downsample(x))


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    if stride == 1 and inputs == outputs:
        return nn.Sequential()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


Block = type[BasicBlock] | type[Bottleneck]


class ResNet(nn.Module):
    """Four blocks of 64 to 512 planes; the stem is for 32 x 32 (`small`) or for ImageNet's images."""

    cuts: ClassVar = {2: ("fc",), 3: ("layer4", "fc")}

    def __init__(
        self,
        block: Block,
        depths: tuple[int, int, int, int],
        num_classes: int,
        channels: int,
        small: bool,
    ) -> None:
        super().__init__()
        if small:
            self.conv1 = conv3x3(channels, 64)
        else:
            self.conv1 = nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = self._blocks(block, depths[0], 64, 64, stride=1)
        self.layer2 = self._blocks(block, depths[1], 64 * block.expansion, 128, stride=2)
        self.layer3 = self._blocks(block, depths[2], 128 * block.expansion, 256, stride=2)
        self.layer4 = self._blocks(block, depths[3], 256 * block.expansion, 512, stride=2)
        self.fc = nn.Linear(512 * block.expansion, num_classes)

    @staticmethod
    def _blocks(block: Block, depth: int, inputs: int, planes: int, stride: int) -> nn.Sequential:
        rest = [block(planes * block.expansion, planes, 1) for _ in range(depth - 1)]
        return nn.Sequential(block(inputs, planes, stride), *rest)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of a batch of images."""
        x = self.maxpool(conv_norm_relu(self.conv1, self.bn1, images))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


def resnet18(num_classes: int, channels: int) -> ResNet:
    """ResNet-18 for small images (3 x 3 stem, no max-pool)."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, channels, small=True)


def resnet34(num_classes: int, channels: int) -> ResNet:
    """ResNet-34 for small images (3 x 3 stem, no max-pool)."""
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes, channels, small=True)


def resnet50(num_classes: int, channels: int) -> ResNet:
    """ResNet-50 with the ImageNet stem, as torchvision names and shapes it."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes, channels, small=False)
