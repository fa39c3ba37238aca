"""LeNet: two convolutional and three fully connected layers with ReLU, as in the paper's appendix."""

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F


class LeNet(nn.Module):
    """For grey or colour images of 12 x 12 and more; 28 x 28 is its own size."""

    cuts: ClassVar = {2: ("fc3",), 3: ("fc1", "fc3")}

    def __init__(self, num_classes: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of a batch of images."""
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.adaptive_avg_pool2d(x, 5).flatten(1)  # nothing to do at 28 x 28
        x = F.relu(self.fc2(F.relu(self.fc1(x))))
        logits: Tensor = self.fc3(x)
        return logits
