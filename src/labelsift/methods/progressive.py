"""Progressive early stopping: the parts of a net trained one after the other, each stopped earlier.

Bai, Yang, Han, Yang, Li, Mao, Niu, Liu: Understanding and Improving Early Stopping for Learning with Noisy
Labels. NeurIPS 2021. The later parts of a net are hurt by wrong labels earlier and more than the former ones:
train the whole net, then renew the later parts, one after the other, each for fewer epochs on frozen former
parts. `pes` and `pes-semi` begin so and differ in what they do with the examples the net then agrees with.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from labelsift.data import Examples
from labelsift.methods.gauge import Gauge
from labelsift.methods.method import HIGHEST, Method, setting
from labelsift.nets import standard_cuts
from labelsift.parts import Part, split
from labelsift.training import Learner, Run

TRIAL = 0.7  # share of the epochs after which a net that has learned no wrong labels will not do so
NONE_WRONG = "The net learned no wrong labels by heart, so it was trained on all of them to the end."
TOO_FEW_WRONG = (
    "Too few labels are wrong to stop for, so the net was trained on all of them to the end. They are judged "
    "by what it predicted until half-way, before it knew them by heart."
)
STAGE_WAY = 0.5  # learning rate times steps of a later stage, when no rate is set


@dataclass(frozen=True)
class Progressive(Method):
    """The stages, and how their parts and lengths are set."""

    stage_epochs: tuple[int, ...] = setting(
        (10, 7, 5), "epochs of each part's stage, first part first", "T1, T2, ..."
    )
    # Differs: where nobody gives T1, as the paper does for its data, the first stage is as long as it can be.
    patient: bool = setting(False, "the first stage goes on as long as no wrong labels are learned by heart")
    stage_lr: float = setting(0.0, "learning rate of Adam in the later stages; 0: from the number of steps")
    cuts: tuple[str, ...] = setting((), "children the later parts begin with; none: the net's own")
    # Differs from the text, which unfreezes all; in the authors' scripts SGD never sees the renewed parts.
    renewed_rest: bool = setting(True, "renewed parts keep their weights in the confident epochs")
    clean_share: float = setting(  # Differs: where few labels are doubted, resting only costs
        0.75, "renewed parts do train on where the net agrees with more of the labels than this"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        sense = bool(self.stage_epochs) and self.stage_epochs[0] >= 1 and min(self.stage_epochs) >= 0
        self.check("stage_epochs", sense, "the epochs of each part's stage, as in 25,7,5")
        self.check("stage_lr", 0 <= self.stage_lr <= HIGHEST, f"0 to {HIGHEST:g}")
        self.check("clean_share", 0 <= self.clean_share <= 1, "0 to 1")
        if self.cuts:
            wanted = f"{len(self.stage_epochs) - 1} children for {len(self.stage_epochs)} stages"
            self.check("cuts", len(self.cuts) == len(self.stage_epochs) - 1, wanted)

    @property
    def total_epochs(self) -> int:
        """`epochs` counts the first stage and the confident epochs; the later stages come on top."""
        return self.epochs + sum(self.stage_epochs[1:])

    def parts(self, net: nn.Module) -> list[Part]:
        """The net's parts, one for each stage."""
        return split(net, self.cuts or standard_cuts(net, len(self.stage_epochs)))

    def check_net(self, net: nn.Module) -> None:
        """The net must have the parts."""
        self.parts(net)

    def adam_lr(self, epochs: int, examples: int) -> float:
        """The learning rate of a later stage.

        Adam moves a weight by about its learning rate per step. The paper's stages allow 0.2 in all; on a
        small set its rate would leave the renewed parts half-trained, so we hold the way and not the rate.
        """
        steps = epochs * math.ceil(min(examples, self.epoch_examples or examples) / self.batch_size)
        return self.stage_lr or min(max(STAGE_WAY / max(steps, 1), 1e-4), 1e-2)

    def choose_confident(self, run: Run, learner: Learner) -> tuple[Examples, Tensor]:
        """The examples of an epoch, and which of them the net agrees with (the mean over two views)."""
        pool = self.epoch_of(run.examples)
        probs = learner.pred_probs(pool, views=2)
        confident = probs.argmax(1) == pool.labels
        run.remember(pool.index, probs)
        run.note_confident(confident, pool)
        return pool, confident

    def train_stages(self, run: Run, learner: Learner, parts: list[Part]) -> int:
        """Algorithm 1 of the paper up to its last loop; how many of the epochs it took.

        With patience the first stage goes on until wrong labels are learned; if none are, to the end.
        """
        # The first part: the whole net learns, for the longest time.
        begin, safe, trial = run.epoch, self.stage_epochs[0], round(TRIAL * self.epochs)
        gauge = Gauge.of(run, self.epochs) if self.patient and safe < trial else None
        # Without later stages there is time for half as many epochs of the whole net.
        longest = (self.epochs + self.total_epochs) // 2 if gauge else min(safe, self.epochs)
        learner.begin(self.sgd(learner))
        step = self.plain_step(run, learner)
        examples = gauge.trained if gauge else run.examples
        for epoch in run.epochs("part 1", longest):
            place = float(epoch)  # in the schedule
            if gauge and epoch == max(safe, self.epochs // 2):
                gauge.half_way.copy_(run.predictions)
            if gauge and 0 < epoch <= trial:
                gauge.look(run, learner, epoch)
                if epoch >= safe and gauge.by_heart(run, epoch, safe, last=epoch == trial):
                    break
            if gauge and epoch == trial:
                run.shorten(self.total_epochs - longest)
            if gauge and epoch >= trial:
                examples = gauge.all_at_last(longest // (longest - trial))
                place = trial + (epoch - trial) * (self.epochs - trial) / (longest - trial)
            learner.lr = self.lr_at(place)
            for batch in self.batches(examples):
                step(batch)
            if epoch + 1 == longest and not (gauge or self.epoch_examples):
                run.note_agreement(learner)
        first_epochs = run.epoch - begin
        if gauge and first_epochs == longest:
            hidden = gauge.hidden(run)
            if hidden:
                run.predictions.copy_(gauge.half_way)
            run.warn(TOO_FEW_WRONG if hidden else NONE_WRONG)
            return self.epochs

        # The later parts: renewed, and trained for a shorter time while the former ones stand still.
        for number, count in enumerate(self.stage_epochs[1:], start=1):
            if count == 0:
                continue  # a part without a stage stays as it is
            learner.restart(parts[number:])
            learner.begin(learner.adam(self.adam_lr(count, len(run.examples))), parts[number:])
            step = self.plain_step(run, learner)
            for _ in run.epochs(f"part {number + 1}", count):
                for batch in self.batches(run.examples):
                    step(batch)

        if first_epochs == self.epochs:
            run.warn(f"All {self.epochs} epochs were the first part's: none was left for confident examples.")
        return first_epochs


class Rest:
    """Whether renewed parts rest in the confident epochs; decided in the first of them, and resumed.

    They shield a net from wrong labels. Where few labels are doubted that only costs what they could learn.
    """

    def __init__(self, run: Run, method: Progressive) -> None:
        self._rests = torch.tensor(method.renewed_rest)
        self._clean_share = method.clean_share
        self._begun = False
        run.keep(renewed_rest=self._rests)

    def begins(self, learner: Learner, parts: Sequence[Part], epoch: int, confident: Tensor) -> bool:
        """Begin SGD's stage in the first epoch that is trained, in a resumed run too; whether this was it."""
        if self._begun:
            return False
        if epoch == 0 and float(confident.float().mean()) > self._clean_share:
            self._rests.fill_(False)
        learner.begin(learner.optimisers["sgd"], parts[:1] if self._rests else parts)
        self._begun = True
        return True
