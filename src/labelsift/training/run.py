"""A run: epochs, history, checkpoints, resuming. Methods loop over `run.epochs` and own everything else."""

import gc
import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from labelsift.data import Batch, Examples
from labelsift.errors import InputError
from labelsift.nets import Blueprint
from labelsift.results.store import CHECKPOINT, RunFolder
from labelsift.training.capture import UNCAPTURED, Captured
from labelsift.training.device import Machine
from labelsift.training.judge import Judge
from labelsift.training.learner import Learner, below
from labelsift.training.predictions import Predictions
from labelsift.training.tally import count_batch

Record = dict[str, Any]
SAVE_SHARE = 100  # times as long as it takes to save a state passes before it is saved again
REDONE = 0.1  # share of its time so far, about, that a run which is stopped early does again


class Run:
    """What a method is given: the examples, learners to train, and the book-keeping.

    A resumed run goes through the method from its start. Stages that were finished yield no epoch; the stage
    that holds the checkpoint takes its state (weights, optimisers, generators) from it and goes on.
    """

    def __init__(
        self,
        examples: Examples,
        plan: Blueprint,
        machine: Machine,
        judge: Judge,
        folder: RunFolder,
        observe: Callable[[Record], None] = lambda record: None,
        checkpoint_seconds: float = 10.0,
        began: float | None = None,  # when all of it began, by time.perf_counter()
    ) -> None:
        if machine.cuda:
            gc.collect()  # nets of runs before this one refer to each other, and so stay on the device
        self.examples = examples
        self.learners: list[Learner] = []
        self.judged: list[Learner] = []  # those whose predictions count
        self.history: list[Record] = []
        self.warnings: list[str] = []
        self.oracle = False  # whether the method was told what no user knows
        self.compiled: list[str] = []  # the stages whose nets ran compiled, of this process
        self.machine, self.folder = machine, folder
        self._plan, self._judge, self._observe = plan, judge, observe
        self._checkpoint_seconds = checkpoint_seconds
        self._began = time.perf_counter() if began is None else began
        self._marks: list[float] = []  # when each epoch began and ended
        self._saved, self._saves = time.perf_counter(), [0.0]  # when, and how long each time took
        self._epoch = 0
        self._net = 0  # which net of an ensemble is trained, from 1; 0: there is but one
        self._first = self._first_judged = 0  # its first learner
        self._pending: tuple[dict[str, Tensor], Record] | None = None
        if folder.file(CHECKPOINT).exists():
            self._pending = folder.read_tensors(CHECKPOINT)
            about = self._pending[1]
            if not isinstance(about, dict) or about.get("epoch") != len(about.get("history", ())):
                raise folder.damaged(CHECKPOINT)
        else:
            folder.write_lines("epochs.jsonl", [])  # what was not saved is done again
        self._confident: tuple[Tensor, Examples] | None = None
        self._tally = torch.zeros(3, device=machine.device)  # loss, hits and examples of an epoch
        self._kept: dict[str, Tensor] = {}
        self.predictions = Predictions.of(len(examples.inputs), examples.num_classes, machine.device)
        self.keep(**vars(self.predictions))

    @property
    def validation(self) -> Examples | None:
        """The examples that were held out, with their given labels, for methods that choose an epoch."""
        return self._judge.validation

    def learner(self, judged: bool = True) -> Learner:
        """A new net, with the weights it starts from; one that is not judged only helps the others."""
        learner = Learner(self._plan, self.machine, self.warn)
        self.learners.append(learner)
        if judged:
            self.judged.append(learner)
        return learner

    def capture(self, step: Callable[[Batch], None], size: int) -> Callable[[Batch], None]:
        """The step, made fast for batches of `size`: call this anew for every stage."""
        return Captured(step, size, self.machine, self.learners[self._first :], self.warn)

    @property
    def captured(self) -> bool:
        """Whether steps ran as CUDA graphs, every one of them."""
        return self.machine.capture and not any(said.startswith(UNCAPTURED) for said in self.warnings)

    def keep(self, **tensors: Tensor) -> None:
        """What a method remembers beside its nets: saved with them, and restored in place."""
        self._kept |= {f"{self._net}/{name}": tensor for name, tensor in tensors.items()}

    def begin_net(self, number: int) -> None:
        """The method is about to train another net of an ensemble; those before it are finished."""
        for learner in self.learners:
            learner.optimisers.clear()  # whose memory no state need hold
        self._net, self._first, self._first_judged = number, len(self.learners), len(self.judged)

    def epochs(self, stage: str, count: int) -> Iterator[int]:
        """Count `count` epochs of a stage from 0; between them judge, write history and checkpoint."""
        begin = self._epoch
        if self._pending is not None:
            done = self._done(stage, self._pending[1]["history"][begin : begin + count])
            if self._pending[1]["epoch"] > begin + done:  # of this stage or of later ones
                self._epoch += done
                return
            self._restore(*self._pending)
            self._pending = None
        done = self._epoch - begin
        for learner in self.learners:
            learner.expect(count, self.examples)  # a resumed run compiles where the whole one does
        for stage_epoch in range(done, count):
            started = time.perf_counter()
            yield stage_epoch
            self._finish_epoch(stage, stage_epoch + 1, started)

    @property
    def epoch(self) -> int:
        """Epochs that are done, of all stages so far."""
        return self._epoch

    def tally(self, loss: Tensor, scores: Tensor, labels: Tensor) -> None:
        """Count a batch's loss and the hits of its class scores, without waiting for the device."""
        count_batch(self._tally, loss.detach(), scores.detach(), labels)

    def remember(self, index: Tensor, probs: Tensor) -> None:
        """What a net predicted for these examples in passing: over the epochs it tells wrong labels."""
        self.predictions.add(index, self.examples.all_labels[index], probs)

    def note_confident(self, confident: Tensor, among: Examples) -> None:
        """Say which of these examples are trusted in this epoch (a mask)."""
        self._confident = confident, among

    def note_agreement(self, learner: Learner) -> None:
        """Say which labels a net agrees with now, for the record alone: nothing is drawn that counts."""
        generator = self.examples.generator
        state = generator.get_state()
        probs = learner.pred_probs(self.examples, views=2)
        generator.set_state(state)
        self.note_confident(probs.argmax(1) == self.examples.labels, self.examples)

    def true_noise_rate(self) -> float:
        """What no method can know, for those whose authors took it as known; the result says so."""
        truth, mine = self._judge.true_labels, self.examples
        if truth is None:
            raise InputError(
                "The true labels are not known here, so nor is the noise: do not ask the oracle."
            )
        self.oracle = True
        return float((mine.labels != truth[mine.index]).float().mean())

    def true_noise(self) -> str:
        """Likewise the name of the noise that was put on the labels, as in symmetric:0.5."""
        if not self._judge.noise:
            raise InputError("No noise was put on the labels here: do not ask the oracle which.")
        self.oracle = True
        return self._judge.noise

    def warn(self, sentence: str) -> None:
        """Say something once that the user should know."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)
            self._observe({"warning": sentence})

    def shorten(self, epochs: int) -> None:
        """Say that so many epochs of those that were announced will not be needed."""
        self._observe({"shorter": {"epochs": epochs}})

    def finish(self) -> None:
        """The method is done: a checkpoint from beyond its end was not its own."""
        if self._pending is not None:
            raise self.folder.damaged(CHECKPOINT)

    def times(self) -> dict[str, float]:
        """Seconds before the first epoch, in epochs, of saving the state and since the last epoch.

        Of this process: what a resumed run had done before is not in them.
        """
        epochs = sum(self._marks[1::2]) - sum(self._marks[::2])
        first, last = (self._marks[0], self._marks[-1]) if self._marks else (self._began, self._began)
        finish = time.perf_counter() - last
        return {"start": first - self._began, "epochs": epochs, "saves": sum(self._saves), "finish": finish}

    def save_checkpoint(self) -> None:
        """Write the state at the end of the last epoch."""
        begin = time.perf_counter()
        tensors: dict[str, Tensor] = {"order": self.examples.generator.get_state()}
        tensors |= {f"random/{name}": state for name, state in self.machine.random_state().items()}
        for number, learner in enumerate(self.learners):
            tensors |= {f"learner{number}/{name}": tensor for name, tensor in learner.state().items()}
        tensors |= {f"kept/{name}": tensor for name, tensor in self._kept.items()}
        about = {"epoch": self._epoch, "history": self.history, "warnings": self.warnings}
        about["machine"] = self.machine.description
        self.folder.write_tensors(CHECKPOINT, tensors, about)
        self._saved = time.perf_counter()
        self._saves.append(self._saved - begin)

    def _restore(self, tensors: dict[str, Tensor], about: Record) -> None:
        try:
            for number, learner in enumerate(self.learners):
                learner.load_state(below(f"learner{number}", tensors))
            for name, tensor in self._kept.items():
                tensor.copy_(tensors[f"kept/{name}"])
            self.examples.generator.set_state(tensors["order"])
            self.machine.set_random_state(below("random", tensors))
            self._epoch, self.history, self.warnings = about["epoch"], about["history"], about["warnings"]
            began = about["machine"]
        except (KeyError, TypeError, ValueError, RuntimeError):
            raise InputError(
                f"{self.folder.file(CHECKPOINT)} does not fit this run or device: go on where it began, "
                "or remove it to begin again."
            ) from None
        if began != self.machine.description:
            self.warn(f"This run began on {began}: the last digits of its result may differ.")
        self.folder.write_lines("epochs.jsonl", self.history)

    def _done(self, stage: str, saved: list[Record]) -> int:
        """How many of the saved epochs, from the first on, were of this stage: a method may end it early."""
        mine = ((row["stage"], row.get("net", 0)) == (stage, self._net) for row in saved)
        return sum(itertools.takewhile(bool, mine))

    def _finish_epoch(self, stage: str, stage_epoch: int, started: float) -> None:
        self._epoch += 1
        learner = self.judged[self._first_judged]
        loss, hits, seen = self._tally.tolist()
        record: Record = {"epoch": self._epoch, "stage": stage, "stage_epoch": stage_epoch}
        if self._net:
            record["net"] = self._net
        record["lr"] = learner.lr
        if seen:
            record["train_loss"] = loss / seen
            if not math.isfinite(record["train_loss"]):
                raise InputError(
                    f"The loss is no longer a number in epoch {stage_epoch} of '{stage}': "
                    f"lower the learning rate, which was {record['lr']:g}, or scale the data."
                )
            record["train_accuracy"] = hits / seen
        record |= self._judge.accuracies(self.judged, self._first_judged)
        if self._confident is not None:
            record |= self._judge.confident(*self._confident)
        record["seconds"] = time.perf_counter() - started
        self.history.append(record)
        self.folder.append_epoch(record)
        if stage not in self.compiled and any(learner.compiles for learner in self.learners):
            self.compiled.append(stage)
        self._marks += [started, time.perf_counter()]
        if self._due():
            self.save_checkpoint()
        self._tally.zero_()
        self._confident = None
        self._observe(record)

    def _due(self) -> bool:
        """Whether to save the state after this epoch: the first one at once, for a run may well be short."""
        now, longest = self._marks[-1], self._checkpoint_seconds
        pause = max(min(longest, REDONE * (now - self._marks[0])), SAVE_SHARE * self._saves[-1])
        return longest == 0 or (longest < math.inf and now - self._saved >= pause)
