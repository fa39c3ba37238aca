"""labelsift: image and feature classification when some labels are wrong."""

from labelsift.api import fit
from labelsift.data import Dataset, Examples, load, make_dataset
from labelsift.errors import InputError
from labelsift.methods import CE, METHODS, PES, EarlyStopping, Method
from labelsift.nets import NETS
from labelsift.noise import Noise
from labelsift.result import Result

__version__ = "0.1.0"

__all__ = [
    "CE",
    "METHODS",
    "NETS",
    "PES",
    "Dataset",
    "EarlyStopping",
    "Examples",
    "InputError",
    "Method",
    "Noise",
    "Result",
    "fit",
    "load",
    "make_dataset",
]
