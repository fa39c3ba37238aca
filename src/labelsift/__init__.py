"""labelsift: image and feature classification when some labels are wrong.

The public names are loaded when they are first used: Ctrl-C stops the command line from its first moment on.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labelsift.api import fit as fit
    from labelsift.data import Batch as Batch
    from labelsift.data import Dataset as Dataset
    from labelsift.data import Examples as Examples
    from labelsift.data import load as load
    from labelsift.data import make_dataset as make_dataset
    from labelsift.errors import InputError as InputError
    from labelsift.estimator import NoisyLabelClassifier as NoisyLabelClassifier
    from labelsift.methods import CDR as CDR
    from labelsift.methods import CE as CE
    from labelsift.methods import DMI as DMI
    from labelsift.methods import ELR as ELR
    from labelsift.methods import METHODS as METHODS
    from labelsift.methods import PES as PES
    from labelsift.methods import CoTeaching as CoTeaching
    from labelsift.methods import DivideMix as DivideMix
    from labelsift.methods import EarlyStopping as EarlyStopping
    from labelsift.methods import ELRPlus as ELRPlus
    from labelsift.methods import Forward as Forward
    from labelsift.methods import JointOptim as JointOptim
    from labelsift.methods import MCorrection as MCorrection
    from labelsift.methods import Method as Method
    from labelsift.methods import MixUp as MixUp
    from labelsift.methods import PESSemi as PESSemi
    from labelsift.methods import TRevision as TRevision
    from labelsift.methods import setting as setting
    from labelsift.nets import NETS as NETS
    from labelsift.noise import Noise as Noise
    from labelsift.result import Result as Result
    from labelsift.training import Run as Run

__version__ = "0.1.0"

HOMES = {
    "api": ["fit"],
    "data": ["Batch", "Dataset", "Examples", "load", "make_dataset"],
    "errors": ["InputError"],
    "estimator": ["NoisyLabelClassifier"],
    "methods": [
        "CDR",
        "CE",
        "DMI",
        "ELR",
        "METHODS",
        "PES",
        "CoTeaching",
        "DivideMix",
        "ELRPlus",
        "EarlyStopping",
        "Forward",
        "JointOptim",
        "MCorrection",
        "Method",
        "MixUp",
        "PESSemi",
        "TRevision",
        "setting",
    ],
    "nets": ["NETS"],
    "noise": ["Noise"],
    "result": ["Result"],
    "training": ["Run"],
}


def __getattr__(name: str) -> Any:
    for module, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"labelsift.{module}"), name)
    raise AttributeError(f"module 'labelsift' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *(name for names in HOMES.values() for name in names)])
