"""What all methods share: the words of their hyper-parameters, how SGD is set, and a plain epoch."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from labelsift.config import converted, in_words
from labelsift.data import Batch, Examples
from labelsift.errors import InputError, unknown
from labelsift.losses import LEAST_ALPHA, cross_entropy
from labelsift.training import Learner, Run
from labelsift.training.schedule import SCHEDULES, cosine_lr, linear_lr, step_lr

HIGHEST = 1e6  # of a learning rate, so that no step overflows at once


def setting(default: Any, meaning: str, symbol: str = "") -> Any:
    """A hyper-parameter: its default for any data, its meaning and the paper's symbol."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "symbol": symbol})


@dataclass(frozen=True)
class Method(ABC):
    """A method is a frozen dataclass of its hyper-parameters with one `fit` that owns its loops."""

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str] = ""
    paper: ClassVar[Mapping[tuple[str, ...], Mapping[str, Any]]] = {}  # by data set, net and perhaps noise
    oracle: ClassVar[Mapping[str, str]] = {}  # settings by which the authors take the noise as known
    result_stage: ClassVar[str] = ""  # whose epochs the best is chosen among; "": all

    epochs: int = setting(40, "epochs in all")
    batch_size: int = setting(64, "examples per step")
    epoch_examples: int = setting(0, "examples drawn anew for every epoch; 0: all")
    lr: float = setting(0.02, "learning rate of SGD at the start")
    momentum: float = setting(0.9, "momentum of SGD")
    weight_decay: float = setting(5e-4, "weight decay of SGD")
    schedule: str = setting("cosine", "how the learning rate falls: constant, step, linear or cosine")
    decay_at: tuple[float, ...] = setting(
        (0.5, 0.75), "step schedule: shares of the epochs at which it falls; linear: the first begins it"
    )
    decay_factor: float = setting(0.1, "step schedule: what it is multiplied by")

    def __post_init__(self) -> None:
        # NumPy's numbers, lists and the like become the field's type.
        for name, value in converted(type(self), vars(self), self.name).items():
            object.__setattr__(self, name, value)
        self.check("epochs", 1 <= self.epochs <= 10**6, "1 to 1000000")
        self.check("batch_size", self.batch_size >= 2, "at least 2")
        few = 0 < self.epoch_examples < self.batch_size
        self.check("epoch_examples", self.epoch_examples >= 0 and not few, "0, or at least batch_size")
        self.check("lr", 0 < self.lr <= HIGHEST, f"above 0 and up to {HIGHEST:g}")
        self.check("momentum", 0 <= self.momentum < 1, "at least 0 and below 1")
        self.check("weight_decay", 0 <= self.weight_decay <= HIGHEST, f"0 to {HIGHEST:g}")
        self.check("decay_at", all(0 < share <= 1 for share in self.decay_at), "shares above 0 and up to 1")
        self.check("decay_factor", 0 < self.decay_factor <= 1, "above 0 and up to 1")
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)

    def check(self, name: str, right: bool, wanted: str) -> None:
        """Refuse a value that makes no sense."""
        if not right:
            written = in_words(getattr(self, name)) or "empty"
            raise InputError(f"The setting {name} of {self.name} cannot be {written}: it must be {wanted}.")

    def check_mixing(self, *names: str) -> None:
        """Refuse an alpha of Beta(alpha, alpha) that cannot be drawn from well."""
        for name in names:
            self.check(name, getattr(self, name) >= LEAST_ALPHA, f"at least {LEAST_ALPHA}")

    def check_net(self, net: nn.Module) -> None:  # noqa: B027
        """Refuse a net that this method cannot train."""

    @abstractmethod
    def fit(self, run: Run) -> None:
        """Train `run`'s learners, epoch by epoch."""

    @property
    def total_epochs(self) -> int:
        """All passes over the data, for the progress bar."""
        return self.epochs

    def epoch_of(self, examples: Examples) -> Examples:
        """The examples of one epoch: all, or so many of a large set."""
        return examples.sample(self.epoch_examples) if self.epoch_examples else examples

    def batches(self, examples: Examples) -> Iterator[Batch]:
        """One epoch's examples in random order, batch by batch."""
        return self.epoch_of(examples).batches(self.batch_size)

    def plain_step(
        self, run: Run, learner: Learner, class_weights: Tensor | None = None
    ) -> Callable[[Batch], None]:
        """Cross-entropy on the given labels; the weights may be changed in place from epoch to epoch."""

        def step(batch: Batch) -> None:
            logits = learner(batch.view())
            loss = cross_entropy(logits, batch.labels, class_weights)
            learner.update(loss)
            run.tally(loss, logits, batch.labels)
            run.remember(batch.index, logits.softmax(1))

        return run.capture(step, self.batch_size)

    def sgd(self, learner: Learner) -> torch.optim.Optimizer:
        """The SGD that the settings describe."""
        return learner.sgd(self.lr, self.momentum, self.weight_decay)

    def lr_at(self, epoch: float) -> float:
        """The learning rate of an epoch, counted from 0, or between two."""
        if self.schedule == "step":
            return step_lr(self.lr, epoch, self.epochs, self.decay_at, self.decay_factor)
        if self.schedule == "linear":
            return linear_lr(self.lr, epoch, self.epochs, self.decay_at)
        return cosine_lr(self.lr, epoch, self.epochs) if self.schedule == "cosine" else self.lr
