import csv
import errno
import io
import os
import re
import resource
import signal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelsift import InputError
from labelsift.results.store import CHECKPOINT, RunFolder, csv_text, plain, write_whole


def test_a_failed_write_leaves_the_old_file_whole(tmp_path):
    file = tmp_path / "a.bin"
    write_whole(file, b"old")
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_whole(file, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_two_processes_cannot_run_in_one_folder(tmp_path):
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    first.claim("seed = 1\n")
    with pytest.raises(InputError, match="Another process"):
        second.claim("seed = 1\n")
    first.release()
    second.claim("seed = 1\n")
    second.release()


def test_a_file_system_without_locks_keeps_nobody_out(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("labelsift.results.store.fcntl.flock", flock)
    for _ in range(2):
        RunFolder(tmp_path / "run").claim("a = 1\n")


def test_tensors_round_trip_with_what_is_said_about_them(tmp_path):
    folder = RunFolder(tmp_path)
    shared = torch.randn(3)
    tensors = {"a": torch.randn(2, 3).t(), "b": torch.tensor(7), "c": shared, "d": shared}
    folder.write_tensors("t.safetensors", tensors, {"epoch": 3})
    read, about = folder.read_tensors("t.safetensors")
    assert about == {"epoch": 3}
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())
    folder.file("t.safetensors").write_bytes(b"rubbish")
    with pytest.raises(InputError, match="damaged"):
        folder.read_tensors("t.safetensors")


def test_history_is_one_object_a_line(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append_epoch({"epoch": 1})
    folder.append_epoch({"epoch": 2})
    assert folder.epochs() == [{"epoch": 1}, {"epoch": 2}]
    folder.write_lines("epochs.jsonl", [{"epoch": 1}])
    assert folder.file("epochs.jsonl").read_text() == '{"epoch": 1}\n'


def test_a_folder_of_somebody_else(tmp_path):
    assert not RunFolder(tmp_path).foreign
    assert not RunFolder(tmp_path / "new").foreign
    (tmp_path / "thesis.tex").write_text("dear")
    assert RunFolder(tmp_path).foreign
    assert RunFolder(tmp_path / "thesis.tex").foreign


def test_csv_quotes_what_needs_it():
    assert csv_text(("a", "b"), [(1, 'x,"y"')]) == 'a,b\n1,"x,""y"""\n'


def test_no_name_in_a_table_becomes_a_formula(tmp_path):
    names = ["=1+1", "+x", "-y", "@z", "'quoted", "plain", "a=b", "-1.5", "3"]
    folder = RunFolder(tmp_path)
    folder.file("t.csv").write_text(csv_text(["name"], [[name] for name in names]))
    cells = folder.file("t.csv").read_text().splitlines()[1:]
    assert cells == ["'=1+1", "'+x", "'-y", "'@z", "''quoted", "plain", "a=b", "-1.5", "3"]
    assert [row["name"] for row in folder.read_table("t.csv")] == names


def test_a_damaged_state_costs_the_run_but_not_the_folder(tmp_path):
    (tmp_path / CHECKPOINT).write_bytes(b"cut")
    with pytest.raises(InputError, match="is damaged: remove this file, and the run begins again"):
        RunFolder(tmp_path).read_tensors(CHECKPOINT)


@given(st.text(st.sampled_from("=+-@\t\r\n';,\"aß1.\uff1d")))
def test_no_cell_begins_a_formula_and_every_one_can_be_read_again(cell):
    text = csv_text(("index", "name"), [(1, cell)])
    _, (_, written) = csv.reader(io.StringIO(text, newline=""))
    assert plain(written) == cell
    for begun in written.replace("\t", ";").split(";"):
        assert begun[:1] not in set("=+-@\t\r\n\uff1d") or re.fullmatch(r"[-+]?[0-9]*\.?[0-9]+\.?", written)


@pytest.mark.parametrize("number", ["-3.304E-01", "-.5", "+7", "-1e-05", "-2."])
def test_a_number_is_no_formula(number):
    assert csv_text(("a",), [(number,)]) == f"a\n{number}\n"


@pytest.mark.parametrize("formula", ["-1+2", "=1", "-.", "-e5", "+-1"])
def test_what_only_looks_like_a_number_is_guarded(formula):
    assert csv_text(("a",), [(formula,)]) == f"a\n'{formula}\n"
