"""How many runs side by side use one device best: runs finished per hour with 1, 2, 4 and 8 at once.

    python benchmarks/parallel.py --out parallel.json
    python benchmarks/parallel.py --mps                 # kernels of several processes at the same time

Each run is a process of its own, as `labelsift reproduce --jobs` starts them: its start, its warm-up and its
evaluation every epoch are part of it. One run goes before all, so that they find what the compiler has
cached, in a folder that is empty at first: `first_seconds` is what it took without. Nets are compiled as in
long runs, of which the epochs of the last stage tell how many an hour there would be. Without NVIDIA's
Multi-Process Service a GPU takes turns between processes; `--mps` starts it for the time of the measurement.
A file that `--out` names is gone on with; `--cache` then names a folder with what was compiled before.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from speed import Case, easy_data, measured, say

import labelsift
from labelsift.reproduce.sharing import sharing
from labelsift.results.store import write_whole
from labelsift.training import Machine

ALIKE = ("device", "torch", "method", "net", "images", "settings", "mps")  # where a file is gone on with


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="How many runs side by side use one device best.")
    parser.add_argument("--jobs", default="1,2,4,8")
    parser.add_argument("--method", default="pes")
    parser.add_argument("--net", default="resnet18")
    parser.add_argument("--images", type=int, default=45_000)
    parser.add_argument("--settings", default="epochs=12,stage_epochs=4;2;2,batch_size=128")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--mps", action="store_true", help="with NVIDIA's Multi-Process Service")
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers, gone on with where it exists")
    parser.add_argument("--cache", type=Path, help="what the compiler keeps; none: a folder that is empty")
    options = parser.parse_args()
    machine = Machine.choose(options.device)
    if options.mps and not machine.cuda:
        sys.exit("--mps is a service of NVIDIA's GPUs, and there is none here: leave it out.")
    counts = [int(jobs) for jobs in options.jobs.split(",")]
    signal.signal(signal.SIGTERM, stop)
    record: dict[str, Any] = {**vars(options), "device": machine.description}
    record |= {"torch": torch.__version__, "out": None, "cache": None, "rows": []}
    if options.out and options.out.exists():
        before = measured(options.out, record, ALIKE)
        record |= {key: before[key] for key in ("rows", "first_seconds")}
    done = {row["jobs"] for row in record["rows"]}
    shared = sharing(options.device, sys.exit) if options.mps else contextlib.nullcontext({})
    with tempfile.TemporaryDirectory() as folder, shared as named:
        os.environ.update(named)
        data = Path(folder) / "images.npz"
        made = easy_data(Case(options.method, options.net, options.images))
        x, test_x = (np.moveaxis(np.asarray(part), 1, -1) for part in (made.inputs, made.test_inputs))
        np.savez(data, x=x, y=made.true_labels, test_x=test_x, test_y=made.test_labels)
        first, _ = side_by_side(1, data, options)
        record.setdefault("first_seconds", first)
        for jobs in (jobs for jobs in counts if jobs not in done):
            seconds, epoch = side_by_side(jobs, data, options)
            row = {"jobs": jobs, "seconds": seconds, "runs_per_hour": 3600 * jobs / seconds}
            record["rows"].append({**row, "epoch_seconds": epoch, "epochs_per_hour": 3600 * jobs / epoch})
            say(
                f"{jobs} at once: {seconds:7.1f} s, {3600 * jobs / seconds:7.1f} runs an hour; "
                f"{epoch:.3f} s an epoch, {3600 * jobs / epoch:,.0f} epochs an hour"
            )
            if options.out:
                write_whole(options.out, json.dumps(record, indent=1) + "\n")


def stop(*_: object) -> None:
    """End, and with it the runs and the service."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit("Stopped.")


def side_by_side(jobs: int, data: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Seconds until so many runs that began together are all done, and those of an epoch at the end."""
    words = [sys.executable, "-m", "labelsift", "fit", str(data), "--method", options.method]
    words += ["--net", options.net, "--device", options.device, "--quiet", "--noise", "symmetric:0.5"]
    words += ["--compile"] if Machine.choose(options.device).cuda else []
    for pair in options.settings.split(","):
        words += ["--set", pair.replace(";", ",")]
    around = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs))}
    around["TORCHINDUCTOR_CACHE_DIR"] = str(options.cache or data.with_name("compiled"))
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        runs = [
            subprocess.Popen(
                [*words, "--seed", str(seed), "--out", f"{folder}/{seed}"], env=os.environ | around
            )
            for seed in range(1, jobs + 1)
        ]
        try:
            if any(run.wait() for run in runs):
                sys.exit("A run failed; what it said stands above.")
        finally:
            for run in runs:
                run.kill()
                run.wait()  # it may still be writing into the folder
        seconds = time.perf_counter() - begin
        return seconds, statistics.median(
            row["seconds"]
            for seed in range(1, jobs + 1)
            for row in labelsift.Result(Path(folder) / str(seed)).history[-4:]
        )


if __name__ == "__main__":
    main()
