"""How many runs side by side use one device best: runs finished per hour with 1, 2, 4 and 8 at once.

    python benchmarks/parallel.py --out parallel.json

Each run is a process of its own, as `labelsift reproduce --jobs` starts them: its start, its warm-up and its
evaluation every epoch are part of it. The first group is repeated once beforehand, so that all find what the
compiler has cached.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelsift.training import Machine


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="How many runs side by side use one device best.")
    parser.add_argument("--jobs", default="1,2,4,8")
    parser.add_argument("--method", default="pes")
    parser.add_argument("--net", default="resnet18")
    parser.add_argument("--images", type=int, default=45_000)
    parser.add_argument("--settings", default="epochs=12,stage_epochs=4;2;2,batch_size=128")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers")
    options = parser.parse_args()
    record: dict[str, Any] = {**vars(options), "device": Machine.choose(options.device).description}
    record |= {"torch": torch.__version__, "out": None, "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "images.npz"
        rng = np.random.default_rng(0)
        x = rng.integers(0, 256, (options.images, 32, 32, 3), dtype=np.uint8)
        np.savez(
            data, x=x, y=np.arange(options.images) % 10, test_x=x[:10_000], test_y=np.arange(10_000) % 10
        )
        side_by_side(1, data, options)
        for jobs in map(int, options.jobs.split(",")):
            seconds = side_by_side(jobs, data, options)
            record["rows"].append({"jobs": jobs, "seconds": seconds, "runs_per_hour": 3600 * jobs / seconds})
            print(  # noqa: T201
                f"{jobs} at once: {seconds:7.1f} s, {3600 * jobs / seconds:7.1f} runs an hour", flush=True
            )
            if options.out:
                options.out.write_text(json.dumps(record, indent=1) + "\n")


def side_by_side(jobs: int, data: Path, options: argparse.Namespace) -> float:
    """Seconds until so many runs that began together are all done."""
    words = [sys.executable, "-m", "labelsift", "fit", str(data), "--method", options.method]
    words += ["--net", options.net, "--device", options.device, "--quiet", "--noise", "symmetric:0.5"]
    for pair in options.settings.split(","):
        words += ["--set", pair.replace(";", ",")]
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs))}
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        runs = [
            subprocess.Popen(
                [*words, "--seed", str(seed), "--out", f"{folder}/{seed}"], env=os.environ | threads
            )
            for seed in range(1, jobs + 1)
        ]
        if any(run.wait() for run in runs):
            sys.exit("A run failed; what it said stands above.")
        return time.perf_counter() - begin


if __name__ == "__main__":
    main()
