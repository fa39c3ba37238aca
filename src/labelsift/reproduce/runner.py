"""Runs the missing cells: some at a time, each a process of its own in a run folder of its own."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelsift.config import in_words
from labelsift.errors import InputError
from labelsift.methods import METHODS, make_method
from labelsift.reproduce.cells import Cell, Layers
from labelsift.reproduce.records import FinishedRun, is_run_of, read_run
from labelsift.reproduce.sharing import sharing
from labelsift.results.store import RunFolder
from labelsift.results.tables import WALL

RUNS = "cells"


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

    @property
    def mark(self) -> str:
        """What the title of a scaled result ends with."""
        return " (scaled, not the paper's protocol)" if self.suffix else ""

    @property
    def protocol(self) -> list[str]:
        """The same as a sentence, if there is anything to say."""
        if not self.suffix:
            return []
        return [f"SCALED: epochs x {self.epochs:g}, {self.limit or 'all'} training examples."]

    def length(self, epochs: int) -> int:
        """A number of epochs, scaled, but not to nothing."""
        return max(1, round(epochs * self.epochs)) if epochs else 0


@dataclass(frozen=True)
class Job:
    """A process to run, and the folder that says whether it was."""

    name: str
    folder: Path
    command: tuple[str, ...]
    # Of which it is a run, with all its settings; none, if it is no `labelsift fit`.
    cell: Cell | None = dataclasses.field(default=None, compare=False)
    limit: int = 0  # training examples

    @property
    def done(self) -> bool:
        """A finished run has its result; one of another protocol is not this one."""
        return RunFolder(self.folder).finished if self.cell is None else self.run is not None

    @property
    def run(self) -> FinishedRun | None:
        """The cell's finished run."""
        folder = RunFolder(self.folder)
        if not folder.finished or self.cell is None:
            return None
        try:
            found = read_run(folder)
        except InputError:  # damaged, as the run that is then begun will say
            return None
        return found if is_run_of(self.cell, found, self.limit) else None


@dataclass(frozen=True)
class Outcome:
    """What came of an order: texts to print, and the runs that failed, a sentence each."""

    texts: Sequence[str]
    failed: Sequence[str]


@dataclass(frozen=True)
class Order:
    """What is asked for: which cells, seeds, how many at once, how small, and where."""

    out: Path
    wanted: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)  # nothing: everything
    seeds: Sequence[int] = ()
    jobs: int = 1
    scale: Scale = Scale()
    data_dir: str = ""
    device: str = "auto"
    oracle: bool = False  # methods whose authors take the noise as known are told it

    def seeds_for(self, paper: int) -> Sequence[int]:
        """The seeds asked for, or as many as the paper had."""
        return self.seeds or range(1, paper + 1)

    def wants(self, **what: str) -> bool:
        """Whether something with these attributes is among the wanted."""
        return all(not self.wanted.get(key) or value in self.wanted[key] for key, value in what.items())

    def choose(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that are wanted."""
        return [
            cell for cell in cells if self.wants(data=cell.dataset, method=cell.method, column=cell.column)
        ]

    def file(self, name: str, suffix: str) -> Path:
        """Where a page or picture of an exhibit goes."""
        return self.out / f"{name}{self.scale.suffix}{suffix}"

    def cell_job(self, cell: Cell, seed: int) -> Job:
        """`labelsift fit` for one seed of a cell."""
        told = METHODS[cell.method].oracle if self.oracle and cell.method in METHODS and cell.noise else {}
        name = f"{cell.name}{'-oracle' if told else ''}-seed{seed}{self.scale.suffix}"
        folder = self.out / RUNS / name
        words = ["fit", cell.data, "--method", cell.method, "--net", cell.net, "--seed", str(seed)]
        words += ["--nets", str(cell.nets), "--validation", str(cell.validation), "--device", self.device]
        optional = {"--noise": cell.noise, "--weights": cell.weights, "--data-dir": self.data_dir}
        optional["--limit"] = str(self.scale.limit or "")
        for flag, value in optional.items():
            words += [flag, value] if value else []
        settings = {**cell_settings(cell, self.scale), **told}
        for key, value in settings.items():
            words += ["--set", f"{key}={in_words(value)}"]
        words += ["--out", str(folder), "--resume", "--quiet"]
        command = (sys.executable, "-m", "labelsift", *words)
        return Job(name, folder, command, dataclasses.replace(cell, settings=settings), self.scale.limit)

    def layers_job(self, layers: Layers, noise: str, seed: int) -> Job:
        """One panel of Figures 1, 4 and 5 for one seed."""
        scale = self.scale
        name = f"layers-{layers.data}-{noise.replace(':', '-')}-{layers.net}-seed{seed}{scale.suffix}"
        folder = self.out / RUNS / name
        about: dict[str, Any] = {"data": layers.data, "net": layers.net, "noise": noise, "seed": seed}
        about |= {"cuts": dict(layers.cuts), "augment": layers.augment, "limit": scale.limit}
        about["epochs"] = sorted({scale.length(epoch) for epoch in layers.epochs})
        about["clean_epochs"] = scale.length(layers.clean_epochs)
        about |= {"data_dir": self.data_dir, "device": self.device, "out": str(folder)}
        return Job(name, folder, (sys.executable, "-m", "labelsift.reproduce.layers", json.dumps(about)))


def is_length(name: str) -> bool:
    """Whether a setting of this name is a length in epochs."""
    return name == "epochs" or name.endswith(("_epoch", "_epochs"))


def cell_settings(cell: Cell, scale: Scale) -> dict[str, Any]:
    """The cell's own settings and, in a scaled run, every length in epochs, scaled."""
    settings = dict(cell.settings)
    if not scale.suffix:
        return settings
    method = make_method(cell.method, cell.data, cell.net, cell.noise, settings)
    for name in (field.name for field in dataclasses.fields(method)):
        value = getattr(method, name)
        if not is_length(name):
            continue
        if isinstance(value, tuple):
            settings[name] = tuple(scale.length(part) for part in value)
        else:
            settings[name] = scale.length(value)
    if scale.limit:
        settings["batch_size"] = min(method.batch_size, max(2, scale.limit // 8))
    return settings


def run_jobs(jobs: Iterable[Job], at_once: int, say: Callable[[str], None], device: str) -> list[str]:
    """Run those that are not done, `at_once` at a time, and say which failed. One does not stop another."""
    missing = list({job.folder: job for job in jobs if not job.done}.values())  # exhibits share runs
    if not missing:
        return []
    at_once = min(at_once, len(missing))
    if at_once == 1:
        return _run(missing, at_once, say, os.environ)
    threads = max(1, (os.cpu_count() or 1) // at_once)
    with sharing(device, say) as shared:
        return _run(missing, at_once, say, {"OMP_NUM_THREADS": str(threads), **os.environ, **shared})


def _run(
    missing: Sequence[Job], at_once: int, say: Callable[[str], None], environment: Mapping[str, str]
) -> list[str]:
    failed: list[str] = []
    running: dict[str, subprocess.Popen[str]] = {}
    lock = threading.Lock()
    stopped = False

    def run(job: Job) -> tuple[int, str]:
        with lock:
            if stopped:
                return 1, "stopped"
            job.folder.parent.mkdir(parents=True, exist_ok=True)
            resumed, begin = job.folder.exists(), time.perf_counter()
            process = running[job.name] = subprocess.Popen(
                job.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
            )
        error = process.communicate()[1]
        if job.cell and at_once == 1 and not resumed and process.returncode == 0:
            RunFolder(job.folder).write_json(WALL, {"seconds": round(time.perf_counter() - begin, 1)})
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
                last = (error.strip().splitlines() or ["no reason given"])[-1].removeprefix("labelsift: ")
                last = last.replace("choose another --out", "remove it")  # which is not the caller's
                failed.append(f"{job.name} failed: {last}")
                say(f"{number}/{len(missing)}  {failed[-1]}")
    finally:
        with lock:  # nothing starts behind our back
            stopped = True
            for process in running.values():
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
        pool.shutdown(cancel_futures=True)
    return failed


def provenance(seeds: Iterable[int], records: Sequence[Mapping[str, Any]]) -> str:
    """The seeds of finished runs and, as far as they are recorded, devices, software, commits and days."""
    numbers = sorted(set(seeds))
    places = {", ".join(str(r[key]) for key in ("device", "precision") if key in r) for r in records}
    versions = [record.get("versions", {}) for record in records]
    software = [
        f"{name} {several(v[name] for v in versions if name in v)}" for name in ("torch", "labelsift")
    ]
    commits = {str(record["commit"])[:7] for record in records if record.get("commit")}
    days = sorted({str(record["finished"])[:10] for record in records})
    words = [
        f"Seed{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}",
        " and ".join(sorted(places)),  # which have commas of their own
    ]
    words += [", ".join(software)] if any(versions) else []
    words += [f"commit{'s' if len(commits) > 1 else ''} {several(commits)}"] if commits else []
    return "; ".join([*words, days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"]) + "."


def several(words: Iterable[str]) -> str:
    """Each once and in order: one, two and three."""
    *first, last = sorted(set(words)) or [""]
    return f"{', '.join(first)} and {last}" if first else last
