"""Decoded images on disk: looked at once, decoded once for each size, found again by their content.

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
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from numpy.typing import NDArray

from labelsift.data.download import alone
from labelsift.data.photos import Shape, Source
from labelsift.data.readers import Look, Readers
from labelsift.errors import InputError
from labelsift.results.store import UNFINISHED, write_whole

VERSION = 1  # of how `photos` makes pixels
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FRESH = 2_000_000_000  # nanoseconds: a file as young as this may change once more and keep its time

Report = Callable[[int, int], None]  # how many of how many


@dataclass(frozen=True)
class Pixels:
    """The images that could be decoded, what was wrong with the others (by place), and the statistics."""

    images: NDArray[np.uint8]  # N x C x H x W
    wrong: dict[int, str]
    mean: tuple[float, ...]  # per channel, of pixels 0..1
    std: tuple[float, ...]


def cache_folder() -> Path:
    """LABELSIFT_CACHE, else `labelsift` among the user's caches."""
    if folder := os.environ.get("LABELSIFT_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "labelsift"


def look_at(sources: Sequence[Source], home: str, readers: Readers, report: Report) -> list[Look | str]:
    """What each image is, or what is wrong with it; a file that is as it was is not read again.

    `home` is where the files belong: it has an index of its own. Without one nothing is remembered.
    """
    index = cache_folder() / "index" / f"{hashlib.sha256(os.fsencode(home)).hexdigest()[:32]}.json"
    known = _read_index(index) if home else {}
    stamps = [_stamp(source) if home else None for source in sources]
    looks: list[Look | str | None] = [
        _known(known, source, stamp) for source, stamp in zip(sources, stamps, strict=True)
    ]
    missing = [place for place, look in enumerate(looks) if look is None]
    found = readers.look(sources[place] for place in missing)
    changed = False
    for count, (place, look) in enumerate(zip(missing, found, strict=True), start=1):
        looks[place], source, stamp = look, sources[place], stamps[place]
        if isinstance(look, Look) and isinstance(source, str) and stamp and _settled(stamp):
            known[source], changed = [*stamp, *look], True
        report(count, len(missing))
    if changed:
        with _writing(index.parent):
            index.parent.mkdir(parents=True, exist_ok=True)
            write_whole(index, json.dumps(known))
    return [look for look in looks if look is not None]


def _read_index(file: Path) -> dict[str, list[Any]]:
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(file.read_text(encoding="utf-8"))
        return known if isinstance(known, dict) else {}
    return {}


def _known(known: dict[str, list[Any]], source: Source, stamp: tuple[int, int] | None) -> Look | None:
    entry = known.get(source) if isinstance(source, str) else None
    if stamp is None or not isinstance(entry, list) or len(entry) != 6 or tuple(entry[:2]) != stamp:
        return None
    return Look(*entry[2:])


def _stamp(source: Source) -> tuple[int, int] | None:
    with contextlib.suppress(OSError, ValueError):
        if isinstance(source, str):
            about = os.stat(source)
            return about.st_size, about.st_mtime_ns
    return None


def _settled(stamp: tuple[int, int]) -> bool:
    return time.time_ns() - stamp[1] > FRESH


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
    with _writing(sets, needed):
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


@contextlib.contextmanager
def _writing(folder: Path, needed: int = 0) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            much = f" for {math.ceil(needed / 2**20):,} MiB of images" if needed else ""
            raise InputError(
                f"There is no space left{much} in the cache {folder}: free some, set LABELSIFT_CACHE to "
                "another folder, or use a smaller --image-size."
            ) from None
        raise InputError(
            f"The cache {folder} cannot be written ({error.strerror}): set LABELSIFT_CACHE to another folder."
        ) from None
