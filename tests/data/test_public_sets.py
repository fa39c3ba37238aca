import gzip
import hashlib
import struct
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from labelsift import InputError
from labelsift.data import cifar, download, fashion_mnist
from labelsift.data.cifar import load_cifar10, load_cifar100
from labelsift.data.cifar_n import VARIANTS, load_cifar10n, load_cifar100n
from labelsift.data.fashion_mnist import load_fashion_mnist

rng = np.random.default_rng(0)
grey = rng.integers(0, 256, (30, 28, 28), dtype=np.uint8)
colour = rng.integers(0, 256, (30, 3, 32, 32), dtype=np.uint8)
ten = np.arange(30, dtype=np.uint8) % 10
hundred = ten * 9


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Every address refuses, as it does offline."""

    def refuse(request, timeout):
        raise download.urllib.error.URLError(ConnectionRefusedError(111, "Connection refused"))

    monkeypatch.setattr(download.urllib.request, "urlopen", refuse)


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_fashion(folder, packed=True):
    """Twenty training and ten test images in the official files."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": slice(0, 20), "t10k": slice(20, 30)}
    for part, rows in parts.items():
        for name, array in (("images-idx3", grey), ("labels-idx1", ten)):
            raw = idx(array[rows])
            file = folder / f"{part}-{name}-ubyte{'.gz' if packed else ''}"
            file.write_bytes(gzip.compress(raw) if packed else raw)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["fashion-mnist", "."])
def test_fashion_mnist_from_its_files(tmp_path, packed, place):
    write_fashion(tmp_path / place, packed)
    data = load_fashion_mnist(tmp_path)
    assert data.name == "fashion-mnist"
    assert data.inputs.shape == (20, 1, 28, 28)
    assert (data.inputs[:, 0] == grey[:20]).all()
    assert data.labels.tolist() == ten[:20].tolist()
    assert (data.test_inputs[:, 0] == grey[20:]).all()
    assert data.test_labels.tolist() == ten[20:].tolist()
    assert data.true_labels is None
    assert data.classes[0] == "T-shirt/top"
    assert data.classes[9] == "Ankle boot"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no idx file"),
        (idx(grey[:20])[:10], "no idx file"),
        (idx(grey[:20])[:-1], "15679 bytes for 20 examples"),
        (idx(grey[:20]) + b"x", "15681 bytes for 20 examples"),
        (idx(ten[:20]), "no idx file of bytes in 3 dimensions"),
        (idx(grey[:20]).replace(b"\x00\x00\x08", b"\x00\x00\x0d", 1), "no idx file"),
        (idx(grey[:20, :27]), r"the shape \(27, 28\), not \(28, 28\)"),
        (gzip.compress(idx(grey[:20]))[:-9], "is damaged"),
        (gzip.compress(idx(grey[:20]))[:-4] + b"1234", "is damaged"),
        (idx(grey[:19]), "There are 19 images in .* but 20 labels in .*: remove both"),
    ],
)
def test_idx_files_that_cannot_be_used(tmp_path, content, says):
    write_fashion(tmp_path / "fashion-mnist", packed=False)
    (tmp_path / "fashion-mnist" / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(InputError, match=says) as error:
        load_fashion_mnist(tmp_path)
    assert "train-images-idx3-ubyte" in str(error.value)


def test_fashion_mnist_offline(tmp_path):
    with pytest.raises(InputError) as error:
        load_fashion_mnist(tmp_path)
    assert str(error.value) == (
        f"train-images-idx3-ubyte.gz is not in {tmp_path / 'fashion-mnist'} and cannot be downloaded "
        f"(Connection refused): put it there from {fashion_mnist.ADDRESS}train-images-idx3-ubyte.gz."
    )


def binary(images, *labels):
    """Records of label bytes and pixels."""
    rows = [np.asarray(some, np.uint8)[:, None] for some in labels]
    return np.concatenate([*rows, images.reshape(len(images), -1)], axis=1).tobytes()


def write_bin10(folder):
    folder.mkdir(parents=True)
    for number in range(5):
        rows = slice(4 * number, 4 * number + 4)
        (folder / f"data_batch_{number + 1}.bin").write_bytes(binary(colour[rows], ten[rows]))
    (folder / "test_batch.bin").write_bytes(binary(colour[20:], ten[20:]))


def write_bin100(folder):
    folder.mkdir(parents=True)
    (folder / "train.bin").write_bytes(binary(colour[:20], ten[:20], hundred[:20]))
    (folder / "test.bin").write_bytes(binary(colour[20:], ten[20:], hundred[20:]))
    (folder / "fine_label_names.txt").write_text("".join(f"class_{number}\n" for number in range(100)))


def python_2(value):
    """A pickle of protocol 2 as Python 2 wrote it, without its frame: strings are bytes."""
    if isinstance(value, dict):
        return b"}(" + b"".join(python_2(key) + python_2(value[key]) for key in value) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(python_2, value)) + b"e"
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode()
    kind = b"cnumpy\ndtype\n" + python_2("u1") + b"K\x00K\x01\x87R(K\x03" + python_2("|") + b"NNN"
    kind += python_2(-1) + python_2(-1) + b"K\x00tb"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + python_2("b") + b"\x87R"
    raw = b"T" + struct.pack("<i", value.size) + value.tobytes()
    return empty + b"(K\x01" + b"".join(map(python_2, value.shape)) + b"\x86" + kind + b"\x89" + raw + b"tb"


def batch(images, **labels):
    lists = {key: [int(label) for label in some] for key, some in labels.items()}
    content = {"batch_label": "a batch", "data": images.reshape(len(images), -1), **lists}
    return b"\x80\x02" + python_2(content) + b"."


def write_py10(folder):
    folder.mkdir(parents=True)
    for number in range(5):
        rows = slice(4 * number, 4 * number + 4)
        (folder / f"data_batch_{number + 1}").write_bytes(batch(colour[rows], labels=ten[rows]))
    (folder / "test_batch").write_bytes(batch(colour[20:], labels=ten[20:]))


def write_py100(folder):
    folder.mkdir(parents=True)
    for name, rows in (("train", slice(0, 20)), ("test", slice(20, 30))):
        content = batch(colour[rows], coarse_labels=ten[rows], fine_labels=hundred[rows])
        (folder / name).write_bytes(content)
    names = [f"class_{number}" for number in range(100)]
    (folder / "meta").write_bytes(b"\x80\x02" + python_2({"fine_label_names": names}) + b".")


WRITERS = {
    "cifar-10-batches-bin": (write_bin10, "cifar-10-binary.tar.gz", load_cifar10, ten),
    "cifar-10-batches-py": (write_py10, "cifar-10-python.tar.gz", load_cifar10, ten),
    "cifar-100-binary": (write_bin100, "cifar-100-binary.tar.gz", load_cifar100, hundred),
    "cifar-100-python": (write_py100, "cifar-100-python.tar.gz", load_cifar100, hundred),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", WRITERS)
def test_cifar_from_each_release(tmp_path, form, packed):
    write, archive, load, labels = WRITERS[form]
    folder = tmp_path / "data"
    if packed:
        write(tmp_path / form)
        folder.mkdir()
        with tarfile.open(folder / archive, "w:gz") as tar:
            tar.add(tmp_path / form, form)
    else:
        write(folder / form)
    data = load(folder)
    assert data.name == load.__name__.removeprefix("load_")
    assert (data.inputs == colour[:20]).all()
    assert (data.test_inputs == colour[20:]).all()
    assert data.labels.tolist() == labels[:20].tolist()
    assert data.test_labels.tolist() == labels[20:].tolist()
    assert data.true_labels is None
    assert data.classes[3] == ("cat" if load is load_cifar10 else "class_3")
    assert (folder / form).is_dir()
    assert load(folder).fingerprint == data.fingerprint


def test_cifar_is_downloaded_once(tmp_path, monkeypatch):
    write_bin10(tmp_path / "cifar-10-batches-bin")
    archive = tmp_path / "served.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
    release = replace(cifar.CIFAR10[0], md5=hashlib.md5(archive.read_bytes()).hexdigest())
    asked = []

    def serve(file, url, md5, observe):
        asked.append(url)
        assert md5 == release.md5
        file.write_bytes(archive.read_bytes())
        return file

    monkeypatch.setattr(cifar, "CIFAR10", (release, cifar.CIFAR10[1]))
    monkeypatch.setattr(cifar, "fetch", serve)
    (tmp_path / "data").mkdir()
    assert len(load_cifar10(tmp_path / "data").labels) == 20
    assert len(load_cifar10(tmp_path / "data").labels) == 20
    assert asked == ["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"]


@pytest.mark.parametrize(("load", "name"), [(load_cifar10, "cifar-10"), (load_cifar100, "cifar-100")])
def test_cifar_offline(tmp_path, load, name):
    address = f"https://www.cs.toronto.edu/~kriz/{name}-binary.tar.gz"
    with pytest.raises(InputError) as error:
        load(tmp_path)
    assert str(error.value) == (
        f"{name}-binary.tar.gz is not in {tmp_path} and cannot be downloaded (Connection refused): "
        f"put it there from {address}."
    )
    assert not list(tmp_path.iterdir())


def test_cifar_files_that_cannot_be_used(tmp_path):
    write_bin10(tmp_path / "cifar-10-batches-bin")
    file = tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin"
    whole = file.read_bytes()
    for content in (b"", whole[:-1], whole + b"x"):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"data_batch_3.bin is damaged .* records of 3073"):
            load_cifar10(tmp_path)
    file.write_bytes(b"\x0a" + whole[1:])
    with pytest.raises(InputError, match="Label 10 of example 8"):
        load_cifar10(tmp_path)
    file.unlink()
    with pytest.raises(InputError, match=r"no file .*data_batch_3.bin: put it there, or remove"):
        load_cifar10(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (batch(colour[:4], fine_labels=ten[:4]), "no 'labels' for its 4 images"),
        (batch(colour[:4], labels=ten[:3]), "no 'labels' for its 4 images"),
        (batch(colour[:4, :, :16], labels=ten[:4]), "no 'data' of 3072 bytes"),
        (b"\x80\x02}.", "no 'data'"),
        (b"cos\nsystem\n(S'true'\ntR.", r"it asks for os\.system"),
        (batch(colour[:4], labels=ten[:4])[:5000], "damaged"),
    ],
)
def test_python_batches_that_cannot_be_used(tmp_path, content, says):
    write_py10(tmp_path / "cifar-10-batches-py")
    (tmp_path / "cifar-10-batches-py" / "data_batch_2").write_bytes(content)
    with pytest.raises(InputError, match=says) as error:
        load_cifar10(tmp_path)
    assert "data_batch_2" in str(error.value)


def test_numbers_where_names_are_missing(tmp_path):
    write_bin100(tmp_path / "cifar-100-binary")
    names = tmp_path / "cifar-100-binary" / "fine_label_names.txt"
    for change in (lambda: names.write_text("apple\n"), names.unlink):
        change()
        assert load_cifar100(tmp_path).classes == tuple(map(str, range(100)))


def human(labels, keys):
    """Labels of which each set differs from the clean ones in its own place."""
    content = {"clean_label": labels[:20].astype(np.int64)}
    for place, key in enumerate(keys):
        content[key] = content["clean_label"].copy()
        content[key][place] = 5
    return content


@pytest.mark.parametrize("place", [".", "cifar-n"])
@pytest.mark.parametrize("form", ["CIFAR-10_human.pt", "cifar10n.npz"])
def test_cifar10n_has_every_variant(tmp_path, place, form):
    write_bin10(tmp_path / "cifar-10-batches-bin")
    content = human(ten, VARIANTS.values())
    (tmp_path / place).mkdir(exist_ok=True)
    file = tmp_path / place / form
    torch.save(content, file) if file.suffix == ".pt" else np.savez(file, **content)
    for variant, key in VARIANTS.items():
        data = load_cifar10n(tmp_path, variant=variant)
        assert data.name == f"cifar10n:{variant}"
        assert (data.inputs == colour[:20]).all()
        assert data.labels.tolist() == content[key].tolist()
        assert data.true_labels.tolist() == ten[:20].tolist()
        assert data.test_labels.tolist() == ten[20:].tolist()
        assert data.classes[9] == "truck"


@pytest.mark.parametrize("form", ["CIFAR-100_human.pt", "cifar100n.npz"])
def test_cifar100n(tmp_path, form):
    write_py100(tmp_path / "cifar-100-python")
    content = human(hundred, ["noisy_label"])
    file = tmp_path / form
    torch.save(content, file) if file.suffix == ".pt" else np.savez(file, **content)
    data = load_cifar100n(tmp_path)
    assert data.name == "cifar100n"
    assert data.labels.tolist() == content["noisy_label"].tolist()
    assert data.true_labels.tolist() == hundred[:20].tolist()
    assert data.num_classes == 100


def test_human_labels_that_cannot_be_used(tmp_path):
    write_bin10(tmp_path / "cifar-10-batches-bin")
    with pytest.raises(InputError, match=r"put CIFAR-10_human.pt from https://.* there, or cifar10n.npz"):
        load_cifar10n(tmp_path, variant="worst")
    with pytest.raises(InputError, match=r"put CIFAR-100_human.pt from https://.* there, or cifar100n.npz"):
        load_cifar100n(tmp_path)
    with pytest.raises(InputError, match="no variant of cifar10n 'worse': did you mean 'worst'"):
        load_cifar10n(tmp_path, variant="worse")
    good = human(ten, VARIANTS.values())
    cases = [
        ({"clean_label": good["clean_label"]}, "no array 'worse_label': it holds clean_label"),
        ({"worse_label": good["worse_label"]}, "no array 'clean_label'"),
        (good | {"clean_label": good["clean_label"][::-1]}, "are not those of the images"),
        (good | {"clean_label": good["clean_label"][:19]}, "are not those of the images"),
        (good | {"worse_label": good["worse_label"][:19]}, "20 examples in x but 19 labels in y"),
        (good | {"worse_label": good["worse_label"] + 5}, "outside 0..9"),
        (good | {"worse_label": np.array([{}] * 20, dtype=object)}, "cifar10n.npz holds pickled"),
    ]
    for content, says in cases:
        np.savez(tmp_path / "cifar10n.npz", **content)
        with pytest.raises(InputError, match=says):
            load_cifar10n(tmp_path, variant="worst")
    for content in (b"", b"text"):
        (tmp_path / "cifar10n.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"cifar10n.npz is (empty|damaged)"):
            load_cifar10n(tmp_path, variant="worst")


def test_human_labels_are_looked_for_before_anything_is_downloaded(tmp_path):
    with pytest.raises(InputError, match="The human labels are not in"):
        load_cifar10n(tmp_path, variant="worst")
