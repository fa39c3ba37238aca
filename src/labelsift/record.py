"""What a run leaves behind when it is done: the model, the table of examples, the result."""

import platform
from datetime import UTC, datetime
from operator import itemgetter

import numpy as np
import safetensors
import torch
from torch import Tensor

import labelsift
from labelsift.config import Config
from labelsift.data import Dataset, Examples
from labelsift.data.dataset import ImageFiles
from labelsift.errors import InputError
from labelsift.estimates import transition_of
from labelsift.issues import LabelIssues, find_issues, unsteady
from labelsift.noise import realised
from labelsift.result import MODEL, PREDICTIONS, pack
from labelsift.results.store import csv_text, write_whole
from labelsift.training import Judge, Record, Run, mean_probs

ENOUGH = 20  # epochs, after which any net that can should know its mind


def write_results(
    run: Run, judge: Judge, whole: Examples, data: Dataset, config: Config, stage: str = ""
) -> None:
    """Write all of it; the result comes last, for it says that the run is finished."""
    probs = mean_probs(run.judged, whole, views=2)
    if not probs.isfinite().all():
        raise InputError("The net's predictions are no longer numbers: lower the learning rate.")
    mean, agreement = run.predictions.with_last(probs, whole.labels)
    issues = find_issues(mean, agreement, probs, whole.labels)
    if len(run.history) >= ENOUGH and (sentence := unsteady(issues)):
        run.warn(sentence)
    about = {
        "net": config.net,
        "nets": len(run.judged),
        "classes": data.classes,
        "shape": data.shape,
        "columns": data.columns,
        "mean": whole.views.mean.tolist(),
        "std": whole.views.std.tolist(),
        "crop": whole.views.size,
    }
    states = [learner.net.state_dict() for learner in run.judged]
    run.folder.write_tensors(MODEL, pack(states), about)
    run.folder.write_tensors(PREDICTIONS, {"pred_probs": mean}, {})
    write_whole(run.folder.file("examples.csv"), examples_csv(data, issues))
    if data.left_out:
        write_whole(run.folder.file("left_out.csv"), csv_text(("path", "reason"), data.left_out))
    record: Record = {"id": config.id, "classes": data.classes, "examples": len(data.labels)}
    record |= accuracies(run.history, stage)
    record["confident"] = judge.confident(issues.confident[run.examples.index], run.examples)
    record["estimated_noise"] = estimated_noise(issues.joint)
    if data.true_labels is not None:
        noisy = realised(data.labels, data.true_labels, data.num_classes)
        record["noise"] = {"rate": noisy.rate, "transition": noisy.transition.tolist()}
    record |= {
        "epochs": len(run.history),
        "seconds": sum(row["seconds"] for row in run.history),
        "times": run.times(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": run.machine.description,
        "precision": "bf16" if run.machine.autocast else "fp32",
        "captured": run.captured,
        "compiled": run.compiled,
        "versions": {
            "labelsift": labelsift.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "safetensors": safetensors.__version__,
        },
        "oracle": run.oracle,
        "warnings": [*data.notes, *run.warnings],
    }
    run.folder.finish(record)


def examples_csv(data: Dataset, issues: LabelIssues) -> str:
    """Every example with its label judged."""
    paths = data.inputs.paths if isinstance(data.inputs, ImageFiles) else data.paths
    columns = {
        "index": data.index or range(len(data.labels)),
        "path": paths or [""] * len(data.labels),
        "label": data.labels.tolist(),
        "suggested_label": issues.suggested_labels.tolist(),
        "label_quality": [f"{quality:.6g}" for quality in issues.label_quality.tolist()],
        "agreement": [f"{share:.4g}" for share in issues.agreement.tolist()],
        "confident": ["true" if confident else "false" for confident in issues.confident.tolist()],
    }
    if data.true_labels is not None:
        columns["true_label"] = data.true_labels.tolist()
    return csv_text(list(columns), zip(*columns.values(), strict=True))


def estimated_noise(joint: Tensor) -> Record:
    """The noise that given and true labels jointly show: its rate, that of each label, and the transition."""
    rates = 1 - joint.diag() / joint.sum(1).clamp(min=torch.finfo(joint.dtype).tiny)
    return {
        "rate": float(1 - joint.trace()),
        "rate_by_label": torch.where(joint.sum(1) > 0, rates, 0.0).tolist(),
        "transition": transition_of(joint).tolist(),
    }


def eligible(history: list[Record], stage: str) -> list[Record]:
    """The epochs among which the best is chosen: those of this stage, if there are any; else all."""
    return [row for row in history if row["stage"] == stage] or history


def accuracies(history: list[Record], stage: str = "") -> Record:
    """Best, last and best-on-validation accuracy by these names, of the first net and of the ensemble."""
    found: Record = {}
    counted = eligible(history, stage)
    first = [row for row in counted if row.get("net", 1) == 1]
    for prefix, rows in (("", first), ("ensemble_", counted)):
        for name in ("noisy_validation_accuracy", "clean_validation_accuracy", "test_accuracy"):
            if known := [row for row in rows if prefix + name in row]:
                best = max(known, key=itemgetter(prefix + name))
                last = known[-1][prefix + name]
                found[prefix + name] = {
                    "best": best[prefix + name],
                    "best_epoch": best["epoch"],
                    "last": last,
                }
        for kind in ("noisy_validation", "clean_validation"):
            if {f"{prefix}{kind}_accuracy", f"{prefix}test_accuracy"} <= found.keys():
                chosen = history[found[f"{prefix}{kind}_accuracy"]["best_epoch"] - 1]
                found[f"{prefix}test_accuracy"][f"best_on_{kind}"] = chosen[f"{prefix}test_accuracy"]
    return found
