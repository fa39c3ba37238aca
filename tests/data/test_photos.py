"""Every kind of image becomes the pixels that one sees; what is no image is said to be none."""

import io

import numpy as np
import pytest
from PIL import Image

from labelsift.data.photos import decode, look, serve, why
from pictures import bomb

RAMP = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5
COLOUR = np.stack([RAMP, RAMP[::-1], 255 - RAMP], axis=-1)


def encoded(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def pixels(content, channels, height=6, width=8):
    return np.frombuffer(decode(content, (channels, height, width)), np.uint8).reshape(
        channels, height, width
    )


def test_colours_are_kept_channel_by_channel():
    assert (pixels(encoded(Image.fromarray(COLOUR)), 3) == COLOUR.transpose(2, 0, 1)).all()


@pytest.mark.parametrize(
    ("mode", "image"),
    [
        ("L", Image.fromarray(RAMP)),
        ("I;16", Image.fromarray(RAMP.astype(np.uint16) * 257)),
        ("LA", Image.merge("LA", [Image.fromarray(RAMP), Image.new("L", (8, 6), 255)])),
    ],
)
def test_grey_of_any_kind_is_one_channel_or_three_alike(mode, image):
    content = encoded(image)
    assert Image.open(io.BytesIO(content)).mode == mode
    assert look(content)[1:] == (8, 6, True)
    assert (pixels(content, 1)[0] == RAMP).all()
    assert (pixels(content, 3) == RAMP).all()


def test_sixteen_bits_keep_their_range_so_that_dark_stays_dark():
    dark = Image.fromarray(RAMP.astype(np.uint16))  # at most 235 of 65535
    assert pixels(encoded(dark), 1).max() == 1
    for kind in ("TIFF", "PPM"):
        whole = Image.fromarray(np.array([[0, 128, 65535]], np.uint16))
        assert pixels(encoded(whole, kind), 1, 1, 3).tolist() == [[[0, 0, 255]]]
        assert look(encoded(whole, kind))[3]


def test_floats_run_from_nought_to_one_or_to_255():
    unit = Image.fromarray(RAMP.astype(np.float32) / 255)
    assert (pixels(encoded(unit, "TIFF"), 1)[0] == RAMP).all()
    assert (pixels(encoded(Image.fromarray(RAMP.astype(np.float32)), "TIFF"), 1)[0] == RAMP).all()


def test_what_is_transparent_shows_white():
    alpha = np.where(np.arange(8) < 4, 0, 255).astype(np.uint8) * np.ones((6, 1), np.uint8)
    content = encoded(Image.fromarray(np.dstack([COLOUR, alpha])))
    seen = pixels(content, 3)
    assert (seen[:, :, :4] == 255).all()
    assert (seen[:, :, 4:] == COLOUR.transpose(2, 0, 1)[:, :, 4:]).all()
    half = pixels(encoded(Image.new("RGBA", (8, 6), (0, 0, 0, 51))), 3)
    assert (half == 204).all()


def test_palettes_with_and_without_a_transparent_colour():
    image = Image.new("P", (8, 6), 1)
    image.putpalette([9, 8, 7, 200, 100, 50])
    assert look(encoded(image))[3] is False
    assert (pixels(encoded(image), 3).reshape(3, -1).T == (200, 100, 50)).all()
    for kind in ("PNG", "GIF"):
        assert (pixels(encoded(image, kind, transparency=1), 3) == 255).all()


def test_two_levels_cmyk_and_the_first_picture_of_several():
    assert pixels(encoded(Image.new("1", (8, 6), 1)), 1).min() == 255
    red = pixels(encoded(Image.new("CMYK", (8, 6), (0, 255, 255, 0)), "TIFF"), 3)
    assert (red.reshape(3, -1).T == (255, 0, 0)).all()
    black, white = Image.new("L", (8, 6), 0), Image.new("L", (8, 6), 255)
    for kind in ("GIF", "TIFF"):
        assert pixels(encoded(black, kind, save_all=True, append_images=[white]), 1).max() == 0


@pytest.mark.parametrize(
    ("orientation", "turned"),
    [
        (1, lambda a: a),
        (2, lambda a: a[:, ::-1]),
        (3, lambda a: a[::-1, ::-1]),
        (4, lambda a: a[::-1]),
        (5, lambda a: a.T),
        (6, lambda a: a[::-1].T),
        (7, lambda a: a[::-1, ::-1].T),
        (8, lambda a: a[:, ::-1].T),
    ],
)
def test_exif_says_how_the_camera_was_held(orientation, turned):
    exif = Image.Exif()
    exif[0x0112] = orientation
    expected = turned(RAMP)
    seen = pixels(encoded(Image.fromarray(RAMP), exif=exif), 1, *expected.shape)
    assert (seen[0] == expected).all()


def test_damaged_exif_is_no_damaged_image():
    content = encoded(Image.fromarray(COLOUR), "JPEG", exif=b"Exif\0\0rubbish", quality=95)
    assert pixels(content, 3).shape == (3, 6, 8)


def test_images_are_resized_whole_and_not_cropped():
    wide = np.zeros((40, 120), np.uint8)
    wide[:, :15] = 240  # would be cut off
    seen = pixels(encoded(Image.fromarray(wide)), 1, 8, 8)[0]
    assert seen[:, 0].min() > 200
    assert seen[:, 2:].max() == 0


def test_a_large_jpeg_looks_as_if_it_were_decoded_in_full():
    y, x = np.mgrid[:600, :800]
    scene = np.stack([x / 800, y / 600, (x + y) / 1400], axis=-1) * 255
    image = Image.fromarray(scene.astype(np.uint8))
    small = np.asarray(image.resize((32, 32), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.abs(pixels(encoded(image, "JPEG"), 3, 32, 32).astype(int) - small).max() <= 6


def reason(content):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever a decoder raises
        decode(content, (3, 8, 8))
    return why(caught.value)


def test_what_is_no_image_is_said_to_be_none(tmp_path):
    assert reason(b"just a letter, renamed to .jpg") == "no known kind of image"
    assert reason(b"") == "no known kind of image"
    assert "decompression bomb" in reason(bomb())
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    for kind in ("PNG", "JPEG"):
        whole = encoded(Image.fromarray(noise), kind)
        assert "truncated" in reason(whole[: len(whole) // 2])
    assert reason(str(tmp_path / "nowhere.png")) == "No such file or directory"
    assert reason(str(tmp_path)) == "no ordinary file"


def test_postscript_is_never_run(monkeypatch):
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *words, **more: pytest.fail("it was run"))
    assert reason(encoded(Image.fromarray(COLOUR), "EPS")) == "no known kind of image"


def test_a_worker_answers_for_each_source_and_goes_on_after_a_bad_one(tmp_path):
    good = encoded(Image.fromarray(RAMP))
    file = tmp_path / "ünï <b>=1.png"
    file.write_bytes(good)
    requests = io.BytesIO(
        b"[null, [%d, 3]]\n" % len(good) + good + b"bad" + f'[[1, 6, 8], [3, "{file}"]]\n'.encode() + b"bad"
    )
    replies = io.BytesIO()
    serve(requests, replies)
    first, second = replies.getvalue().split(b"\n", 1)
    assert b'8, 6, true], "no known kind of image"]' in first
    said, seen = second.split(b"\n", 1)
    assert said == b'["no known kind of image", null]'
    assert seen == RAMP.tobytes()
