"""Figures 1, 4 and 5: what the layers of a net are worth after training on noisy labels.

Train the whole net on noisy labels; at some epochs freeze it up to a layer, renew the layers behind and train
those on clean labels. This needs the true labels, so it is no method and trains no classifier for anybody.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from labelsift.config import as_toml
from labelsift.data import Batch, Examples
from labelsift.errors import InputError
from labelsift.losses import cross_entropy
from labelsift.nets import Blueprint, blueprint
from labelsift.parts import split
from labelsift.preparation import make_examples, prepare
from labelsift.results.store import RunFolder
from labelsift.training import Judge, Learner, Machine
from labelsift.training.capture import Captured
from labelsift.training.schedule import cosine_lr

POINTS = "points.jsonl"
BATCH, LR, MOMENTUM, WEIGHT_DECAY = 128, 0.1, 0.9, 1e-4


def measure_layers(
    data: str,
    net: str,
    noise: str,
    seed: int,
    cuts: Mapping[str, str],
    epochs: Sequence[int],
    clean_epochs: int,
    augment: str,
    limit: int,
    data_dir: str,
    device: str,
    out: str,
) -> None:
    """Write `points.jsonl` (epoch, layer, test accuracy) and then `result.json`; go on where it was left."""
    folder = RunFolder(Path(out))
    noisy, realised = prepare(data, noise=noise, seed=seed, data_dir=data_dir, limit=limit)
    assert realised is not None
    machine = Machine.choose(device)
    folder.claim(as_toml({"data": data, "net": net, "noise": noise, "seed": seed}))
    points = folder.read_lines(POINTS) if folder.file(POINTS).exists() else []
    known = {(point["epoch"], point["layer"]) for point in points}
    with machine.seeded(seed):
        examples, judge = make_examples(noisy, augment, seed, machine)
        assert judge.true_labels is not None
        generator = torch.Generator(machine.device)
        clean = replace(examples, all_labels=judge.true_labels, generator=generator)
        plan = blueprint(net, noisy.num_classes, noisy.shape)
        learner = Learner(plan, machine)
        learner.begin(learner.sgd(lr_of(net), MOMENTUM, WEIGHT_DECAY))
        learner.expect(max(epochs), examples)
        step = plain_step(learner)
        for epoch in range(1, max(epochs) + 1):
            for batch in examples.batches(BATCH):
                step(batch)
            for layer, cut in {**cuts, "final layer": ""}.items() if epoch in epochs else ():
                if (epoch, layer) in known:
                    continue
                accuracy = probe(learner, plan, cut, clean, judge, clean_epochs, seed)
                points.append({"epoch": epoch, "layer": layer, "test_accuracy": accuracy})
                folder.write_lines(POINTS, points)
    about = {"noise_rate": realised.rate, "device": machine.description, "clean_epochs": clean_epochs}
    folder.finish({**about, "finished": datetime.now(UTC).isoformat(timespec="seconds")})
    folder.release()


def lr_of(net: str) -> float:
    """LeNet has no batch norm and diverges at the rate of the residual nets."""
    return 0.01 if net == "lenet" else LR


def plain_step(learner: Learner) -> Callable[[Batch], None]:
    """Cross-entropy, for the stage that has begun."""

    def step(batch: Batch) -> None:
        learner.update(cross_entropy(learner(batch.view()), batch.labels))

    return Captured(step, BATCH, learner.machine, [learner], learner.warn)


def probe(
    learner: Learner, plan: Blueprint, cut: str, clean: Examples, judge: Judge, epochs: int, seed: int
) -> float:
    """Test accuracy once the layers from `cut` on are renewed and trained on clean labels; "": as it is."""
    if not cut:
        return judge.accuracies([learner])["test_accuracy"]
    clean.generator.manual_seed(seed)  # the same for every probe, whatever was measured before a stop
    with learner.machine.seeded(seed):
        copy = Learner(plan, learner.machine)
        copy.net.load_state_dict(learner.net.state_dict())
        behind = split(copy.net, (cut,))[1:]
        copy.restart(behind)
        copy.begin(copy.sgd(lr_of(plan.name), MOMENTUM, WEIGHT_DECAY), behind)
        copy.expect(epochs, clean)
        step = plain_step(copy)
        for epoch in range(epochs):
            copy.lr = cosine_lr(lr_of(plan.name), epoch, epochs)
            for batch in clean.batches(BATCH):
                step(batch)
        return judge.accuracies([copy])["test_accuracy"]


if __name__ == "__main__":
    try:
        measure_layers(**json.loads(sys.argv[1]))
    except InputError as error:
        sys.exit(f"labelsift: {error}")
