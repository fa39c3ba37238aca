"""Processes that look at images and decode them, in their order and some ahead."""

import itertools
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import LifoQueue
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Self

from labelsift.data.photos import Shape, Source

SCRIPT = Path(__file__).with_name("photos.py")
PIECE = 16  # images that a worker is asked for at a time
CRASH = "decoding it ended the process"

Process = subprocess.Popen[bytes]


class Look(NamedTuple):
    """What is known of an image before it is decoded."""

    digest: str
    width: int
    height: int
    grey: bool


class Decoded(NamedTuple):
    """Some images: what is wrong with each, or nothing, and the pixels of those with which nothing is."""

    wrong: list[str | None]
    pixels: bytes


class Readers:
    """Workers that are scripts of their own, so that an image that crashes its decoder ends one of them only.

    A thread of ours waits for each. They start when first needed and end when their pipe is closed, and so
    with us, however we end.
    """

    def __init__(self, workers: int = 0) -> None:
        count = workers or cores()
        self._ahead = 2 * count
        self._threads = ThreadPoolExecutor(count)
        self._idle: LifoQueue[Process | None] = LifoQueue()  # None: not started
        for _ in range(count):
            self._idle.put(None)
        self._started: list[Process] = []
        self._closed = False
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            for worker in self._started:
                worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._started:
            _reap(worker)

    def look(self, sources: Iterable[Source]) -> Iterator[Look | str]:
        """What each image is, or what is wrong with it."""
        for found, _ in self._answers(None, sources):
            yield from (look if isinstance(look, str) else Look(*look) for look in found)

    def decode(self, sources: Iterable[Source], shape: Shape) -> Iterator[Decoded]:
        """The pixels of the images, some at a time."""
        return (Decoded(wrong, pixels) for wrong, pixels in self._answers(shape, sources))

    def _answers(self, shape: Shape | None, sources: Iterable[Source]) -> Iterator[tuple[list[Any], bytes]]:
        asked: deque[Future[tuple[list[Any], bytes]]] = deque()
        rest = iter(sources)
        while piece := list(itertools.islice(rest, PIECE)):
            asked.append(self._threads.submit(self._ask, shape, piece))
            if len(asked) > self._ahead:
                yield asked.popleft().result()
        while asked:
            yield asked.popleft().result()

    def _ask(self, shape: Shape | None, piece: list[Source]) -> tuple[list[Any], bytes]:
        worker = self._idle.get()
        alive = None
        try:
            worker = worker or self._start()
            answer = _exchange(worker, shape, piece)
            alive = worker
            return answer
        except (OSError, ValueError):  # the pipe is broken, or the answer cut off
            if self._closed:
                raise
        finally:
            self._idle.put(alive)
        if len(piece) == 1:
            return [CRASH], b""
        answers = [self._ask(shape, [source]) for source in piece]
        return [found[0] for found, _ in answers], b"".join(pixels for _, pixels in answers)

    def _start(self) -> Process:
        """A worker out of the terminal's reach, so that Ctrl-C is ours alone to answer."""
        with self._lock:
            if self._closed:
                raise BrokenPipeError
            worker = subprocess.Popen(
                [sys.executable, "-P", "-W", "ignore", str(SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # where decoders talk to themselves
                start_new_session=True,
            )
            self._started.append(worker)
            return worker


def _exchange(worker: Process, shape: Shape | None, piece: list[Source]) -> tuple[list[Any], bytes]:
    assert worker.stdin
    assert worker.stdout
    items = [source if isinstance(source, str) else len(source) for source in piece]
    worker.stdin.write(json.dumps([shape, items]).encode() + b"\n")
    for source in piece:
        if isinstance(source, bytes):
            worker.stdin.write(source)
    worker.stdin.flush()
    found = json.loads(worker.stdout.readline())
    size = 0 if shape is None else found.count(None) * shape[0] * shape[1] * shape[2]
    pixels = worker.stdout.read(size)
    if len(found) != len(piece) or len(pixels) != size:
        raise ValueError
    return found, pixels


def _reap(worker: Process) -> None:
    for pipe in (worker.stdin, worker.stdout):
        try:
            assert pipe
            pipe.close()
        except OSError:
            pass
    worker.wait()


def cores() -> int:
    """How many cores there are for us."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
