"""Views: what a net sees of a batch. Crop and flip are batched and run where the images are."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.errors import unknown

AUGMENTS = ("none", "flip", "crop", "crop+flip")


def check_augment(augment: str) -> None:
    """Refuse an augmentation nobody knows."""
    if augment not in AUGMENTS:
        raise unknown("augmentation", augment, AUGMENTS)


def default_augment(shape: tuple[int, ...]) -> str:
    """Colour images are cropped and flipped; grey ones may be letters or digits, and stay as they are."""
    return "crop+flip" if len(shape) == 3 and shape[0] == 3 else "none"


@dataclass(frozen=True)
class Views:
    """Normalised views of uint8 images (or of feature rows): plain ones and random ones."""

    mean: Tensor  # per channel, or per column
    std: Tensor
    padding: int = 0  # of the random crop, in pixels of black
    flip: bool = False

    @classmethod
    def of(cls, inputs: Tensor, augment: str) -> "Views":
        """Views normalised by the statistics of `inputs`; the crop's padding is an eighth of the size."""
        check_augment(augment)
        if inputs.dim() == 2:
            mean, std = inputs.mean(0), inputs.std(0, correction=0)
            return cls(mean, torch.where(std > 0, std, 1.0))
        channels = inputs.transpose(0, 1).flatten(1)
        levels = torch.arange(256, dtype=torch.float64, device=inputs.device) / 255
        share = torch.stack([torch.bincount(c, minlength=256) for c in channels]).double() / channels.shape[1]
        mean = share @ levels
        std = (share @ levels.square() - mean.square()).clamp(min=0).sqrt()
        std = torch.where(std > 0, std, 1.0)
        padding = round(inputs.shape[-1] / 8) if "crop" in augment else 0
        return cls(mean.float(), std.float(), padding, "flip" in augment)

    @property
    def differ(self) -> bool:
        """Whether two random views of an example can differ."""
        return self.flip or self.padding > 0

    def plain(self, inputs: Tensor) -> Tensor:
        """The inputs, normalised."""
        if inputs.dim() == 2:
            return (inputs - self.mean) / self.std
        return (inputs.float() / 255 - self.mean[:, None, None]) / self.std[:, None, None]

    def random(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """The inputs, each cropped and flipped at random, normalised. Rows have no random view."""
        if not self.differ:
            return self.plain(inputs)
        count, channels, height, width = inputs.shape
        device, padding = inputs.device, self.padding

        def draw(choices: int) -> Tensor:
            return torch.randint(choices, (count, 1), device=device, generator=generator)

        rows = torch.arange(height, device=device).expand(count, -1)
        columns = torch.arange(width, device=device).expand(count, -1)
        if padding:
            rows = rows + draw(2 * padding + 1)
            columns = columns + draw(2 * padding + 1)
            inputs = F.pad(inputs, (padding, padding, padding, padding))
        if self.flip:
            columns = torch.where(draw(2).bool(), columns.flip(1), columns)
        which = torch.arange(count, device=device)[:, None, None, None]
        channel = torch.arange(channels, device=device)[None, :, None, None]
        return self.plain(inputs[which, channel, rows[:, None, :, None], columns[:, None, None, :]])
