"""Image files to pixels. As a script it is the worker that `stream` starts, several at a time.

It imports neither torch nor the rest of labelsift, so that a worker starts at once and stays small.
"""

import contextlib
import io
import json
import mmap
import os
import sys

from PIL import Image, UnidentifiedImageError


def decode(file: str, size: int) -> list[bytes]:
    """The red, the green and the blue bytes of an image, resized to `size` x `size`."""
    with open(file, "rb", buffering=0) as content:
        raw = content.read()  # at once, which is faster than the many small reads of Pillow
    with Image.open(io.BytesIO(raw)) as image:
        colours = image if image.mode == "RGB" else image.convert("RGB")
        if colours.size != (size, size):
            colours = colours.resize((size, size), Image.Resampling.BILINEAR)
        return [colours.tobytes("raw", band) for band in "RGB"]


def fill(target: memoryview, files: list[str], size: int) -> str:
    """Write the pixels of the files one behind the other; say what is wrong with one, or nothing."""
    start = 0
    for file in files:
        try:
            bands = decode(file, size)
        except Exception as error:  # a damaged file may raise anything
            unknown = isinstance(error, UnidentifiedImageError)
            why = "no known kind of image" if unknown else getattr(error, "strerror", None) or error
            return f"The image {file} cannot be read ({why}): replace it, or leave it out of the data."
        for band in bands:
            target[start : start + len(band)] = band
            start += len(band)
    return ""


def serve(handle: int, size: int) -> None:
    """Answer requests (where to write, which files) line by line, until their sender closes the pipe."""
    with mmap.mmap(handle, 0) as shared, memoryview(shared) as memory:
        for line in sys.stdin:
            start, files = json.loads(line)
            sys.stdout.write(json.dumps(fill(memory[start:], files, size)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # whoever asked is gone
        serve(int(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)  # without a last flush of the pipe that may be closed
