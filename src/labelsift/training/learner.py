"""A learner: a net with its optimisers. Autocast, compilation and layout live here and nowhere else."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from labelsift.data import Batch, Examples
from labelsift.nets import Blueprint
from labelsift.parts import Part, restart, split, train_only
from labelsift.training.capture import Captured
from labelsift.training.device import Machine

PREDICT_BATCH = {"cuda": 2500, "cpu": 250}  # what a CPU computes with stays in its cache
COMPILE_FROM = 10**6  # parameters: smaller nets gain from capture alone, and need not wait for the compiler
COMBINED: dict[str, Any] = {"combo_kernels": True}  # the compiler's small kernels, of weights and statistics
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
PREDICT_NUMBERS = 2**24  # in a batch of large images, which has fewer of them


class Learner:
    """`learner(view)` gives logits, `learner.update(loss)` takes a step."""

    def __init__(
        self, plan: Blueprint, machine: Machine, warn: Callable[[str], None] = lambda sentence: None
    ) -> None:
        self.plan, self.machine, self.warn = plan, machine, warn
        self.net = self._place(plan.initial())
        self.optimisers: dict[str, torch.optim.Optimizer] = {}
        self.optimiser: torch.optim.Optimizer | None = None
        self.compiled: Callable[[Tensor], Tensor] | None = None
        self.short = False  # whether the stage is too short for a compiler
        self.fast = False  # whether calls go to the compiled net, where there is one
        self._unchecked = False
        self._predictors: dict[tuple[object, ...], Captured[Tensor]] = {}

    def sgd(self, lr: float, momentum: float, weight_decay: float) -> torch.optim.Optimizer:
        """A new SGD over all parameters; frozen ones get no gradient and so stand still."""
        rate, fused = self._rate(lr), self.machine.cuda
        sgd = torch.optim.SGD(self.net.parameters(), rate, momentum, weight_decay=weight_decay, fused=fused)
        if momentum:  # made now, so that a step that is captured finds it
            for parameter in self.net.parameters():
                sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        self.optimisers["sgd"] = sgd
        return sgd

    def adam(
        self,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        more: Sequence[nn.Parameter] = (),
    ) -> torch.optim.Optimizer:
        """A new Adam over all parameters, and over `more` that a method learns beside the net."""
        cuda = self.machine.cuda
        adam = torch.optim.Adam(
            [*self.net.parameters(), *more],
            self._rate(lr),
            betas,
            weight_decay=weight_decay,
            fused=cuda,
            capturable=cuda,
        )
        adam._warned_capturable_if_run_uncaptured = True  # its first steps are not captured, as they should
        self.optimisers["adam"] = adam
        return adam

    def begin(self, optimiser: torch.optim.Optimizer, parts: Sequence[Part] | None = None) -> None:
        """Begin a stage: `optimiser` trains `parts` (the whole net when None), all else is frozen.

        A compiled frame can outlive a change of `requires_grad` and then trains nothing, without an error
        (pytorch issue 139476). So every stage compiles anew and checks its first gradients.
        """
        train_only(self.net, split(self.net, ()) if parts is None else parts)
        self.optimiser = optimiser
        self.net.zero_grad(set_to_none=True)
        self.net.train()
        if self.machine.compile and sum(p.numel() for p in self.net.parameters()) >= COMPILE_FROM:
            torch.compiler.reset()
            options = COMBINED if self.machine.cuda else None
            self.compiled = torch.compile(self.net, dynamic=False, options=options)
            self._unchecked = True

    def expect(self, epochs: int, examples: Examples) -> None:
        """So many epochs of these examples are to come: a compiler must win its own time back in them."""
        work = epochs * len(examples) * math.prod(examples.inputs.shape)
        self.short = work < self.machine.compile_work

    @property
    def compiles(self) -> bool:
        """Whether steps that are made fast go through a compiled net."""
        return self.compiled is not None and not self.short

    def restart(self, parts: Sequence[Part]) -> None:
        """Draw the weights of `parts` anew, in place, and let the optimisers forget them."""
        restart(parts, self._place(self.plan.fresh()))
        for part in parts:
            for parameter in part.parameters():
                for optimiser in self.optimisers.values():
                    for memory in optimiser.state.get(parameter, {}).values():
                        memory.zero_()

    def renew(self) -> None:
        """Begin with a new net: the weights it starts from, newly drawn where they are drawn."""
        self.net.load_state_dict(self.plan.initial().state_dict())

    def __call__(self, view: Tensor) -> Tensor:
        """Logits of a view, in the precision of the machine, returned as float32."""
        forward = self.compiled if self.fast and self.compiled is not None and not self.short else self.net
        with self._precision():
            logits: Tensor = forward(self._layout(view))
        return logits.float()

    def guess(self, *views: Tensor) -> Tensor:
        """The mean class probabilities of some views.

        In training mode they go together, which is faster and lets batch norm see views of a single row; its
        running statistics then move as far as in a pass for each view.
        """
        if self.net.training:
            with self._moving(len(views)):
                probs = self(torch.cat(views)).softmax(1)
        else:
            probs = torch.cat([self(view).softmax(1) for view in views])
        return probs.view(len(views), -1, probs.shape[1]).mean(0)

    def update(self, loss: Tensor, change_gradients: Callable[[], None] = lambda: None) -> None:
        """Backward, what a method does to the gradients, and the optimiser's step."""
        if self.optimiser is None:
            raise RuntimeError("begin() a stage before the first update")
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self._unchecked and self.fast:
            self._check_gradients()
        change_gradients()
        self.optimiser.step()

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Inside, the net is in evaluation mode and makes no gradients."""
        self.net.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.net.train()

    @torch.no_grad()
    def average(self, other: "Learner", share: Tensor) -> None:
        """Weights that follow another net's: `share` of one's own and the rest of the other's."""
        for mine, theirs in zip(self.net.parameters(), other.net.parameters(), strict=True):
            mine.lerp_(theirs, 1 - share)

    @property
    def lr(self) -> float:
        """The learning rate of the stage's optimiser."""
        return float(self.optimiser.param_groups[0]["lr"]) if self.optimiser else 0.0

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.optimiser.param_groups if self.optimiser else ():
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = value

    def pred_probs(self, examples: Examples, views: int = 0) -> Tensor:
        """Class probabilities in evaluation mode: of the plain view, or the mean over random `views`."""
        many = PREDICT_NUMBERS // math.prod(examples.inputs.shape)
        size = max(1, min(PREDICT_BATCH[self.machine.device.type], many, len(examples)))
        predict = self._predictor(examples, views if examples.views.differ else 0, size)
        with self.evaluating():
            return torch.cat([predict(batch).clone() for batch in examples.batches(size, shuffle=False)])

    def _predictor(self, examples: Examples, views: int, size: int) -> Captured[Tensor]:
        """How a batch of `size` of these inputs is predicted; kept, since a capture serves all stages."""

        def predict(batch: Batch) -> Tensor:
            return self.guess(*([batch.view() for _ in range(views)] or [batch.plain()]))

        key = examples.inputs, examples.generator, views, size
        if key not in self._predictors:
            self._predictors[key] = Captured(predict, size, self.machine, [self], self.warn, warm_up=1)
        return self._predictors[key]

    def state(self) -> dict[str, Tensor]:
        """Weights, buffers and the optimisers' memory, by flat names."""
        tensors = {f"net/{name}": tensor for name, tensor in self.net.state_dict().items()}
        for kind, optimiser in self.optimisers.items():
            for number, memory in optimiser.state_dict()["state"].items():
                for key, value in memory.items():
                    if isinstance(value, Tensor):
                        tensors[f"{kind}/{number}/{key}"] = value
        return tensors

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a saved state, in place."""
        self.net.load_state_dict(below("net", tensors))
        for kind, optimiser in self.optimisers.items():
            memory: dict[int, dict[str, Any]] = {}
            for name, tensor in below(kind, tensors).items():
                number, key = name.split("/")
                memory.setdefault(int(number), {})[key] = tensor
            groups = optimiser.state_dict()["param_groups"]
            optimiser.load_state_dict({"state": memory, "param_groups": groups})
            for parameter, loaded in optimiser.state.items():
                for key, tensor in loaded.items():
                    if tensor.shape == parameter.shape:  # and of its layout, as fused optimisers ask
                        loaded[key] = torch.empty_like(parameter).copy_(tensor)

    def _place(self, net: nn.Module) -> nn.Module:
        placed: nn.Module = net.to(self.machine.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return placed

    def _rate(self, lr: float) -> float | Tensor:
        """A captured step reads its learning rate from the device."""
        return torch.tensor(lr, device=self.machine.device) if self.machine.cuda else lr

    def _layout(self, view: Tensor) -> Tensor:
        return view.contiguous(memory_format=torch.channels_last) if view.dim() == 4 else view

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.machine.device.type, torch.bfloat16, enabled=self.machine.autocast)

    @contextlib.contextmanager
    def _moving(self, passes: int) -> Iterator[None]:
        """Inside, a pass moves running statistics as far towards its batch as so many passes would."""
        norms = [m for m in self.net.modules() if isinstance(m, NORMS) and m.momentum is not None]
        momenta = [float(norm.momentum or 0) for norm in norms]
        try:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = 1 - (1 - momentum) ** passes
            yield
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum

    def _check_gradients(self) -> None:
        self._unchecked = False
        for name, parameter in self.net.named_parameters():
            if parameter.requires_grad != (parameter.grad is not None):
                raise RuntimeError(
                    f"{name}: trainable is {parameter.requires_grad}, but its gradient says otherwise"
                )


def below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix/`, without it."""
    start = f"{prefix}/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
