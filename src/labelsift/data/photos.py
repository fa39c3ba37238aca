"""Images of any kind that Pillow reads, to pixels. As a script it is the worker that `readers` starts.

It imports neither torch nor NumPy nor the rest of labelsift, so that a worker starts at once and stays small.
How an image becomes pixels, here and nowhere else:

- The first picture of an animation or of several pages, turned as its EXIF data says.
- 16 bits become 8 by their range (0..65535), floats by theirs (0..1, or 0..255), not by what the image holds:
  so a dark image stays dark.
- What is transparent shows white, as most viewers show it; the colours below it may be anything.
- Resized, not cropped: what the label speaks of may be at the border, and a net that is trained and used on
  squeezed images takes no harm from it.
"""

import contextlib
import hashlib
import io
import json
import os
import stat
import sys
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

Source = str | bytes  # the name of a file, or what would be in it
Shape = tuple[int, int, int]  # channels, height, width

QUICK = ("JPEG", "PNG", "GIF", "BMP", "PPM")  # that Pillow knows without loading all its plugins
REFUSED = frozenset({"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"})  # run programs, or are no images
CLEAR = ("RGBA", "RGBa", "LA", "La", "PA")
ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def look(source: Source) -> tuple[str, int, int, bool]:
    """The SHA-256 of the content, width and height, and whether it is grey, without decoding it."""
    with _content(source) as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
        content.seek(0)
        with _opened(content) as image:
            return digest, image.width, image.height, _grey(image.mode)


def decode(source: Source, shape: Shape) -> bytes:
    """The pixels, channel by channel."""
    channels, height, width = shape
    with _content(source) as content, _opened(content) as image:
        turn = _turn(image)
        size = (height, width) if turn in (5, 6, 7, 8) else (width, height)
        image.draft(None, (2 * size[0], 2 * size[1]))  # a large JPEG is decoded small, which is far quicker
        pixels = _eight_bits(image)
        pixels = pixels.convert("L" if channels == 1 else "RGB")
        if pixels.size != size:
            pixels = pixels.resize(size, Image.Resampling.BILINEAR)
        if turn in TURNS:
            pixels = pixels.transpose(TURNS[turn])
        return b"".join(pixels.tobytes("raw", band) for band in pixels.mode)


def why(error: Exception) -> str:
    """What is wrong with an image, in a few words."""
    if isinstance(error, UnidentifiedImageError):
        return "no known kind of image"
    if isinstance(error, Image.DecompressionBombError):
        return "it claims so many pixels that it may be a decompression bomb"
    if isinstance(error, MemoryError):
        return "it does not fit in memory"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:200]


def _content(source: Source) -> BinaryIO:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    if not stat.S_ISREG(os.stat(source).st_mode):  # a pipe would keep us waiting
        raise OSError("no ordinary file")
    return open(source, "rb")


def _opened(content: BinaryIO) -> Image.Image:
    """The image, known by its content and not by its name."""
    try:
        return Image.open(content, formats=QUICK)
    except UnidentifiedImageError:
        Image.init()
        content.seek(0)
        return Image.open(content, formats=[kind for kind in Image.ID if kind not in REFUSED])


def _grey(mode: str) -> bool:
    return mode in ("1", "L", "LA", "La", "F") or mode.startswith("I")


def _turn(image: Image.Image) -> int:
    """How the camera was held; damaged EXIF data says nothing about the pixels."""
    with contextlib.suppress(Exception):
        return int(image.getexif().get(ORIENTATION, 1))
    return 1


def _eight_bits(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits, or 32 of which 16 are used
        return image.convert("I").point(lambda value: value * (1 / 257) + 0.5).convert("L")
    if image.mode == "F":
        scale = 255 if image.getextrema()[1] <= 1 else 1  # type: ignore[operator]
        return image.point(lambda value: value * scale + 0.5).convert("L")
    if image.mode in CLEAR or "transparency" in image.info:
        above = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return image


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests (the shape of pixels, or none for a look; sources) until their sender closes the pipe.

    A source is a name, or a number of bytes that follow. The answer holds, for each source, a look or
    nothing, or what is wrong with it; the pixels follow.
    """
    while line := requests.readline():
        shape, items = json.loads(line)
        sources = [item if isinstance(item, str) else requests.read(item) for item in items]
        found: list[object] = []
        pixels = []
        for source in sources:
            try:
                if shape is None:
                    found.append(look(source))
                else:
                    pixels.append(decode(source, shape))
                    found.append(None)
            except Exception as error:  # a damaged image may raise anything
                found.append(why(error))
        replies.write(json.dumps(found).encode() + b"\n" + b"".join(pixels))
        replies.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # whoever asked is gone
        serve(sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # without a last flush of the pipe that may be closed
