"""`labelsift predict`: classes for new examples."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from typer import Argument, Option

from labelsift.cli.progress import percent
from labelsift.data import load_inputs
from labelsift.errors import InputError
from labelsift.result import Result
from labelsift.results.store import csv_text, write_whole


def predict(
    run: Annotated[Path, Argument(help="A finished run folder.")],
    data: Annotated[str, Argument(help="A data set by name, or an .npz file (only x is needed).")],
    out: Annotated[Path, Option(help="The CSV file to write: index, label, probability.")],
    part: Annotated[str, Option(help="Which part of the data: train or test.")] = "train",
    data_dir: Annotated[str, Option(help="Where the data sets are; LABELSIFT_DATA, or data.")] = "",
    device: Annotated[str, Option(help="auto, cpu, cuda or cuda:0.")] = "auto",
) -> None:
    """Predict the class of every example with the model of a run."""
    if out.exists():
        raise InputError(f"{out} exists already: choose another --out or remove it.")
    result = Result(run)
    inputs, labels = load_inputs(data, part, data_dir)
    probs = result.predict_checked(inputs, device)
    predicted = probs.argmax(1)
    rows = zip(range(len(probs)), predicted.tolist(), (f"{p:.6f}" for p in probs.max(1)), strict=True)
    write_whole(out, csv_text(("index", "label", "probability"), rows))
    typer.echo(f"{len(probs):,} examples predicted: {out}")
    if labels is not None and labels.shape == predicted.shape:
        names = np.array(result.classes)[predicted] if labels.dtype.kind == "U" else predicted
        typer.echo(f"{percent(float((names == labels).mean()))} agree with the labels of the data")
