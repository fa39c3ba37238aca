"""NumPy archives: `x` and `y`, optionally `true_y`, `test_x`, `test_y` and `classes`."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.dataset import Dataset, make_dataset
from labelsift.data.labels import decoded, too_few_of
from labelsift.errors import InputError

KEYS = ("x", "y", "true_y", "test_x", "test_y", "classes")


def is_npz(file: str | Path) -> bool:
    """Whether this is an archive, by its name."""
    return Path(file).suffix.lower() == ".npz"


def read_arrays(
    file: Path, needed: tuple[str, ...], known: tuple[str, ...] = KEYS
) -> dict[str, NDArray[Any]]:
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
            arrays = {key: _array(file, archive, key) for key in known if key in inside}
    except InputError:
        raise
    except Exception:  # zipfile, its codecs and NumPy's headers have many ways to fail
        raise InputError(f"{file} is damaged or no .npz archive: write it again with numpy.savez.") from None
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise InputError(
            f"{file} is damaged: it holds something that is no array; write it with numpy.savez."
        )
    return arrays


def _array(file: Path, archive: Any, key: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = archive[key]
        return array
    except ValueError as error:
        if "Object arrays" not in str(error):
            raise
    remedy = "an array of numbers" if key.endswith("x") else f"{key}.astype(str)"
    raise InputError(
        f"The array '{key}' of {file} holds pickled Python objects, which are never loaded: save {remedy}."
    )


def load_npz(file: Path, test: Path | None = None) -> Dataset:
    """A data set from an archive; the examples of another one may be its test part."""
    arrays: dict[str, Any] = read_arrays(file, needed=("x", "y"))
    if test is not None:
        if not is_npz(test):
            raise InputError(f"{test} is no test part for {file}: give an .npz file for both.")
        held_out = read_arrays(test, needed=("x", "y"))
        arrays |= {"test_x": held_out["x"], "test_y": held_out["y"]}
    if "classes" in arrays:
        arrays["classes"] = [str(name) for name in decoded("classes", arrays["classes"]).ravel().tolist()]
    data = make_dataset(file.name, **arrays)
    numbers, firsts, counts = np.unique(data.labels, return_index=True, return_counts=True)
    for number, first in zip(numbers[counts == 1], firsts[counts == 1], strict=True):
        raise too_few_of(data.classes[number], str(file), f"one example only, example {first}")
    return data
