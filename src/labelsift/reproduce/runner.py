"""Runs the missing cells: some at a time, each a process of its own in a run folder of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelsift.methods import make_method
from labelsift.reproduce.exhibits import Cell, Layers

SCALED = ("epochs", "stop_epoch", "stage_epochs", "ramp_epochs")


@dataclass(frozen=True)
class Scale:
    """How much smaller than the paper's a run is; anything but 1 and 0 is marked wherever it is shown."""

    epochs: float = 1.0
    limit: int = 0  # training examples; 0: all

    @property
    def suffix(self) -> str:
        """What the names of scaled runs end with."""
        words = [f"scale{self.epochs:g}"] if self.epochs != 1 else []
        return "".join(f"-{word}" for word in words + ([f"limit{self.limit}"] if self.limit else []))

    @property
    def words(self) -> str:
        """The same in a table: what is scaled, or no."""
        return self.suffix.lstrip("-") or "no"

    def length(self, epochs: int) -> int:
        """A number of epochs, scaled, but not to nothing."""
        return max(1, round(epochs * self.epochs)) if epochs else 0


@dataclass(frozen=True)
class Job:
    """A process to run, and the folder that says whether it was."""

    name: str
    folder: Path
    command: tuple[str, ...]

    @property
    def done(self) -> bool:
        """A finished run has its result."""
        return (self.folder / "result.json").exists()


def cell_job(cell: Cell, seed: int, root: Path, scale: Scale, more: Sequence[str] = ()) -> Job:
    """`labelsift fit` for one seed of a cell."""
    name = f"{cell.name}-seed{seed}{scale.suffix}"
    folder = root / name
    words = [
        "fit",
        cell.data,
        "--method",
        cell.method,
        "--net",
        cell.net,
        "--seed",
        str(seed),
        "--resume",
        "--quiet",
    ]
    words += ["--nets", str(cell.nets), "--validation", str(cell.validation), "--out", str(folder), *more]
    words += ["--noise", cell.noise] if cell.noise else []
    words += ["--limit", str(scale.limit)] if scale.limit else []
    for key, value in cell_settings(cell, scale).items():
        words += ["--set", f"{key}={','.join(map(str, value)) if isinstance(value, tuple) else value}"]
    return Job(name, folder, (sys.executable, "-m", "labelsift", *words))


def cell_settings(cell: Cell, scale: Scale) -> dict[str, Any]:
    """The cell's own settings and, in a scaled run, every length in epochs, scaled."""
    settings = dict(cell.settings)
    if not scale.suffix:
        return settings
    method = make_method(cell.method, cell.data, cell.net, cell.noise, settings)
    for key in SCALED:
        value = getattr(method, key, None)
        if isinstance(value, tuple):
            settings[key] = tuple(scale.length(part) for part in value)
        elif value is not None:
            settings[key] = scale.length(value)
    if scale.limit:
        settings["batch_size"] = min(method.batch_size, max(2, scale.limit // 8))
    return settings


def layers_job(
    layers: Layers, noise: str, seed: int, root: Path, scale: Scale, data_dir: str, device: str
) -> Job:
    """One panel of Figures 1, 4 and 5 for one seed."""
    name = f"layers-{layers.data}-{noise.replace(':', '-')}-{layers.net}-seed{seed}{scale.suffix}"
    epochs = sorted({scale.length(epoch) for epoch in layers.epochs})
    about = {"data": layers.data, "net": layers.net, "noise": noise, "seed": seed, "cuts": dict(layers.cuts)}
    about |= {"epochs": epochs, "clean_epochs": scale.length(layers.clean_epochs), "augment": layers.augment}
    about |= {"limit": scale.limit, "data_dir": data_dir, "device": device, "out": str(root / name)}
    return Job(name, root / name, (sys.executable, "-m", "labelsift.reproduce.layers", json.dumps(about)))


def run_jobs(jobs: Iterable[Job], at_once: int, say: Callable[[str], None]) -> list[Job]:
    """Run those that are not done, `at_once` at a time; give back the failed. One does not stop another."""
    missing = [job for job in jobs if not job.done]
    failed: list[Job] = []
    if not missing:
        return failed
    threads = max(1, (os.cpu_count() or 1) // at_once)
    environment = {"OMP_NUM_THREADS": str(threads), **os.environ} if at_once > 1 else None
    running: dict[str, subprocess.Popen[str]] = {}
    lock = threading.Lock()
    stopped = False

    def run(job: Job) -> tuple[int, str]:
        with lock:
            if stopped:
                return 1, "stopped"
            job.folder.parent.mkdir(parents=True, exist_ok=True)
            process = running[job.name] = subprocess.Popen(
                job.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
            )
        error = process.communicate()[1]
        return process.returncode, error

    pool = ThreadPoolExecutor(at_once)
    try:
        waiting = {pool.submit(run, job): job for job in missing}
        for number, future in enumerate(as_completed(waiting), 1):
            job = waiting[future]
            code, error = future.result()
            if code == 0:
                say(f"{number}/{len(missing)}  {job.name}")
            else:
                failed.append(job)
                last = (error.strip().splitlines() or ["no reason given"])[-1].removeprefix("labelsift: ")
                say(f"{number}/{len(missing)}  {job.name} failed: {last}")
    finally:
        with lock:  # nothing starts behind our back
            stopped = True
            for process in running.values():
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
        pool.shutdown(cancel_futures=True)
    return failed


def smaller(cells: Sequence[Cell], wanted: Mapping[str, Sequence[str]]) -> list[Cell]:
    """The cells whose attributes are among the wanted ones; nothing wanted is everything."""
    return [
        cell
        for cell in cells
        if all(not names or getattr(cell, key) in names for key, names in wanted.items())
    ]
