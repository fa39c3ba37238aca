"""What is chosen where nothing is said: from the data and the device, each choice with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from labelsift.config import Config, in_words
from labelsift.data import Dataset
from labelsift.data.listing import shown
from labelsift.methods import Method, make_method, method_class, paper_settings
from labelsift.methods.gauge import ENOUGH
from labelsift.nets import UNNAMED, Factory, default_net, net_name
from labelsift.results.store import RunFolder

AUTO = "auto"
METHOD = "pes"
CPU_SIZE = 64  # pixels: what a CPU trains on in minutes
FULL = 6000  # examples from which on the methods' own lengths hold; on so many they were chosen
STEPS = 64  # in an epoch, at least ...
SMALL_BATCH = 16  # ... as far as batches are no smaller than this
OF_ROWS = (4, 3, 2)  # epochs of stages at most for feature rows, which look the same every time
SHRINK = 0.4  # stages shrink as the number of examples to this power: small sets are soon learnt by heart
FEW, FEW_OF_CLASS = 200, 20  # examples, below which labels can hardly be judged


@dataclass(frozen=True)
class Choice:
    """A value that nobody gave, by the name of its flag or setting."""

    name: str
    value: Any
    reason: str

    def __str__(self) -> str:
        return f"{self.name} {in_words(self.value)}: {self.reason}"


@dataclass(frozen=True)
class Plan:
    """The method and the net of a run, and what of it was chosen."""

    method: Method
    net: str | Factory | nn.Module
    choices: tuple[Choice, ...]


def largest_size(net: str | Factory | nn.Module, weights: str, cuda: bool) -> int:
    """The largest size images of files get when none is asked for; 0: any. A net that was named takes any."""
    return CPU_SIZE if isinstance(net, str) and net == AUTO and not weights and not cuda else 0


def choose(
    data: Dataset,
    train: int,
    method: str | Method = AUTO,
    net: str | Factory | nn.Module = AUTO,
    settings: Mapping[str, Any] | None = None,
    noise: str = "",
    weights: str = "",
    cuda: bool = False,
    resized: bool = False,
) -> Plan:
    """All that was not given, for `train` examples of `data`, whose images were perhaps `resized` unasked."""
    choices = []
    largest = largest_size(net, weights, cuda)
    if isinstance(method, str) and method == AUTO:
        method = METHOD
        choices.append(Choice("method", METHOD, "withstands wrong labels without knowing how many there are"))
    if isinstance(net, str) and net == AUTO:
        chosen = _net(data.shape, cuda or bool(weights))
        net = chosen.value
        choices.append(chosen)
    if resized:
        choices.append(_image_size(data.shape[1], largest))
    if isinstance(method, Method):
        return Plan(method, net, tuple(choices))
    given = dict(settings or {})
    paper = paper_settings(method, data.name, net_name(net), noise)
    if paper:
        choices.append(Choice("settings", "the paper's", f"known for {data.name} with {net_name(net)}"))
    own = _settings(method_class(method), train, len(data.shape) == 1, paper, given)
    chosen_settings = [choice for choice in own if choice.name not in given]
    values = {choice.name: choice.value for choice in chosen_settings}
    made = make_method(method, data.name, net_name(net), noise, {**values, **given})
    return Plan(made, net, (*choices, *chosen_settings))


def as_begun(
    out: Path, source: object, net: str | Factory | nn.Module, image_size: int
) -> tuple[str | Factory | nn.Module, int]:
    """The net and the image size of the run that was begun in a folder, perhaps on another device."""
    file = RunFolder(out).config
    if not file.exists():
        return net, image_size
    begun = Config.read(file)
    if isinstance(net, str) and net == AUTO and not begun.net.startswith(UNNAMED):
        net = begun.net
    if isinstance(source, str | PathLike) and Path(source).name == Path(begun.data).name:
        image_size = image_size or begun.image_size
    return net, image_size


def too_few(data: Dataset) -> tuple[str, ...]:
    """What to say of a set so small that its labels can hardly be judged."""
    counts = np.bincount(data.labels, minlength=data.num_classes)
    least = int(counts.argmin())
    if len(data.labels) < FEW:
        return (f"{len(data.labels)} examples are too few to judge labels well: {FEW} or more are better.",)
    if counts[least] < FEW_OF_CLASS:
        return (
            f"The class '{shown(data.classes[least])}' has {counts[least]} examples, too few to judge its "
            f"labels well: {FEW_OF_CLASS} or more of each class are better.",
        )
    return ()


def _net(shape: tuple[int, ...], large: bool) -> Choice:
    net = default_net(shape)
    if net == "mlp":
        return Choice("net", net, "for feature rows")
    size = " x ".join(map(str, shape[1:]))
    kind = "grey" if shape[0] == 1 else "colour"
    if large or net == "lenet" or min(shape[1:]) < 12:
        return Choice("net", net, f"for {kind} images of {size}")
    return Choice("net", "lenet", f"{net} would take far longer on a CPU (--net {net}, or a GPU, finds more)")


def _image_size(size: int, largest: int) -> Choice:
    reason = "the usual size nearest to the images' own"
    if size == largest:
        reason += f", at most {largest} on a CPU (--image-size for larger ones)"
    return Choice("image_size", size, reason)


def _settings(
    cls: type[Method], count: int, rows: bool, paper: Mapping[str, Any], given: Mapping[str, Any]
) -> list[Choice]:
    """Batches, epochs and stages for so many images or rows; the paper's stay, where they are known."""
    choices = []
    usual = paper.get("batch_size", cls.batch_size)
    batch = _batch_size(count, usual)
    if not paper or usual > count:
        steps = -(-count // batch)
        choices.append(Choice("batch_size", batch, f"makes {steps:,} steps of {count:,} examples"))
    if paper:
        return choices
    choices.append(Choice("epochs", cls.epochs, f"what {cls.name} takes for data of any size"))
    stages: tuple[int, ...] = getattr(cls, "stage_epochs", ())
    if stages and rows:
        shorter = tuple(map(min, _stages(min(count, FULL), stages), OF_ROWS))
        reason = "feature rows are learnt by heart, wrong labels and all, sooner than images"
        choices.append(Choice("stage_epochs", shorter, reason))
    elif stages and count >= FULL:
        choices.append(Choice("stage_epochs", stages, f"what {cls.name} takes from {FULL:,} examples on"))
    elif stages:
        reason = f"{count:,} examples may be learnt by heart, wrong labels and all, sooner than {FULL:,}"
        choices.append(Choice("stage_epochs", _stages(count, stages), reason))
    if hasattr(cls, "patient") and not rows and "stage_epochs" not in given and count >= ENOUGH:
        reason = "the first stage goes on as long as no wrong labels are learned by heart"
        choices.append(Choice("patient", True, reason))
    return choices


def _batch_size(count: int, usual: int) -> int:
    """The usual one, or a power of two that makes enough steps of few examples."""
    if count >= FULL and usual <= count:
        return usual
    small = min(SMALL_BATCH, _power_of_two(count // 4))
    return min(usual, max(2, small, _power_of_two(count // STEPS)))


def _power_of_two(number: int) -> int:
    """The largest that is not above `number`, and 1 at least."""
    return int(2 ** (max(number, 1).bit_length() - 1))


def _stages(count: int, stages: tuple[int, ...]) -> tuple[int, ...]:
    scale = (count / FULL) ** SHRINK
    least = (2, *(1 for _ in stages[1:]))
    return tuple(max(low, round(scale * length)) for low, length in zip(least, stages, strict=True))
