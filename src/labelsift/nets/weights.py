"""Weights from elsewhere, such as ImageNet's, put into a net."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from labelsift.errors import InputError
from labelsift.nets.stages import classifier

COUNTER = "num_batches_tracked"  # older checkpoints do not have it


def load_weights(net: nn.Module, weights: Mapping[str, Tensor], name: str = "the weights") -> None:
    """Put weights into a net, in place; `name` is what an error calls them.

    The final classifier keeps its own where the source has another number of classes.
    """
    own = net.state_dict()
    head = tuple(f"{layer}." for layer in classifier(net))
    final = [key for key in own if key.startswith(head)]
    if any(key not in weights or weights[key].shape != own[key].shape for key in final):
        own = {key: tensor for key, tensor in own.items() if key not in final}
        weights = {key: tensor for key, tensor in weights.items() if key not in final}
    for key, tensor in own.items():
        if key not in weights and not key.endswith(COUNTER):
            raise InputError(f"There is no '{key}' in {name}: choose the weights of a {type(net).__name__}.")
        if key in weights and weights[key].shape != tensor.shape:
            raise InputError(
                f"'{key}' has the shape {tuple(weights[key].shape)} in {name} but {tuple(tensor.shape)} "
                "in the net: choose the weights of this very net."
            )
    strange = [key for key in weights if key not in own]
    if strange:
        raise InputError(f"The net has no '{strange[0]}' as in {name}: choose the weights of this very net.")
    net.load_state_dict(dict(weights), strict=False)


def read_weights(file: Path) -> dict[str, Tensor]:
    """Named tensors; a pickle is read by torch with weights only, so that nothing in it is executed."""
    if file.suffix not in (".safetensors", ".pth", ".pt"):
        raise InputError(f"{file} is no file of weights: give a .safetensors, .pth or .pt file.")
    if not file.is_file():
        raise InputError(f"There is no file {file}.")
    try:
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles that are then refused
            content = torch.load(file, map_location="cpu", weights_only=True)
        return {str(key): tensor.detach() for key, tensor in content.get("state_dict", content).items()}
    except Exception:  # a file that is damaged, or made to harm, may raise anything
        raise InputError(
            f"{file} is damaged or holds more than named tensors, and was not loaded: "
            "save a state_dict, best as .safetensors."
        ) from None
