"""Why a number that shows one epoch is a draw: test accuracy jumps, and others are chosen nearly as well."""

from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import pairwise
from operator import itemgetter
from statistics import mean

from labelsift.methods import METHODS
from labelsift.record import eligible
from labelsift.reproduce.cells import noise_name
from labelsift.reproduce.figures import of_stages
from labelsift.reproduce.records import FinishedRun
from labelsift.reproduce.report import ORACLE
from labelsift.results.store import RunFolder

FIRST, LAST = 15, 25  # epochs, up to the end of PES's first stage; the learning rate is the same
CLOSE = 10  # epochs of a run among which one could have been chosen as well
RATED = "noisy_validation_accuracy"


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


def close_choices(runs: Sequence[FinishedRun], columns: Iterable[str]) -> list[str]:
    """A sentence about the epochs that validation rates highest: the test accuracy of each row there."""
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        epochs = eligible(RunFolder(run.path).epochs(), METHODS[run.config.method].result_stage)
        best = nlargest(CLOSE, (row for row in epochs if RATED in row), key=itemgetter(RATED))
        if len(best) == CLOSE:
            row = f"{run.data}, `{run.config.method}{ORACLE if run.record.get('oracle') else ''}`"
            reached = found.setdefault(row, {noise: [] for noise in columns})
            reached[noise_name(run.config.noise)].append(100 * mean(epoch["test_accuracy"] for epoch in best))
    told = [
        f"{row} " + ", ".join(f"{noise} {mean(means):.2f}" for noise, means in reached.items() if means)
        for row, reached in sorted(found.items())
    ]
    if not told:
        return []
    return [
        "Validation rates some epochs nearly as high as the one it chooses. The "
        f"{CLOSE} it rates highest have in the mean a test accuracy of: {'; '.join(told)}."
    ]
