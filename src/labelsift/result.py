"""A result is a run folder: what was reached, what is wrong with the labels, and a model that predicts."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from labelsift.config import Config
from labelsift.data import Examples, Views
from labelsift.data.cache import Report
from labelsift.data.dataset import Inputs, check_inputs
from labelsift.data.examples import Store, open_inputs
from labelsift.data.readers import Readers
from labelsift.data.stores import Photos
from labelsift.errors import InputError
from labelsift.nets import UNNAMED, Factory, blueprint
from labelsift.results.store import RunFolder
from labelsift.training import Learner, Machine, mean_probs
from labelsift.training.learner import below

MODEL = "model.safetensors"
PREDICTIONS = "predictions.safetensors"
RECORDED = {
    **dict.fromkeys(("device", "precision", "finished"), str),
    **dict.fromkeys(("classes", "warnings"), list),
    **dict.fromkeys(("confident", "estimated_noise", "versions"), dict),
    **dict.fromkeys(("examples", "epochs"), int),
    "seconds": float,
}


def pack(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The weights of all nets under one roof; those of a single net keep their names."""
    if len(states) == 1:
        return dict(states[0])
    return {f"{number}/{name}": t for number, state in enumerate(states, 1) for name, t in state.items()}


def unpack(tensors: dict[str, Tensor], nets: int) -> list[dict[str, Tensor]]:
    """The weights of each net again."""
    return [tensors] if nets == 1 else [below(str(number), tensors) for number in range(1, nets + 1)]


def _predicted(
    learners: list[Learner], views: Views, about: dict[str, Any], inputs: Store
) -> NDArray[np.float32]:
    labels = torch.zeros(len(inputs), dtype=torch.long, device=inputs.device)
    examples = Examples.of(inputs, labels, len(about["classes"]), views, seed=0)
    probs: NDArray[np.float32] = mean_probs(learners, examples).cpu().numpy()
    return probs


class Result:
    """A finished run, read from its folder. Nothing in it is executed.

    A net of one's own, package.module:factory, is imported by this name when the model is asked for.
    """

    def __init__(self, folder: str | Path | RunFolder, net: Factory | nn.Module | None = None) -> None:
        self._files = folder if isinstance(folder, RunFolder) else RunFolder(Path(folder))
        self.folder = self._files.path
        self._net = net  # only for nets that have no name
        self.record: dict[str, Any] = self._files.read_json("result.json")
        kinds = [type(self.record.get(name)) for name in RECORDED]
        if kinds != list(RECORDED.values()):
            raise self._files.damaged("result.json")

    def __repr__(self) -> str:
        return f"Result({str(self.folder)!r}, test_accuracy={self.test_accuracy})"

    @cached_property
    def config(self) -> Config:
        """What was run."""
        return Config.read(self._files.config)

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """One record per epoch."""
        return self._files.epochs()

    @property
    def test_accuracy(self) -> dict[str, float]:
        """`best` (with `best_epoch`), `last` and, with a validation set, `best_on_noisy_validation`."""
        accuracy: dict[str, float] = self.record.get("test_accuracy", {})
        return accuracy

    @property
    def ensemble_test_accuracy(self) -> dict[str, float]:
        """The same for the mean of all nets, where there are several."""
        accuracy: dict[str, float] = self.record.get("ensemble_test_accuracy", {})
        return accuracy

    @property
    def classes(self) -> list[str]:
        """The names of the classes."""
        names: list[str] = self.record["classes"]
        return names

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the feature columns in the order the model takes them; none where they had none."""
        _, about = self._files.read_tensors(MODEL)
        try:
            columns = about.get("columns", [])  # which runs once did not record
            if not isinstance(columns, list) or (columns and [len(columns)] != about["shape"]):
                raise self._files.damaged(MODEL)
            return tuple(map(str, columns))
        except (AttributeError, KeyError):
            raise self._files.damaged(MODEL) from None

    @cached_property
    def examples(self) -> list[dict[str, str]]:
        """The rows of `examples.csv`."""
        rows = self._files.read_table("examples.csv")
        known = set(map(str, range(len(self.classes))))
        try:
            usable = len(rows) == self.record["examples"] and all(
                {row["label"], row["suggested_label"], row.get("true_label", "0")} <= known
                and 0 <= float(row["label_quality"]) <= 1
                and 0 <= float(row["agreement"]) <= 1
                for row in rows
            )
        except (KeyError, ValueError):
            usable = False
        if not usable:
            raise self._files.damaged("examples.csv")
        return rows

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels as they were given."""
        return np.array([int(row["label"]) for row in self.examples])

    @property
    def suggested_labels(self) -> NDArray[np.int64]:
        """The labels the net would give."""
        return np.array([int(row["suggested_label"]) for row in self.examples])

    @property
    def label_quality(self) -> NDArray[np.float64]:
        """How much the net trusts each given label, 0..1; low is suspicious."""
        return np.array([float(row["label_quality"]) for row in self.examples])

    @property
    def confident(self) -> NDArray[np.bool_]:
        """Where the net agrees with the given label."""
        return np.array([row["confident"] == "true" for row in self.examples])

    def suspicious(self, count: int | None = 10, threshold: float = 0.5) -> list[dict[str, str]]:
        """The rows of the labels of a quality below the threshold, worst first; all if `count` is None."""
        doubtful = [row for row in self.examples if float(row["label_quality"]) < threshold]
        return sorted(doubtful, key=lambda row: float(row["label_quality"]))[:count]

    @cached_property
    def pred_probs(self) -> NDArray[np.float32]:
        """Class probabilities of the training examples: the mean over all predictions of the training."""
        tensors, _ = self._files.read_tensors(PREDICTIONS)
        if "pred_probs" not in tensors:
            raise self._files.damaged(PREDICTIONS)
        probs: NDArray[np.float32] = tensors["pred_probs"].numpy()
        return probs

    def nets(self) -> tuple[list[nn.Module], Views, tuple[int, ...]]:
        """The trained nets on the CPU, in evaluation mode; how they see examples, and of which shape."""
        learners, views, about = self._model(Machine(torch.device("cpu")))
        return [learner.net.eval() for learner in learners], views, tuple(about["shape"])

    def predict_proba(self, x: ArrayLike, device: str = "auto") -> NDArray[np.float32]:
        """Class probabilities of images or rows of the kind the model was trained on."""
        return self.predict_checked(check_inputs("x", x), device)

    def predict(self, x: ArrayLike, device: str = "auto") -> NDArray[np.int64]:
        """The most probable class of each example."""
        classes: NDArray[np.int64] = self.predict_proba(x, device).argmax(1)
        return classes

    def predict_checked(self, inputs: Inputs, device: str = "auto") -> NDArray[np.float32]:
        """The same for inputs as a `Dataset` holds them."""
        machine = Machine.choose(device)
        learners, views, about = self._model(machine)
        shape = tuple(about["shape"])
        if inputs.shape[1:] != shape:
            raise InputError(
                f"The examples have the shape {inputs.shape[1:]}, but the model was trained on {shape}."
            )
        return _predicted(learners, views, about, open_inputs(inputs, machine.device))

    def predict_files(
        self, files: Sequence[str], device: str = "auto", report: Report = lambda done, total: None
    ) -> tuple[NDArray[np.float32], dict[int, str]]:
        """Class probabilities of image files, and what is wrong with those that cannot be read.

        These are known by their places in `files`; their probabilities mean nothing.
        """
        machine = Machine.choose(device)
        learners, views, about = self._model(machine)
        shape = tuple(about["shape"])
        if len(shape) != 3 or shape[0] not in (1, 3):
            what = " x ".join(map(str, shape))
            raise InputError(
                f"The model of {self.folder} takes {what} numbers, not images: give such an .npz."
            )
        with Readers() as readers:
            photos = Photos(files, shape, readers, machine.device, report)
            return _predicted(learners, views, about, photos), photos.wrong

    def _model(self, machine: Machine) -> tuple[list[Learner], Views, dict[str, Any]]:
        """The nets with their weights, how they see examples, and what the file says of them."""
        weights, about = self._files.read_tensors(MODEL)
        try:
            name = str(about["net"])
            if about["classes"] != self.classes:
                raise self._files.damaged(MODEL)
            if self._net is None and name.startswith(UNNAMED):
                raise InputError(
                    f"The net {name} has no name: load the run in Python with Result(folder, net)."
                )
            plan = blueprint(self._net or name, len(about["classes"]), tuple(about["shape"]))
            with machine.seeded(0):
                learners = [Learner(plan, machine) for _ in range(about["nets"])]
            for learner, state in zip(learners, unpack(weights, about["nets"]), strict=True):
                learner.net.load_state_dict(state)
            mean, std = (torch.tensor(about[key], device=machine.device) for key in ("mean", "std"))
            return learners, Views(mean, std, size=about["crop"]), about
        except (KeyError, TypeError, IndexError, RuntimeError):
            raise self._files.damaged(MODEL) from None
