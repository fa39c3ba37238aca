"""Small pictures on disk: bands that a tiny net tells apart, and files that no decoder should trust."""

import os
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from toys import toy_arrays

LONG_AGO = 1_600_000_000


def save(file: Path, pixels: np.ndarray | Image.Image, **options) -> Path:
    """Write a picture with a time that lies well back, as those of most photos do."""
    file.parent.mkdir(parents=True, exist_ok=True)
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(file, **options)
    os.utime(file, (LONG_AGO, LONG_AGO))
    return file


def band_folder(folder: Path, count: int = 60, seed: int = 0, names=("ant", "bee", "cat")) -> Path:
    """Grey pictures of 12 x 12, a folder for each of three classes."""
    images, labels = toy_arrays(count, seed)
    for place, (image, label) in enumerate(zip(images, labels, strict=True)):
        save(folder / names[label] / f"{place:03}.png", image)
    return folder


def bomb() -> bytes:
    """A PNG of a few bytes that claims 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + content
