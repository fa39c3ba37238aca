"""A net as an ordered list of parts, which are frozen, trained and restarted one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from labelsift.errors import InputError, unknown


@dataclass(frozen=True)
class Part:
    """The modules of one part, each with its own parameters and buffers, by their names in the net."""

    modules: dict[str, nn.Module]

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of this part."""
        for module in self.modules.values():
            yield from module.parameters(recurse=False)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters and buffers of this part, by their names in the net."""
        for prefix, module in self.modules.items():
            own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            for name, tensor in own:
                yield (f"{prefix}.{name}" if prefix else name), tensor

    def children(self, net: nn.Module) -> list[str]:
        """What lies in this part as a whole, by its largest pieces: children of the net, or theirs."""
        mine = {id(parameter) for parameter in self.parameters()}
        found: list[str] = []

        def look(module: nn.Module, name: str) -> None:
            dot = f"{name}." if name else ""
            found.extend(dot + key for key, own in module.named_parameters(recurse=False) if id(own) in mine)
            for key, child in module.named_children():
                inside = [id(parameter) in mine for parameter in child.parameters()]
                if inside and all(inside) and dot + key in self.modules:
                    found.append(dot + key)
                elif any(inside):
                    look(child, dot + key)

        look(net, "")
        return found


def split(net: nn.Module, cuts: Sequence[str]) -> list[Part]:
    """Split `net` before each child named in `cuts`: ("layer4", "fc") makes three parts.

    Parts follow the order in which the net registered its children; a name may be dotted.
    """
    modules = dict(net.named_modules())
    order = {name: place for place, name in enumerate(modules)}
    for cut in cuts:
        if not cut or cut not in order:
            deeper = [name for name in modules if cut and name.endswith(f".{cut}")]
            level = [name for name in modules if name and name.count(".") == cut.count(".")]
            raise unknown("child of the net", cut, deeper or level or dict(net.named_children()))
    starts = [order[cut] for cut in cuts]
    if starts != sorted(set(starts)):
        raise InputError(
            f"The cuts {', '.join(cuts)} are not in the order of the net: sort them from input to output."
        )
    parts = [Part({}) for _ in range(len(cuts) + 1)]
    for name, module in modules.items():
        place = sum(start <= order[name] for start in starts)
        parts[place].modules[name] = module
    for part, cut in zip(parts, ("the first cut", *cuts), strict=True):
        if not any(True for _ in part.parameters()):
            where = "before" if part is parts[0] else "from"
            raise InputError(f"There is nothing to train {where} {cut}: move the cuts {', '.join(cuts)}.")
    return parts


def train_only(net: nn.Module, parts: Sequence[Part]) -> None:
    """Let exactly the parameters of `parts` learn and freeze all others.

    Freezing stops the gradient only: batch norm goes on using, and moving with, the statistics of the batch.
    """
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    for part in parts:
        for parameter in part.parameters():
            parameter.requires_grad_(True)


@torch.no_grad()
def restart(parts: Sequence[Part], fresh: nn.Module) -> None:
    """Give `parts` the weights and buffers of `fresh`, a newly built net of the same kind, in place."""
    new = dict(fresh.named_parameters(remove_duplicate=False)) | dict(fresh.named_buffers())
    for part in parts:
        for name, tensor in part.tensors():
            tensor.copy_(new[name])
