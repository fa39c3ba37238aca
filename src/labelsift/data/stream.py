"""Sets that do not fit in memory: image files, decoded by worker processes several batches ahead."""

import contextlib
import itertools
import json
import math
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelsift.data.dataset import ImageFiles
from labelsift.data.decode import fill
from labelsift.errors import InputError

PIECE = 8  # images that a worker is asked for at a time
AHEAD = 16  # pieces asked for in advance, or four for each worker if that is more
SOME = 256
SCRIPT = Path(__file__).with_name("decode.py")
# Workers keep the memory of an image for the next one: giving it back each time costs dozens of page faults.
KEEP = {"PILLOW_BLOCKS_MAX": "4", "MALLOC_TRIM_THRESHOLD_": str(2**25), "MALLOC_MMAP_THRESHOLD_": str(2**25)}


class FileStore:
    """The inputs of examples, out of files; without workers, this process decodes them itself."""

    def __init__(self, files: ImageFiles, device: torch.device, workers: int | None = None) -> None:
        self.files, self.device = files, device
        self.shape = files.shape[1:]
        self.workers = _cores() if workers is None else workers

    def __len__(self) -> int:
        return len(self.files)

    def some(self) -> Tensor:
        """A few hundred images from all over the set, for statistics."""
        return self.take(torch.arange(0, len(self), math.ceil(len(self) / SOME)))

    def take(self, index: Tensor) -> Tensor:
        """The images at these places, decoded by this process."""
        pixels = self._empty(len(index))
        wrong = fill(pixels.view(-1).numpy().data, self._names(index.tolist()), self.files.size)
        if wrong:
            raise InputError(wrong)
        return pixels.to(self.device, non_blocking=True)

    def stream(self, chunks: Sequence[Tensor]) -> Iterator[Tensor]:
        """The same for one chunk after the other, in their order, decoded ahead by workers."""
        if not self.workers:
            yield from map(self.take, chunks)
            return
        places = [chunk.tolist() for chunk in chunks]
        pieces = [chunk[start : start + PIECE] for chunk in places for start in range(0, len(chunk), PIECE)]
        requests = map(self._names, pieces)
        with contextlib.closing(Decoders(self.files.size, min(self.workers, len(pieces)))) as decoders:
            for request in itertools.islice(requests, decoders.slots):
                decoders.ask(request)
            for chunk in places:
                pixels = self._empty(len(chunk))
                for start in range(0, len(chunk), PIECE):
                    decoders.answer(pixels[start : start + PIECE].numpy())
                    for request in itertools.islice(requests, 1):
                        decoders.ask(request)
                yield pixels.to(self.device, non_blocking=True)

    def _names(self, places: list[int]) -> list[str]:
        return [os.path.join(self.files.folder, self.files.paths[place]) for place in places]

    def _empty(self, count: int) -> Tensor:
        return torch.empty((count, *self.shape), dtype=torch.uint8, pin_memory=self.device.type == "cuda")


class Decoders:
    """Workers that decode pieces in turn, each into its slot of a memory that they share with us.

    They are scripts of their own rather than copies of this process: they inherit neither its memory nor its
    device nor the user's `__main__`. They end when their pipe is closed, and so with us, however we end.
    """

    def __init__(self, size: int, workers: int) -> None:
        self.slots = max(AHEAD, 4 * workers)
        self._bytes = PIECE * 3 * size * size
        self._asked = self._answered = 0
        with _memory_file() as file:
            file.truncate(self.slots * self._bytes)
            memory = mmap.mmap(file.fileno(), 0)
            self._shared = np.frombuffer(memory, np.uint8).reshape(-1, PIECE, 3, size, size)
            self._workers = [_start(file.fileno(), size) for _ in range(workers)]

    def ask(self, files: list[str]) -> None:
        """Ask for the next piece."""
        request = json.dumps([self._asked % self.slots * self._bytes, files])
        pipe = self._pipe(self._asked, "stdin")
        with contextlib.suppress(BrokenPipeError):  # the missing answer will tell
            pipe.write(f"{request}\n")
            pipe.flush()
        self._asked += 1

    def answer(self, piece: NDArray[np.uint8]) -> None:
        """Wait for the piece that was asked for first, and copy it."""
        reply = self._pipe(self._answered, "stdout").readline()
        if not reply:
            raise InputError("A process that decodes images ended: see whether the memory is too small.")
        if wrong := json.loads(reply):
            raise InputError(wrong)
        # NumPy, since the threads of torch would take the cores from the workers, mostly for waiting.
        piece[:] = self._shared[self._answered % self.slots, : len(piece)]
        self._answered += 1

    def close(self) -> None:
        """End the workers, whatever they are doing."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            with contextlib.suppress(BrokenPipeError), worker:
                pass

    def _pipe(self, piece: int, name: str) -> IO[str]:
        pipe: IO[str] = getattr(self._workers[piece % len(self._workers)], name)
        return pipe


def _start(handle: int, size: int) -> subprocess.Popen[str]:
    """A worker out of the terminal's reach, so that Ctrl-C is ours alone to answer."""
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", str(SCRIPT), str(handle), str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | KEEP,
        pass_fds=[handle],
        start_new_session=True,
        text=True,
    )


def _memory_file() -> IO[bytes]:
    """A file that lives in memory, where the system has such; it is gone when nobody holds it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("labelsift"), "r+b")
    return tempfile.TemporaryFile()


def _cores() -> int:
    """As many workers as there are cores for us; none on Windows, which cannot hand memory on like this."""
    if os.name == "nt":
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
