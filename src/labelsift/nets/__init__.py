"""Nets by name, and any other net through the same door.

A net is built by a function of the number of classes and the first dimension of an example: the channels
of an image, the numbers of a row.
"""

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from labelsift.errors import InputError, unknown
from labelsift.nets.lenet import LeNet
from labelsift.nets.mlp import MLP
from labelsift.nets.preact_resnet import PreActResNet18
from labelsift.nets.resnet import resnet18, resnet34, resnet50
from labelsift.nets.weights import load_weights, read_weights, timm_weights

Factory = Callable[[int, int], nn.Module]

NETS: dict[str, Factory] = {
    "lenet": LeNet,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
    "preact-resnet18": PreActResNet18,
    "mlp": MLP,
}


def default_net(shape: tuple[int, ...]) -> str:
    """The net for examples of this shape when none is named."""
    if len(shape) == 1:
        return "mlp"
    return "lenet" if shape[0] == 1 and max(shape) <= 28 else "resnet18"


def net_name(net: str | Factory | nn.Module) -> str:
    """The name a net goes by in a run's config."""
    if isinstance(net, str):
        if net not in NETS:
            raise unknown("net", net, NETS)
        return net
    made = type(net) if isinstance(net, nn.Module) else net
    return f"python:{made.__module__}.{getattr(made, '__qualname__', type(made).__qualname__)}"


@dataclass(frozen=True)
class Blueprint:
    """How a net is built: with the weights it starts from, or with newly drawn ones."""

    name: str
    initial: Callable[[], nn.Module]
    fresh: Callable[[], nn.Module]


def blueprint(
    net: str | Factory | nn.Module, num_classes: int, shape: tuple[int, ...], weights: str = ""
) -> Blueprint:
    """The plan of `net` for examples of `shape`.

    It starts from `weights` (a file, or timm:NAME), a ready-made module from its own; what restarts does not.
    """
    name = net_name(net)
    if isinstance(net, nn.Module):
        plan = Blueprint(name, lambda: copy.deepcopy(net), lambda: _drawn_anew(net))
    else:
        factory = NETS[name] if isinstance(net, str) else net
        build = partial(factory, num_classes, shape[0])
        plan = Blueprint(name, build, build)
    if weights:
        plan = replace(plan, initial=_with_weights(plan.initial, weights))
    with torch.random.fork_rng(devices=[]):
        fresh = plan.fresh()
        _check(fresh.eval(), name, num_classes, shape)
    if isinstance(net, str):
        return plan
    digest = _digest(net, weights=True) if isinstance(net, nn.Module) else _digest(fresh, weights=False)
    return replace(plan, name=f"{name}-{digest}")


def _with_weights(build: Callable[[], nn.Module], weights: str) -> Callable[[], nn.Module]:
    library, colon, name = weights.partition(":")
    known = timm_weights(name) if colon and library == "timm" else read_weights(Path(weights))

    def initial() -> nn.Module:
        net = build()
        load_weights(net, known, weights)
        return net

    return initial


def standard_cuts(net: nn.Module, parts: int) -> tuple[str, ...]:
    """Where `net` itself says it should be cut into so many parts."""
    known: dict[int, tuple[str, ...]] = {1: (), **getattr(net, "cuts", {})}
    if parts not in known:
        raise InputError(
            f"{type(net).__name__} has no standard cuts for {parts} parts: "
            "name the child each later part begins with, as in --set cuts=layer4,fc."
        )
    return known[parts]


def _digest(net: nn.Module, weights: bool) -> str:
    """What tells nets without a name apart: their structure and, of a ready-made one, its weights."""
    digest = hashlib.sha256(repr(net).encode())
    for tensor in net.state_dict().values() if weights else ():
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:8]


def _drawn_anew(net: nn.Module) -> nn.Module:
    """A copy of a ready-made module whose modules draw their weights anew."""
    again = copy.deepcopy(net)
    for name, module in again.named_modules():
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
        elif any(True for _ in module.parameters(recurse=False)):
            raise InputError(
                f"The weights of '{name or 'the net'}' ({type(module).__name__}) cannot be drawn anew: "
                "give it a method reset_parameters, or give the net as a function that builds it."
            )
    return again


def _check(net: nn.Module, name: str, num_classes: int, shape: tuple[int, ...]) -> None:
    """Send two empty examples through, so that a misfit is said before anything is trained."""
    size = " x ".join(map(str, shape))
    try:
        with torch.no_grad():
            logits = net(torch.zeros(2, *shape))
    except (RuntimeError, ValueError, TypeError, IndexError):
        what = "feature rows" if len(shape) == 1 else "images"
        raise InputError(
            f"The net '{name}' does not take {what} of {size}: choose another --net or another size."
        ) from None
    if tuple(logits.shape) != (2, num_classes):
        raise InputError(
            f"The net '{name}' gives {tuple(logits.shape)[1:]} outputs for {num_classes} classes."
        )
