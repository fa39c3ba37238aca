"""Methods: one paper, one file. METHODS is a plain dict."""

from collections.abc import Mapping
from typing import Any

from labelsift.config import from_values
from labelsift.errors import unknown
from labelsift.methods.cdr import CDR
from labelsift.methods.ce import CE, EarlyStopping
from labelsift.methods.co_teaching import CoTeaching
from labelsift.methods.dividemix import DivideMix
from labelsift.methods.dmi import DMI
from labelsift.methods.elr import ELR, ELRPlus
from labelsift.methods.forward import Forward
from labelsift.methods.joint_optim import JointOptim
from labelsift.methods.m_correction import MCorrection
from labelsift.methods.method import Method, setting
from labelsift.methods.mixup import MixUp
from labelsift.methods.pes import PES
from labelsift.methods.pes_semi import PESSemi
from labelsift.methods.t_revision import TRevision

__all__ = [
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
    "make_method",
    "method_class",
    "paper_settings",
    "setting",
]

METHODS: dict[str, type[Method]] = {
    cls.name: cls
    for cls in (
        CE,
        EarlyStopping,
        MixUp,
        CoTeaching,
        CDR,
        Forward,
        JointOptim,
        TRevision,
        DMI,
        MCorrection,
        DivideMix,
        ELR,
        ELRPlus,
        PES,
        PESSemi,
    )
}


def method_class(name: str) -> type[Method]:
    """The method of this name."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


def make_method(name: str, data: str, net: str, noise: str, values: Mapping[str, Any]) -> Method:
    """The method with `values`, and the paper's settings for this data set, net and noise for the rest."""
    return from_values(method_class(name), {**paper_settings(name, data, net, noise), **values}, name)


def paper_settings(name: str, data: str, net: str, noise: str) -> dict[str, Any]:
    """The settings that the method's paper has for this data set, net and noise; none where it has none."""
    paper = method_class(name).paper
    known = data.partition(":")[0], net
    kind = noise.replace("symmetric-inclusive", "symmetric")
    return {**paper.get(known, {}), **paper.get((*known, kind), {})}
