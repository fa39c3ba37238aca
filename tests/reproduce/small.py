"""The paper made small: data in the official layouts, tiny nets by the names of the large ones."""

import gzip
import json
import struct
from typing import ClassVar

import numpy as np
import torch
from PIL import Image
from torch import nn

from labelsift.cli import app
from labelsift.errors import InputError
from labelsift.reproduce.layers import measure_layers


def write_cifar10(folder, per_batch=20):
    rng = np.random.default_rng(0)
    (folder / "cifar-10-batches-bin").mkdir(parents=True)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        rows = rng.integers(0, 256, (per_batch, 3073), dtype=np.uint8)
        rows[:, 0] = np.arange(per_batch) % 10
        rows.tofile(folder / "cifar-10-batches-bin" / f"{name}.bin")


def write_cifar100(folder, count=100):
    rng = np.random.default_rng(0)
    (folder / "cifar-100-binary").mkdir(parents=True)
    for name in ("train", "test"):
        rows = rng.integers(0, 256, (count, 3074), dtype=np.uint8)
        rows[:, 1] = np.arange(count) % 100
        rows.tofile(folder / "cifar-100-binary" / f"{name}.bin")


def write_fashion_mnist(folder, count=60):
    (folder / "fashion-mnist").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for name, magic, array in (("images-idx3", 2051, images), ("labels-idx1", 2049, labels)):
            header = struct.pack(f">{1 + array.ndim}I", magic, *array.shape)
            (folder / "fashion-mnist" / f"{part}-{name}-ubyte.gz").write_bytes(
                gzip.compress(header + array.tobytes())
            )


def write_clothing1m(folder, count=16):
    place = folder / "clothing1m"
    place.mkdir(parents=True)
    labels = {"noisy": [], "clean": []}
    for part, kind in (("noisy_train", "noisy"), ("clean_val", "clean"), ("clean_test", "clean")):
        keys = [f"{part}-{number}.jpg" for number in range(count)]
        for number, key in enumerate(keys):
            Image.new("RGB", (40, 30), (9 * number, 100, 200)).save(place / key)
            labels[kind].append(f"{key} {number % 14}")
        (place / f"{part}_key_list.txt").write_text("\n".join(keys))
    for kind, lines in labels.items():
        (place / f"{kind}_label_kv.txt").write_text("\n".join(lines))


def write_people(folder, count=100):
    """Labels by people for the training images of either CIFAR, some of them wrong."""
    clean = np.arange(count)
    for file, key, classes in (("cifar10n", "worse_label", 10), ("cifar100n", "noisy_label", 100)):
        true = clean % classes
        given = dict.fromkeys(("aggre_label", "random_label1", key), np.where(clean % 3, true, 0))
        np.savez(folder / f"{file}.npz", clean_label=true, **given)


WRITERS = {"cifar10": write_cifar10, "cifar100": write_cifar100}
WRITERS |= {"fashion-mnist": write_fashion_mnist, "clothing1m": write_clothing1m}


class Tiny(nn.Module):
    """A net with the children that the paper's cuts name."""

    cuts: ClassVar = {2: ("fc",), 3: ("layer4", "fc")}

    def __init__(self, num_classes, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 4, 3, stride=4)
        self.layer3 = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1))
        self.layer4 = nn.Conv2d(4, 8, 3, padding=1)
        self.fc = nn.Linear(8, num_classes)

    def forward(self, images):
        features = torch.relu(self.layer4(torch.relu(self.layer3(torch.relu(self.conv1(images))))))
        return self.fc(features.mean((2, 3)))


class InThisProcess:
    """Stands in for `subprocess.Popen`: what the command would do, without starting an interpreter."""

    def __init__(self, command, **ignored):
        module, *words = command[2:]
        self.error, self.returncode = "", 0
        try:
            if module == "labelsift":
                app(list(words), standalone_mode=False)
            else:
                measure_layers(**json.loads(words[0]))
        except InputError as error:
            self.error, self.returncode = f"labelsift: {error}", 2
        except OSError as error:
            self.error, self.returncode = f"Traceback\n{type(error).__name__}: {error}\n", 1

    def communicate(self):
        return "", self.error

    def poll(self):
        return self.returncode
