import contextlib
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from labelsift import Dataset
from labelsift.nets import blueprint
from labelsift.results.store import RunFolder
from labelsift.training import Judge, Machine, Run
from toys import TinyNet, toy_arrays, toy_data, toy_examples

torch.set_num_threads(1)
TORCHVISION = torch.library.Library("torchvision", "FRAGMENT")  # its operators live as long as this
with contextlib.suppress(ImportError):  # a machine with a GPU may not have it, and needs it for no test
    from hypothesis import settings

    settings.register_profile("calm", deadline=None)  # a busy machine is no failure
    settings.load_profile("calm")


@pytest.fixture(scope="session")
def timm() -> ModuleType:
    """timm, beside any torch."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:  # beside a torch without CUDA it lacks its operators, two of which it describes
        for name in ("nms", "qnms"):
            TORCHVISION.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("timm")


@pytest.fixture
def data() -> Dataset:
    return toy_data()


@pytest.fixture
def toy_file(tmp_path: Path) -> Path:
    """The toy set with true labels, as a file."""
    x, y = toy_arrays(150)
    test_x, test_y = toy_arrays(90, seed=1)
    file = tmp_path / "toy.npz"
    np.savez(file, x=x, y=y, test_x=test_x, test_y=test_y)
    return file


@pytest.fixture
def make_run(data: Dataset, tmp_path: Path) -> Callable[..., Run]:
    """A run of TinyNet on the toy set, seeded, outside of `fit`."""

    def make(machine: Machine | None = None, folder: str = "run") -> Run:
        torch.manual_seed(0)
        path = RunFolder(tmp_path / folder)
        path.path.mkdir(exist_ok=True)
        judge = Judge(true_labels=torch.from_numpy(data.true_labels))
        plan = blueprint(TinyNet, 3, data.shape)
        machine = machine or Machine(torch.device("cpu"))
        return Run(toy_examples(data), plan, machine, judge, path)

    return make
