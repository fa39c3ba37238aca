"""Downloads: gone on with where they broke off, checked, and put in place whole or not at all."""

import hashlib
import http.client
import math
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from labelsift.errors import InputError

try:
    import fcntl
except ImportError:  # no such locks on Windows
    fcntl = None  # type: ignore[assignment]

Observe = Callable[[dict[str, Any]], None]
# The files of a data set: all in their folder, or else to be downloaded, or to be put there.
Where = Literal["here", "online", "by hand"]

TIMEOUT = 30.0  # seconds without data
PAUSE = 0.25  # seconds between two reports
CHUNK = 1 << 18


class _DownloadError(Exception):
    """The network's fault, in words."""


def unobserved(event: dict[str, Any]) -> None:
    """Nobody looks on."""


def fetch(file: Path, url: str, md5: str, observe: Observe = unobserved) -> Path:
    """Make sure that a file is there: take the one that is, or download it."""
    if is_there(file):
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    with alone(file.parent):
        if not is_there(file):  # another process may have brought it meanwhile
            _download(file, url, md5, observe)
    return file


def is_there(file: Path) -> bool:
    """Whether a file need not be downloaded; an empty one must be."""
    return file.is_file() and file.stat().st_size > 0


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until no other process is alone in this folder."""
    if fcntl is None:
        yield
        return
    lock = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network drives have no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _download(file: Path, url: str, md5: str, observe: Observe) -> None:
    part = file.with_name(f"{file.name}.part")
    try:
        _receive(url, part, lambda done, total: observe(_event(file.name, done, total)))
    except _DownloadError as why:
        raise InputError(
            f"{file.name} is not in {file.parent} and cannot be downloaded ({why}): put it there from {url}."
        ) from None
    if _md5(part) != md5:
        part.unlink()
        raise InputError(
            f"{file.name} from {url} came damaged (its md5 is not {md5}) and was removed: try again, "
            f"or put the right file into {file.parent}."
        )
    part.replace(file)


def _event(name: str, done: int, total: int | None) -> dict[str, Any]:
    return {"download": {"file": name, "done": done, "total": total}}


def _receive(url: str, part: Path, report: Callable[[int, int | None], None]) -> None:
    """Write what is missing of a part, behind what it has, or anew where the server sends all of it."""
    have = part.stat().st_size if part.exists() else 0
    response = _ask(url, have)
    if response is None:
        return
    done = have if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0
    total = None if response.length is None else done + response.length
    reported = -math.inf
    with response, part.open("ab" if done else "wb") as out:
        for chunk in _chunks(response, done, total):
            out.write(chunk)
            done += len(chunk)
            if time.monotonic() - reported >= PAUSE:
                report(done, total)
                reported = time.monotonic()
        out.flush()
        os.fsync(out.fileno())
    report(done, total)


def _ask(url: str, have: int) -> http.client.HTTPResponse | None:
    """Ask for everything behind the bytes that are here; None where there is nothing behind them."""
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if have and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None
        raise _DownloadError(f"HTTP {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _DownloadError(_reason(error)) from None
    return response


def _chunks(response: http.client.HTTPResponse, done: int, total: int | None) -> Iterator[bytes]:
    """The answer as it comes; a fault of the disk is not met in here and stays what it is."""
    while total is None or done < total:
        try:
            chunk = response.read1(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise _broken_off(_reason(error), done, total) from None
        if not chunk and total is None:
            return
        if not chunk:
            raise _broken_off("connection closed", done, total)
        done += len(chunk)
        yield chunk


def _broken_off(why: str, done: int, total: int | None) -> _DownloadError:
    return _DownloadError(
        f"{why} after {done} of {total or 'unknown'} bytes; trying again goes on from there"
    )


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no data for {TIMEOUT:g} seconds"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__


def _md5(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
