"""Make fashion-demo.npz from the official files of Fashion-MNIST.

Usage: python make_fashion_demo.py FOLDER-WITH-THE-FOUR-GZ-FILES OUT.npz

Takes the first 600 training and the first 200 test images of every class, in the official order. No image
was chosen by looking at it or at a result.
"""

import gzip
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"]
CLASSES += ["Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


def read(folder: Path, part: str, per_class: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The first images of each class of a part, with their labels."""
    pixels = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
    numbers = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    images = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 28, 28)
    labels = np.frombuffer(numbers, np.uint8, offset=8)
    first = [np.flatnonzero(labels == label)[:per_class] for label in range(10)]
    chosen = np.sort(np.concatenate(first))
    return images[chosen], labels[chosen]


def main(folder: Path, out: Path) -> None:
    """Write the archive."""
    x, y = read(folder, "train", 600)
    test_x, test_y = read(folder, "t10k", 200)
    np.savez_compressed(out, x=x, y=y, test_x=test_x, test_y=test_y, classes=np.array(CLASSES))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
