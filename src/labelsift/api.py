"""`fit`: the one place where data, noise, net, method and judge are wired together."""

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from labelsift.config import Config, convert
from labelsift.data import Dataset, Reading, check_augment, default_augment
from labelsift.data.listing import shown
from labelsift.defaults import Plan, as_begun, choose, largest_size, too_few
from labelsift.errors import InputError
from labelsift.methods import Method
from labelsift.nets import Factory, blueprint
from labelsift.noise import Noise, NoisyLabels
from labelsift.preparation import examples_of, judge_of, prepare, split_off, tensor_like
from labelsift.record import write_results
from labelsift.result import Result
from labelsift.results.store import RunFolder
from labelsift.training import Machine, Record, Run


def fit(
    x: str | os.PathLike[str] | Dataset | ArrayLike,
    y: ArrayLike | None = None,
    *,
    method: str | Method = "auto",
    net: str | Factory | nn.Module = "auto",
    noise: str = "",
    true_y: ArrayLike | None = None,
    test: str | os.PathLike[str] | tuple[ArrayLike, ArrayLike] | None = None,
    image_size: int = 0,
    path_column: str = "",
    label_column: str = "",
    image_dir: str = "",
    seed: int = 1,
    nets: int = 1,
    weights: str = "",
    validation: float = 0.0,
    augment: str = "auto",
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    compile: bool | None = None,
    precision: str = "auto",
    out: str | Path | Callable[[Config], Path] | None = None,
    resume: bool = False,
    fingerprint: str = "",
    weights_fingerprint: str = "",
    data_dir: str = "",
    limit: int = 0,
    observe: Callable[[Record], None] = lambda record: None,
    checkpoint_seconds: float = 10.0,
) -> Result:
    """Train a classifier that wrong labels do not fool, and judge every label.

    `x` is images (N x H x W, N x H x W x C) or feature rows (N x D) with labels `y`, or a data set: its name,
    a folder with a subfolder of images per class, a table with a path and a label column, an .npz file or
    hf:NAME. `test` is a held-out part with trusted labels, of the same kind; images of files are resized to
    `image_size`, a usual one near their own when 0. The method, the net and the settings that are not given
    follow from the data and the device (see `defaults`): the record `begin` that `observe` gets tells why.

    Everything is written to the folder `out` (None: a temporary one, which goes when the result does); a run
    that was broken off goes on with `resume=True`, and a finished one is not run again. With `nets` above 1
    the method trains so many nets, one after the other, and their probabilities are averaged; `limit` takes
    so many examples only; `weights` is a file (or timm:NAME) with the weights that the net starts from.
    """
    began = time.perf_counter()
    numbers = {"seed": seed, "nets": nets, "limit": limit, "image_size": image_size}
    seed, nets, limit, image_size = (convert(int, number, what) for what, number in numbers.items())
    if not 0 <= validation < 1:
        raise InputError(f"The validation share {validation:g} must be at least 0 and below 1: 0.1 is 10 %.")
    if not checkpoint_seconds >= 0:
        raise InputError(f"A state cannot be saved every {checkpoint_seconds} seconds: use 0 or more.")
    if nets < 1:
        raise InputError(f"There cannot be {nets} nets: use --nets 2 for an ensemble of two.")
    if limit < 0:
        raise InputError(f"There cannot be {limit} examples: use --limit 1000, or leave it out for all.")
    noise = str(Noise.parse(noise)) if noise else ""
    machine = Machine.choose(device, compile, precision)
    if resume and isinstance(out, str | Path):
        net, image_size = as_begun(Path(out), x, net, image_size)
    held_out_data = os.fspath(test) if isinstance(test, str | os.PathLike) else ""
    reading = Reading(held_out_data, image_size, path_column, label_column, image_dir)
    test_arrays = None if isinstance(test, str | os.PathLike) else test
    largest = 0 if image_size else largest_size(net, weights, machine.cuda)
    data, noisy = prepare(x, y, true_y, test_arrays, noise, seed, data_dir, limit, observe, reading, largest)
    data = replace(data, notes=(*data.notes, *too_few(data)))
    known = data.fingerprint
    if fingerprint and fingerprint != known:
        raise InputError(
            f"The data {data.name} is not what the config was made with: restore it, or fit it anew into "
            "another --out, without the config."
        )
    if settings and isinstance(method, Method):
        raise InputError("Give the settings in the method itself, not beside it.")
    train, held_out = split_off(len(data.labels), validation, seed)
    if len(np.unique(data.labels[train])) < 2:
        remedy = "hold out less with --validation" if validation else "take more with --limit"
        raise InputError(f"All labels to train on are of one class: {remedy}.")
    resized = isinstance(x, str | os.PathLike) and bool(data.paths) and not image_size
    chosen = choose(data, len(train), method, net, settings, noise, weights, machine.cuda, resized)
    method, net = chosen.method, chosen.net
    if augment == "auto":
        augment = default_augment(data.shape)
    check_augment(augment)
    if augment != "none" and len(data.shape) == 1:
        raise InputError(f"{data.name} holds feature rows and no images: leave out --augment {augment}.")
    plan = blueprint(net, data.num_classes, data.shape, weights)
    if weights_fingerprint not in ("", plan.weights):
        raise InputError(
            f"The weights {weights} are not those the config was made with: restore them, or name others "
            "with --weights."
        )
    config = Config(
        data=str(x) if isinstance(x, str | os.PathLike) else data.name,
        fingerprint=known,
        net=plan.name,
        method=method.name,
        nets=nets,
        weights=weights,
        weights_fingerprint=plan.weights,
        noise=noise,
        seed=seed,
        validation=float(validation),
        limit=limit,
        augment=augment,
        device=device,
        precision=precision,
        **asdict(replace(reading, image_size=data.shape[1] if data.paths else 0)),
        settings=asdict(method),
    )
    with machine.seeded(seed):
        method.check_net(plan.initial())
    if len(train) < method.batch_size:
        fitting = f"use --set batch_size={len(train) // 8} or so"
        smaller = fitting if len(train) >= 16 else "they are too few"
        smaller += ", or hold out less with --validation" if validation else ""
        raise InputError(
            f"There are {len(train)} training examples, fewer than a batch of {method.batch_size}: {smaller}."
        )
    if out:
        place = RunFolder(out(config) if callable(out) else Path(out))
    else:
        place, checkpoint_seconds = RunFolder.temporary(), math.inf  # nobody could resume it
    folder = RunFolder(place.path)  # of the run, whose parts refer to each other; the result's goes with it
    own_net = None if isinstance(net, str) else net
    if _finished(folder, config, resume):
        return Result(place, own_net)
    folder.claim(config.toml())
    try:
        for note in data.notes:
            observe({"warning": note})
        observe({"begin": _beginning(config, data, noisy, len(train), chosen, machine)})
        with machine.seeded(seed):
            whole = examples_of(data, augment, seed, machine)
            judge = judge_of(data, whole, held_out, noise)
            mine = whole.subset(tensor_like(train, whole))
            run = Run(mine, plan, machine, judge, folder, observe, checkpoint_seconds, began)
            for number in range(1, nets + 1):
                if nets > 1:
                    run.begin_net(number)
                method.fit(run)
            run.finish()
            write_results(run, judge, whole, data, config, method.result_stage)
    finally:
        folder.release()
    return Result(place, own_net)


def _beginning(
    config: Config, data: Dataset, noisy: NoisyLabels | None, train: int, chosen: Plan, machine: Machine
) -> Record:
    """What is about to be done, for whoever watches."""
    first, others = data.classes[:3], len(data.classes[3:])
    names = ", ".join(map(shown, first)) + (f" and {others} more" if others else "")
    words = [f"{data.name}: {train:,} examples of {data.num_classes} classes ({names})"]
    if noisy is not None:
        words.append(f"{config.noise} noise ({100 * noisy.rate:.1f} % of the labels changed)")
    epochs = config.nets * chosen.method.total_epochs
    nets = f"{config.nets} nets {config.net}" if config.nets > 1 else config.net
    length = "1 epoch" if epochs == 1 else f"{epochs} epochs"
    words.append(f"{config.method} with {nets}, {length} on {machine.description}")
    return {
        "sentence": "; ".join(words),
        "method": config.method,
        "train_examples": train,
        "total_epochs": epochs,
        "choices": [{**asdict(choice), "sentence": str(choice)} for choice in chosen.choices],
    }


def _finished(folder: RunFolder, config: Config, resume: bool) -> bool:
    """Whether the folder holds this very run, done; an error where it must not be touched."""
    if folder.foreign:
        raise InputError(f"{folder.path} exists and is no run folder: choose another --out.")
    if not folder.config.exists():
        return False
    there = Config.read(folder.config)
    if there.id != config.id:
        raise InputError(
            f"{folder.path} holds another run ({config.difference(there)}): choose another --out."
        )
    if not folder.finished and not resume:
        folder.claim(config.toml())  # unless another process runs there, which is then said
        folder.release()
        raise InputError(f"{folder.path} holds this run, broken off: add --resume to finish it.")
    return folder.finished
