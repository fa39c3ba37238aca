"""`labelsift noise`: wrong labels on purpose, as a file."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from typer import Argument, Option

from labelsift.cli.progress import percent
from labelsift.errors import InputError
from labelsift.preparation import prepare
from labelsift.results.store import csv_text, write_whole


def noise(
    data: Annotated[str, Argument(help="A data set by name (fashion-demo), or an .npz file.")],
    noise: Annotated[
        str, Option(help="symmetric:RATE, symmetric-inclusive:RATE, pair:RATE, instance:RATE or matrix=FILE.")
    ],
    out: Annotated[
        Path, Option(help="The CSV to write; a .noise.json beside it gets the realised rate and matrix.")
    ],
    seed: Annotated[int, Option(help="Decides every draw.")] = 1,
    data_dir: Annotated[str, Option(help="Where the data sets are; LABELSIFT_DATA, or data.")] = "",
) -> None:
    """Corrupt the labels of a data set; `labelsift fit --noise labels=FILE` takes them."""
    if not noise:
        raise InputError("There is no noise: write --noise symmetric:0.4, for example.")
    if not out.name:
        raise InputError(f"'{out}' is no name of a file: write --out labels.csv.")
    realised = out.with_suffix(".noise.json")
    for file in (out, realised):
        if file.exists():
            raise InputError(f"{file} exists already: choose another --out or remove it.")
    corrupted, noisy = prepare(data, noise=noise, seed=seed, data_dir=data_dir)
    assert noisy is not None
    assert corrupted.true_labels is not None
    pairs = zip(noisy.labels.tolist(), corrupted.true_labels.tolist(), strict=True)
    about = {"noise": noise, "seed": seed, "rate": noisy.rate, "transition": noisy.transition.tolist()}
    rows = [(place, label, true) for place, (label, true) in enumerate(pairs)]
    write_whole(realised, json.dumps(about, indent=2) + "\n")
    try:
        write_whole(out, csv_text(("index", "label", "true_label"), rows))
    except OSError:
        realised.unlink()
        raise
    typer.echo(f"{percent(noisy.rate)} of {len(rows):,} labels changed; transition[true, given]:")
    with np.printoptions(precision=3, suppress=True, linewidth=200, threshold=400):
        typer.echo(str(noisy.transition))
