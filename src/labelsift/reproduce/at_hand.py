"""What is at hand on this machine, and so what can be run here."""

from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec

from labelsift.data import data_folder, load, where
from labelsift.errors import InputError
from labelsift.methods import METHODS
from labelsift.reproduce.cells import Cell


def look_for(data: Collection[str], data_dir: str) -> tuple[dict[str, str], dict[str, str]]:
    """Of these data sets those that are not here: which cannot be had, and which can be downloaded."""
    never, later = {}, {}
    for name in sorted(data):
        sentence = f"{name.partition(':')[0]} is not all in {data_folder(data_dir)}, and what is missing "
        place = where(name, data_dir)
        if place == "by hand":
            never[name] = f"{sentence}cannot be downloaded"
        elif place == "online":
            later[name] = f"{sentence}is downloaded when first needed"
    return never, later


def fetch(data: Collection[str], data_dir: str, say: Callable[[str], None]) -> dict[str, str]:
    """Download what is not here, once and before many runs want it; why not, for those that cannot be had."""
    never, later = look_for(data, data_dir)
    absent = never | later
    for why in dict.fromkeys(absent.values()):
        say(why)
    reasons = {}
    for name in absent:
        if where(name, data_dir) == "here":  # with the files of one before it
            continue
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
