"""Inputs that are not in memory as a whole: mapped from a file of the cache, or decoded as they come."""

import itertools
import math
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelsift.data.cache import Report
from labelsift.data.photos import Shape, Source
from labelsift.data.readers import Readers

SOME = 256
AHEAD = 3  # batches


def shared(array: NDArray[Any]) -> Tensor:
    """A tensor on the memory of an array, which may be read-only: nobody writes into inputs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
        return torch.from_numpy(array)


def fits(array: NDArray[Any], device: torch.device) -> bool:
    """Whether a mapped array should be on the device as a whole. In memory it is where it is."""
    return device.type != "cuda" or array.nbytes <= torch.cuda.mem_get_info(device)[0] / 2


def all_over(count: int) -> Tensor:
    """A few hundred places from all over a set, for statistics."""
    return torch.arange(0, count, math.ceil(count / SOME))


class Mapped:
    """Inputs that a device has no room for, brought there batch by batch."""

    def __init__(self, array: NDArray[Any], device: torch.device) -> None:
        self.array, self.device, self.shape = array, device, tuple(array.shape[1:])

    def __len__(self) -> int:
        return len(self.array)

    def some(self) -> Tensor:
        """A few hundred from all over the set, for statistics."""
        return self.take(all_over(len(self)))

    def take(self, index: Tensor) -> Tensor:
        """The inputs at these places."""
        return self._placed(self._rows(index.cpu().numpy()))

    def stream(self, chunks: Sequence[Tensor]) -> Iterator[Tensor]:
        """The same for one chunk after the other, read ahead."""
        places = [chunk.cpu().numpy() for chunk in chunks]
        with ThreadPoolExecutor(1) as thread:
            asked: deque[Future[Tensor]] = deque()
            waiting = iter(places)
            try:
                for _ in places:
                    for index in itertools.islice(waiting, AHEAD - len(asked)):
                        asked.append(thread.submit(self._rows, index))
                    yield self._placed(asked.popleft().result())
            finally:
                thread.shutdown(cancel_futures=True)

    def _rows(self, index: NDArray[np.int64]) -> Tensor:
        rows = torch.from_numpy(np.take(self.array, index, axis=0))
        return rows.pin_memory() if self.device.type == "cuda" else rows

    def _placed(self, rows: Tensor) -> Tensor:
        return rows.to(self.device, non_blocking=True)


class Photos:
    """Image files that are seen once, to be predicted. One that cannot be read is black, and noted."""

    def __init__(
        self, sources: Sequence[Source], shape: Shape, readers: Readers, device: torch.device, report: Report
    ) -> None:
        self.sources, self.readers, self.device = sources, readers, device
        self.shape: tuple[int, ...] = shape
        self.wrong: dict[int, str] = {}
        self._pixels, self._report = shape, report

    def __len__(self) -> int:
        return len(self.sources)

    def some(self) -> Tensor:
        """Nothing is trained on these, so no statistics are needed of them."""
        return torch.empty((0, *self.shape), dtype=torch.uint8, device=self.device)

    def take(self, index: Tensor) -> Tensor:
        """The images at these places."""
        return next(self.stream([index]))

    def stream(self, chunks: Sequence[Tensor]) -> Iterator[Tensor]:
        """The same for one chunk after the other, decoded ahead."""
        places = [chunk.tolist() for chunk in chunks]
        images = self._images([place for chunk in places for place in chunk])
        done = 0
        for chunk in places:
            pixels = b"".join(itertools.islice(images, len(chunk)))
            done += len(chunk)
            self._report(done, len(self))
            whole = torch.frombuffer(bytearray(pixels), dtype=torch.uint8)
            yield whole.view(len(chunk), *self.shape).to(self.device)

    def _images(self, places: Sequence[int]) -> Iterator[bytes]:
        size, at = math.prod(self.shape), iter(places)
        for wrong, pixels in self.readers.decode((self.sources[place] for place in places), self._pixels):
            start = 0
            for what in wrong:
                place = next(at)
                if what is None:
                    yield pixels[start : start + size]
                    start += size
                else:
                    self.wrong[place] = what
                    yield bytes(size)
