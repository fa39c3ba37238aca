"""Nets by name (built-in, timm:NAME, package.module:factory), and any other net through the same door.

A net is built by a function of the number of classes and the first dimension of an example: the channels
of an image, the numbers of a row.
"""

import copy
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from labelsift.errors import InputError, unknown
from labelsift.nets.lenet import LeNet
from labelsift.nets.mlp import MLP
from labelsift.nets.outside import TIMM, own_factory, reason, timm_factory, timm_pretrained, timm_weights
from labelsift.nets.preact_resnet import PreActResNet18
from labelsift.nets.resnet import resnet18, resnet34, resnet50
from labelsift.nets.stages import find_cuts
from labelsift.nets.weights import load_weights, read_weights

Factory = Callable[[int, int], nn.Module]

NETS: dict[str, Factory] = {
    "lenet": LeNet,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
    "preact-resnet18": PreActResNet18,
    "mlp": MLP,
}
OUTSIDE = ("timm:NAME", "package.module:factory")
UNNAMED = "python:"  # how the names begin of nets that were given as such, and cannot be built by name
PRETRAINED = "pretrained"  # weights: those that the net's own library has for it


def default_net(shape: tuple[int, ...]) -> str:
    """The net for examples of this shape when none is named and time is no matter."""
    if len(shape) == 1:
        return "mlp"
    if max(shape[1:]) > 64:
        return "resnet50"  # the others keep the size of small images in their first layers
    grey = shape[0] == 1 and min(shape[1:]) >= 12 and max(shape[1:]) <= 32  # LeNet takes no smaller ones
    return "lenet" if grey else "resnet18"


def net_name(net: str | Factory | nn.Module) -> str:
    """The name a net goes by in a run's config."""
    if isinstance(net, str):
        if net.startswith(UNNAMED):
            raise InputError(f"The net {net} has no name to build it by: give it as package.module:factory.")
        if net not in NETS and ":" not in net:
            raise unknown("net", net, [*NETS, *OUTSIDE])
        return net
    made = type(net) if isinstance(net, nn.Module) else net
    return f"{UNNAMED}{made.__module__}.{getattr(made, '__qualname__', type(made).__qualname__)}"


def net_factory(name: str, shape: tuple[int, ...]) -> Factory:
    """What builds the net of this name for examples of `shape`."""
    if net_name(name) in NETS:
        return NETS[name]
    return timm_factory(name, shape) if name.startswith(TIMM) else own_factory(name)


@dataclass(frozen=True)
class Blueprint:
    """How a net is built: with the weights it starts from, or with newly drawn ones."""

    name: str
    initial: Callable[[], nn.Module]
    fresh: Callable[[], nn.Module]
    weights: str = ""  # tells those it starts from, if they are from elsewhere, from others


def blueprint(
    net: str | Factory | nn.Module, num_classes: int, shape: tuple[int, ...], weights: str = ""
) -> Blueprint:
    """The plan of `net` for examples of `shape`.

    It starts from `weights` (a file, timm:NAME, or "pretrained" for timm's own of a timm net), a ready-made
    module from its own; what restarts does not.
    """
    name = net_name(net)
    if isinstance(net, nn.Module):
        plan = Blueprint(name, lambda: copy.deepcopy(net), lambda: _drawn_anew(net))
    else:
        factory = net_factory(net, shape) if isinstance(net, str) else net
        build = partial(factory, num_classes, shape[0])
        plan = Blueprint(name, build, build)
    if weights:
        with torch.random.fork_rng(devices=[]):
            known = _find_weights(weights, name, num_classes, shape)
        initial = _with_weights(plan.initial, known, weights)
        plan = replace(plan, initial=initial, weights=_digest("", known.values()))
    with torch.random.fork_rng(devices=[]):
        fresh = plan.fresh()
        _check(fresh.eval(), name, num_classes, shape)
    if isinstance(net, str):
        return plan
    digest = _digest(repr(net if isinstance(net, nn.Module) else fresh), _own_weights(net))
    return replace(plan, name=f"{name}-{digest}")


def _find_weights(weights: str, net: str, num_classes: int, shape: tuple[int, ...]) -> Mapping[str, Tensor]:
    if weights == PRETRAINED:
        if not net.startswith(TIMM):
            also = f", or --net timm:{net} --pretrained" if net == "resnet50" else ""
            raise InputError(f"The net {net} has no pretrained weights with it: use --weights FILE{also}.")
        weights = net
    if not weights.startswith(TIMM):
        return read_weights(Path(weights))
    if net.startswith(TIMM):
        return timm_pretrained(net, weights, num_classes, shape)
    return timm_weights(weights.removeprefix(TIMM))


def _with_weights(
    build: Callable[[], nn.Module], known: Mapping[str, Tensor], name: str
) -> Callable[[], nn.Module]:
    def initial() -> nn.Module:
        net = build()
        load_weights(net, known, name)
        return net

    return initial


def standard_cuts(net: nn.Module, parts: int) -> tuple[str, ...]:
    """Where `net` is cut into so many parts: as it says itself (`cuts`), or by what it is built of."""
    known: dict[int, tuple[str, ...]] = {1: (), **getattr(net, "cuts", {})}
    return known[parts] if parts in known else find_cuts(net, parts)


def _digest(structure: str, weights: Iterable[Tensor]) -> str:
    """What tells nets apart that have no name, or start from weights of files."""
    digest = hashlib.sha256(structure.encode())
    for tensor in weights:
        whole = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)  # NumPy has no bfloat16
        digest.update(whole.numpy().tobytes())
    return digest.hexdigest()[:8]


def _own_weights(net: Factory | nn.Module) -> Iterable[Tensor]:
    """The weights of a net that is ready-made."""
    return net.state_dict().values() if isinstance(net, nn.Module) else ()


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
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        what = "feature rows" if len(shape) == 1 else "images"
        why = f" ({reason(error)})" if ":" in name else ""
        raise InputError(
            f"The net '{name}' does not take {what} of {size}{why}: choose another --net or another size."
        ) from error
    if tuple(logits.shape) != (2, num_classes):
        raise InputError(
            f"The net '{name}' gives {tuple(logits.shape)[1:]} outputs for {num_classes} classes."
        )
