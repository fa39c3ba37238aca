import pytest
import torch

from labelsift import InputError
from labelsift.data import Views, default_augment


def pictures(count=6, channels=3, height=10, width=16):
    return torch.randint(0, 256, (count, channels, height, width), dtype=torch.uint8)


def test_plain_view_is_normalised_by_the_statistics_of_the_channels():
    x = pictures(50)
    plain = Views.of(x, "none").plain(x)
    torch.testing.assert_close(plain.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(plain.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5, rtol=0)


def test_constant_channels_and_columns_do_not_divide_by_zero():
    x = torch.full((4, 1, 5, 5), 7, dtype=torch.uint8)
    assert Views.of(x, "none").plain(x).abs().max() < 1e-5
    rows = torch.tensor([[1.0, 2.0], [1.0, 4.0]])
    assert Views.of(rows, "none").plain(rows).tolist() == [[0, -1], [0, 1]]


def test_random_view_is_one_of_the_crops_and_flips_of_each_image():
    x = pictures(40)
    views = Views.of(x, "crop+flip")
    assert views.padding == 2
    random = views.random(x, torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2))
    seen = set()
    for image, view in zip(padded, random, strict=True):
        found = []
        for top in range(5):
            for left in range(5):
                crop = image[:, top : top + 10, left : left + 16]
                for flip in (False, True):
                    if torch.equal(views.plain((crop.flip(2) if flip else crop)[None])[0], view):
                        found.append((top, left, flip))
        assert len(found) == 1
        seen.add(found[0])
    assert len(seen) > 20
    assert {flip for _, _, flip in seen} == {False, True}


def test_views_can_be_cut_out_of_larger_images():
    x = pictures(60)
    views = Views.of(x, "crop+flip", size=7)
    centre = x[:, :, 1:8, 4:11]
    assert torch.equal(views.plain(x), Views.of(x, "none").plain(centre))
    seen = set()
    for image, view in zip(x, views.random(x, torch.Generator().manual_seed(0)), strict=True):
        found = []
        for top in range(4):
            for left in range(10):
                crop = image[:, top : top + 7, left : left + 7]
                for flip in (False, True):
                    if torch.equal(views.plain((crop.flip(2) if flip else crop)[None])[0], view):
                        found.append((top, left, flip))
        assert len(found) == 1
        seen.add(found[0])
    assert [{place[k] for place in seen} for k in range(3)] == [set(range(4)), set(range(10)), {False, True}]


def test_without_a_random_crop_the_centre_is_cut_out():
    x = pictures()
    views = Views.of(x, "flip", size=7)
    plain = views.plain(x)
    for view, image in zip(views.random(x, torch.Generator().manual_seed(0)), plain, strict=True):
        assert torch.equal(view, image) or torch.equal(view, image.flip(2))
    assert not Views.of(x, "none", size=7).differ
    assert Views.of(x, "crop", size=7).differ


def test_views_larger_than_the_images():
    with pytest.raises(InputError, match="Views of 12 pixels cannot be cut out of images of 10 x 16"):
        Views.of(pictures(), "crop", size=12)


def test_given_statistics_win_over_computed_ones():
    x = pictures()
    plain = Views.of(x, "none", (0.5, 0.25, 0.0), (0.5, 1.0, 2.0)).plain(x)
    scaled = x.float() / 255
    torch.testing.assert_close(plain[:, 0], (scaled[:, 0] - 0.5) / 0.5)
    torch.testing.assert_close(plain[:, 1], scaled[:, 1] - 0.25)
    torch.testing.assert_close(plain[:, 2], scaled[:, 2] / 2)


def test_two_views_differ_and_a_seed_repeats_them():
    x = pictures()
    views = Views.of(x, "crop")
    generator = torch.Generator().manual_seed(1)
    first, second = views.random(x, generator), views.random(x, generator)
    assert not torch.equal(first, second)
    assert torch.equal(first, views.random(x, torch.Generator().manual_seed(1)))


def test_rows_and_unaugmented_images_have_one_view():
    for x in (torch.randn(5, 3), pictures()):
        views = Views.of(x, "none")
        assert torch.equal(views.random(x, torch.Generator()), views.plain(x))


def test_augmentation_follows_from_the_kind_of_data():
    assert [default_augment(s) for s in [(3, 32, 32), (1, 28, 28), (9,)]] == ["crop+flip", "none", "none"]


def test_unknown_augmentation():
    with pytest.raises(InputError, match="did you mean 'flip'"):
        Views.of(pictures(), "flop")
