"""The cache: where it is, what it knows of image files, and what is said when it cannot be written."""

import contextlib
import errno
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from labelsift.data.photos import Source
from labelsift.data.readers import Look, Readers
from labelsift.errors import InputError
from labelsift.results.store import write_whole

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FRESH = 2_000_000_000  # nanoseconds: a file as young as this may change once more and keep its time

Report = Callable[[int, int], None]  # how many of how many


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
        with writing(index.parent):
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


@contextlib.contextmanager
def writing(folder: Path, needed: int = 0) -> Iterator[None]:
    """Say in a sentence why a folder of the cache cannot be written; `needed` are bytes of images."""
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
