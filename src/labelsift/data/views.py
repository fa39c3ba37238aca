"""Views: what a net sees of a batch. Crop and flip are batched and run where the images are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from labelsift.errors import InputError, unknown
from labelsift.fusion import fused

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
        return _normalised(self._centre(inputs), self.mean, self.std)

    def random(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """The inputs, each cropped and flipped at random, normalised. Rows have no random view."""
        if not self.differ:
            return self.plain(inputs)
        count, _, height, width = inputs.shape
        padding, down, right, mirrored = self.padding, None, None, None

        def draw(choices: int) -> Tensor:
            return torch.randint(choices, (count, 1), device=inputs.device, generator=generator)

        if not (padding or self.roam):
            inputs = self._centre(inputs)
        else:
            down = draw(height + 2 * padding - (self.size or height) + 1)
            right = draw(width + 2 * padding - (self.size or width) + 1)
        if self.flip:
            mirrored = draw(2).bool()
        size = self.size or height, self.size or width
        return _cut(inputs, padding, size, down, right, mirrored, self.mean, self.std)

    def _centre(self, images: Tensor) -> Tensor:
        if not self.size:
            return images
        top, left = ((side - self.size) // 2 for side in images.shape[2:])
        return images[:, :, top : top + self.size, left : left + self.size]


@fused
def _cut(
    images: Tensor,
    padding: int,
    size: tuple[int, int],
    down: Tensor | None,
    right: Tensor | None,
    mirrored: Tensor | None,
    mean: Tensor,
    std: Tensor,
) -> Tensor:
    """A window of each padded image, so far down and to the right, mirrored where it says so, normalised."""
    count, channels = images.shape[:2]
    if padding:
        images = F.pad(images, (padding, padding, padding, padding))
    rows, columns = (torch.arange(side, device=images.device).expand(count, -1) for side in size)
    if down is not None and right is not None:
        rows, columns = rows + down, columns + right
    if mirrored is not None:
        columns = torch.where(mirrored, columns.flip(1), columns)
    which = torch.arange(count, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[None, :, None, None]
    pixels = images[which, channel, rows[:, None, :, None], columns[:, None, None, :]]
    return _normalised(pixels, mean, std)


@fused
def _normalised(pixels: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    # Of one layout, whatever that of the inputs: nets round differently otherwise.
    values = pixels.to(torch.float32, memory_format=torch.contiguous_format)
    return (values / 255 - mean[:, None, None]) / std[:, None, None]


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
