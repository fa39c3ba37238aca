"""Runs side by side share a GPU by a service, of which here a script with its name takes the place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labelsift.reproduce import sharing as module
from labelsift.reproduce.runner import Job, run_jobs
from labelsift.reproduce.sharing import CONTROL, PIPES, TURNS, sharing

SCRIPT = """#!/bin/sh
read words
echo "$1 $words ${CUDA_VISIBLE_DEVICES:-all} $(test -d "$CUDA_MPS_PIPE_DIRECTORY" && echo there)" >> LOG
exit CODE
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    """What the service was told each time: argument, input, the GPUs it sees, if its folder is there."""
    make_service(tmp_path)
    monkeypatch.setattr(module.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(module, "CLIENT", "pass")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv(PIPES, raising=False)
    return tmp_path / "log"


def make_service(folder, code=0):
    script = folder / CONTROL
    script.write_text(SCRIPT.replace("LOG", str(folder / "log")).replace("CODE", str(code)))
    script.chmod(0o755)


def told(log):
    return [line.split() for line in log.read_text().splitlines()]


def test_the_service_stands_as_long_as_the_runs(tmp_path, log, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    code = f"import os; print(os.environ['{PIPES}'], os.environ['CUDA_VISIBLE_DEVICES']); "
    code += f"print(open({str(log)!r}).read())"
    jobs, said = [], []
    for number in range(2):
        file = tmp_path / f"seen{number}"
        text = f"import sys; sys.stdout = open({str(file)!r}, 'w'); {code}"
        jobs.append(Job(f"run{number}", tmp_path / "runs" / str(number), (sys.executable, "-c", text)))
    assert run_jobs(jobs, 2, said.append, "cuda") == []
    seen = [(tmp_path / f"seen{number}").read_text().split() for number in range(2)]
    assert seen[0] == seen[1]  # one service, begun and not ended
    folder, visible, *begun = seen[0]
    assert (visible, begun) == ("1", ["-d", "all", "there"])
    assert told(log) == [["-d", "all", "there"], ["quit", "all", "there"]]
    assert not Path(folder).exists()
    assert [line.split()[0] for line in said] == ["1/2", "2/2"]
    assert PIPES not in os.environ


def test_one_run_at_a_time_needs_no_service(tmp_path, log):
    job = Job("run", tmp_path / "runs", (sys.executable, "-c", "pass"))
    assert run_jobs([job], 4, print, "cuda") == []
    assert not log.exists()


@pytest.mark.parametrize("broken", ["service", "client"])
def test_runs_go_on_without_a_service_that_does_not_work(tmp_path, log, monkeypatch, broken):
    said = []
    if broken == "service":
        make_service(tmp_path, code=1)
    else:
        monkeypatch.setattr(module, "CLIENT", "raise SystemExit(1)")
    with sharing("auto", said.append) as environment:
        assert environment == {}
    assert said == [f"{TURNS}NVIDIA's Multi-Process Service does not work here."]
    assert told(log)[-1][0] == "quit"  # whatever of it there was


def test_runs_go_on_where_the_service_is_not_installed(log, monkeypatch):
    monkeypatch.setenv("PATH", str(log.parent / "nowhere"))
    said = []
    with sharing("cuda", said.append) as environment:
        assert environment == {}
    assert said == [f"{TURNS}{CONTROL}, which comes with NVIDIA's driver, is not on the PATH."]


@pytest.mark.parametrize("why", ["cpu", "no GPU", "one is there"])
def test_nothing_is_begun_where_nothing_is_needed(log, monkeypatch, why):
    if why == "no GPU":
        monkeypatch.setattr(module.torch.cuda, "is_available", lambda: False)
    if why == "one is there":
        monkeypatch.setenv(PIPES, "somewhere")
    with sharing("cpu" if why == "cpu" else "auto", pytest.fail) as environment:
        assert environment == {}
    assert not log.exists()


def test_the_service_ends_with_what_fails(log):
    with pytest.raises(KeyboardInterrupt), sharing("cuda", pytest.fail):
        raise KeyboardInterrupt
    assert told(log)[-1][0] == "quit"


def test_a_service_that_does_not_answer_is_none(log, monkeypatch):
    asked = []

    def late(command, input, **_):
        asked.append((command[1:], input))
        raise subprocess.TimeoutExpired(command, 60)

    monkeypatch.setattr(module.subprocess, "run", late)
    said = []
    with sharing("cuda", said.append) as environment:
        assert environment == {}
    assert len(said) == 1
    assert asked == [(["-d"], ""), ([], "quit\n")]
