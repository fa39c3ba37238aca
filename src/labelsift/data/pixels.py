"""Decoded images on disk: decoded once for each size, found again by their content.

A set of images is a folder of the cache, named by a hash of all that decides its pixels. It is written under
another name and renamed when it is whole. The pixels are mapped, not loaded, so that a set may be larger than
the memory.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL
from numpy.typing import NDArray

from labelsift.data.cache import Report, cache_folder, writing
from labelsift.data.download import alone
from labelsift.data.photos import Shape, Source
from labelsift.data.readers import Look, Readers
from labelsift.errors import InputError
from labelsift.results.store import UNFINISHED, write_whole

VERSION = 1  # of how `photos` makes pixels


@dataclass(frozen=True)
class Pixels:
    """The images that could be decoded, what was wrong with the others (by place), and the statistics."""

    images: NDArray[np.uint8]  # N x C x H x W
    wrong: dict[int, str]
    mean: tuple[float, ...]  # per channel, of pixels 0..1
    std: tuple[float, ...]


def decode_all(
    sources: Sequence[Source], looks: Sequence[Look], shape: Shape, readers: Readers, report: Report
) -> Pixels:
    """The pixels of the images: those that the cache has, else decoded and cached."""
    digest = hashlib.sha256(f"{VERSION} {PIL.__version__} {shape}".encode())
    for look in looks:
        digest.update(bytes.fromhex(look.digest))
    sets = cache_folder() / "images"
    place = sets / digest.hexdigest()[:32]
    if (found := _open(place)) is not None:
        return found
    needed = len(sources) * math.prod(shape)
    with writing(sets, needed):
        sets.mkdir(parents=True, exist_ok=True)
        with alone(sets):  # decoding takes all cores anyway, and another process may be at these very images
            if _open(place) is None:
                if shutil.disk_usage(sets).free < needed:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                _write(place, sources, shape, readers, report)
    if (found := _open(place)) is None:
        raise InputError(f"The cache {place} was changed while it was written: run the command again.")
    return found


def _open(place: Path) -> Pixels | None:
    """A set of the cache; nothing, where it is not there or not whole."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        about = json.loads((place / "about.json").read_text(encoding="utf-8"))
        shape, wrong = tuple(about["shape"]), {int(at): str(what) for at, what in about["wrong"].items()}
        file = place / "pixels.u8"  # one that is too short cannot be mapped
        images = np.memmap(file, np.uint8, "r", shape=shape) if shape[0] else np.empty(shape, np.uint8)
        return Pixels(images, wrong, tuple(about["mean"]), tuple(about["std"]))
    return None


def _write(place: Path, sources: Sequence[Source], shape: Shape, readers: Readers, report: Report) -> None:
    for left in place.parent.glob(f"*{UNFINISHED}"):  # by a process that was killed, since we are alone here
        shutil.rmtree(left)
    part = place.with_name(place.name + UNFINISHED)
    part.mkdir()
    try:
        wrong: dict[int, str] = {}
        done = 0
        levels = np.zeros((shape[0], 256), np.int64)
        with (part / "pixels.u8").open("wb") as out:
            # Not through a map: there a full disk would be a signal that ends the process.
            for decoded in readers.decode(sources, shape):
                out.write(decoded.pixels)
                images = np.frombuffer(decoded.pixels, np.uint8).reshape(-1, *shape)
                levels += [np.bincount(images[:, c].ravel(), minlength=256) for c in range(shape[0])]
                wrong |= {done + at: what for at, what in enumerate(decoded.wrong) if what is not None}
                done += len(decoded.wrong)
                report(done, len(sources))
            out.flush()
            os.fsync(out.fileno())
        mean, std = _statistics(levels)
        about = {"shape": (done - len(wrong), *shape), "wrong": wrong, "mean": mean, "std": std}
        write_whole(part / "about.json", json.dumps(about))
        if place.exists():  # damaged, or it would have been opened
            shutil.rmtree(place)
        part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _statistics(levels: NDArray[np.int64]) -> tuple[list[float], list[float]]:
    """Mean and standard deviation (1 for none) of each channel, from how often it has each level."""
    share = levels / levels.sum(1, keepdims=True).clip(min=1)
    values = np.arange(256) / 255
    mean = share @ values
    std = np.sqrt((share @ values**2 - mean**2).clip(min=0))
    return mean.tolist(), np.where(std > 0, std, 1.0).tolist()
