"""What is at hand on this machine, and so what can be run here."""

from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from pathlib import Path

from labelsift.data import data_folder, load
from labelsift.data.cifar import CIFAR10, CIFAR100
from labelsift.data.clothing1m import CLEAN, LISTS, NOISY
from labelsift.data.fashion_mnist import MD5
from labelsift.errors import InputError
from labelsift.methods import METHODS
from labelsift.reproduce.exhibits import Cell


def is_here(data: str, folder: Path) -> bool:
    """Whether the files of a data set are in the folder, unpacked or not; nothing in them is read."""
    if data == "clothing1m":
        lists = (*LISTS, NOISY, CLEAN)
        return any(all((place / name).is_file() for name in lists) for place in (folder / data, folder))
    if data == "fashion-mnist":
        places = [place / name for place in (folder / data, folder) for name in MD5]
        found = {
            file.name for file in places if file.is_file() or file.with_name(f"{file.name}.gz").is_file()
        }
        return found == set(MD5)
    releases = {"cifar10": CIFAR10, "cifar100": CIFAR100}[data]
    return any((folder / r.folder).is_dir() or (folder / r.archive).is_file() for r in releases)


def look_for(data: Collection[str], data_dir: str) -> tuple[dict[str, str], dict[str, str]]:
    """Of these data sets those that are not here: which cannot be had, and which can be downloaded."""
    folder = data_folder(data_dir)
    absent = [name for name in sorted(data) if not is_here(name, folder)]
    never = {n: f"{n} is not in {folder}, and cannot be downloaded" for n in absent if n == "clothing1m"}
    return never, {
        n: f"{n} is not in {folder}, and is downloaded when first needed" for n in absent if n not in never
    }


def fetch(data: Collection[str], data_dir: str, say: Callable[[str], None]) -> dict[str, str]:
    """Download what is not here, once and before many runs want it; why not, for those that cannot be had."""
    never, absent = look_for(data, data_dir)
    reasons = {}
    for name, why in (never | absent).items():
        say(why)
        try:
            load(name, data_dir)
        except InputError as error:
            reasons[name] = str(error)
    return reasons


def obstacle(cell: Cell, reasons: Mapping[str, str]) -> str:
    """Why a cell cannot be run here, if so; `reasons` are those of data sets."""
    if cell.method not in METHODS:
        return f"{cell.method} is not built yet"
    if cell.data in reasons:
        return reasons[cell.data]
    if cell.weights.startswith("timm:") and find_spec("timm") is None:
        return f"the weights {cell.weights} need timm: pip install 'labelsift[timm]'"
    return ""
