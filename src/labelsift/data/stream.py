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
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelsift.data.dataset import ImageFiles
from labelsift.data.decode import fill
from labelsift.data.readers import cores
from labelsift.data.stores import all_over
from labelsift.errors import InputError

PIECE = 16  # images that a worker is asked for at a time, at most
AHEAD = 2  # batches asked for in advance, or as many as have two pieces for each worker
SCRIPT = Path(__file__).with_name("decode.py")
# Workers keep the memory of an image for the next one: giving it back each time costs dozens of page faults.
KEEP = {"PILLOW_BLOCKS_MAX": "4", "MALLOC_TRIM_THRESHOLD_": str(2**25), "MALLOC_MMAP_THRESHOLD_": str(2**25)}


class FileStore:
    """The inputs of examples, out of files; without workers, this process decodes them itself."""

    def __init__(self, files: ImageFiles, device: torch.device, workers: int | None = None) -> None:
        self.files, self.device = files, device
        self.shape = files.shape[1:]
        # None on Windows, which cannot hand memory on like this.
        self.workers = (0 if os.name == "nt" else cores()) if workers is None else workers

    def __len__(self) -> int:
        return len(self.files)

    def some(self) -> Tensor:
        """A few hundred images from all over the set, for statistics."""
        return self.take(all_over(len(self)))

    def take(self, index: Tensor) -> Tensor:
        """The images at these places, decoded by this process."""
        size = self.files.size
        pixels = np.empty((len(index), size, size, 3), np.uint8)
        if wrong := fill(pixels.reshape(-1).data, self._names(index.tolist()), size):
            raise InputError(wrong)
        return self._placed(pixels)

    def stream(self, chunks: Sequence[Tensor]) -> Iterator[Tensor]:
        """The same for one chunk after the other, in their order, decoded ahead by workers."""
        if not self.workers:
            yield from map(self.take, chunks)
            return
        places = [chunk.tolist() for chunk in chunks]  # all now, since a device makes us wait for each
        requests = map(self._names, places)
        most = max(map(len, places), default=0)
        workers = min(self.workers, sum(len(_pieces(len(chunk))) for chunk in places))
        with contextlib.closing(Decoders(self.files.size, most, workers)) as decoders:
            for request in itertools.islice(requests, decoders.ahead):
                decoders.ask(request)
            for _ in places:
                for request in itertools.islice(requests, 1):
                    decoders.ask(request)
                yield self._placed(decoders.answer())

    def _names(self, places: list[int]) -> list[str]:
        return [os.path.join(self.files.folder, self.files.paths[place]) for place in places]

    def _placed(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Pixels as inputs on the device; in memory, their channels stay last."""
        inputs = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        if self.device.type != "cuda":
            return inputs.to(self.device)
        # A pinned copy is kept until the device has read it, whereas these pixels may soon be overwritten.
        return inputs.pin_memory().to(self.device, non_blocking=True)


class Decoders:
    """Workers that decode chunks of images, each into a slot of a memory that they share with us.

    They are scripts of their own rather than copies of this process: they inherit neither its memory nor its
    device nor the user's `__main__`. They end when their pipe is closed, and so with us, however we end.
    """

    def __init__(self, size: int, most: int, workers: int) -> None:
        most = max(most, 1)
        self.ahead = max(AHEAD, math.ceil(2 * workers * PIECE / most))
        self._free = list(range(self.ahead + 3))  # slots: one waited for, one in use, one to spare
        self._asked: deque[tuple[int, int, list[subprocess.Popen[str]]]] = deque()
        with _memory_file() as file:
            file.truncate(len(self._free) * most * size * size * 3)
            memory = mmap.mmap(file.fileno(), 0)
            self._slots = np.frombuffer(memory, np.uint8).reshape(-1, most, size, size, 3)
            self._workers = [_start(file.fileno(), size) for _ in range(workers)]
        self._turns = itertools.cycle(self._workers)

    def ask(self, files: list[str]) -> None:
        """Ask for the next chunk, piece by piece."""
        slot, workers = self._free.pop(), []
        for piece in _pieces(len(files)):
            request = json.dumps([slot * self._slots.shape[1] + piece.start, files[piece]])
            workers.append(worker := next(self._turns))
            assert worker.stdin
            with contextlib.suppress(BrokenPipeError):  # the missing answer will tell
                worker.stdin.write(f"{request}\n")
                worker.stdin.flush()
        self._asked.append((slot, len(files), workers))

    def answer(self) -> NDArray[np.uint8]:
        """Wait for the chunk that was asked for first; its slot is used again once nobody holds it."""
        slot, count, workers = self._asked.popleft()
        for worker in workers:
            assert worker.stdout
            reply = worker.stdout.readline()
            if not reply:
                raise InputError("A process that decodes images ended: see whether the memory is too small.")
            if wrong := json.loads(reply):
                raise InputError(wrong)
        pixels = self._slots[slot, :count]
        if self._free:
            weakref.finalize(pixels, self._free.append, slot)
            return pixels
        self._free.append(slot)  # the last one, since chunks are kept: this one will be a copy
        return pixels.copy()

    def close(self) -> None:
        """End the workers, whatever they are doing."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            with contextlib.suppress(BrokenPipeError), worker:
                pass


def _pieces(count: int) -> list[slice]:
    """Even parts, so that each worker has as much to do as the others."""
    step = math.ceil(count / max(math.ceil(count / PIECE), 1))
    return [slice(start, start + step) for start in range(0, count, step or 1)]


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
