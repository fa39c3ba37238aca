"""Nets from elsewhere, by name: timm:NAME, or package.module:factory of one's own."""

import contextlib
import difflib
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from labelsift.errors import InputError, unknown
from labelsift.nets.stages import classifier

TIMM = "timm:"


def timm_factory(net: str, shape: tuple[int, ...]) -> Callable[[int, int], nn.Module]:
    """What builds the net timm:NAME for images of `shape`, with newly drawn weights."""
    name = _timm_name(net)

    def build(num_classes: int, channels: int) -> nn.Module:
        return _create(name, shape, num_classes=num_classes, in_chans=channels)

    return build


def timm_pretrained(net: str, weights: str, num_classes: int, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """The pretrained weights of a timm net, fitted by timm to the size and the channels of the images.

    A classifier of other classes is left out.
    """
    name = _timm_name(weights)
    if name.partition(".")[0] != _timm_name(net).partition(".")[0]:
        raise InputError(f"The net {net} cannot start from {weights}: choose weights of this very net.")
    model = _fetched(name, shape, num_classes=num_classes, in_chans=shape[0])
    state: dict[str, Tensor] = model.state_dict()
    if model.pretrained_cfg["num_classes"] != num_classes:  # type: ignore[index]
        head = tuple(f"{layer}." for layer in classifier(model))
        state = {key: tensor for key, tensor in state.items() if not key.startswith(head)}
    return state


def timm_weights(name: str) -> dict[str, Tensor]:
    """The weights of a pretrained net of timm, such as resnet50.tv_in1k, for a built-in net of its kind."""
    state: dict[str, Tensor] = _fetched(_timm_name(name), ()).state_dict()
    return state


def own_factory(net: str) -> Callable[[int, int], nn.Module]:
    """What builds the net package.module:factory, which is imported by this name from here or the path."""
    module_name, _, name = net.partition(":")
    if not all(word.isidentifier() for word in (*module_name.split("."), name)):
        raise InputError(f"'{net}' names no net: write package.module:factory, or timm:NAME.")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that a file here hides no module
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
        if f"{module_name}.".startswith(f"{missing}."):
            raise InputError(
                f"There is no module '{missing}' for the net {net}: run where it lies, or install it."
            ) from None
        raise InputError(f"The module {module_name} cannot be imported ({reason(error)}).") from error
    factory = getattr(module, name, None)
    if not callable(factory):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module_name]
        raise unknown(f"function of {module_name} named", name, own)

    def build(num_classes: int, channels: int) -> nn.Module:
        try:
            made = factory(num_classes, channels)
        except Exception as error:
            raise InputError(
                f"{net}({num_classes}, {channels}) failed ({reason(error)}): "
                "it is called with the number of classes and of channels."
            ) from error
        if not isinstance(made, nn.Module):
            raise InputError(f"{net} gives a {type(made).__name__}: it should give a torch.nn.Module.")
        return made

    return build


def _timm() -> Any:
    try:
        return importlib.import_module("timm")
    except ImportError:
        raise InputError(
            "Nets and weights of timm need it installed: pip install 'labelsift[timm]'."
        ) from None
    except RuntimeError as error:  # torchvision, which timm needs, is made for one torch only
        raise InputError(
            f"timm cannot be loaded ({reason(error)}): install torchvision for torch {torch.__version__}."
        ) from None


def _timm_name(net: str) -> str:
    """The name of a net in timm, perhaps with a tag of its weights, that timm knows."""
    timm, name = _timm(), net.removeprefix(TIMM)
    kind, _, tag = name.partition(".")
    if not timm.is_model(kind):
        known = timm.list_models()
        near = [other for other in known if kind and other.startswith(kind)][:5]
        near = near or difflib.get_close_matches(kind.lower(), known, n=1)
        hint = f"did you mean {' or '.join(near)}?" if near else "see timm.list_models()."
        raise InputError(f"There is no net '{kind}' in timm: {hint}")
    if tag and name not in (tagged := timm.list_pretrained(f"{kind}.*")):
        raise unknown("net with weights in timm named", name, [kind, *tagged])
    return name


def _create(name: str, shape: tuple[int, ...], **options: object) -> nn.Module:
    timm = _timm()
    about = timm.get_pretrained_cfg(name)
    own = tuple(about.input_size[1:]) if about and about.fixed_input_size else ()
    if own and len(shape) == 3 and shape[1:] != own:
        options["img_size"] = shape[1] if shape[1] == shape[2] else shape[1:]  # some take squares only
    try:
        net: nn.Module = timm.create_model(name, **options)
    except (TypeError, ValueError, AssertionError, ZeroDivisionError) as error:
        if "img_size" not in options:
            raise
        raise InputError(
            f"The net {TIMM}{name} is made for images of {' x '.join(map(str, own))} and cannot be built for "
            f"{' x '.join(map(str, shape[1:]))} ({reason(error)}): choose another --net or another size."
        ) from None
    return net


def _fetched(name: str, shape: tuple[int, ...], **options: object) -> nn.Module:
    """A net of timm with its pretrained weights, downloaded when first used."""
    if not _timm().is_model_pretrained(name):
        raise InputError(f"timm has no pretrained weights of {name}: choose another net or other weights.")
    try:
        with _quiet("huggingface_hub"):
            return _create(name, shape, pretrained=True, **options)
    except InputError:
        raise
    except Exception as error:  # no network, a proxy, a full disk: each library has errors of its own
        raise InputError(
            f"The weights of {TIMM}{name} could not be downloaded ({type(error).__name__}): "
            "try again with a network, or give a file with --weights."
        ) from None


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """No word of a library about every try: the last failure is said once, by us."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def reason(error: Exception) -> str:
    """An error of someone else's code in a few words."""
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(":. ")
