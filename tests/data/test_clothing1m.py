import numpy as np
import pytest
import torch
from PIL import Image

from labelsift import InputError
from labelsift.data.clothing1m import CLASSES, load_clothing1m
from labelsift.data.stream import FileStore

KEYS = {
    "noisy_train": [f"images/{place % 3}/0{place}/{place},1.jpg" for place in range(28)],
    "clean_val": ["images/0/a.jpg", "images/1/b.jpg"],
    "clean_test": ["images/2/c.jpg", "images/0/00/0,1.jpg", "images/0/d.jpg"],
}


@pytest.fixture
def place(tmp_path):
    """A small Clothing-1M: picture k of the training part is a plain colour, labelled k modulo 14."""
    folder = tmp_path / "clothing1m"
    for part, keys in KEYS.items():
        for number, key in enumerate(keys):
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (40, 30), (9 * number, 100, 200)).save(folder / key)
        (folder / f"{part}_key_list.txt").write_text("\n".join(keys) + "\n")
    noisy = [f"{key} {number % 14}" for number, key in enumerate(KEYS["noisy_train"])]
    (folder / "noisy_label_kv.txt").write_text("\n".join(noisy[::-1]) + "\n")
    clean = [f"{key} 3" for key in KEYS["clean_val"]] + [f"{key} 5" for key in KEYS["clean_test"]]
    (folder / "clean_label_kv.txt").write_text("\n".join(clean) + "\n\n")
    return folder


def test_the_official_layout(place):
    data = load_clothing1m(place.parent)
    assert data.shape == (3, 256, 256)
    assert data.inputs.paths == tuple(KEYS["noisy_train"])
    assert data.labels.tolist() == [number % 14 for number in range(28)]
    assert data.test_inputs.paths == tuple(KEYS["clean_test"])
    assert data.test_labels.tolist() == [5, 5, 5]
    assert data.validation_inputs.paths == tuple(KEYS["clean_val"])
    assert data.validation_labels.tolist() == [3, 3]
    assert (data.classes, data.crop) == (CLASSES, 224)
    assert data.classes[13] == "Underwear"
    pixels = FileStore(data.inputs, torch.device("cpu"), 0).take(torch.tensor([20, 3]))
    assert pixels.shape == (2, 3, 256, 256)
    assert np.allclose(pixels[:, 0].float().mean((1, 2)), [180, 27], atol=3)


def test_the_folder_itself_and_names_of_its_own(place):
    names = [f"kind {number}" for number in range(14)]
    (place / "category_names_eng.txt").write_text("\n".join(names))
    data = load_clothing1m(place)
    assert data.classes == tuple(names)
    assert data.fingerprint == load_clothing1m(place.parent).fingerprint


def test_what_is_missing_is_named(place, tmp_path):
    with pytest.raises(InputError, match="cannot be downloaded: ask its authors"):
        load_clothing1m(tmp_path / "nowhere")
    (place / KEYS["clean_test"][2]).unlink()
    with pytest.raises(InputError, match=r"clean_test_key_list\.txt names images/0/d\.jpg, which is not in"):
        load_clothing1m(place)
    (place / "clean_val_key_list.txt").write_text("images/9/none.jpg\n")
    with pytest.raises(
        InputError, match=r"names images/9/none\.jpg, which has no label in clean_label_kv\.txt"
    ):
        load_clothing1m(place)
    (place / "clean_val_key_list.txt").write_text("")
    with pytest.raises(InputError, match=r"clean_val_key_list\.txt is empty"):
        load_clothing1m(place)
    (place / "clean_val_key_list.txt").unlink()
    with pytest.raises(InputError, match=r"no clean_val_key_list\.txt in"):
        load_clothing1m(place)


@pytest.mark.parametrize(
    "line", ["images/0/a.jpg 14", "images/0/a.jpg", "images/0/a.jpg -1", "images/0/a.jpg x"]
)
def test_labels_that_are_none(place, line):
    (place / "clean_label_kv.txt").write_text(line)
    with pytest.raises(InputError, match=f"holds the line '{line}'"):
        load_clothing1m(place)


def test_a_list_that_is_no_text(place):
    (place / "noisy_label_kv.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"noisy_label_kv\.txt cannot be read"):
        load_clothing1m(place)
