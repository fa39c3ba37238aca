"""How fast every method trains: seconds an epoch, images a second, memory, warm-up, share of the matrix peak.

    python benchmarks/speed.py --out speed.json                     # all methods on CIFAR-10's shapes
    python benchmarks/speed.py --methods pes,ce --compare old.json  # fails on a loss of more than 10 %
    python benchmarks/speed.py --growth                             # more images, more classes
    python benchmarks/speed.py --techniques                         # what each part of the fast path brings

A file that `--out` names is gone on with: cases that it has are not measured again.

The images are made up: easy patterns, half of the labels wrong. An epoch's time, evaluation included, is the
median of those after the first of its stage, in which nets are compiled and steps captured; what the first
took longer is the warm-up. Selection (two random views of all) and evaluation are timed on their own as well.
"""

import argparse
import gc
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

import labelsift
from labelsift.methods import METHODS, Method, make_method
from labelsift.nets import blueprint
from labelsift.preparation import make_examples
from labelsift.results.store import write_whole
from labelsift.training import Learner, Machine

EPOCHS = 4  # of the last stage; the first one warms up
LOW = 0.01  # learning rate: at the paper's some nets diverge on these patterns
LOSS = 1.1  # times slower, and --compare fails
NETS = {"pes": "resnet18", "ce": "resnet18", "early-stopping": "resnet18"}
TABLE_2 = ("co-teaching", "forward", "joint-optim", "t-revision", "dmi", "cdr", "elr")


@dataclass(frozen=True)
class Case:
    """What is timed: a method with a net on data of a shape."""

    method: str
    net: str
    images: int = 45_000
    classes: int = 10
    size: int = 32
    compile: bool = True
    capture: bool = True
    precision: str = "bf16"

    @property
    def name(self) -> str:
        """What it is called in tables and comparisons."""
        words = [self.method, self.net, f"{self.images:,} x {self.size}", f"{self.classes} classes"]
        words += [word for word in ("compile", "capture") if getattr(self, word)]
        return " ".join([*words, self.precision])


def main() -> None:
    """Measure, print, write and compare."""
    parser = argparse.ArgumentParser(description="How fast every method trains.")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--images", type=int, default=45_000)
    parser.add_argument("--net", help="instead of the one that the paper trains the method with")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument(
        "--growth", action="store_true", help="pes with 10k to 45k images, 10 to 1000 classes"
    )
    parser.add_argument("--techniques", action="store_true", help="ce: eager, bf16, captured, compiled")
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers, gone on with where it exists")
    parser.add_argument("--compare", type=Path, help="such a file of another day")
    options = parser.parse_args()
    machine = Machine.choose(options.device)
    old = json.loads(options.compare.read_text()) if options.compare else None
    record: dict[str, Any] = {
        "device": machine.description,
        "torch": torch.__version__,
        "labelsift": labelsift.__version__,
        "matrix_peak_tflops": matrix_peak(machine) / 1e12,
        "cases": [],
    }
    if options.out and options.out.exists():
        record["cases"] = measured(options.out, record)["cases"]
    done = {row["name"] for row in record["cases"]}
    say(f"{record['device']}, {record['matrix_peak_tflops']:.1f} TFLOP/s in a matrix product")
    for case in cases(options, machine):
        if case.name in done:
            continue
        # Of growing data the first stage is timed too, and runs as it does in a whole run of PES.
        row = measure(case, options.device, record["matrix_peak_tflops"] * 1e12, last_stage=options.growth)
        record["cases"].append(row)
        say(line(row))
        if options.out:
            write_whole(options.out, json.dumps(record, indent=1) + "\n")
    if old and (slower := compare(old, record)):
        sys.exit("\n".join(slower))


def measured(
    file: Path, record: dict[str, Any], alike: Sequence[str] = ("device", "torch")
) -> dict[str, Any]:
    """What stands in a file that is gone on with, all of it measured alike."""
    before: dict[str, Any] = json.loads(file.read_text())
    for key in alike:
        if before[key] != record[key]:
            sys.exit(
                f"{file} was measured with {before[key]}, here is {record[key]}: "
                f"choose another --out for another {key}."
            )
    return before


def cases(options: argparse.Namespace, machine: Machine) -> Iterator[Case]:
    """What was asked for."""
    precision = ("bf16" if machine.cuda else "fp32") if options.precision == "auto" else options.precision
    common = {"images": options.images, "precision": precision}
    common |= {} if machine.cuda else {"compile": False, "capture": False}
    if options.techniques:
        net = options.net or "resnet18"
        yield Case("ce", net, options.images, compile=False, capture=False, precision="fp32")
        captured = ((False, True), (True, True)) if machine.cuda else ()  # there are no graphs on a CPU
        for compile, capture in ((False, False), (True, False), *captured):
            yield Case("ce", net, options.images, compile=compile, capture=capture, precision="bf16")
        return
    if options.growth:
        net = options.net or "resnet18"
        for share in (10_000 / 45_000, 20_000 / 45_000, 1):
            yield Case("pes", net, **{**common, "images": round(options.images * share)})
        for classes in (100, 1000):
            yield Case("pes", net, **common, classes=classes)
        return
    for method in options.methods.split(","):
        plain = "resnet18" if method in TABLE_2 else "preact-resnet18"
        yield Case(method, options.net or NETS.get(method, plain), **common)


def settings(case: Case) -> dict[str, Any]:
    """The paper's settings for CIFAR-10, with so few epochs that every stage is warm at its end."""
    method = make_method(case.method, "cifar10", case.net, "", {})
    short: dict[str, Any] = {"epochs": EPOCHS, "lr": LOW}
    if hasattr(method, "stage_epochs"):
        short |= {"epochs": 2 + EPOCHS, "stage_epochs": (2, *(2 for _ in method.stage_epochs[1:]))}
    for field, value in asdict(method).items():  # warm-ups and first stages of other methods
        if field.endswith("_epochs") and field not in short and isinstance(value, int) and value > 2:
            short[field] = 2
    return {**asdict(method), **short}


def measure(case: Case, device: str, peak: float, last_stage: bool = False) -> dict[str, Any]:
    """Train for a few epochs and time them."""
    data = easy_data(case)
    method = METHODS[case.method](**settings(case))
    machine = machine_of(case, device)
    if machine.cuda:  # of this case alone
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(machine.device)
    begin = time.perf_counter()
    history = run(case, data, method, device, last_stage=last_stage)
    whole = time.perf_counter() - begin
    memory = torch.cuda.max_memory_reserved(machine.device) if machine.cuda else 0
    stage = [row["seconds"] for row in history if row["stage"] == history[-1]["stage"]]
    epoch = statistics.median(stage[1:] or stage)
    selection, evaluation = prediction_seconds(case, data, device)
    flops = flops_per_image(case, device)
    return {
        **asdict(case),
        "name": case.name,
        "stage": history[-1]["stage"],
        "epoch_seconds": epoch,
        "selection_seconds": selection,
        "evaluation_seconds": evaluation,
        "images_per_second": case.images / epoch,
        "share_of_peak": flops * case.images / epoch / peak,
        "warm_up_seconds": whole - warm(history),
        "stages": {row["stage"]: row["seconds"] for row in history},  # the last epoch of each
        "peak_memory_gib": memory / 2**30,
    }


def warm(history: list[dict[str, Any]]) -> float:
    """What the epochs would have taken, had each been as quick as the last one of its stage."""
    last = {row["stage"]: row["seconds"] for row in history}
    return sum(last[row["stage"]] for row in history)


def easy_data(case: Case) -> labelsift.Dataset:
    """Images of easy patterns with half of the labels wrong, so that half of them are confident soon.

    Two test images for nine to train on, as in the paper's protocol for CIFAR-10.
    """
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 120, (case.classes, case.size, case.size, 3), dtype=np.uint8)

    def part(count: int) -> tuple[Any, Any]:
        y = np.arange(count) % case.classes
        return rng.integers(0, 135, (count, case.size, case.size, 3), dtype=np.uint8) + patterns[y], y

    x, y = part(case.images)
    noisy = np.where(rng.random(len(y)) < 0.5, rng.integers(0, case.classes, len(y)), y)
    test_x, test_y = part(max(round(2 / 9 * case.images), case.classes))
    return labelsift.make_dataset("patterns", x, noisy, y, test_x, test_y)


def machine_of(case: Case, device: str) -> Machine:
    """The device, with those techniques that the case is about."""
    machine = Machine.choose(device, precision=case.precision)
    return replace(machine, compile=case.compile, compile_work=0, capture=case.capture)


def run(
    case: Case,
    data: labelsift.Dataset,
    method: Method,
    device: str,
    observe: Callable[[Any], None] = lambda event: None,
    last_stage: bool = False,
) -> list[dict[str, Any]]:
    """The history of a run whose folder nobody needs; perhaps of its `last_stage` alone nets are compiled."""
    machine = machine_of(case, device)
    if last_stage:  # which has more epochs than the others
        machine = replace(machine, compile_work=EPOCHS * math.prod(np.shape(data.inputs)))
    with tempfile.TemporaryDirectory() as folder, patch.object(Machine, "choose", lambda *_: machine):
        result = labelsift.fit(
            data,
            method=method,
            net=case.net,
            augment="crop+flip",
            out=Path(folder) / "run",
            checkpoint_seconds=math.inf,
            observe=observe,
        )
        for warning in result.record["warnings"]:
            say(f"{case.name}: {warning}")
        return result.history


def prediction_seconds(case: Case, data: labelsift.Dataset, device: str) -> tuple[float, float]:
    """Seconds of a selection with two views, and of an evaluation, both warm."""
    machine = machine_of(case, device)
    with machine.seeded(0):
        examples, judge = make_examples(data, "crop+flip", 0, machine)
        learner = Learner(blueprint(case.net, case.classes, data.shape), machine)
        learner.begin(learner.sgd(0.1, 0.9, 0))
        test = judge.test or examples
        return (
            warm_seconds(lambda: learner.pred_probs(examples, views=2), machine),
            warm_seconds(lambda: learner.pred_probs(test), machine),
        )


def warm_seconds(work: Callable[[], Any], machine: Machine) -> float:
    """The median of three times after a first one."""
    times = []
    for _ in range(4):
        wait(machine)
        begin = time.perf_counter()
        work()
        wait(machine)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def flops_per_image(case: Case, device: str) -> float:
    """Floating-point operations that an epoch of the last stage takes for each image, counted eagerly."""
    method = METHODS[case.method](**settings(case))
    images = 9 * max(method.batch_size, case.classes)
    eager = Case(**{**asdict(case), "images": images, "compile": False, "capture": False})
    counts = [0]

    def note(event: Any) -> None:
        if "epoch" in event:
            counts.append(counter.get_total_flops())

    with FlopCounterMode(display=False) as counter:
        run(eager, easy_data(eager), method, device, note)
    return (counts[-1] - counts[-2]) / images


def matrix_peak(machine: Machine) -> float:
    """Operations a second in a large matrix product."""
    size, kind = (8192, torch.bfloat16) if machine.cuda else (1024, torch.float32)
    a = torch.randn(size, size, device=machine.device, dtype=kind)
    return 2 * size**3 / warm_seconds(lambda: a @ a, machine)


def wait(machine: Machine) -> None:
    """For the device to be done."""
    if machine.cuda:
        torch.cuda.synchronize(machine.device)


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What has become slower by more than a tenth; or that there was nothing to compare with."""
    before = {row["name"]: row["epoch_seconds"] for row in old["cases"]}
    if old.get("device") != new.get("device"):
        return [f"Nothing was compared: the other file is of {old.get('device')}."]
    if not any(row["name"] in before for row in new["cases"]):
        return ["Nothing was compared: the other file has none of these cases."]
    return [
        f"{row['name']}: {row['epoch_seconds']:.3f} s an epoch, {before[row['name']]:.3f} s before"
        for row in new["cases"]
        if row["name"] in before and row["epoch_seconds"] > LOSS * before[row["name"]]
    ]


def line(row: dict[str, Any]) -> str:
    """A case in a line."""
    return (
        f"{row['name']:60} {row['epoch_seconds']:8.3f} s an epoch ({row['stage']}), selection "
        f"{row['selection_seconds']:.3f}, evaluation {row['evaluation_seconds']:.3f}, "
        f"{row['images_per_second']:,.0f} images/s, {row['share_of_peak']:.1%} of the peak, "
        f"{row['peak_memory_gib']:.1f} GiB, warm-up {row['warm_up_seconds']:.1f} s"
    )


def say(text: str) -> None:
    """To whoever watches."""
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
