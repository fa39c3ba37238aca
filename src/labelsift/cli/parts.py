"""`labelsift parts`: where a net is cut."""

from typing import Annotated

from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from labelsift.cli.progress import percent
from labelsift.config import convert
from labelsift.errors import InputError
from labelsift.nets import net_factory, standard_cuts
from labelsift.parts import split

SHOWN = 4  # children of a part; of more, the first and the last ones


def parts(
    net: Annotated[str, Argument(help="A net: lenet, resnet18, ..., timm:NAME or package.module:factory.")],
    classes: Annotated[int, Option(min=2, help="The number of classes.")] = 10,
    size: Annotated[int, Option(min=1, help="The height and width of the images.")] = 32,
    channels: Annotated[int, Option(min=1, help="The channels of the images, or numbers of a row.")] = 3,
    parts: Annotated[int | None, Option(min=1, help="How many parts; 3 when not given.")] = None,
    cuts: Annotated[str | None, Option(help="The children the later parts begin with: layer4,fc.")] = None,
) -> None:
    """Show the parts in which a net is trained, one after the other."""
    built = net_factory(net, (channels, size, size))(classes, channels)
    chosen = standard_cuts(built, parts or 3) if cuts is None else convert(tuple[str, ...], cuts, "cuts")
    if parts not in (None, len(chosen) + 1):
        raise InputError(f"The cuts {cuts} make {len(chosen) + 1} parts, not {parts}: leave out --parts.")
    found = split(built, chosen)
    total = sum(parameter.numel() for parameter in built.parameters())
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("part", "begins with", "children", "parameters", "share"):
        right = column in ("parameters", "share")
        table.add_column(column, justify="right" if right else "left", no_wrap=column != "children")
    for number, part in enumerate(found, start=1):
        children = part.children(built)
        count = sum(parameter.numel() for parameter in part.parameters())
        first = chosen[number - 2] if number > 1 else children[0]
        table.add_row(str(number), first, _listed(children), f"{count:,}", percent(count / total))
    console = Console(highlight=False)
    console.print(
        f"{net}: {total:,} parameters; --cuts {','.join(chosen) or 'none'}", markup=False, soft_wrap=True
    )
    console.print(table)


def _listed(names: list[str]) -> str:
    if len(names) <= SHOWN:
        return ", ".join(names)
    return f"{names[0]}, {names[1]}, ..., {names[-1]}"
