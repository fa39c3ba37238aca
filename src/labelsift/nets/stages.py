"""Where any net is cut: before its classifier, its last stage, the stage before that, and so on."""

import math
from collections.abc import Iterator

from torch import nn

from labelsift.errors import InputError


def layers(net: nn.Module) -> list[str]:
    """The names of all modules with parameters of their own, in the order of the net."""
    return [name for name, module in net.named_modules() if any(True for _ in module.parameters(False))]


def classifier(net: nn.Module) -> list[str]:
    """The final layer; where several heads stand side by side (those of a distilled ViT), all of them."""
    modules, names = dict(net.named_modules()), layers(net)
    if not names:
        raise InputError(f"{type(net).__name__} has no parameters: there is nothing to train.")
    shapes = [_shape(modules[name]) for name in names]
    first, classes = len(names) - 1, shapes[-1][:1]
    # A layer with as many outputs, which are not what the final layer takes, is a head beside it.
    while first and len(shapes[first - 1]) == 2 and shapes[first - 1][:1] == classes != shapes[-1][1:]:
        first -= 1
    return names[first:]


def find_cuts(net: nn.Module, parts: int) -> tuple[str, ...]:
    """The children the later parts begin with: the last part is the classifier, each former one a stage.

    A stage is a quarter of the row of repeated blocks in which the net has most of its layers, as block 4 is
    of a ResNet, the paper's net: one of four stages, three of the twelve blocks of a ViT, the last three of
    the thirteen convolutions of a VGG. What comes between a stage and the classifier belongs to the stage.
    """
    head = classifier(net)
    last = _shape(net.get_submodule(head[-1]))
    if len(last) < 2 or math.prod(last[2:]) > 1:
        raise InputError(
            f"{type(net).__name__} ends with '{head[-1]}', which is no linear layer: register its children "
            "in the order of forward, or name the child each later part begins with, as in --cuts layer4,fc."
        )
    before = layers(net)[: -len(head)]
    if parts == 2 and before:
        return (head[0],)
    stages = parts - 2
    for row in _rows(net, before):
        free = row[1:] if f"{before[0]}.".startswith(f"{row[0]}.") else row  # something must come first
        if len(free) >= stages:
            step = max(1, min(len(row) // 4, len(free) // stages))
            return (*(free[-step * back] for back in range(stages, 0, -1)), head[0])
    raise InputError(
        f"{type(net).__name__} has too few layers for {parts} parts, {len(before) + 1}: "
        "train it in fewer stages, as with --set stage_epochs=10,5."
    )


def _rows(net: nn.Module, before: list[str]) -> Iterator[list[str]]:
    """The stages of the net, then what they consist of, finer and finer; at last its single layers."""
    row: list[str] = []
    finer = _stages(dict(net.named_modules()), before)
    while finer != row:
        row = finer
        yield row
        finer = [child for name in row for child in _children(before, name) or [name]]
    if single := [name for name in before if name]:
        yield single


def _stages(modules: dict[str, nn.Module], before: list[str], parent: str = "") -> list[str]:
    """The children of one kind that hold most layers below `parent`; of an only one, what it holds."""
    kinds: dict[object, list[str]] = {}
    for child in _children(before, parent):
        kinds.setdefault(_kind(modules[child]), []).append(child)
    if not kinds:
        return []

    def weight(row: list[str]) -> tuple[int, int]:
        inside = sum(name == child or name.startswith(f"{child}.") for name in before for child in row)
        return inside, sum(p.numel() for child in row for p in modules[child].parameters())

    row = max(kinds.values(), key=weight)
    below = _stages(modules, before, row[0]) if len(row) == 1 else []
    return below if len(below) > 1 else row


def _kind(module: nn.Module) -> object:
    """What blocks of one row have in common; containers are told apart by what they contain."""
    if isinstance(module, nn.Sequential | nn.ModuleList):
        return type(module), frozenset(type(child) for child in module.children())
    return type(module)


def _children(names: list[str], parent: str) -> list[str]:
    """The children of `parent` that hold any of the layers `names`."""
    start = f"{parent}." if parent else ""
    inside = [name[len(start) :] for name in names if name != parent and name.startswith(start)]
    return list(dict.fromkeys(start + name.partition(".")[0] for name in inside))


def _shape(module: nn.Module) -> tuple[int, ...]:
    weight = getattr(module, "weight", None)
    return () if weight is None else tuple(weight.shape)
