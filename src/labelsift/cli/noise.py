"""`labelsift noise`: wrong labels on purpose, as a file."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from typer import Argument, Option

from labelsift.api import prepare
from labelsift.cli.progress import percent
from labelsift.errors import InputError
from labelsift.results.store import csv_text, write_whole


def noise(
    data: Annotated[str, Argument(help="A data set by name (fashion-demo), or an .npz file.")],
    noise: Annotated[
        str, Option(help="symmetric:RATE, symmetric-inclusive:RATE, pair:RATE, instance:RATE or matrix=FILE.")
    ],
    out: Annotated[
        Path, Option(help="The CSV to write; a .json beside it gets the realised rate and matrix.")
    ],
    seed: Annotated[int, Option(help="Decides every draw.")] = 1,
) -> None:
    """Corrupt the labels of a data set; `labelsift fit --noise labels=FILE` takes them."""
    realised = out.with_suffix(".json")
    for file in (out, realised):
        if file.exists():
            raise InputError(f"{file} exists already: choose another --out or remove it.")
    corrupted, noisy = prepare(data, noise=noise, seed=seed)
    assert noisy is not None
    assert corrupted.true_labels is not None
    pairs = zip(noisy.labels.tolist(), corrupted.true_labels.tolist(), strict=True)
    about = {"noise": noise, "seed": seed, "rate": noisy.rate, "transition": noisy.transition.tolist()}
    rows = [(place, label, true) for place, (label, true) in enumerate(pairs)]
    write_whole(out, csv_text(("index", "label", "true_label"), rows))
    write_whole(realised, json.dumps(about, indent=2) + "\n")
    typer.echo(f"{percent(noisy.rate)} of {len(rows):,} labels changed; transition[true, given]:")
    with np.printoptions(precision=3, suppress=True, linewidth=200, threshold=400):
        typer.echo(str(noisy.transition))
