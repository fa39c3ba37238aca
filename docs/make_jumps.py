"""How far test accuracy jumps from one epoch to the next: why a number that shows one epoch is a draw."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import mean

from labelsift.reproduce.cells import noise_name
from labelsift.reproduce.published import Published
from labelsift.results.store import RunFolder

WHOLE_NET = ("part 1", "train")  # the stages in which PES and plain training are the same
FIRST, LAST = 15, 25  # epochs, up to the end of PES's first stage; the learning rate is the same


def jumps(runs: Sequence[Published], columns: Iterable[str]) -> list[str]:
    """A sentence about those runs that went so far, if any did: noise by noise, in the order of columns."""
    steps: dict[str, list[float]] = {noise: [] for noise in columns}
    for run in runs:
        history = [row for row in RunFolder(run.path).epochs() if row["stage"] in WHOLE_NET]
        reached = [100 * row["test_accuracy"] for row in history[FIRST - 1 : LAST]]
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
