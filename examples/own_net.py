"""A net of your own, in parts of your own: PES trains any `nn.Module`, cut at children that you name.

On the command line the same net is `--net own_net:small --cuts late,classify`.
"""

import torch
from torch import Tensor, nn

import labelsift


class Small(nn.Module):
    """Three parts, from the input to the classes."""

    def __init__(self, num_classes: int, channels: int) -> None:
        super().__init__()
        self.early = nn.Sequential(nn.Conv2d(channels, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.late = nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU())
        self.classify = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * 16, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.classify(self.late(self.early(x)))
        return logits


def small(num_classes: int, channels: int) -> nn.Module:
    """What labelsift calls, as often as it needs a net."""
    return Small(num_classes, channels)


def main(limit: int = 3000, epochs: int = 40) -> dict[str, float]:
    """Test accuracies at the end, half of the labels being wrong."""
    cuts = ("late", "classify")  # the children that the second and the third part begin with
    reached = {}
    for method in (labelsift.CE(epochs=epochs), labelsift.PES(epochs=epochs, cuts=cuts)):
        result = labelsift.fit("fashion-demo", method=method, net=small, noise="symmetric:0.5", limit=limit)
        reached[method.name] = result.test_accuracy["last"]
        print(f"{method.name:4} {reached[method.name]:.1%}")
    net = result.nets()[0][0]  # and what was trained is the module itself
    print("it predicts class", int(net(torch.zeros(1, 1, 28, 28)).argmax()), "for an empty image")
    return reached


if __name__ == "__main__":
    main()
