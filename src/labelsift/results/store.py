"""A run folder: what is in it, written so that a kill at any moment leaves it whole.

Nothing in it is code: TOML, JSON, CSV and safetensors only.
"""

import csv
import itertools
import json
import os
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from labelsift.errors import InputError

try:
    import fcntl
except ImportError:  # no such locks on Windows
    fcntl = None  # type: ignore[assignment]

CHECKPOINT = "checkpoint.safetensors"
FORMULA = r"(?=[=+@\t\r\n'\uff1d\uff0b\uff0d\uff20-])"  # begins a cell that is executed, or hidden
BEGIN = r"(^|[;\t])"  # of a cell; some spreadsheets take these for separators too
NUMBER = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
UNFINISHED = ".labelsift-part"  # what a killed write leaves behind


def write_whole(file: Path, content: bytes | str) -> None:
    """Write a file so that it is there whole or not at all, and never half."""
    raw = content.encode() if isinstance(content, str) else content
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with temporary.open("xb") as out:
            out.write(raw)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    except OSError as error:
        error.filename = str(file)  # which is what was asked for
        raise
    finally:
        temporary.unlink(missing_ok=True)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV. A spreadsheet takes no name in it for a formula: such a one gets an apostrophe."""
    # Not by csv.writer, which leaves a carriage return as it is and so breaks the line.
    lines = (",".join(map(_guarded, row)) for row in itertools.chain([columns], rows))
    return "".join(f"{line}\n" for line in lines)


def _guarded(cell: object) -> str:
    text = "" if cell is None else str(cell)
    if isinstance(cell, str) and not re.fullmatch(NUMBER, text):
        text = re.sub(BEGIN + FORMULA, r"\1'", text)
    return '"' + text.replace('"', '""') + '"' if re.search('[",\r\n]', text) else text


def plain(cell: str) -> str:
    """What such a cell was before."""
    return re.sub(f"{BEGIN}'{FORMULA}", r"\1", cell)


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        shutil.rmtree(folder, ignore_errors=True)


class RunFolder:
    """The files of one run, read and written by their names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._end: weakref.finalize[..., RunFolder] | None = None

    @classmethod
    def temporary(cls) -> "RunFolder":
        """One that is removed when nothing refers to it any more, or when the process ends."""
        folder = cls(Path(tempfile.mkdtemp(prefix="labelsift-")))
        folder._end = weakref.finalize(folder, _remove, folder.path, os.getpid())
        return folder

    def __getstate__(self) -> dict[str, Any]:
        """A copy, in another process or a file, refers to the folder too: it stays."""
        if self._end is not None:
            self._end.detach()
        return {**self.__dict__, "_lock": None, "_end": None}

    def file(self, name: str) -> Path:
        """A file of the folder."""
        return self.path / name

    @property
    def config(self) -> Path:
        """Repeats the run exactly."""
        return self.file("config.toml")

    @property
    def finished(self) -> bool:
        """The result is written last."""
        return self.file("result.json").exists()

    @property
    def foreign(self) -> bool:
        """Somebody else's folder: it has files but no config."""
        if self.config.exists() or not self.path.exists():
            return False
        return not self.path.is_dir() or any(not f.name.endswith(UNFINISHED) for f in self.path.iterdir())

    def claim(self, config: str) -> None:
        """Make the folder and its config, and keep other processes out until this one ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        if fcntl is not None:
            self._lock = os.open(self.path, os.O_RDONLY)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.release()
                raise InputError(
                    f"Another process is running in {self.path}: wait for it or stop it."
                ) from None
            except OSError:  # a file system without locks
                self.release()
        if not self.config.exists():
            write_whole(self.config, config)

    def release(self) -> None:
        """Let other processes in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write_lines(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a file anew, one JSON object a line."""
        write_whole(self.file(name), "".join(json.dumps(row) + "\n" for row in rows))

    def append_epoch(self, record: Mapping[str, Any]) -> None:
        """Add one line to the history."""
        with self.file("epochs.jsonl").open("a", encoding="utf-8") as out:
            out.write(json.dumps(record) + "\n")

    def read_lines(self, name: str) -> list[dict[str, Any]]:
        """The objects of such a file."""
        return [json.loads(line) for line in self.file(name).read_text(encoding="utf-8").splitlines()]

    def epochs(self) -> list[dict[str, Any]]:
        """The history: one record per epoch."""
        try:
            return self.read_lines("epochs.jsonl")
        except (OSError, ValueError):
            raise self.damaged("epochs.jsonl") from None

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file."""
        write_whole(self.file(name), json.dumps(content, indent=2) + "\n")

    def finish(self, record: Mapping[str, Any]) -> None:
        """Write the result, which says that the run is done, and clear away what only resuming needs."""
        self.write_json("result.json", record)
        for leftover in (self.file(CHECKPOINT), *self.path.glob(f".*{UNFINISHED}")):
            leftover.unlink(missing_ok=True)

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file of a finished run."""
        try:
            content: dict[str, Any] = json.loads(self.file(name).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{self.path} is no finished run ({name}: {error.strerror}): finish it with fit --resume, "
                "or give another one."
            ) from None
        except ValueError:
            raise self.damaged(name) from None
        if not isinstance(content, dict):
            raise self.damaged(name)
        return content

    def damaged(self, name: str) -> InputError:
        """The error for a file that is not what this package wrote."""
        what = "damaged" if self.file(name).exists() else "missing"
        remedy = "remove the folder, or run into another one"
        if name == CHECKPOINT:
            remedy = "remove this file, and the run begins again"
        return InputError(f"{self.file(name)} is {what}: {remedy}.")

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        """Write tensors as safetensors, with a JSON object beside them in the header."""
        whole = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in tensors.items()}
        write_whole(self.file(name), save(whole, metadata={"labelsift": json.dumps(about)}))

    def read_tensors(self, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and the JSON object of their header."""
        try:
            with safe_open(self.file(name), framework="pt") as archive:
                tensors = {key: archive.get_tensor(key) for key in archive.keys()}  # noqa: SIM118
                return tensors, json.loads(archive.metadata()["labelsift"])
        except (OSError, SafetensorError, KeyError, TypeError, ValueError):
            raise self.damaged(name) from None

    def read_table(self, name: str) -> list[dict[str, str]]:
        """The rows of a CSV file."""
        try:
            with self.file(name).open(newline="", encoding="utf-8") as lines:
                rows = list(csv.DictReader(lines))
            return [{key: plain(cell or "") for key, cell in row.items()} for row in rows]
        except (OSError, ValueError, TypeError, AttributeError, csv.Error):
            raise self.damaged(name) from None
