"""Where the time of an epoch goes, kernel by kernel, read from a trace of its last stage.

    python benchmarks/kernels.py --methods ce,pes-semi --out kernels.json

The epoch before the last is traced: nets are compiled and steps captured by then. Beside each kernel stands
how often it ran; what is left over is time in which the GPU had nothing to do.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from speed import Case, cases, easy_data, run, say, settings
from torch.profiler import ProfilerActivity, profile

import labelsift
from labelsift.methods import METHODS
from labelsift.results.store import write_whole
from labelsift.training import Machine

KINDS = {  # words in the names of kernels, tried in this order
    "compiled: norms, activations, casts": ("triton",),  # whatever they are fused with is in their names
    "optimiser": ("multi_tensor", "fused_sgd", "fused_adam"),
    "convolution": ("conv", "xmma", "cudnn", "nchwToNhwc", "nhwcToNchw", "wgrad", "dgrad", "sm90", "sm80"),
    "matrix product": ("gemm", "cutlass", "splitK", "nvjet"),
    "copies": ("memcpy", "memset"),
}


def main() -> None:
    """Trace, print and write."""
    parser = argparse.ArgumentParser(description="Where the time of an epoch goes, kernel by kernel.")
    parser.add_argument("--methods", default="ce,pes-semi")
    parser.add_argument("--images", type=int, default=45_000)
    parser.add_argument("--net", help="instead of the one that the paper trains the method with")
    parser.add_argument("--top", type=int, default=25)
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers")
    options = parser.parse_args()
    options.precision, options.growth, options.techniques = "auto", False, False
    machine = Machine.choose("cuda")
    record: dict[str, Any] = {"device": machine.description, "torch": torch.__version__}
    record |= {"labelsift": labelsift.__version__, "cases": []}
    for case in cases(options, machine):
        row = trace(case, options.top)
        record["cases"].append(row)
        say(f"{row['name']}: {row['epoch_seconds']:.3f} s traced, the GPU busy for {row['busy_seconds']:.3f}")
        for kind, seconds in row["kinds"].items():
            say(f"  {seconds:7.3f} s {seconds / row['epoch_seconds']:6.1%}  {kind}")
        for kernel in row["kernels"]:
            say(f"    {kernel['seconds']:7.4f} s {kernel['count']:7}x  {kernel['name']}")
        if options.out:
            write_whole(options.out, json.dumps(record, indent=1) + "\n")


def trace(case: Case, top: int) -> dict[str, Any]:
    """The kernels of one epoch."""
    tracer = profile(activities=[ProfilerActivity.CUDA])
    method = METHODS[case.method](**settings(case))
    seconds: list[float] = []

    def look(event: dict[str, Any]) -> None:
        if event.get("epoch") == method.total_epochs - 2:
            tracer.start()
            seconds.append(-time.perf_counter())
        elif event.get("epoch") == method.total_epochs - 1:
            torch.cuda.synchronize()
            seconds[0] += time.perf_counter()
            tracer.stop()

    run(case, easy_data(case), method, "cuda", look, last_stage=True)
    ran = [event for event in tracer.key_averages() if event.self_device_time_total]
    ran.sort(key=lambda event: -event.self_device_time_total)
    kinds: dict[str, float] = {}
    for event in ran:
        kind = kind_of(event.key)
        kinds[kind] = kinds.get(kind, 0) + event.self_device_time_total / 1e6
    return {
        "name": case.name,
        "epoch_seconds": seconds[0],
        "busy_seconds": sum(kinds.values()),
        "kinds": dict(sorted(kinds.items(), key=lambda pair: -pair[1])),
        "kernels": [
            {"name": e.key[:120], "count": e.count, "seconds": e.self_device_time_total / 1e6}
            for e in ran[:top]
        ],
    }


def kind_of(name: str) -> str:
    """What a kernel does, as far as its name tells."""
    for kind, words in KINDS.items():
        if any(word.lower() in name.lower() for word in words):
            return kind
    return "other small kernels: views, loss, tallies"


if __name__ == "__main__":
    main()
