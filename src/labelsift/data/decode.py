"""Image files to pixels. As a script it is the worker that `stream` starts, several at a time.

It imports neither torch nor the rest of labelsift, so that a worker starts at once and stays small.
"""

import contextlib
import io
import json
import mmap
import os
import sys

from PIL import Image, ImageFile, UnidentifiedImageError


def decode(file: str, size: int) -> bytes:
    """The red, green and blue bytes of each pixel of an image, resized to `size` x `size`."""
    with open(file, "rb", buffering=0) as content:
        raw = content.read()  # at once, which is faster than the many small reads of Pillow
    with Image.open(io.BytesIO(raw)) as image:
        colours = image if image.mode == "RGB" else image.convert("RGB")
        if colours.size != (size, size):
            colours = colours.resize((size, size), Image.Resampling.BILINEAR)
        return colours.tobytes()


def fill(target: memoryview, files: list[str], size: int) -> str:
    """Write the pixels of the files one behind the other; say what is wrong with one, or nothing."""
    step = size * size * 3
    for place, file in enumerate(files):
        try:
            target[place * step : (place + 1) * step] = decode(file, size)
        except Exception as error:  # a damaged file may raise anything
            unknown = isinstance(error, UnidentifiedImageError)
            why = "no known kind of image" if unknown else getattr(error, "strerror", None) or error
            return f"The image {file} cannot be read ({why}): replace it, or leave it out of the data."
    return ""


def serve(handle: int, size: int) -> None:
    """Answer requests (which place, which files) line by line, until their sender closes the pipe."""
    ImageFile.MAXBLOCK = size * size * 4  # Pillow gives the pixels in one block, and need not join several
    with mmap.mmap(handle, 0) as shared, memoryview(shared) as memory:
        for line in sys.stdin:
            place, files = json.loads(line)
            wrong = fill(memory[place * size * size * 3 :], files, size)
            sys.stdout.write(json.dumps(wrong) + "\n")
            sys.stdout.flush()
            if wrong:
                break


def unaligned_rows(size: int) -> list[bytes]:
    """Memory to hold on to, so that Pillow finds the row it decodes a JPEG into at an odd multiple of 16.

    At a multiple of 32, libjpeg-turbo writes past the caches what Pillow reads at once, and decoding takes a
    third longer; malloc gives the one or the other by chance. So this leaves it gaps of that length at good
    places, between those held. It does nothing for images of another width, or with another malloc.
    """
    rows = [bytes(max(size * 4 - sys.getsizeof(b""), 0)) for _ in range(2048)]
    return [row for row in rows if id(row) % 32 == 0]


if __name__ == "__main__":
    held = unaligned_rows(int(sys.argv[2]))
    with contextlib.suppress(BrokenPipeError):  # whoever asked is gone
        serve(int(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)  # without a last flush of the pipe that may be closed
