"""`labelsift predict`: classes for new examples."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from typer import Argument, Option

from labelsift.cli.progress import Reporter, percent
from labelsift.data import DATASETS, Reading, load_inputs
from labelsift.data.cells import ENDINGS
from labelsift.data.download import unobserved
from labelsift.data.folder import find_images
from labelsift.data.listing import Listing, Wrong, in_columns, reporter, shown, written
from labelsift.data.npz import is_npz
from labelsift.errors import InputError, unknown
from labelsift.result import Result
from labelsift.results.store import csv_text, write_whole

FORMATS = ("csv", "json")


def predict(
    run: Annotated[Path, Argument(help="A finished run folder.")],
    files: Annotated[
        list[str],
        Argument(
            help="Images and folders of images; or a data set by name, an .npz file, or a table of paths or "
            "features."
        ),
    ],
    out: Annotated[Path | None, Option(help="The file to write; printed when not given.")] = None,
    format: Annotated[str, Option(help="csv or json.")] = "csv",
    part: Annotated[str, Option(help="Which part of a data set: train or test.")] = "train",
    path_column: Annotated[str, Option(help="The column of a table that names the images.")] = "",
    label_column: Annotated[
        str, Option(help="The column of a table whose labels predictions are compared with.")
    ] = "",
    image_dir: Annotated[
        str, Option(help="The folder that the images of a table are in; its own when not given.")
    ] = "",
    data_dir: Annotated[str, Option(help="Where the data sets are; LABELSIFT_DATA, or data.")] = "",
    device: Annotated[str, Option(help="auto, cpu, cuda or cuda:0.")] = "auto",
) -> None:
    """Predict the class of every image or example with the model of a run."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    if out is not None and out.exists():
        raise InputError(f"{out} exists already: choose another --out or remove it.")
    result = Result(run)
    reading, labels = Reading("", 0, path_column, label_column, image_dir), None
    first = files[0]
    if len(files) == 1 and (first in DATASETS or is_npz(first) or Path(first).suffix.lower() in ENDINGS):
        known = result.columns
        inputs, labels, columns = load_inputs(files[0], part, data_dir, known, reading)
        if columns and known:
            inputs = in_columns(inputs, columns, files[0], known, str(result.folder))
    else:
        reading.only(files[0])
        if part != "train":
            raise InputError(f"{shown(files[0])} has no {shown(part)} part: leave out --part {shown(part)}.")
        inputs = _images(files)
    called: list[Any]
    if images := isinstance(inputs, Listing):
        called, labels, probs = _of_images(result, inputs, labels, device)
    else:
        probs = result.predict_checked(inputs, device)
        called = list(range(len(probs)))
    names = [result.classes[label] for label in probs.argmax(1).tolist()]
    rows = list(zip(called, names, probs.max(1).tolist(), strict=True))
    _write(("path" if images else "index", "label", "probability"), rows, out, format)
    what = f"{'image' if images else 'example'}{'s' if len(rows) != 1 else ''}"
    for line in (f"{len(rows):,} {what} predicted{_where(out)}", *_agreement(names, labels, result.classes)):
        typer.echo(line, err=images or out is None)


def _of_images(
    result: Result, images: Listing, labels: NDArray[np.str_] | None, device: str
) -> tuple[list[str], NDArray[np.str_] | None, NDArray[np.float32]]:
    """What the images are called that can be read, their labels where these are known, and probabilities."""
    with Reporter(stderr=True) as bar:
        observe = bar if bar.console.is_terminal else unobserved  # its last word is said in the end
        report = reporter(observe, str(result.folder), "predicted")
        probs, unreadable = result.predict_files([str(file) for file in images.sources], device, report)
    if len(unreadable) == len(images.paths):
        raise InputError(f"No image can be read, such as {shown(images.paths[0])} ({unreadable[0]}).")
    wrong = [(images.paths[place], what) for place, what in sorted(unreadable.items())]
    for path, what in (*images.left_out, *wrong):
        typer.echo(f"note: {shown(path)} is left out ({what})", err=True)
    kept = [place for place in range(len(images.paths)) if place not in unreadable]
    called = [written(images.paths[place]) for place in kept]
    return called, None if labels is None else labels[kept], probs[kept]


def _agreement(names: list[str], labels: NDArray[np.str_] | None, classes: Sequence[str]) -> list[str]:
    """How often predictions are the labels of the data, as far as the model has classes of such names."""
    if labels is None or len(labels) != len(names):
        return []
    known = np.isin(labels, classes)
    if not known.any():
        return []
    share = percent(float((np.array(names) == labels)[known].mean()))
    if known.all():
        return [f"{share} agree with the labels of the data"]
    return [f"{share} agree with the {known.sum():,} labels of the data that are classes of the model"]


def _images(files: list[str]) -> Listing:
    """The files that are named, and the images in the folders that are."""
    images: list[str] = []
    wrong: list[Wrong] = []
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
    return Listing(files[0], images, (), sources=images, left_out=tuple(wrong))


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
