"""What was found about labels, in the formats of other tools. Every one keeps the label as it was given."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from labelsift.errors import InputError
from labelsift.results.store import csv_text

Row = Mapping[str, Any]
CORRECTED = "corrected_label"  # the column of an export that is trained on, by names of classes
OURS = (CORRECTED, "label_quality", "changed")  # which must not be mixed up with features
LEAST_CONFIDENCE = 0.5  # the confidence that corrects every doubtful label


def corrected(row: Row, confidence: float) -> str:
    """The label that is suggested, where it is more than `confidence` sure that the given one is wrong."""
    return str(row["suggested_label"] if 1 - row["label_quality"] >= confidence else row["label"])


def how_many_corrected(rows: Sequence[Row], confidence: float) -> str:
    """How many of the doubtful labels are corrected, in words."""
    doubtful = sum(row["suggested_label"] != row["label"] for row in rows)
    count = sum(corrected(row, confidence) != row["label"] for row in rows)
    said = f"{count:,} of {doubtful:,} doubtful labels (--confidence {confidence:g})"
    return said if count == doubtful else f"{said}; --confidence {LEAST_CONFIDENCE:g} corrects all"


def as_csv(
    rows: Sequence[Row],
    confidence: float,
    columns: Sequence[str] = (),
    cells: Sequence[Sequence[object]] = (),
) -> str:
    """A table: given and corrected label side by side, and beside them what else is known of each example."""
    ours: dict[str, list[object]] = {
        "index": [row["index"] for row in rows],
        "path": [row["path"] for row in rows],
        "label": [row["label"] for row in rows],
        CORRECTED: [corrected(row, confidence) for row in rows],
        "label_quality": [f"{row['label_quality']:.6g}" for row in rows],
        "changed": [str(corrected(row, confidence) != row["label"]).lower() for row in rows],
    }
    if not any(ours["path"]):
        del ours["path"]
    if twice := [name for name in columns if name in OURS]:
        raise InputError(
            f"The table has a column '{twice[0]}' as the export has: rename it in the table, and fit again."
        )
    if "index" in columns:  # the table's own stays
        del ours["index"]
    rest = {name: [row[at] for row in cells] for at, name in enumerate(columns) if name not in ours}
    return csv_text([*ours, *rest], zip(*ours.values(), *rest.values(), strict=True))


def as_fiftyone(rows: Sequence[Row], classes: Sequence[str], confidence: float) -> dict[str, Any]:
    """`labels.json` of FiftyOne's image classification format; keys are paths without their endings."""
    place = {name: number for number, name in enumerate(classes)}
    labels = {}
    for row in rows:
        path = PurePosixPath(row["path"] or str(row["index"]))
        about = {"given_label": row["label"], "suggested_label": row["suggested_label"]}
        name = str(path.with_suffix(""))
        if name in labels:
            raise InputError(
                f"Two images are {name} without their endings, as FiftyOne knows them: rename one and fit "
                "again, or use --to csv."
            )
        labels[name] = {
            "label": place[corrected(row, confidence)],
            "attributes": {**about, "label_quality": row["label_quality"]},
        }
    return {"classes": list(classes), "labels": labels}


def as_label_studio(rows: Sequence[Row], prefix: str) -> list[dict[str, Any]]:
    """Tasks of Label Studio: the given label as the annotation, ours as a prediction to compare it with."""

    def address(row: Row) -> str:
        path = str(row["path"] or row["index"])
        return prefix + quote(path) if prefix else path

    def choice(name: str) -> list[dict[str, Any]]:
        value = {"choices": [name]}
        return [{"from_name": "label", "to_name": "image", "type": "choices", "value": value}]

    return [
        {
            "data": {
                "image": address(row),
                "given_label": row["label"],
                "label_quality": row["label_quality"],
            },
            "annotations": [{"result": choice(row["label"])}],
            "predictions": [
                {
                    "model_version": "labelsift",
                    "score": 1 - row["label_quality"] if row["suggested_label"] != row["label"] else 0.0,
                    "result": choice(row["suggested_label"]),
                }
            ],
        }
        for row in rows
    ]
