"""NumPy archives: `x` and `y`, optionally `true_y`, `test_x`, `test_y` and `classes`."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.dataset import Dataset, make_dataset
from labelsift.errors import InputError

KEYS = ("x", "y", "true_y", "test_x", "test_y", "classes")


def read_arrays(file: Path, needed: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The known arrays of an archive. Nothing pickled is ever loaded."""
    if not file.is_file():
        raise InputError(f"There is no file {file}.")
    if file.stat().st_size == 0:
        raise InputError(f"{file} is empty: write it again with numpy.savez.")
    try:
        with zipfile.ZipFile(file) as archive:
            inside = {name.removesuffix(".npy") for name in archive.namelist()}
        missing = [key for key in needed if key not in inside]
        if missing:
            raise InputError(
                f"{file} has no array '{missing[0]}': it holds {', '.join(sorted(inside)) or 'none'}."
            )
        with np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in KEYS if key in inside}
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
        raise InputError(f"{file} is damaged or no .npz archive: write it again with numpy.savez.") from None
    except ValueError as error:
        if "allow_pickle" in str(error) or "Object arrays" in str(error):
            raise InputError(
                f"{file} holds pickled Python objects, which are never loaded: save plain arrays of numbers."
            ) from None
        raise InputError(f"{file} is damaged ({error}): write it again with numpy.savez.") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror or error}).") from None


def load_npz(file: Path) -> Dataset:
    """A data set from an archive."""
    arrays: dict[str, Any] = read_arrays(file, needed=("x", "y"))
    if "classes" in arrays:
        arrays["classes"] = [str(name) for name in arrays["classes"].ravel()]
    return make_dataset(file.name, **arrays)
