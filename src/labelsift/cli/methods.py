"""`labelsift methods`: what there is to choose from, and every knob of it."""

import dataclasses
from typing import Annotated

from rich.console import Console
from rich.table import Table
from typer import Argument

from labelsift.methods import METHODS, method_class


def methods(
    name: Annotated[str | None, Argument(help="A method, to see all its hyper-parameters.")] = None,
) -> None:
    """List the methods, or the hyper-parameters of one."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    if name is None:
        table.add_column("method", no_wrap=True)
        table.add_column("what it does")
        for known, cls in METHODS.items():
            table.add_row(known, cls.summary + (f" ({cls.citation})" if cls.citation else ""))
        console.print(table)
        return
    cls = method_class(name)
    console.print(
        f"{cls.name}: {cls.summary}" + (f" ({cls.citation})" if cls.citation else "") + "\n", markup=False
    )
    for column in ("setting", "default", "symbol", "meaning"):
        table.add_column(column, no_wrap=column != "meaning")
    for field in dataclasses.fields(cls):
        about = field.metadata
        table.add_row(field.name, _written(field.default), about["symbol"], about["meaning"])
    console.print(table)
    if cls.paper:
        console.print("\nThe paper's settings, taken for these data sets and nets:")
    for (data, *others), values in cls.paper.items():
        words = ", ".join(f"{key} {_written(value)}" for key, value in values.items())
        console.print(f"  {data} with {', '.join(others)}: {words}", markup=False)


def _written(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_written, value)) or "none"
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
