"""A net for feature rows: two hidden layers with batch norm."""

from typing import ClassVar

from torch import Tensor, nn


class MLP(nn.Module):
    """Rows of `features` numbers to logits."""

    cuts: ClassVar = {2: ("out",), 3: ("hidden2", "out")}

    def __init__(self, num_classes: int, features: int, width: int = 256) -> None:
        super().__init__()
        self.hidden1 = nn.Sequential(nn.Linear(features, width), nn.BatchNorm1d(width), nn.ReLU())
        self.hidden2 = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU())
        self.out = nn.Linear(width, num_classes)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits of a batch of rows."""
        logits: Tensor = self.out(self.hidden2(self.hidden1(rows)))
        return logits
