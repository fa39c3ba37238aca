"""`labelsift demo`: the main job on data that ships with the package."""

import shlex
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.table import Table
from typer import Option

from labelsift import api
from labelsift.cli.progress import Reporter, percent
from labelsift.methods import METHODS
from labelsift.noise import Noise
from labelsift.result import Result

DEMO = ("ce", "early-stopping", "pes")


def demo(
    noise: Annotated[str, Option(help="The noise that is put on the labels.")] = "symmetric:0.5",
    seed: Annotated[int, Option(help="Decides everything that is drawn.")] = 1,
    epochs: Annotated[int | None, Option(help="As for fit; the methods' default when not given.")] = None,
    device: Annotated[str, Option(help="auto, cpu, cuda or cuda:0.")] = "auto",
    out: Annotated[Path, Option(help="Where the run folders go.")] = Path("runs/demo"),
) -> None:
    """Spoil half of the labels of 6,000 clothes, then train plainly, stopped early, and with PES."""
    console = Console(highlight=False, emoji=False)
    Noise.parse(noise)  # without noise there is nothing to show
    settings = {} if epochs is None else {"epochs": epochs}
    results = {}
    for method in DEMO:
        folder = out / f"{method}-{noise.replace(':', '-').replace('/', '-')}-seed{seed}"
        with Reporter() as reporter:
            results[method] = api.fit(
                "fashion-demo",
                method=method,
                noise=noise,
                seed=seed,
                settings=settings,
                device=device,
                out=folder,
                resume=True,
                observe=reporter,
            )
    console.print(f"\nfashion-demo with {noise} noise; test labels were used for nothing but this table\n")
    console.print(accuracy_table(results))
    console.print("\nThe ten most suspicious labels, as PES sees them\n")
    console.print(suspicious_table(results["pes"]))
    console.print("\nrun folders (config, history, model, every example's label judged):")
    for result in results.values():
        console.print(f"  {shlex.quote(str(result.folder))}", markup=False, soft_wrap=True)


def accuracy_table(results: dict[str, Result]) -> Table:
    """One row per method: how good, how trustworthy the confident examples, how long."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("method", no_wrap=True)
    for column in ("test best", "test last", "precision", "recall", "seconds"):
        table.add_column(column, justify="right", no_wrap=True)
    for method, result in results.items():
        confident = result.record["confident"]
        shares = [*(result.test_accuracy[key] for key in ("best", "last"))]
        shares += [confident.get(f"confident_{key}", 0.0) for key in ("precision", "recall")]
        table.add_row(METHODS[method].name, *map(percent, shares), f"{result.record['seconds']:.0f}")
    return table


def suspicious_table(result: Result) -> Table:
    """The labels the net trusts least, with what it would say."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("example", "given label", "suggested", "true"):
        table.add_column(column, no_wrap=True)
    for row in result.suspicious(10):
        names = [result.classes[int(row[key])] for key in ("label", "suggested_label", "true_label")]
        table.add_row(row["index"], *names)
    return table
