"""Files of others: archives that cannot write outside their folder, pickles that cannot execute anything."""

import gzip
import io
import pickle
import re
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from labelsift.errors import InputError

# The filter came with Python 3.11.4; our own check of every member is as strict.
DATA_ONLY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
NUMBERS = re.compile(r"b1|[iu][1248]|f[248]")


def unpack(archive: Path, folder: Path) -> None:
    """Put what a .tar.gz holds at `folder`, whole or not at all; its top folder of that name becomes it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        whole = Path(temporary) / "whole"
        whole.mkdir()
        _extract(archive, whole)
        inner = whole / folder.name
        try:
            (inner if inner.is_dir() else whole).rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise


def _extract(archive: Path, target: Path) -> None:
    try:
        with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
            for member in tar:
                _check_member(archive, member)
                tar.extract(member, target, **DATA_ONLY)
            while stream.read(1 << 20):  # only the stream's end says whether it was whole
                pass
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"{archive} is damaged ({error}): remove it and get it again.") from None


def _check_member(archive: Path, member: tarfile.TarInfo) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"{archive} would write to {member.name}, outside of its folder: remove it.")
    if not (member.isfile() or member.isdir()):
        raise InputError(f"{archive} holds {member.name}, a link or device and no plain file: remove it.")


def read_pickled_arrays(file: Path) -> dict[str, Any]:
    """The arrays, numbers, strings and lists of these in a pickled dict, as CIFAR's Python batches are."""
    try:
        with file.open("rb") as stream:
            return _unpickle(file, stream)
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror or error}).") from None


def read_pt_arrays(file: Path) -> dict[str, Any]:
    """The same from a dict that torch.save wrote, without tensors, as CIFAR-N's labels are."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            if len(names) != 1:
                raise InputError(f"{file} holds {len(names)} files data.pkl, not one: get it again.")
            return _unpickle(file, io.BytesIO(archive.read(names[0])))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        raise InputError(f"{file} is damaged or was not written by torch.save: get it again.") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror or error}).") from None


def _unpickle(file: Path, stream: IO[bytes]) -> dict[str, Any]:
    try:
        content = _ArrayUnpickler(stream, encoding="bytes").load()
        if not isinstance(content, dict):
            raise pickle.UnpicklingError(f"a {type(content).__name__}, not a dict")
        return {_text(key): _plain(value) for key, value in content.items()}
    except Exception as error:  # a pickle that is damaged, or made to harm, may raise anything
        raise InputError(
            f"{file} holds more than plain arrays or is damaged ({error}): get it again."
        ) from None


class _Kind:
    """Stands in for numpy's dtype, of which a pickle may set everything, and takes numbers only."""

    __slots__ = ("code", "order")

    def __init__(self, code: str | bytes, *rest: object) -> None:
        self.code, self.order = _text(code), "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = _text(state[1])

    def read(self, raw: bytes) -> NDArray[Any]:
        """Numbers from bytes."""
        if not NUMBERS.fullmatch(self.code) or self.order not in ("<", ">", "=", "|"):
            raise pickle.UnpicklingError(f"an array of {self.code}, not of numbers")
        return np.frombuffer(raw, self.order + self.code)


class _Array:
    """Stands in for numpy's array, and for the function that makes an empty one to be filled."""

    __slots__ = ("array",)

    def __init__(self, *rest: object) -> None:
        self.array: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[int, tuple[int, ...], _Kind, bool, bytes]) -> None:
        _, shape, kind, by_columns, raw = state
        self.array = kind.read(raw).reshape(shape, order="F" if by_columns else "C")


def _scalar(kind: _Kind, raw: bytes) -> Any:
    return kind.read(raw)[0]


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"the encoding {encoding}")
    return text.encode("latin1")


ALLOWED = {
    "numpy.ndarray": _Array,
    "numpy.dtype": _Kind,
    "numpy.core.multiarray._reconstruct": _Array,
    "numpy._core.multiarray._reconstruct": _Array,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy._core.multiarray.scalar": _scalar,
    "_codecs.encode": _encode,
}


class _ArrayUnpickler(pickle.Unpickler):
    """Knows the names that arrays are written with, gives its own for them, and imports nothing."""

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the pickle stands for."""
        found = ALLOWED.get(f"{module}.{name}")
        if found is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is never executed")
        return found


def _plain(value: Any) -> Any:
    """A value of the dict, with arrays in the place of what stood in for them."""
    if isinstance(value, _Array) and value.array is not None:
        return value.array
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, int | float | str | bytes | np.generic):
            raise pickle.UnpicklingError(f"a {type(item).__name__}")
    return value


def _text(name: object) -> str:
    if not isinstance(name, str | bytes):
        raise pickle.UnpicklingError(f"a {type(name).__name__} for a name")
    return name.decode("latin1") if isinstance(name, bytes) else name
