"""The paper's tables and figures, and two tables more, as data: which runs fill them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labelsift.reproduce.cells import (
    ACCURACY,
    BEST,
    INCLUSIVE,
    STAGES_ONLY,
    Cell,
    Curves,
    Exhibit,
    Layers,
    noise_name,
)
from labelsift.reproduce.further import people, rest
from labelsift.reproduce.values import TABLE1, TABLE2, TABLE3, TABLE4, TABLE5, TABLE6, TABLE9

NO_SSL = ("symmetric:0.2", "symmetric:0.5", "pair:0.45", "instance:0.2", "instance:0.4")
SYMMETRIC = ("symmetric-inclusive:0.2", "symmetric-inclusive:0.5", "symmetric-inclusive:0.8")
OTHERS = ("instance:0.2", "instance:0.4", "pair:0.45")
KNOWN = (
    "As in the paper, lambda_u of pes-semi follows the true noise. No other method knows that noise, unless "
)
KNOWN += "it is marked (oracle)."
FIGURES = ("symmetric:0.5", "pair:0.45", "instance:0.4")

PROBED = (5, 10, 20, 30, 50, 100)  # epochs of noisy training, after which layers of residual nets are probed

NETS = {"cifar10": "resnet18", "cifar100": "resnet34"}


def _grid(
    data: str, net: str, noises: tuple[str, ...], rows: Mapping[str, str], **more: Any
) -> tuple[Cell, ...]:
    """A cell for every method (a row of values as the paper prints them) and noise.

    A star marks a row that the paper quotes; the method is the same.
    """
    return tuple(
        Cell(row, noise_name(noise), data, net, row.rstrip("*"), noise, paper={ACCURACY: value}, **more)
        for row, values in rows.items()
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


def _stages(row: str, stages: tuple[int, ...]) -> tuple[Cell, ...]:
    """PES with stages of so many epochs, for each noise of the figures."""
    return tuple(
        stage_cell(row, noise, "pes", epochs=stages[0], stage_epochs=stages, stage_lr=1e-4)
        for noise in FIGURES
    )


def _both(
    table: Mapping[str, Mapping[str, str]], noises: tuple[str, ...], net: str = "", **more: Any
) -> tuple[Cell, ...]:
    return tuple(
        cell for data, rows in table.items() for cell in _grid(data, net or NETS[data], noises, rows, **more)
    )


def _clothing() -> tuple[Cell, ...]:
    single = _grid("clothing1m", "resnet50", ("",), TABLE5, weights="timm:resnet50.tv_in1k")
    return (*single, replace(single[-1], row="pes, two nets", nets=2, paper={ACCURACY: "74.99"}))


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
            timed=True,
            paper={"hours": str(hours)},
        )
        for method, hours in TABLE6.items()
    )


TABLES: dict[str, Exhibit] = {
    "table1": Exhibit(
        "Early stopping and PES: the net and the confident examples",
        5,
        _table1(),
        {
            ACCURACY: "test_accuracy.last",
            "label precision": "confident.confident_precision",
            "label recall": "confident.confident_recall",
        },
        "last, which is the end of the stages",
    ),
    "table2": Exhibit(
        "Without semi-supervised learning",
        5,
        _both(TABLE2, NO_SSL, validation=0.1),
        {ACCURACY: "test_accuracy.best_on_noisy_validation"},
        "best on noisy validation",
    ),
    "table3": Exhibit(
        "With semi-supervised learning, symmetric noise",
        3,
        _both(TABLE3, SYMMETRIC, net="preact-resnet18"),
        {ACCURACY: "test_accuracy.best"},
        BEST,
        f"{INCLUSIVE} The paper quotes the rows with * from DivideMix's paper; "
        f"of DivideMix and ELR+ the first net counts. {KNOWN}",
    ),
    "table4": Exhibit(
        "With semi-supervised learning, instance-dependent and pair noise",
        3,
        _both(TABLE4, OTHERS, net="preact-resnet18"),
        {ACCURACY: "test_accuracy.best"},
        BEST,
        f"Of DivideMix and ELR+ the first net counts. {KNOWN}",
    ),
    "table5": Exhibit(
        "Clothing-1M",
        1,
        _clothing(),
        {ACCURACY: "ensemble_test_accuracy.best_on_clean_validation"},
        "best on clean validation, and so with the help of clean data",
        "Nets start from ImageNet's weights. Of several nets the mean prediction counts. "
        "The paper quotes all rows but those of PES.",
    ),
    "table6": Exhibit(
        "Training time",
        1,
        _times(),
        {"seconds": "clock", "hours": "hours"},
        "none, all of them take time",
        "One run at a time has the device, by the clock: start and warm-up count. Of one that was resumed "
        "only the epochs do. The paper used a V100.",
    ),
    "table9": Exhibit(
        "Against ensembles of two nets, symmetric noise",
        3,
        _both(TABLE9, SYMMETRIC, net="preact-resnet18"),
        {ACCURACY: "ensemble_test_accuracy.best"},
        BEST,
        f"{INCLUSIVE} Of DivideMix and ELR+ the mean prediction of both nets counts; PES has one net, as the "
        "paper's text says. The highest of the runs is shown. The paper quotes DivideMix and ELR+.",
        highest=True,
    ),
}
TABLES |= {"cifar10n": people(), "rest": rest(TABLES)}
LAYERS: dict[str, Layers] = {
    "figure1": Layers(
        "Layers under noise: CIFAR-10, ResNet-18",
        "cifar10",
        "resnet18",
        {"9th layer": "layer3", "17th layer": "fc"},
        PROBED,
    ),
    "figure4": Layers(
        "Layers under noise: CIFAR-100, ResNet-34",
        "cifar100",
        "resnet34",
        {"17th layer": "layer3.1", "33rd layer": "fc"},
        PROBED,
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
        tuple(cell for t in (5, 10, 15, 20, 25, 30, 40, 50) for cell in _stages(f"T1 = {t}", (t, 7, 5))),
        "epochs of the first stage, T1",
        "Early stopping is the end of the first stage, PES the end of the last: T2 = 7, T3 = 5.",
    ),
    # Adam's rate is constant, so that a stage's history is the sweep of its length: one run gives a curve.
    "figure3": Curves(
        "Sensitivity to T2 and T3",
        _stages("T2", (25, 10, 0)) + _stages("T3", (25, 7, 10)),
        "epochs of the stage",
        "T1 = 25. The paper varies T2 first, then fixes T2 = 7 and varies T3: so T3 = 0 while T2 varies "
        "(the text does not say it), and 0 epochs leave a part as it is. Its text does not say which noises "
        "it draws either: here they are those of Figures 1 and 2.",
    ),
}
WITH_CELLS: dict[str, Exhibit | Curves] = {**TABLES, **CURVES}
