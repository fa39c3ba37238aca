"""Views: what a net sees of a batch. Crop and flip are batched and run where the images are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.errors import InputError, unknown

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
    size: int = 0  # of the views, where they are cut out of larger images; 0: the whole image
    roam: bool = False  # random views are then cut out anywhere, not from the centre

    @classmethod
    def of(
        cls,
        inputs: Tensor,
        augment: str,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        size: int = 0,
    ) -> "Views":
        """Views normalised by `mean` and `std`, or by the statistics of `inputs` where these are not given.

        Images are cropped to `size`, or with a padding of an eighth of their own size.
        """
        check_augment(augment)
        if mean is None or std is None:
            centre, spread = _statistics(inputs)
        else:
            centre, spread = (torch.tensor(values, device=inputs.device) for values in (mean, std))
        if inputs.dim() == 2:
            return cls(centre, spread)
        if size > min(inputs.shape[2:]):
            raise InputError(
                f"Views of {size} pixels cannot be cut out of images of {inputs.shape[2]} x "
                f"{inputs.shape[3]}: use smaller ones."
            )
        crop, flip = "crop" in augment, "flip" in augment
        padding = round(inputs.shape[-1] / 8) if crop and not size else 0
        return cls(centre, spread, padding, flip, size, roam=crop and size > 0)

    @property
    def differ(self) -> bool:
        """Whether two random views of an example can differ."""
        return self.flip or self.padding > 0 or self.roam

    def plain(self, inputs: Tensor) -> Tensor:
        """The inputs, their centre where views are smaller, normalised."""
        if inputs.dim() == 2:
            return (inputs - self.mean) / self.std
        # Of one layout, whatever that of the inputs: nets round differently otherwise.
        values = self._centre(inputs).to(torch.float32, memory_format=torch.contiguous_format)
        return (values / 255 - self.mean[:, None, None]) / self.std[:, None, None]

    def random(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """The inputs, each cropped and flipped at random, normalised. Rows have no random view."""
        if not self.differ:
            return self.plain(inputs)
        count, channels, height, width = inputs.shape
        device, padding = inputs.device, self.padding

        def draw(choices: int) -> Tensor:
            return torch.randint(choices, (count, 1), device=device, generator=generator)

        if padding:
            inputs = F.pad(inputs, (padding, padding, padding, padding))
        elif not self.roam:
            inputs = self._centre(inputs)
        rows = torch.arange(self.size or height, device=device).expand(count, -1)
        columns = torch.arange(self.size or width, device=device).expand(count, -1)
        if padding or self.roam:
            rows = rows + draw(inputs.shape[2] - rows.shape[1] + 1)
            columns = columns + draw(inputs.shape[3] - columns.shape[1] + 1)
        if self.flip:
            columns = torch.where(draw(2).bool(), columns.flip(1), columns)
        which = torch.arange(count, device=device)[:, None, None, None]
        channel = torch.arange(channels, device=device)[None, :, None, None]
        return self.plain(inputs[which, channel, rows[:, None, :, None], columns[:, None, None, :]])

    def _centre(self, images: Tensor) -> Tensor:
        if not self.size:
            return images
        top, left = ((side - self.size) // 2 for side in images.shape[2:])
        return images[:, :, top : top + self.size, left : left + self.size]


def _statistics(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel or column; 1 for one that is constant."""
    if inputs.dim() == 2:
        mean, std = inputs.mean(0), inputs.std(0, correction=0)
    else:
        channels = inputs.transpose(0, 1).flatten(1)
        levels = torch.arange(256, dtype=torch.float64, device=inputs.device) / 255
        share = torch.stack([torch.bincount(c, minlength=256) for c in channels]).double() / channels.shape[1]
        mean = share @ levels
        std = (share @ levels.square() - mean.square()).clamp(min=0).sqrt()
    return mean.float(), torch.where(std > 0, std, 1.0).float()
