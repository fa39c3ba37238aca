"""`labelsift export`: what a run found, and its model, for other tools."""

import contextlib
import io
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor, nn
from typer import Argument, Option

from labelsift.cli.issues import named
from labelsift.cli.trained import data_of
from labelsift.data import Reading
from labelsift.data.cells import ENDINGS as TABLES
from labelsift.data.table import table_without_labels
from labelsift.errors import InputError, unknown
from labelsift.nets.outside import reason
from labelsift.result import Result
from labelsift.results.export import (
    LEAST_CONFIDENCE,
    as_csv,
    as_fiftyone,
    as_label_studio,
    how_many_corrected,
)
from labelsift.results.store import write_whole

ENDINGS = {"csv": ".csv", "cleanlab": ".npz", "fiftyone": ".json", "label-studio": ".json", "onnx": ".onnx"}
CORRECTING = ("csv", "fiftyone")


def export(
    run: Annotated[Path, Argument(help="A finished run folder.")],
    to: Annotated[str, Option(help="csv, cleanlab, fiftyone, label-studio or onnx.")],
    out: Annotated[Path | None, Option(help="The file to write; a name in the run folder.")] = None,
    confidence: Annotated[
        float, Option(help="csv, fiftyone: correct a label only if it is so surely wrong.")
    ] = 0.9,
    prefix: Annotated[str, Option(help="label-studio: what images are found under, as a URL.")] = "",
) -> None:
    """Write corrected labels, probabilities or the model for other tools; given labels are always kept."""
    if to not in ENDINGS:
        raise unknown("format", to, ENDINGS)
    if not LEAST_CONFIDENCE <= confidence <= 1:
        raise InputError(
            f"The confidence {confidence:g} is outside 0.5..1: 0.9 corrects only the surest ones."
        )
    result = Result(run)
    file = out or run / f"{to}{ENDINGS[to]}"
    if file.exists():
        raise InputError(f"{file} exists already: choose another --out or remove it.")
    rows = [] if to == "onnx" else [named(result, row) for row in result.examples]
    write_whole(file, _content(result, rows, to, confidence, prefix))
    typer.echo(f"{to:15}{file}")
    if to in CORRECTING:
        typer.echo(f"{'corrected':15}{how_many_corrected(rows, confidence)}")


def _content(
    result: Result, rows: list[dict[str, Any]], to: str, confidence: float, prefix: str
) -> str | bytes:
    if to == "onnx":
        return onnx_bytes(result)
    if to == "cleanlab":
        out = io.BytesIO()
        np.savez_compressed(out, labels=result.labels, pred_probs=result.pred_probs)
        return out.getvalue()
    if to == "csv":
        return as_csv(rows, confidence, *_feature_table(result))
    found = (
        as_fiftyone(rows, result.classes, confidence) if to == "fiftyone" else as_label_studio(rows, prefix)
    )
    return json.dumps(found, indent=1)


def _feature_table(result: Result) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    """What the table of features that was trained on says of each example; nothing of other data."""
    config, file = result.config, Path(result.config.data)
    if file.suffix.lower() not in TABLES or not result.columns:
        return (), ()
    reading = Reading("", 0, config.path_column, config.label_column, config.image_dir)
    try:
        data = data_of(config, "have them")  # other features would stand beside these labels
        columns, cells = table_without_labels(file, reading)
    except InputError as error:
        typer.echo(f"labelsift: The export holds no features: {error}", err=True)
        return (), ()
    return columns, [cells[place] for place in data.index or range(len(cells))]


class Whole(nn.Module):
    """From pixels 0..255 (or rows) to class probabilities, as `predict_proba` does it."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        nets, self.views, self.shape = result.nets()
        self.nets = nn.ModuleList(nets)

    def forward(self, inputs: Tensor) -> Tensor:
        """The mean of all nets' probabilities."""
        view = self.views.plain(inputs)
        return torch.stack([net(view).softmax(1) for net in self.nets]).mean(0)


def onnx_bytes(result: Result) -> bytes:
    """The model in ONNX: `input` to `probabilities`, for any number of examples."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise InputError("ONNX needs two packages more: pip install 'labelsift[onnx]'.") from None
    model = Whole(result).eval()
    example = torch.zeros(2, *model.shape, dtype=torch.float32 if len(model.shape) == 1 else torch.uint8)
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")  # of the exporter about itself, which also talks on stderr
        try:
            program = torch.onnx.export(
                model,
                (example,),
                dynamo=True,
                input_names=["input"],
                output_names=["probabilities"],
                dynamic_shapes=({0: torch.export.Dim("examples")},),
                verbose=False,
            )
        except Exception as error:  # of a net from elsewhere, whose code may do anything
            why = reason(error.__cause__ if isinstance(error.__cause__, Exception) else error)
            raise InputError(
                f"The net {result.config.net} cannot be written as ONNX ({why}): its forward must not branch "
                "on what it computes."
            ) from None
    assert program is not None
    model_bytes: bytes = program.model_proto.SerializeToString()
    return model_bytes
