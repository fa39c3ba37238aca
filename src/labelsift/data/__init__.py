"""Data: sets by name or by file through one door, and the examples a method sees."""

from collections.abc import Callable
from pathlib import Path

from labelsift.data.dataset import Dataset, make_dataset
from labelsift.data.examples import Batch, Examples
from labelsift.data.fashion_demo import load_fashion_demo
from labelsift.data.npz import load_npz
from labelsift.data.views import AUGMENTS, Views
from labelsift.errors import InputError, unknown

__all__ = ["AUGMENTS", "DATASETS", "Batch", "Dataset", "Examples", "Views", "load", "make_dataset"]

DATASETS: dict[str, Callable[[], Dataset]] = {"fashion-demo": load_fashion_demo}


def load(source: str) -> Dataset:
    """The data set of this name, or in this file."""
    if source in DATASETS:
        return DATASETS[source]()
    file = Path(source)
    if file.suffix == ".npz":
        return load_npz(file)
    if file.exists():
        raise InputError(f"{source} is no data this version reads: give a name or an .npz file.")
    raise unknown("data set or .npz file", source, DATASETS)
