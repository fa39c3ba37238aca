"""Methods: one paper, one file. METHODS is a plain dict."""

from collections.abc import Mapping
from typing import Any

from labelsift.config import from_values
from labelsift.errors import unknown
from labelsift.methods.ce import CE, EarlyStopping
from labelsift.methods.method import Method
from labelsift.methods.pes import PES

__all__ = ["CE", "METHODS", "PES", "EarlyStopping", "Method", "make_method", "method_class"]

METHODS: dict[str, type[Method]] = {"ce": CE, "early-stopping": EarlyStopping, "pes": PES}


def method_class(name: str) -> type[Method]:
    """The method of this name."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


def make_method(name: str, data: str, net: str, values: Mapping[str, Any]) -> Method:
    """The method with the paper's settings for this data set and net, where it has any, and `values`."""
    cls = method_class(name)
    return from_values(cls, {**cls.paper.get((data, net), {}), **values}, name)
