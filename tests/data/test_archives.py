import io
import os
import pickle
import struct
import tarfile
import zipfile

import numpy as np
import pytest
import torch

from labelsift import InputError
from labelsift.data.archives import read_pickled_arrays, read_pt_arrays, unpack


def tar(file, *members, mode="w:gz"):
    """An archive of plain files, given as (path, content), and of ready-made members."""
    with tarfile.open(file, mode) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return file


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_the_top_folder_is_put_in_place(tmp_path):
    archive = tar(
        tmp_path / "a.tar.gz", special("set", tarfile.DIRTYPE), ("set/one", b"1"), ("set/in/two", b"2")
    )
    unpack(archive, tmp_path / "data" / "set")
    assert (tmp_path / "data" / "set" / "one").read_bytes() == b"1"
    assert (tmp_path / "data" / "set" / "in" / "two").read_bytes() == b"2"
    assert os.listdir(tmp_path / "data") == ["set"]
    unpack(archive, tmp_path / "other")
    assert (tmp_path / "other" / "set" / "one").read_bytes() == b"1"


def test_what_another_process_unpacked_meanwhile_stays(tmp_path):
    archive = tar(tmp_path / "a.tar.gz", ("set/one", b"1"))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "one").write_bytes(b"theirs")
    unpack(archive, tmp_path / "set")
    assert (tmp_path / "set" / "one").read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path)) == ["a.tar.gz", "set"]


@pytest.mark.parametrize(
    ("member", "says"),
    [
        (("../out", b"x"), "would write to ../out, outside"),
        (("set/../../out", b"x"), "outside of its folder"),
        (("/tmp/labelsift-out", b"x"), "would write to /tmp/labelsift-out"),
        (special("set/link", tarfile.SYMTYPE, "/etc"), "a link or device"),
        (special("set/link", tarfile.SYMTYPE, "one"), "a link or device"),
        (special("set/link", tarfile.LNKTYPE, "set/one"), "a link or device"),
        (special("set/pipe", tarfile.FIFOTYPE), "a link or device"),
        (special("set/device", tarfile.CHRTYPE), "a link or device"),
    ],
)
def test_members_that_leave_the_folder(tmp_path, member, says):
    archive = tar(tmp_path / "a.tar.gz", ("set/one", b"1"), member)
    (tmp_path / "data").mkdir()
    with pytest.raises(InputError, match=says):
        unpack(archive, tmp_path / "data" / "set")
    assert os.listdir(tmp_path / "data") == []
    assert sorted(os.listdir(tmp_path)) == ["a.tar.gz", "data"]
    assert not os.path.exists("/tmp/labelsift-out")


def test_damaged_archives_leave_nothing(tmp_path):
    content = np.random.default_rng(0).bytes(50_000)
    whole = tar(tmp_path / "whole.tar.gz", ("set/one", content), ("set/two", content)).read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    plain = tar(tmp_path / "plain.tar", ("set/one", content), mode="w").read_bytes()
    for damaged in (b"", b"no archive", whole[:200], whole[:60_000], whole[:-5], bytes(flipped), plain):
        file = tmp_path / "damaged.tar.gz"
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"damaged.tar.gz is damaged .*: remove it"):
            unpack(file, tmp_path / "data" / "set")
        assert os.listdir(tmp_path / "data") == []


CONTENT = {
    "data": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
    "other order": np.array([1.5, -2], ">f4"),
    "labels": [1, 2, 3],
    "names": ["a", "b"],
    "number": 7,
    "scalar": np.int64(9),
}


def same(read):
    assert list(read) == list(CONTENT)
    for key, value in CONTENT.items():
        assert type(read[key]) is type(value)
        assert np.array_equal(read[key], value)
    return True


@pytest.mark.parametrize("protocol", range(5))
def test_arrays_come_back(tmp_path, protocol):
    (tmp_path / "a").write_bytes(pickle.dumps(CONTENT, protocol))
    assert same(read_pickled_arrays(tmp_path / "a"))


def test_arrays_come_back_from_torch(tmp_path):
    torch.save(CONTENT, tmp_path / "a.pt")
    assert same(read_pt_arrays(tmp_path / "a.pt"))


def test_strings_of_python_2_stay_bytes(tmp_path):
    def string(text):
        return b"T" + struct.pack("<i", len(text)) + text

    (tmp_path / "a").write_bytes(b"\x80\x02}" + string(b"name") + string(b"\xff\x00") + b"s.")
    assert read_pickled_arrays(tmp_path / "a") == {"name": b"\xff\x00"}


class Call:
    """Pickles as a call, which is made when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def write(folder, form, content):
    """The file in one of the two forms, and its reader."""
    file = folder / f"a{form}"
    if form == ".pt":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", content)
        return file, read_pt_arrays
    file.write_bytes(content)
    return file, read_pickled_arrays


@pytest.mark.parametrize("form", [".pickle", ".pt"])
@pytest.mark.parametrize("protocol", range(5))
def test_a_pickle_made_to_harm_is_refused_and_not_executed(tmp_path, form, protocol):
    mark = tmp_path / "executed"
    harm = [
        (Call(os.system, f"touch {mark}"), r"it asks for posix\.system"),
        (Call(eval, f"open({str(mark)!r}, 'w')"), r"it asks for \w+\.eval"),
        (Call(os.mkdir, str(mark)), r"it asks for posix\.mkdir"),
        (Call(np.fromfile, str(mark)), r"it asks for numpy[._a-z]*\.fromfile"),
        (Call(np.load, str(mark)), r"it asks for numpy[._a-z]*\.load"),
    ]
    for call, says in harm:
        for content in ({"data": np.zeros(3), "labels": call}, {"labels": [call]}, call):
            file, read = write(tmp_path, form, pickle.dumps(content, protocol))
            with pytest.raises(InputError, match=says):
                read(file)
            assert not mark.exists()


def test_names_of_modules_are_not_split_to_get_elsewhere(tmp_path):
    for raw in (b"cnumpy\n_core.multiarray.scalar\n.", b"c_codecs.encode\n__globals__\n.", b"cos\nsystem\n."):
        file, read = write(tmp_path, ".pickle", raw)
        with pytest.raises(InputError, match="plain arrays"):
            read(file)


@pytest.mark.parametrize("form", [".pickle", ".pt"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([1, 2], "a list, not a dict"),
        ({"data": np.array([{}, None], dtype=object)}, "an array of O8, not of numbers"),
        ({"data": np.array(["a", "b"])}, "an array of U1"),
        ({"data": np.zeros(2, [("a", "i4")])}, "not of numbers"),
        ({"data": {"deep": 1}}, "a dict"),
        ({1: 2}, "a int for a name"),
        ({"data": 1j}, "it asks for .*complex"),
    ],
)
def test_other_things_than_arrays(tmp_path, form, content, says):
    file, read = write(tmp_path, form, pickle.dumps(content, 2))
    with pytest.raises(InputError, match=says):
        read(file)


def test_tensors_are_not_read(tmp_path):
    torch.save({"labels": torch.zeros(3)}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"a\.pt holds more than plain arrays"):
        read_pt_arrays(tmp_path / "a.pt")


def test_damaged_pickles(tmp_path):
    whole = pickle.dumps(CONTENT, 2)
    wrong_shape = pickle.dumps({"data": np.zeros(300, np.uint8)}, 2).replace(b"M\x2c\x01", b"M\x2d\x01")
    for damaged in (b"", b"text", whole[:50], whole[:-1], wrong_shape):
        file, read = write(tmp_path, ".pickle", damaged)
        with pytest.raises(InputError, match="damaged"):
            read(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_pickled_arrays(tmp_path / "nowhere")


def test_damaged_pt_files(tmp_path):
    file = tmp_path / "a.pt"
    torch.save(CONTENT, file)
    whole = file.read_bytes()
    place = whole.index(bytes(range(12)))
    flipped = whole[:place] + b"\x55" + whole[place + 1 :]
    for damaged in (b"", b"text", whole[: len(whole) // 2], flipped):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.pt is damaged"):
            read_pt_arrays(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/version", "3")
    with pytest.raises(InputError, match=r"holds 0 files data\.pkl"):
        read_pt_arrays(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_pt_arrays(tmp_path / "nowhere.pt")
