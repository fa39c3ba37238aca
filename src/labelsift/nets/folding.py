"""Convolution, batch norm and ReLU as one kernel, where a net only predicts.

In evaluation mode batch norm is a scale and a shift for each channel, which a convolution can take into its
own weights. cuDNN then adds the shift and the shortcut and cuts off below zero while it writes its result:
what else is read and written two more times.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ALIGNED = 8  # channels that cuDNN's fused kernels read at once
CUDNN = torch.version.hip is None  # other GPUs have other kernels


def conv_norm_relu(
    conv: nn.Conv2d, norm: nn.BatchNorm2d, x: Tensor, shortcut: Tensor | None = None
) -> Tensor:
    """`relu(norm(conv(x)) + shortcut)`."""
    if not _folds(conv, norm, x):
        out = norm(conv(x))
        return F.relu(out if shortcut is None else out + shortcut)
    weight, shift = folded(conv, norm, torch.get_autocast_dtype("cuda"))
    x = x.to(weight.dtype)
    place: tuple[Any, ...] = conv.stride, conv.padding, conv.dilation, conv.groups
    if shortcut is None:
        return torch.cudnn_convolution_relu(x, weight, shift, *place)
    return torch.cudnn_convolution_add_relu(x, weight, shortcut.to(weight.dtype), 1.0, shift, *place)


def folded(conv: nn.Conv2d, norm: nn.BatchNorm2d, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Weights and bias of the convolution that also does what batch norm does in evaluation mode."""
    statistics: tuple[Tensor, Tensor] = norm.running_mean, norm.running_var  # type: ignore[assignment]
    scale = norm.weight / (statistics[1] + norm.eps).sqrt()
    weight = (conv.weight * scale[:, None, None, None]).to(dtype, memory_format=torch.channels_last)
    return weight, (norm.bias - statistics[0] * scale).to(dtype)


def _folds(conv: nn.Conv2d, norm: nn.BatchNorm2d, x: Tensor) -> bool:
    """Only on a GPU in half the precision: elsewhere nets predict to the last digit as they were trained."""
    predicts = not norm.training and not torch.is_grad_enabled() and torch.is_autocast_enabled("cuda")
    return predicts and x.is_cuda and CUDNN and conv.in_channels % ALIGNED == 0
