"""PreAct ResNet-18 as the authors of methods for noisy labels use it (PES, DivideMix, ELR+, M-correction).

Differs from the net of He et al. in two ways: every shortcut begins behind the first batch norm and ReLU of
its block, those that change nothing too, and there is neither between block 4 and the pool.
"""

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from labelsift.nets.folding import conv_norm_relu
from labelsift.nets.resnet import conv3x3


class PreActBlock(nn.Module):
    """Batch norm and ReLU before each convolution; the shortcut begins behind the first of them."""

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv3x3(inputs, planes, stride)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv2 = conv3x3(planes, planes)
        same = stride == 1 and inputs == planes
        self.shortcut = None if same else nn.Conv2d(inputs, planes, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        out = F.relu(self.bn1(x))
        shortcut = out if self.shortcut is None else self.shortcut(out)
        sum_: Tensor = self.conv2(conv_norm_relu(self.conv1, self.bn2, out)) + shortcut
        return sum_


class PreActResNet18(nn.Module):
    """Four blocks of 64 to 512 planes behind a 3 x 3 stem."""

    cuts: ClassVar = {2: ("fc",), 3: ("layer4", "fc")}

    def __init__(self, num_classes: int, channels: int) -> None:
        super().__init__()
        self.conv1 = conv3x3(channels, 64)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(PreActBlock(64, 64, 1), PreActBlock(64, 64, 1))
        self.layer2 = nn.Sequential(PreActBlock(64, 128, 2), PreActBlock(128, 128, 1))
        self.layer3 = nn.Sequential(PreActBlock(128, 256, 2), PreActBlock(256, 256, 1))
        self.layer4 = nn.Sequential(PreActBlock(256, 512, 2), PreActBlock(512, 512, 1))
        self.fc = nn.Linear(512, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of a batch of images."""
        x = conv_norm_relu(self.conv1, self.bn1, images)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits
