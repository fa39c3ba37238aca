"""Images are looked at and decoded once, by processes that may crash; a cached set is whole or not there."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labelsift import InputError
from labelsift.data import pixels
from labelsift.data.cache import cache_folder, look_at
from labelsift.data.pixels import decode_all
from labelsift.data.readers import CRASH, Look, Readers
from labelsift.results.store import UNFINISHED
from pictures import LONG_AGO, band_folder, save

SHAPE = (1, 12, 12)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def files(tmp_path):
    return [str(file) for file in sorted(band_folder(tmp_path / "photos", 40).rglob("*.png"))]


@pytest.fixture(scope="module")
def readers():
    with Readers(1) as one:
        yield one


class NoReaders:
    """Stands where nothing must be read."""

    def look(self, sources):
        assert list(sources) == []
        return iter(())

    def decode(self, sources, shape):
        assert list(sources) == []
        return iter(())


class Counting(Readers):
    """Remembers what it was asked to decode."""

    def decode(self, sources, shape):
        self.decoded = list(sources)
        return super().decode(self.decoded, shape)


class Reports(list):
    def __call__(self, done, total):
        self.append((done, total))


def load(files, readers, shape=SHAPE, home="photos"):
    report = Reports()
    looks = look_at(files, home, readers, report)
    return decode_all(files, looks, shape, readers, report), report


def test_the_cache_is_where_one_wants_it(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("LABELSIFT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder() == Path("/elsewhere/labelsift")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/labelsift")


def test_order_places_and_statistics(files, readers, tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    cut = tmp_path / "cut.png"
    cut.write_bytes(Path(files[0]).read_bytes()[:-60])  # of which the header can still be read
    mixed = [*files[:20], str(cut), *files[20:]]
    with Readers(3) as several:
        found, report = load(mixed, several)
    expected = np.stack([np.asarray(Image.open(file)) for file in files])[:, None]
    assert (found.images == expected).all()
    assert found.wrong.keys() == {20}
    assert report[0][1] == len(mixed)
    assert report[-1] == (len(mixed), len(mixed))
    assert found.mean == pytest.approx([expected.mean() / 255])
    assert found.std == pytest.approx([expected.std() / 255])
    text = str(tmp_path / "text.png")
    assert look_at([text], "", readers, Reports()) == ["no known kind of image"]


def test_a_second_time_nothing_is_read(files, readers):
    first, _ = load(files, readers)
    again, report = load(files, NoReaders())
    assert (first.images == again.images).all()
    assert (first.mean, first.std, first.wrong) == (again.mean, again.std, again.wrong)
    assert report == []


def test_a_changed_file_is_seen_and_another_size_is_another_entry(files, readers, tmp_path):
    first, _ = load(files, readers)
    small, _ = load(files, readers, (1, 6, 6))
    assert small.images.shape[1:] == (1, 6, 6)
    save(Path(files[3]), np.full((12, 12), 9, np.uint8))
    os.utime(files[3], (LONG_AGO + 5, LONG_AGO + 5))
    changed, report = load(files, readers)
    assert report[0] == (1, 1)  # only that one is looked at again
    assert (changed.images[3] == 9).all()
    assert (np.delete(changed.images, 3, 0) == np.delete(first.images, 3, 0)).all()
    assert len(list((tmp_path / "cache" / "images").iterdir())) == 2  # the changed one stands for the first


def test_the_same_content_elsewhere_is_not_decoded_again(files, readers, tmp_path):
    first, _ = load(files, readers)
    moved = [str(save(tmp_path / "moved" / f"{n}.png", Image.open(file))) for n, file in enumerate(files)]
    looks = look_at(moved, "moved", readers, Reports())
    again = decode_all(moved, looks, SHAPE, NoReaders(), Reports())
    assert (again.images == first.images).all()


def entries(tmp_path):
    return sorted((tmp_path / "cache" / "images").iterdir())


def test_pictures_that_are_sorted_anew_are_not_decoded_anew(files, readers, tmp_path):
    """As when a user moves some to the folder of another class, and fits again."""
    first, _ = load(files, readers)
    expected = np.array(first.images)
    order = np.random.default_rng(1).permutation(len(files))
    looks = look_at(files, "photos", readers, Reports())
    report = Reports()
    again = decode_all([files[at] for at in order], [looks[at] for at in order], SHAPE, NoReaders(), report)
    assert (again.images == expected[order]).all()
    assert (again.mean, again.std) == (first.mean, first.std)
    assert report[-1] == (len(files), len(files))
    assert len(entries(tmp_path)) == 1  # of twice the same images the newer one is kept


def test_only_new_pictures_are_decoded_and_broken_ones_among_them_are_told(files, readers, tmp_path):
    load(files[:30], readers)
    cut = tmp_path / "cut.png"
    cut.write_bytes(Path(files[35]).read_bytes()[:-60])
    mixed = [files[35], *files[5:20], str(cut), *files[20:32], files[35]]
    with Counting(1) as counting:
        found, _ = load(mixed, counting)
    assert counting.decoded == [files[35], str(cut), *files[30:32], files[35]]
    assert found.wrong.keys() == {16}
    good = [file for file in mixed if file != str(cut)]
    assert (found.images == np.stack([np.asarray(Image.open(file)) for file in good])[:, None]).all()
    assert len(entries(tmp_path)) == 2  # the first has more that the second has not
    with Counting(1) as counting:
        load([*reversed(mixed), files[0]], counting)
    assert counting.decoded == [str(cut)]  # which no set has


@pytest.mark.parametrize("damage", ["", "other\n", "short"])
def test_a_set_whose_content_is_not_known_lends_nothing(files, readers, tmp_path, damage):
    load(files[:20], readers)
    content = entries(tmp_path)[0] / "content.txt"
    content.write_text(content.read_text().rpartition("\n")[0] if damage == "short" else damage)
    with Counting(1) as counting:
        found, _ = load(files[:21], counting)
    assert counting.decoded == files[:21]
    assert (found.images[3, 0] == np.asarray(Image.open(files[3]))).all()


def test_a_set_goes_that_was_not_used_for_long(files, readers, tmp_path):
    load(files[:10], readers)
    load(files[10:20], readers)
    for entry in entries(tmp_path):
        os.utime(entry / "about.json", (LONG_AGO, LONG_AGO))
    load(files[:10], readers)  # is used again
    load(files[20:30], readers)
    sizes = [json.loads((entry / "about.json").read_text())["shape"][0] for entry in entries(tmp_path)]
    assert sizes == [10, 10]
    assert load(files[:10], NoReaders())[1] == []
    with Counting(1) as counting:
        load(files[10:20], counting)
    assert counting.decoded == files[10:20]


def test_a_file_that_is_still_warm_is_read_again(files, readers):
    os.utime(files[0])  # its next change may fall into the same tick of the clock
    load(files, readers)
    _, report = load(files, readers)
    assert report == [(1, 1)]


def test_what_is_damaged_in_the_cache_is_made_anew(files, readers, tmp_path):
    first, _ = load(files, readers)
    expected = np.array(first.images)
    (entry,) = (tmp_path / "cache" / "images").iterdir()
    for damage in (
        lambda: os.truncate(entry / "pixels.u8", 100),
        lambda: (entry / "about.json").write_text("{}"),
        lambda: (entry / "about.json").write_text("[1"),
        lambda: (entry / "pixels.u8").unlink(),
        lambda: next((tmp_path / "cache" / "index").iterdir()).write_text("[]"),
        lambda: next((tmp_path / "cache" / "index").iterdir()).write_text(json.dumps({files[0]: 5})),
    ):
        damage()
        again, _ = load(files, readers)
        assert (again.images == expected).all()


def test_what_a_killed_process_left_is_cleared_away(files, readers, tmp_path):
    left = tmp_path / "cache" / "images" / f"0123{UNFINISHED}"
    left.mkdir(parents=True)
    (left / "pixels.u8").write_bytes(b"half")
    load(files, readers)
    assert [entry.name for entry in left.parent.iterdir() if UNFINISHED in entry.name] == []


def test_nothing_stays_when_decoding_is_broken_off(files, readers, tmp_path):
    def stop(done, total):
        if done < total or total < len(files):
            return
        raise KeyboardInterrupt

    looks = look_at(files, "photos", readers, Reports())
    with pytest.raises(KeyboardInterrupt):
        decode_all(files, looks, SHAPE, readers, stop)
    assert list((tmp_path / "cache" / "images").iterdir()) == []
    assert decode_all(files, looks, SHAPE, readers, Reports()).images.shape == (40, *SHAPE)


def test_a_cache_without_room_or_leave_is_one_sentence(files, readers, tmp_path, monkeypatch):
    looks = look_at(files, "photos", readers, Reports())
    monkeypatch.setattr(pixels.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 10}))
    with pytest.raises(InputError, match=r"no space left.*LABELSIFT_CACHE"):
        decode_all(files, looks, SHAPE, readers, Reports())
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "taken"))
    with pytest.raises(InputError, match="set LABELSIFT_CACHE to another folder"):
        decode_all(files, looks, SHAPE, readers, Reports())


def test_two_that_come_at_once_decode_once(files, readers):
    """Locks belong to open files, so that threads meet them as processes do."""
    looks = look_at(files, "", readers, Reports())
    both = [Reports(), Reports()]

    def decode(report):
        with Readers(1) as mine:
            return decode_all(files, looks, SHAPE, mine, report).images

    with ThreadPoolExecutor(2) as threads:
        one, two = threads.map(decode, both)
    assert (one == two).all()
    assert sorted(len(report) for report in both) == [0, 3]  # one of them did all pieces


def test_an_image_that_crashes_its_decoder_is_left_out_and_the_others_are_not(files, monkeypatch, tmp_path):
    """A decoder that ends the process when it meets one of the files, in place of one with a fault."""
    worker = tmp_path / "worker.py"
    script = (Path(pixels.__file__).parent / "photos.py").read_text()
    known = "def look(source: Source)"
    assert known in script
    crash = "def look(source):\n    if '013' in source: os._exit(11)\n    return see(source)\n\n\n"
    worker.write_text(script.replace(known, crash + known.replace("look", "see")))
    monkeypatch.setattr("labelsift.data.readers.SCRIPT", worker)
    with Readers(2) as readers:
        looks = look_at(files, "", readers, Reports())
    assert [place for place, look in enumerate(looks) if look == CRASH] == [
        place for place, file in enumerate(files) if "013" in file
    ]
    assert sum(isinstance(look, Look) for look in looks) == len(files) - 1


def children():
    lists = [file.read_text().split() for file in Path("/proc/self/task").glob("*/children")]
    return {child for some in lists for child in some}


def test_workers_end_when_they_are_no_longer_needed(files):
    before = children()
    with Readers(2) as readers:
        answers = readers.decode(files * 5, SHAPE)
        next(answers)
        assert children() > before
    assert children() == before


def test_bytes_and_files_are_the_same(files, readers):
    contents = [Path(file).read_bytes() for file in files]
    assert list(readers.look(contents)) == list(readers.look(files))
    ours = b"".join(decoded.pixels for decoded in readers.decode(contents, SHAPE))
    assert ours == b"".join(decoded.pixels for decoded in readers.decode(files, SHAPE))


def test_the_index_is_whole_even_when_files_have_odd_names(readers, tmp_path):
    folder = os.fsencode(tmp_path)
    name = os.path.join(folder, b"\xff\xfe=cmd().png")
    image = save(tmp_path / "plain.png", np.zeros((12, 12), np.uint8))
    os.link(image, name)
    (look,) = look_at([os.fsdecode(name)], "odd", readers, Reports())
    assert isinstance(look, Look)
    assert look_at([os.fsdecode(name)], "odd", NoReaders(), Reports()) == [look]
    (index,) = (tmp_path / "cache" / "index").iterdir()
    assert len(json.loads(index.read_text())) == 1
