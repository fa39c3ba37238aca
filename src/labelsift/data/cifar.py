"""cifar10 and cifar100: 50,000 training and 10,000 test images, 32 x 32 in colour."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelsift.data.archives import read_pickled_arrays, unpack
from labelsift.data.dataset import Dataset, make_dataset
from labelsift.data.download import Observe, Where, fetch, is_there, unobserved
from labelsift.errors import InputError

ADDRESS = "https://www.cs.toronto.edu/~kriz/"
PIXELS = 3 * 32 * 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# What the field normalises with; CIFAR-10's deviations are not those of the pixels, but everybody's.
STATISTICS_10 = {"mean": (0.4914, 0.4822, 0.4465), "std": (0.2023, 0.1994, 0.2010)}
STATISTICS_100 = {"mean": (0.507, 0.487, 0.441), "std": (0.267, 0.256, 0.276)}

Part = tuple[NDArray[np.uint8], NDArray[Any]]


@dataclass(frozen=True)
class Release:
    """One official form of a set: its archive, and the folder and files that are in it.

    The label is the last of so many bytes before the pixels, or the entry of this name in a Python batch.
    """

    folder: str
    archive: str
    md5: str
    train: tuple[str, ...]
    test: str
    label: int | str


CIFAR10 = (
    Release(
        "cifar-10-batches-bin",
        "cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        "test_batch.bin",
        label=1,
    ),
    Release(
        "cifar-10-batches-py",
        "cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        tuple(f"data_batch_{number}" for number in range(1, 6)),
        "test_batch",
        label="labels",
    ),
)
CIFAR100 = (
    Release(
        "cifar-100-binary",
        "cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        ("train.bin",),
        "test.bin",
        label=2,
    ),
    Release(
        "cifar-100-python",
        "cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        ("train",),
        "test",
        label="fine_labels",
    ),
)


def where_cifar10(folder: Path) -> Where:
    """Where the files of the set are; nothing in them is read."""
    return _where(folder, CIFAR10)


def where_cifar100(folder: Path) -> Where:
    """Where the files of the set are, likewise."""
    return _where(folder, CIFAR100)


def load_cifar10(folder: Path, observe: Observe = unobserved) -> Dataset:
    """The set from its official binary or Python files. Its labels are the true ones: add noise."""
    return make_dataset("cifar10", **read_cifar10(folder, observe))


def load_cifar100(folder: Path, observe: Observe = unobserved) -> Dataset:
    """The set with its hundred fine labels, likewise."""
    return make_dataset("cifar100", **read_cifar100(folder, observe))


def read_cifar10(folder: Path, observe: Observe = unobserved) -> dict[str, Any]:
    """The arrays of the set, as `make_dataset` takes them."""
    place, release = _find(folder, CIFAR10, observe)
    return _read(place, release) | {"classes": CLASSES} | STATISTICS_10


def read_cifar100(folder: Path, observe: Observe = unobserved) -> dict[str, Any]:
    """The arrays of the set, likewise."""
    place, release = _find(folder, CIFAR100, observe)
    return _read(place, release) | {"classes": _fine_names(place)} | STATISTICS_100


def _find(folder: Path, releases: tuple[Release, ...], observe: Observe) -> tuple[Path, Release]:
    """The folder of the first release that is there, unpacked before or now; else the first is downloaded."""
    release = _unpacked(folder, releases)
    if release is None:
        release = _packed(folder, releases) or releases[0]
        archive = fetch(folder / release.archive, ADDRESS + release.archive, release.md5, observe)
        unpack(archive, folder / release.folder)
    return folder / release.folder, release


def _unpacked(folder: Path, releases: tuple[Release, ...]) -> Release | None:
    return next((release for release in releases if (folder / release.folder).is_dir()), None)


def _packed(folder: Path, releases: tuple[Release, ...]) -> Release | None:
    return next((release for release in releases if is_there(folder / release.archive)), None)


def _where(folder: Path, releases: tuple[Release, ...]) -> Where:
    if release := _unpacked(folder, releases):
        files = [folder / release.folder / name for name in (*release.train, release.test)]
        return "here" if all(file.is_file() for file in files) else "by hand"
    return "here" if _packed(folder, releases) else "online"


def _read(place: Path, release: Release) -> dict[str, Any]:
    parts = [_read_file(place / name, release.label) for name in release.train]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    test_images, test_labels = _read_file(place / release.test, release.label)
    return {
        "x": _channels_last(images),
        "y": labels,
        "test_x": _channels_last(test_images),
        "test_y": test_labels,
    }


def _read_file(file: Path, label: int | str) -> Part:
    if not file.is_file():
        raise InputError(
            f"There is no file {file}: put it there, or remove {file.parent} to get all of it anew."
        )
    return _read_binary(file, label) if isinstance(label, int) else _read_batch(file, label)


def _read_binary(file: Path, label_bytes: int) -> Part:
    raw = np.fromfile(file, np.uint8)
    size = label_bytes + PIXELS
    if len(raw) == 0 or len(raw) % size:
        raise _damaged(file, f"its {len(raw)} bytes are no whole number of records of {size}")
    records = raw.reshape(-1, size)
    return records[:, label_bytes:], records[:, label_bytes - 1]


def _read_batch(file: Path, label: str) -> Part:
    batch = read_pickled_arrays(file)
    images, labels = batch.get("data"), np.asarray(batch.get(label))
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (PIXELS,):
        raise _damaged(file, f"it has no 'data' of {PIXELS} bytes an image")
    if labels.shape != images.shape[:1]:
        raise _damaged(file, f"it has no '{label}' for its {len(images)} images")
    return images, labels


def _damaged(file: Path, why: str) -> InputError:
    return InputError(f"{file} is damaged ({why}): remove {file.parent} to get all of it anew.")


def _channels_last(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def _fine_names(place: Path) -> tuple[str, ...]:
    """The names of the hundred classes from the file that either release has; else their numbers."""
    names: list[str] = []
    if (place / "fine_label_names.txt").is_file():
        names = (place / "fine_label_names.txt").read_text(encoding="utf-8").split()
    elif (place / "meta").is_file():
        listed = read_pickled_arrays(place / "meta").get("fine_label_names", [])
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in listed]
    return tuple(names) if len(names) == len(set(names)) == 100 else tuple(map(str, range(100)))
