"""How far test accuracy jumps from one epoch to the next: why a number that shows one epoch is a draw."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import mean

from labelsift.reproduce.cells import noise_name
from labelsift.reproduce.figures import of_stages
from labelsift.reproduce.records import FinishedRun
from labelsift.results.store import RunFolder

FIRST, LAST = 15, 25  # epochs, up to the end of PES's first stage; the learning rate is the same


def jumps(runs: Sequence[FinishedRun], columns: Iterable[str]) -> list[str]:
    """A sentence about those runs that went so far, if any did: noise by noise, in the order of columns."""
    steps: dict[str, list[float]] = {noise: [] for noise in columns}
    for run in runs:
        history = RunFolder(run.path).epochs()
        whole_net = of_stages(history, "part 1") or of_stages(history, "train")  # of PES, of plain training
        reached = [100 * row["test_accuracy"] for row in whole_net[FIRST - 1 : LAST]]
        if len(reached) == LAST - FIRST + 1:
            steps[noise_name(run.config.noise)] += [abs(b - a) for a, b in pairwise(reached)]
    known = ", ".join(f"{noise} {mean(sizes):.1f}" for noise, sizes in steps.items() if sizes)
    if not known:
        return []
    return [
        f"From one epoch to the next, between epochs {FIRST} and {LAST} of training on all labels, test "
        f"accuracy goes up or down by so many points in the mean: {known}. What a run shows that ends there, "
        "or is judged there, is one draw of these."
    ]
