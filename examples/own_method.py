"""A method of your own: a frozen dataclass of its hyper-parameters with one `fit` that owns its loops.

Here training with the generalised cross-entropy (Zhang and Sabuncu, 2018), a loss that an example cannot
drive without bound. It gets all that the built-in methods have: the judge, the run folder, resuming, steps
that are captured on a GPU.
"""

from dataclasses import dataclass
from typing import ClassVar

import labelsift
from labelsift import Batch, Run, setting


@dataclass(frozen=True)
class Generalised(labelsift.Method):
    """Between cross-entropy (q to 0) and the mean absolute error (q = 1)."""

    name: ClassVar[str] = "generalised"
    summary: ClassVar[str] = "plain training with a bounded loss"
    citation: ClassVar[str] = "Zhang and Sabuncu, NeurIPS 2018"

    power: float = setting(0.7, "how little a label that the net doubts counts", "q")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("power", 0 < self.power <= 1, "above 0 and up to 1")

    def fit(self, run: Run) -> None:
        """Train the whole net on everything."""
        learner = run.learner()
        learner.begin(self.sgd(learner))

        def step(batch: Batch) -> None:
            probs = learner(batch.view()).softmax(1)
            given = probs.gather(1, batch.labels[:, None]).clamp(min=1e-6)
            loss = ((1 - given**self.power) / self.power).mean()
            learner.update(loss)
            run.tally(loss, probs, batch.labels)
            run.remember(batch.index, probs)

        captured = run.capture(step, self.batch_size)
        for epoch in run.epochs("train", self.epochs):
            learner.lr = self.lr_at(epoch)
            for batch in self.batches(run.examples):
                captured(batch)


def main(limit: int = 2000, epochs: int = 40) -> dict[str, dict[str, float]]:
    """Test accuracies beside plain training and PES, half of the labels being wrong."""
    reached = {}
    for method in (labelsift.CE(epochs=epochs), Generalised(epochs=epochs), labelsift.PES(epochs=epochs)):
        result = labelsift.fit("fashion-demo", method=method, noise="symmetric:0.5", limit=limit)
        reached[method.name] = found = result.test_accuracy
        print(f"{method.name:12} best {found['best']:.1%}, last {found['last']:.1%}")
    return reached


if __name__ == "__main__":
    main()
