"""Fusion: small functions on tensors run as one kernel each, where steps are made fast.

Around its nets a step cuts views, takes losses and counts hits: dozens of kernels of a few microseconds each.
Decorated with `fused` such a function is compiled, but only inside `fusing()`; elsewhere it runs as written.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Out = TypeVar("Out")

_fusing = ContextVar("fusing", default=False)


def fused(function: Callable[Arguments, Out]) -> Callable[Arguments, Out]:
    """A function on tensors that draws nothing at random, to be compiled inside `fusing()`."""

    @functools.cache
    def compiled() -> Callable[Arguments, Out]:
        return torch.compile(function, dynamic=False)

    @functools.wraps(function)
    def call(*args: Arguments.args, **named: Arguments.kwargs) -> Out:
        if torch.compiler.is_compiling() or not _fusing.get():  # part of a larger one, or not wanted
            return function(*args, **named)
        return compiled()(*args, **named)

    return call


@contextlib.contextmanager
def fusing(on: bool = True) -> Iterator[None]:
    """Inside, functions that are marked so run fused."""
    before = _fusing.set(on)
    try:
        yield
    finally:
        _fusing.reset(before)
