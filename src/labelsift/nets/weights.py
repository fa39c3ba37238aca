"""Weights from elsewhere, such as ImageNet's: from a file, or through timm."""

import importlib
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from labelsift.errors import InputError

COUNTER = "num_batches_tracked"  # older checkpoints do not have it


def load_weights(net: nn.Module, weights: Mapping[str, Tensor], name: str = "the weights") -> None:
    """Put weights into a net, in place; `name` is what an error calls them.

    The final classifier keeps its own where the source has another number of classes.
    """
    own = net.state_dict()
    final = _classifier(net)
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


def timm_weights(name: str) -> dict[str, Tensor]:
    """The weights of a pretrained model of timm, such as resnet50.tv_in1k; downloaded when first used."""
    try:
        timm = importlib.import_module("timm")
    except ImportError:
        raise InputError("The weights of timm need it installed: pip install 'labelsift[timm]'.") from None
    try:
        model: nn.Module = timm.create_model(name, pretrained=True)
    except Exception as error:  # an unknown name, no such weights, no network
        raise InputError(
            f"timm has no weights '{name}' for us ({error}): see timm.list_pretrained()."
        ) from None
    return model.state_dict()


def read_weights(file: Path) -> dict[str, Tensor]:
    """Named tensors; a pickle is read by torch with weights only, so that nothing in it is executed."""
    if file.suffix not in (".safetensors", ".pth", ".pt"):
        raise InputError(f"{file} is no file of weights: give a .safetensors, .pth or .pt file.")
    if not file.is_file():
        raise InputError(f"There is no file {file}.")
    try:
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        content = torch.load(file, map_location="cpu", weights_only=True)
        return {str(key): tensor.detach() for key, tensor in content.get("state_dict", content).items()}
    except Exception:  # a file that is damaged, or made to harm, may raise anything
        raise InputError(
            f"{file} is damaged or holds more than named tensors, and was not loaded: "
            "save a state_dict, best as .safetensors."
        ) from None


def _classifier(net: nn.Module) -> list[str]:
    """The names of the last layer's weights."""
    layers = [
        name for name, layer in net.named_modules() if any(True for _ in layer.parameters(recurse=False))
    ]
    return [key for key in net.state_dict() if key.startswith(f"{layers[-1]}.")]
