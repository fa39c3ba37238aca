"""fashion-mnist: 60,000 training and 10,000 test images of clothes, 28 x 28 and grey, in ten classes."""

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labelsift.data.dataset import Dataset, make_dataset
from labelsift.data.download import Observe, Where, fetch, unobserved
from labelsift.errors import InputError

ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
MD5 = {
    "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
}
CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"]
CLASSES += ["Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


def where_fashion_mnist(folder: Path) -> Where:
    """Where the four files are; nothing in them is read."""
    return "here" if all(_there(folder, name) for name in MD5) else "online"


def load_fashion_mnist(folder: Path, observe: Observe = unobserved) -> Dataset:
    """The set from its four idx files, gzipped or not. Its labels are the true ones: add noise."""
    x, y = _read_part(folder, "train", observe)
    test_x, test_y = _read_part(folder, "t10k", observe)
    return make_dataset("fashion-mnist", x, y, test_x=test_x, test_y=test_y, classes=CLASSES)


def _read_part(folder: Path, part: str, observe: Observe) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    pictures = _find(folder, f"{part}-images-idx3-ubyte", observe)
    numbers = _find(folder, f"{part}-labels-idx1-ubyte", observe)
    images, labels = read_idx(pictures, (28, 28)), read_idx(numbers, ())
    if len(images) != len(labels):
        raise InputError(
            f"There are {len(images)} images in {pictures} but {len(labels)} labels in {numbers}: "
            "remove both, and they are downloaded."
        )
    return images, labels


def _find(folder: Path, name: str, observe: Observe) -> Path:
    file = folder / "fashion-mnist" / f"{name}.gz"
    return _there(folder, name) or fetch(file, f"{ADDRESS}{name}.gz", MD5[name], observe)


def _there(folder: Path, name: str) -> Path | None:
    own = folder / "fashion-mnist"
    files = (own / f"{name}.gz", own / name, folder / f"{name}.gz", folder / name)
    return next((file for file in files if file.is_file()), None)


def read_idx(file: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The bytes of an idx file, gzipped or not, as examples of this shape."""
    raw = file.read_bytes()
    try:
        raw = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise _damaged(file, str(error)) from None
    begin = 8 + 4 * len(shape)
    if len(raw) < begin or raw[:4] != bytes([0, 0, 8, 1 + len(shape)]):
        raise _damaged(file, f"no idx file of bytes in {1 + len(shape)} dimensions")
    count, *sizes = (int(size) for size in np.frombuffer(raw[4:begin], ">u4"))
    if tuple(sizes) != shape:
        raise _damaged(file, f"its examples have the shape {tuple(sizes)}, not {shape}")
    examples = np.frombuffer(raw, np.uint8, offset=begin)
    if len(examples) != count * int(np.prod(shape)):
        raise _damaged(file, f"{len(examples)} bytes for {count} examples")
    return examples.reshape(count, *shape)


def _damaged(file: Path, why: str) -> InputError:
    return InputError(f"{file} is damaged ({why}): remove it, and it is downloaded.")
