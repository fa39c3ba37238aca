"""`labelsift predict`: classes for new examples."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer import Argument, Option

from labelsift.cli.progress import Reporter, percent
from labelsift.data import DATASETS, load_inputs
from labelsift.data.download import unobserved
from labelsift.data.folder import find_images
from labelsift.data.listing import in_columns, reporter, shown, written
from labelsift.data.table import ENDINGS
from labelsift.errors import InputError, unknown
from labelsift.result import Result
from labelsift.results.store import csv_text, write_whole

FORMATS = ("csv", "json")


def predict(
    run: Annotated[Path, Argument(help="A finished run folder.")],
    files: Annotated[
        list[str],
        Argument(
            help="Images and folders of images; or a data set by name, an .npz file or a feature table."
        ),
    ],
    out: Annotated[Path | None, Option(help="The file to write; printed when not given.")] = None,
    format: Annotated[str, Option(help="csv or json.")] = "csv",
    part: Annotated[str, Option(help="Which part of a data set: train or test.")] = "train",
    data_dir: Annotated[str, Option(help="Where the data sets are; LABELSIFT_DATA, or data.")] = "",
    device: Annotated[str, Option(help="auto, cpu, cuda or cuda:0.")] = "auto",
) -> None:
    """Predict the class of every image or example with the model of a run."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    if out is not None and out.exists():
        raise InputError(f"{out} exists already: choose another --out or remove it.")
    result = Result(run)
    if len(files) == 1 and (files[0] in DATASETS or Path(files[0]).suffix.lower() in (".npz", *ENDINGS)):
        _predict_data(result, files[0], part, data_dir, device, out, format)
    else:
        _predict_files(result, files, device, out, format)


def _predict_data(
    result: Result, data: str, part: str, data_dir: str, device: str, out: Path | None, format: str
) -> None:
    known = result.columns
    inputs, labels, columns = load_inputs(data, part, data_dir, known)
    if columns and known:
        inputs = in_columns(inputs, columns, data, known, str(result.folder))
    probs = result.predict_checked(inputs, device)
    predicted = probs.argmax(1)
    names = [result.classes[label] for label in predicted.tolist()]
    rows = list(zip(range(len(probs)), names, probs.max(1).tolist(), strict=True))
    _write(("index", "label", "probability"), rows, out, format)
    typer.echo(f"{len(probs):,} examples predicted{_where(out)}", err=out is None)
    if labels is not None and labels.shape == predicted.shape:
        share = float((np.array(names) == labels if labels.dtype.kind == "U" else predicted == labels).mean())
        typer.echo(f"{percent(share)} agree with the labels of the data", err=out is None)


def _predict_files(result: Result, files: list[str], device: str, out: Path | None, format: str) -> None:
    images, wrong = _images(files)
    with Reporter(stderr=True) as bar:
        observe = bar if bar.console.is_terminal else unobserved  # its last word is said below
        report = reporter(observe, str(result.folder), "predicted")
        probs, unreadable = result.predict_files(images, device, report)
    if len(unreadable) == len(images):
        raise InputError(f"No image can be read, such as {shown(images[0])} ({unreadable[0]}).")
    wrong += [(images[place], what) for place, what in sorted(unreadable.items())]
    for path, what in wrong:
        typer.echo(f"note: {shown(path)} is left out ({what})", err=True)
    labels, sure = probs.argmax(1).tolist(), probs.max(1).tolist()
    kept = [place for place in range(len(images)) if place not in unreadable]
    rows = [(written(images[place]), result.classes[labels[place]], sure[place]) for place in kept]
    _write(("path", "label", "probability"), rows, out, format)
    typer.echo(f"{len(rows):,} image{'s' if len(rows) != 1 else ''} predicted{_where(out)}", err=True)


def _images(files: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The files that are named, and the images in the folders that are."""
    images, wrong = [], []
    for name in files:
        path = Path(name)
        if path.is_dir():
            found = find_images(path)
            images += [str(path / image) for image in found.images]
            wrong += [(str(path / image), what) for image, what in found.left_out]
        elif not path.exists():
            raise InputError(f"There is no file {shown(name)}.")
        else:
            images.append(name)
    if not images:
        raise InputError(f"There are no images in {', '.join(map(shown, files[:3]))}: give some.")
    return images, wrong


def _write(columns: Sequence[str], rows: list[tuple[Any, ...]], out: Path | None, format: str) -> None:
    if format == "csv":
        text = csv_text(columns, [(*row[:-1], f"{row[-1]:.6f}") for row in rows])
    else:
        text = json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=1) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text)


def _where(out: Path | None) -> str:
    return "" if out is None else f": {out}"
