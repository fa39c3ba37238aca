"""`labelsift report`: one run as an HTML page."""

import dataclasses
import io
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from PIL import Image
from typer import Argument, Option

from labelsift.cli.issues import doubtful, estimate, named
from labelsift.cli.progress import clock, percent
from labelsift.cli.trained import data_of
from labelsift.config import Config, in_words
from labelsift.data.dataset import ImageFiles
from labelsift.errors import InputError
from labelsift.result import Result
from labelsift.results.report import CLEAN, report_page
from labelsift.results.store import write_whole

LARGEST = 160  # pixels of a picture's side on the page ...
SMALL = 64  # ... and up to which none is lost

Picture = Callable[[int], bytes | None]


def report(
    run: Annotated[Path, Argument(help="A finished run folder.")],
    out: Annotated[Path | None, Option(help="The page to write; report.html in the run folder.")] = None,
    data_dir: Annotated[str, Option(help="Where the data sets are; LABELSIFT_DATA, or data.")] = "",
) -> None:
    """Write one HTML page about a run: how it went, and the labels that look wrong, with pictures."""
    if out is not None and out.exists():
        raise InputError(f"{out} exists already: choose another --out or remove it.")
    typer.echo(f"report         {write_report(Result(run), data_dir, out)}")


def write_report(result: Result, data_dir: str = "", out: Path | None = None) -> Path:
    """Write the page; by default into the run's folder."""
    file = out or result.folder / "report.html"
    try:
        picture = pictures(result.config, data_dir)
    except InputError as error:
        if file.is_file() and b"<img" in file.read_bytes():  # which no other page could make up for
            raise InputError(
                f"{file} stays as it is, for a new one would have no pictures: {error}"
            ) from None
        typer.echo(f"labelsift: The page has no pictures: {error}", err=True)
        picture = nothing
    write_whole(file, page(result, picture))
    return file


def page(result: Result, picture: Picture) -> str:
    """The page's text."""
    config, record = result.config, result.record
    found, noise = doubtful(result, 0.5), estimate(result)
    place = {int(row["index"]): at for at, row in enumerate(result.examples)}  # among what was trained on
    history = [
        {**row, "confident_share": row["confident"] / record["examples"]} if "confident" in row else row
        for row in result.history
    ]
    good = [row for row in result.examples if float(row["label_quality"]) >= 0.5]
    good.sort(key=lambda row: -float(row["label_quality"]))
    matrix = np.zeros((len(result.classes), len(result.classes)), dtype=int)
    np.add.at(matrix, (result.labels, result.suggested_labels), 1)
    sentence = f"{len(found):,} of {len(result.examples):,} labels are doubtful; estimated noise "
    sentence += f"{percent(noise['rate'])}"
    if result.test_accuracy:
        sentence += f". Test accuracy: {percent(result.test_accuracy['last'])} at the end"
        sentence += f", {percent(result.test_accuracy['best'])} at best"
    return report_page(
        title=f"{Path(config.data).resolve().name}: labels and model",  # also of the folder one is in
        history=history,
        classes=result.classes,
        doubtful=found,
        clean=[named(result, row) for row in good[:: max(1, len(good) // (4 * CLEAN))][:CLEAN]],
        matrix=matrix.tolist(),
        facts=facts(result, noise),
        command=command(config),
        sentence=f"{sentence}.",
        notes=result.record["warnings"],
        picture=lambda index: picture(place[index]),
    )


def facts(result: Result, noise: dict[str, Any]) -> dict[str, str]:
    """What a reader may want to know about the run."""
    config, record = result.config, result.record
    found = {
        "method": f"{config.method}, {record['epochs']} epochs",
        "net": f"{config.net}" + (f", {config.nets} of them" if config.nets > 1 else ""),
        "data": f"{config.data}, fingerprint {config.fingerprint}",
        "noise put on the labels": config.noise,
        "estimated noise": percent(noise["rate"]),
        "true noise": percent(noise["true_rate"]) if "true_rate" in noise else "",
        "hardware": f"{record['device']}, {record['precision']}",
        "time": f"{clock(record['seconds'])} of training, finished {record['finished']}",
        "versions": ", ".join(f"{name} {version}" for name, version in record["versions"].items()),
    }
    return {name: text for name, text in found.items() if text}


def command(config: Config) -> str:
    """The command that does this run again. It says all that `fit` may choose otherwise another time."""
    words = ["labelsift", "fit", config.data]
    for field in dataclasses.fields(config):
        value, apart = getattr(config, field.name), ("data", "fingerprint", "weights_fingerprint", "settings")
        if field.name not in apart and (value != field.default or field.name == "augment"):
            words += [f"--{field.name.replace('_', '-')}", str(value)]
    for name, value in config.settings.items():
        text = in_words(value)
        words += ["--set", f"{name}={text.lower() if isinstance(value, bool) else text}"]
    return shlex.join(words)


def pictures(config: Config, data_dir: str = "") -> Picture:
    """How to get the picture of an example as PNG; a larger one as JPEG, which takes far less of a page."""
    data = data_of(config, "see it", data_dir)  # other pictures would stand beside these labels
    inputs = data.inputs
    if len(data.shape) == 1:
        return nothing

    def picture(index: int) -> bytes | None:
        if isinstance(inputs, ImageFiles):
            with Image.open(inputs.folder / inputs.paths[index]) as opened:
                image = opened.convert("RGB")
        else:
            pixels = np.moveaxis(np.asarray(inputs[index]), 0, -1)
            image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] in (1, 2) else pixels[..., :3])
        image.thumbnail((LARGEST, LARGEST))
        out = io.BytesIO()
        if max(image.size) <= SMALL:
            image.save(out, "PNG")
        else:
            image.save(out, "JPEG", quality=85)
        return out.getvalue()

    return picture


def nothing(index: int) -> bytes | None:
    """No picture: rows of numbers, or data that is not here."""
    return None
