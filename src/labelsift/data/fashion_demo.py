"""fashion-demo: 6,000 training and 2,000 test images of Fashion-MNIST, in the package, class-balanced."""

from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

from labelsift.data.dataset import Dataset
from labelsift.data.download import Observe, unobserved
from labelsift.data.npz import load_npz


def load_fashion_demo(folder: Path = Path(), observe: Observe = unobserved) -> Dataset:
    """The embedded set, for which no folder is needed. Its labels are the true ones: add noise."""
    with as_file(files("labelsift.data") / "embedded" / "fashion-demo.npz") as file:
        return replace(load_npz(file), name="fashion-demo")
