"""The paper's tables and figures as data: which runs fill them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from labelsift.reproduce.values import TABLE1, TABLE2, TABLE3, TABLE4, TABLE5, TABLE6, TABLE9

NO_SSL = ("symmetric:0.2", "symmetric:0.5", "pair:0.45", "instance:0.2", "instance:0.4")
SYMMETRIC = ("symmetric-inclusive:0.2", "symmetric-inclusive:0.5", "symmetric-inclusive:0.8")
OTHERS = ("instance:0.2", "instance:0.4", "pair:0.45")
FIGURES = ("symmetric:0.5", "pair:0.45", "instance:0.4")

NETS = {"cifar10": "resnet18", "cifar100": "resnet34"}
# The first stage's learning rate does not fall within the epochs that Table 1 and Figures 2 and 3 look at.
STAGES_ONLY = {"lr": 0.1, "schedule": "constant", "weight_decay": 1e-4, "batch_size": 128}


@dataclass(frozen=True)
class Cell:
    """A run for each seed, and what the paper says came out."""

    row: str
    column: str
    data: str
    net: str
    method: str
    noise: str = ""
    nets: int = 1
    validation: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, str] = field(default_factory=dict)  # by measure

    @property
    def name(self) -> str:
        """What the run's folder is called, without the seed."""
        words = [self.data, self.noise, self.method, self.net]
        words += [f"{self.nets}nets"] if self.nets > 1 else []
        words += [f"{key}-{_short(value)}" for key, value in self.settings.items() if key not in STAGES_ONLY]
        return "-".join(word.replace(":", "-").replace("/", "-") for word in words if word)


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure of the paper."""

    title: str
    seeds: int  # runs per cell in the paper
    cells: tuple[Cell, ...]
    measures: Mapping[str, str]  # what is shown -> where it stands in result.json
    chosen: str  # how the epoch was chosen, in words
    note: str = ""


def _short(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def noise_name(noise: str) -> str:
    """A noise as the paper's columns name it: symmetric-50."""
    kind, _, rate = noise.partition(":")
    return f"{kind.removesuffix('-inclusive')}-{round(100 * float(rate))}" if rate else noise or "its own"


def _grid(
    data: str, net: str, noises: tuple[str, ...], rows: Mapping[str, str], **more: Any
) -> tuple[Cell, ...]:
    """A cell for every method (a row of values as the paper prints them) and noise."""
    return tuple(
        Cell(method, noise_name(noise), data, net, method, noise, paper={"test accuracy": value}, **more)
        for method, values in rows.items()
        for noise, value in zip(noises, values.split(), strict=True)
    )


def stage_cell(row: str, noise: str, method: str, **settings: Any) -> Cell:
    """CIFAR-10 with ResNet-18 up to the end of the stages, without confident epochs."""
    settings = {**STAGES_ONLY, **settings}
    return Cell(
        row, noise_name(noise), "cifar10", "resnet18", method, noise, validation=0.1, settings=settings
    )


def _table1() -> tuple[Cell, ...]:
    cells = []
    for method, measures in TABLE1.items():
        for place, noise in enumerate(NO_SSL):
            length = (
                {"stop_epoch": 25}
                if method == "early-stopping"
                else {"stage_epochs": (25, 7, 5), "stage_lr": 1e-4}
            )
            cell = stage_cell(method, noise, method, epochs=25, **length)
            paper = {name: values.split()[place] for name, values in measures.items()}
            cells.append(replace(cell, paper=paper))
    return tuple(cells)


@dataclass(frozen=True)
class Layers:
    """Figures 1, 4 and 5: a net trained on noisy labels, and what its layers are worth on clean ones."""

    title: str
    data: str
    net: str
    cuts: Mapping[str, str]  # the curve's name -> the child that is renewed, with all behind it
    epochs: tuple[int, ...]  # of noisy training, at which the layers are looked at
    augment: str = "auto"
    clean_epochs: int = 100
    seeds: int = 5


@dataclass(frozen=True)
class Curves:
    """Figures 2 and 3: the net at the end of PES's stages, over the length of one of them."""

    title: str
    cells: tuple[Cell, ...]  # the column is the panel, the row the place on the x-axis
    x: str
    seeds: int = 5


def _sweep(x: str, lengths: Mapping[int, tuple[int, ...]]) -> tuple[Cell, ...]:
    return tuple(
        stage_cell(f"{x}={place}", noise, "pes", epochs=stages[0], stage_epochs=stages, stage_lr=1e-4)
        for noise in FIGURES
        for place, stages in lengths.items()
    )


def _both(
    table: Mapping[str, Mapping[str, str]], noises: tuple[str, ...], net: str = "", **more: Any
) -> tuple[Cell, ...]:
    return tuple(
        cell for data, rows in table.items() for cell in _grid(data, net or NETS[data], noises, rows, **more)
    )


def _clothing() -> tuple[Cell, ...]:
    single = _grid("clothing1m", "resnet50", ("",), TABLE5)
    two = Cell(
        "pes, two nets", "its own", "clothing1m", "resnet50", "pes", nets=2, paper={"test accuracy": "74.99"}
    )
    return (*single, two)


def _times() -> tuple[Cell, ...]:
    semi = {"pes-semi", "dividemix", "elr-plus"}
    return tuple(
        Cell(
            method,
            "symmetric-50",
            "cifar10",
            "preact-resnet18" if method in semi else "resnet18",
            method,
            "symmetric-inclusive:0.5" if method in semi else "symmetric:0.5",
            validation=0.0 if method in semi else 0.1,
            paper={"hours": str(hours)},
        )
        for method, hours in TABLE6.items()
    )


def _ensembles() -> tuple[Cell, ...]:
    cells = _both(TABLE9, SYMMETRIC, net="preact-resnet18")
    return tuple(replace(cell, nets=2) if cell.method == "pes-semi" else cell for cell in cells)


BEST = "the best test accuracy over epochs"
TABLES: dict[str, Exhibit] = {
    "table1": Exhibit(
        "Early stopping and PES: the net and the confident examples",
        5,
        _table1(),
        {
            "test accuracy": "test_accuracy.last",
            "label precision": "confident.confident_precision",
            "label recall": "confident.confident_recall",
        },
        "the last epoch of the stages",
    ),
    "table2": Exhibit(
        "Without semi-supervised learning",
        5,
        _both(TABLE2, NO_SSL, validation=0.1),
        {"test accuracy": "test_accuracy.best_on_noisy_validation"},
        "the epoch that was best on the noisy validation set",
    ),
    "table3": Exhibit(
        "With semi-supervised learning, symmetric noise",
        3,
        _both(TABLE3, SYMMETRIC, net="preact-resnet18"),
        {"test accuracy": "test_accuracy.best"},
        BEST,
        "The rate includes the true label.",
    ),
    "table4": Exhibit(
        "With semi-supervised learning, instance-dependent and pair noise",
        3,
        _both(TABLE4, OTHERS, net="preact-resnet18"),
        {"test accuracy": "test_accuracy.best"},
        BEST,
    ),
    "table5": Exhibit(
        "Clothing-1M",
        1,
        _clothing(),
        {"test accuracy": "ensemble_test_accuracy.best_on_clean_validation"},
        "the epoch that was best on the clean validation set (which so is clean data used for training)",
        "Baselines are quoted by the paper.",
    ),
    "table6": Exhibit(
        "Training time", 1, _times(), {"hours": "hours"}, "all epochs", "The paper used a V100."
    ),
    "table9": Exhibit(
        "Two nets, symmetric noise",
        1,
        _ensembles(),
        {"test accuracy": "ensemble_test_accuracy.best"},
        BEST + " of the ensemble (of the net, where there is one)",
        "The rate includes the true label. The highest result is reported.",
    ),
}
LAYERS: dict[str, Layers] = {
    "figure1": Layers(
        "Layers under noise: CIFAR-10, ResNet-18",
        "cifar10",
        "resnet18",
        {"9th layer": "layer3", "17th layer": "fc"},
        (5, 10, 15, 20, 25, 30, 40, 50, 75, 100),
    ),
    "figure4": Layers(
        "Layers under noise: CIFAR-100, ResNet-34",
        "cifar100",
        "resnet34",
        {"17th layer": "layer3.1", "33rd layer": "fc"},
        (5, 10, 15, 20, 25, 30, 40, 50, 75, 100),
    ),
    "figure5": Layers(
        "Layers under noise: Fashion-MNIST, LeNet",
        "fashion-mnist",
        "lenet",
        {"1st layer": "conv2", "4th layer": "fc3"},
        (1, 2, 5, 10, 15, 20, 30, 40, 50),
        augment="none",
    ),
}
CURVES: dict[str, Curves] = {
    "figure2": Curves(
        "Early stopping and PES over the epochs of the first stage",
        _sweep("T1", {t: (t, 7, 5) for t in (5, 10, 15, 20, 25, 30, 40, 50)}),
        "epochs of the first stage",
    ),
    "figure3a": Curves("Sensitivity to T2", _sweep("T2", {t: (25, t, 0) for t in range(11)}), "T2"),
    "figure3b": Curves("Sensitivity to T3", _sweep("T3", {t: (25, 7, t) for t in range(11)}), "T3"),
}
