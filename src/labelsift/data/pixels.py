"""Decoded images on disk: decoded once for each size, found again by their content.

A set of images is a folder of the cache, named by a hash of all that decides its pixels. It is written under
another name and renamed when it is whole. The pixels are mapped, not loaded, so that a set may be larger than
the memory. What older sets have of a new one is copied: pictures that are sorted anew are not decoded anew.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL
from numpy.typing import NDArray

from labelsift.data.cache import Report, cache_folder, writing
from labelsift.data.download import alone
from labelsift.data.photos import Shape, Source
from labelsift.data.readers import PIECE, Decoded, Look, Readers
from labelsift.errors import InputError
from labelsift.results.store import UNFINISHED, write_whole

VERSION = 1  # of how `photos` makes pixels
CONTENT = "content.txt"  # how the pixels of a set were made, and the digest of each of its images
OUTDONE = 0.9  # share of the images of a set which a newer one has too, and the older one goes
UNUSED = 30 * 24 * 3600  # seconds after which a set goes


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
    way = f"{VERSION} {PIL.__version__} {shape}"  # in which pixels are made
    digest = hashlib.sha256(way.encode())
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
                _clear(sets)
                older = _contents(sets, way)
                older.pop(place, None)  # damaged
                rows = _rows(older, {look.digest for look in looks})
                pieces = _pieces(sources, looks, shape, readers, rows)
                _prune(sets, older, _write(place, way, looks, shape, pieces, report))
            found = _open(place)
    if found is None:
        raise InputError(f"The cache {place} was changed while it was written: run the command again.")
    return found


def _open(place: Path) -> Pixels | None:
    """A set of the cache; nothing, where it is not there or not whole."""
    with contextlib.suppress(OSError):
        os.utime(place / "about.json")  # says when it was last used
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        about = json.loads((place / "about.json").read_text(encoding="utf-8"))
        shape, wrong = tuple(about["shape"]), {int(at): str(what) for at, what in about["wrong"].items()}
        file = place / "pixels.u8"  # one that is too short cannot be mapped
        images = np.memmap(file, np.uint8, "r", shape=shape) if shape[0] else np.empty(shape, np.uint8)
        return Pixels(images, wrong, tuple(about["mean"]), tuple(about["std"]))
    return None


def _contents(sets: Path, way: str) -> dict[Path, list[str]]:
    """The images of every set whose pixels were made in this way, by their digests."""
    found = {}
    for file in sorted(sets.glob(f"*/{CONTENT}")):
        with contextlib.suppress(OSError, ValueError):
            made, *digests = file.read_text(encoding="utf-8").splitlines()
            if made == way:
                found[file.parent] = digests
    return found


def _rows(older: Mapping[Path, Sequence[str]], wanted: Set[str]) -> dict[str, NDArray[np.uint8]]:
    """Images that older sets have: a file that was renamed or has new neighbours is not decoded again."""
    rows: dict[str, NDArray[np.uint8]] = {}
    for place, digests in older.items():
        found = None if wanted.isdisjoint(digests) else _open(place)
        if found is not None and len(found.images) == len(digests):
            images = np.asarray(found.images)
            rows |= {digest: images[row] for row, digest in enumerate(digests) if digest in wanted}
    return rows


def _pieces(
    sources: Sequence[Source],
    looks: Sequence[Look],
    shape: Shape,
    readers: Readers,
    rows: Mapping[str, NDArray[np.uint8]],
) -> Iterator[Decoded]:
    """All images in their order, some at a time: those that are known are copied, the others decoded."""
    new = (source for source, look in zip(sources, looks, strict=True) if look.digest not in rows)
    decoded = _one_by_one(readers.decode(new, shape), math.prod(shape))
    for begin in range(0, len(looks), PIECE):
        piece = [
            (None, rows[look.digest].tobytes()) if look.digest in rows else next(decoded)
            for look in looks[begin : begin + PIECE]
        ]
        yield Decoded([wrong for wrong, _ in piece], b"".join(pixels for _, pixels in piece))


def _one_by_one(pieces: Iterable[Decoded], size: int) -> Iterator[tuple[str | None, bytes]]:
    for piece in pieces:
        begin = 0
        for wrong in piece.wrong:
            end = begin + (size if wrong is None else 0)
            yield wrong, piece.pixels[begin:end]
            begin = end


def _write(
    place: Path, way: str, looks: Sequence[Look], shape: Shape, pieces: Iterable[Decoded], report: Report
) -> set[str]:
    """A new set; which images it has."""
    part = place.with_name(place.name + UNFINISHED)
    part.mkdir()
    try:
        wrong: dict[int, str] = {}
        done = 0
        levels = np.zeros((shape[0], 256), np.int64)
        with (part / "pixels.u8").open("wb") as out:
            # Not through a map: there a full disk would be a signal that ends the process.
            for decoded in pieces:
                out.write(decoded.pixels)
                images = np.frombuffer(decoded.pixels, np.uint8).reshape(-1, *shape)
                levels += [np.bincount(images[:, c].ravel(), minlength=256) for c in range(shape[0])]
                wrong |= {done + at: what for at, what in enumerate(decoded.wrong) if what is not None}
                done += len(decoded.wrong)
                report(done, len(looks))
            out.flush()
            os.fsync(out.fileno())
        mean, std = _statistics(levels)
        about = {"shape": (done - len(wrong), *shape), "wrong": wrong, "mean": mean, "std": std}
        digests = [look.digest for at, look in enumerate(looks) if at not in wrong]
        write_whole(part / CONTENT, "\n".join([way, *digests]))
        write_whole(part / "about.json", json.dumps(about))
        if place.exists():  # damaged, or it would have been opened
            shutil.rmtree(place)
        part.rename(place)
        return {*digests}
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _prune(sets: Path, older: Mapping[Path, Sequence[str]], new: Set[str]) -> None:
    """Remove sets that the new one outdoes, and those that were not used for long."""
    for place, digests in older.items():
        if sum(digest in new for digest in digests) >= OUTDONE * len(digests):
            _remove(place)
    for file in sets.glob("*/about.json"):
        if time.time() - file.stat().st_mtime > UNUSED:
            _remove(file.parent)


def _remove(place: Path) -> None:
    gone = place.with_name(place.name + UNFINISHED)  # so that it is there whole or not at all
    with contextlib.suppress(OSError):
        place.rename(gone)
        shutil.rmtree(gone)


def _clear(sets: Path) -> None:
    for left in sets.glob(f"*{UNFINISHED}"):  # by a process that was killed, since we are alone here
        shutil.rmtree(left)


def _statistics(levels: NDArray[np.int64]) -> tuple[list[float], list[float]]:
    """Mean and standard deviation (1 for none) of each channel, from how often it has each level."""
    share = levels / levels.sum(1, keepdims=True).clip(min=1)
    values = np.arange(256) / 255
    mean = share @ values
    std = np.sqrt((share @ values**2 - mean**2).clip(min=0))
    return mean.tolist(), np.where(std > 0, std, 1.0).tolist()
