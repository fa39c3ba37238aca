"""Two tables that are not the paper's: on labels that people gave, and on what the renewed parts do."""

from collections.abc import Mapping
from dataclasses import replace

from labelsift.reproduce.cells import ACCURACY, BEST, INCLUSIVE, Cell, Exhibit
from labelsift.reproduce.values import CIFAR10N

PES = ("pes", "pes-semi")


def people() -> Exhibit:
    """PES with semi-supervised learning on CIFAR-10N, whose kinds of labels stand in the place of noises."""
    return Exhibit(
        "CIFAR-10N: the labels that people gave",
        1,
        tuple(
            Cell("pes-semi", kind, f"cifar10n:{kind}", "resnet34", "pes-semi", paper={ACCURACY: value})
            for kind, value in CIFAR10N.items()
        ),
        {ACCURACY: "test_accuracy.best"},
        BEST,
        "The numbers beside ours are the published ones of PES with semi-supervised learning on CIFAR-10N.",
    )


def rest(tables: Mapping[str, Exhibit]) -> Exhibit:
    """PES on CIFAR-10, resting (the very runs of Tables 2 to 4) and training on."""
    ways = {"resting": {}, "training on": {"renewed_rest": False}}
    return Exhibit(
        "Does it matter that the renewed parts rest?",
        2,
        tuple(
            replace(cell, row=f"{cell.method}, {words}", settings={**cell.settings, **way}, paper={})
            for name in ("table2", "table3", "table4")
            for words, way in ways.items()
            for cell in tables[name].cells
            if cell.data == "cifar10" and cell.method in PES
        ),
        {"best": "test_accuracy.best", "last": "test_accuracy.last"},
        "both the best on the test set and the last are shown",
        f"{INCLUSIVE.rstrip('.')} for pes-semi.",
    )
