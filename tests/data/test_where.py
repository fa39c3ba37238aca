"""Where the files of each public data set are, before anything in them is read."""

import pytest

from labelsift import InputError
from labelsift.data import DATASETS, load, where
from labelsift.data.cifar_n import VARIANTS
from reproduce.small import WRITERS, write_people

BINARY = [
    f"cifar-10-batches-bin/{name}.bin" for name in ("test_batch", *(f"data_batch_{n}" for n in range(1, 6)))
]
PYTHON = [f"cifar-10-batches-py/{name}" for name in ("test_batch", *(f"data_batch_{n}" for n in range(1, 6)))]
LISTS = [f"{part}_key_list.txt" for part in ("noisy_train", "clean_val", "clean_test")]
LISTS += ["noisy_label_kv.txt", "clean_label_kv.txt"]
IDX = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
CIFAR10 = [BINARY, PYTHON, ["cifar-10-binary.tar.gz"], ["cifar-10-python.tar.gz"]]
CIFAR100 = [[f"cifar-100-binary/{name}.bin" for name in ("train", "test")]]
CIFAR100 += [[f"cifar-100-python/{name}" for name in ("train", "test")]]
CIFAR100 += [["cifar-100-binary.tar.gz"], ["cifar-100-python.tar.gz"]]
PEOPLE = ("CIFAR-10_human.pt", "cifar10n.npz", "cifar-n/CIFAR-10_human.pt", "cifar-n/cifar10n.npz")
LAYOUTS = {
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "fashion-mnist": [
        [f"{place}{name}{ending}" for name in IDX]
        for place in ("fashion-mnist/", "")
        for ending in (".gz", "")
    ],
    "clothing1m": [[f"clothing1m/{name}" for name in LISTS], LISTS],
    "cifar10n:worst": [[*images, labels] for images in CIFAR10 for labels in PEOPLE],
    "cifar10n:aggregate": [[*BINARY, PEOPLE[0]]],
    "cifar100n": [[*images, labels.replace("10", "100")] for images in CIFAR100 for labels in PEOPLE],
}
CASES = [(name, files) for name, layouts in LAYOUTS.items() for files in layouts]


@pytest.mark.parametrize(("name", "files"), CASES)
def test_a_set_is_here_with_the_last_of_its_files(tmp_path, name, files):
    for file in files:
        assert where(name, str(tmp_path)) != "here"
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(b"anything")
    assert where(name, str(tmp_path)) == "here"


def test_what_can_be_downloaded(tmp_path):
    places = {name: where(name, str(tmp_path)) for name in DATASETS}
    people = [*(f"cifar10n:{variant}" for variant in VARIANTS), "cifar100n"]
    assert places.pop("fashion-demo") == "here"
    assert {name for name, place in places.items() if place == "online"} == {
        "fashion-mnist",
        "cifar10",
        "cifar100",
    }
    assert {name for name, place in places.items() if place == "by hand"} == {*people, "clothing1m"}
    (tmp_path / "cifar-10-binary.tar.gz").touch()  # which is downloaded as if it were not there
    assert where("cifar10", str(tmp_path)) == "online"
    (tmp_path / "cifar10n.npz").touch()
    assert where("cifar10n:random2", str(tmp_path)) == "online"  # its images
    (tmp_path / "cifar-10-batches-py").mkdir()  # is not filled by a download
    assert where("cifar10", str(tmp_path)) == where("cifar10n:random2", str(tmp_path)) == "by hand"


def test_names_are_known(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no data set 'cifar10n:worse': did you mean 'cifar10n:worst'"):
        where("cifar10n:worse")
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"anything")
    monkeypatch.setenv("LABELSIFT_DATA", str(tmp_path))
    assert where("cifar10") == "here"


@pytest.mark.parametrize("name", [*WRITERS, "cifar10n:worst", "cifar100n"])
def test_what_is_here_is_read(tmp_path, name):
    images = {"cifar10n:worst": "cifar10", "cifar100n": "cifar100"}.get(name, name)
    WRITERS[images](tmp_path)
    if images != name:
        write_people(tmp_path)
    assert where(name, str(tmp_path)) == "here"
    assert load(name, str(tmp_path)).name == name
