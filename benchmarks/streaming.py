"""How fast image files stream, against Pillow alone on the same cores, and how much memory that takes.

    python benchmarks/streaming.py --images 20000 --out streaming.json

Required: at least 90 % of Pillow's rate, and less than 2 GiB resident in all. Both are measured in
turn, so that others on the machine disturb both, and the median of the rounds counts.
"""

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import PIL
import torch
from PIL import Image, ImageFilter

from labelsift.data import Examples, Views
from labelsift.data.dataset import ImageFiles
from labelsift.data.stream import FileStore
from labelsift.results.store import write_whole

SIZE = 256


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="How fast image files stream.")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, help="where the images are made, and kept for the next time")
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers")
    parser.add_argument("--require", type=float, default=0.0, help="the least share of Pillow's rate, as 0.9")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        files = make_images(options.folder or Path(temporary), options.images)
        rounds = [
            (pillow_rate(files), *streaming_rate(files, options.batch, torch.device(options.device)))
            for _ in range(options.repeat)
        ]
    pillow, streamed, _ = (statistics.median(column) for column in zip(*rounds, strict=True))
    memory = max(peak for *_, peak in rounds)
    # A shared machine changes its speed all the time: compare neighbours.
    ratio = statistics.median(ours / theirs for theirs, ours, _ in rounds)
    record = {
        "images": options.images,
        "cores": cores(),
        "machine": platform.machine(),
        "torch": torch.__version__,
        "pillow": PIL.__version__,
        "rounds": rounds,
        "pillow_images_per_second": pillow,
        "streamed_images_per_second": streamed,
        "ratio": ratio,
        "peak_resident_gib": memory,
    }
    print(f"Pillow alone   {pillow:8.0f} images/s on {cores()} cores")  # noqa: T201
    print(f"streamed       {streamed:8.0f} images/s, median of the rounds' ratios {ratio:.1%}")  # noqa: T201
    print(f"peak resident  {memory:8.2f} GiB, process and workers together")  # noqa: T201
    if options.out:
        write_whole(options.out, json.dumps(record, indent=2) + "\n")
    if ratio < options.require:
        raise SystemExit(f"Required are {options.require:.1%} of Pillow's rate.")


def make_images(folder: Path, count: int) -> ImageFiles:
    """Photos of a kind: large soft shapes under a fine grain, as JPEG of quality 90."""
    paths = tuple(f"{place // 1000}/{place}.jpg" for place in range(count))
    missing = [folder / path for path in paths if not (folder / path).is_file()]
    for parent in {file.parent for file in missing}:
        parent.mkdir(parents=True, exist_ok=True)
    with multiprocessing.Pool(cores()) as pool:
        pool.map(make_image, missing, chunksize=64)
    return ImageFiles(folder, paths, SIZE)


def make_image(file: Path) -> None:
    """One of them, drawn from its name."""
    rng = np.random.default_rng(int(file.stem))
    shapes = Image.fromarray(rng.integers(0, 256, (24, 24, 3), dtype=np.uint8))
    grain = Image.fromarray(rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8))
    soft = shapes.resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    Image.blend(soft, grain.filter(ImageFilter.GaussianBlur(1)), 0.25).save(file, quality=90)


def pillow_rate(files: ImageFiles) -> float:
    """Images a second that a pool of processes decodes to bytes, and drops, in a random order as well."""
    names = [str(files.folder / path) for path in files.paths]
    np.random.default_rng(0).shuffle(names)
    # Sessions of their own, as our workers have: where others want the cores too, Linux shares by session.
    with multiprocessing.Pool(cores(), os.setsid) as pool:
        pool.map(decode, names[: 4 * cores()])
        begin = time.perf_counter()
        pool.map(decode, names, chunksize=64)
        return len(names) / (time.perf_counter() - begin)


def decode(name: str) -> None:
    """What Pillow does for one image."""
    with Image.open(name) as image:
        image.convert("RGB").tobytes()


def streaming_rate(files: ImageFiles, batch: int, device: torch.device) -> tuple[float, float]:
    """Images a second in a pass over all of them, the start of the workers included; peak memory in GiB."""
    labels = torch.zeros(len(files), dtype=torch.long, device=device)
    store = FileStore(files, device)
    examples = Examples.of(store, labels, 2, Views.of(store.some(), "crop+flip", size=224), seed=0)
    with watched_memory() as peak:
        begin = time.perf_counter()
        seen = sum(len(some.inputs) for some in examples.batches(batch))
        seconds = time.perf_counter() - begin
    assert seen == len(files)
    return seen / seconds, peak[0] / 2**30


@contextmanager
def watched_memory() -> Iterator[list[int]]:
    """The largest sum of the resident sizes of this process and its children, looked at every 50 ms."""
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], sum(map(resident, [str(os.getpid()), *children()])))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def children() -> list[str]:
    """The processes that any thread of this one has started."""
    return [
        child for file in Path("/proc/self/task").glob("*/children") for child in file.read_text().split()
    ]


def resident(process: str) -> int:
    """Bytes of memory of a process; pages that it shares are counted in full."""
    try:
        pages = int(Path("/proc", process, "statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


if __name__ == "__main__":
    main()
