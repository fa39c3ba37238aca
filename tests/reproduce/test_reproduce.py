"""The paper as a command, run small: real processes on small files in the official layout."""

import gzip
import json
import signal
import struct

import numpy as np
import pytest

from labelsift.cli import main
from labelsift.reproduce.exhibits import CURVES
from labelsift.reproduce.report import Order, fill
from labelsift.reproduce.runner import Scale
from toys import start

SMALL = ("--epochs-scale", 0.01, "--limit", 40, "--data-dir", "data")


def write_cifar10(folder, per_batch=20):
    rng = np.random.default_rng(0)
    (folder / "cifar-10-batches-bin").mkdir(parents=True)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        rows = rng.integers(0, 256, (per_batch, 3073), dtype=np.uint8)
        rows[:, 0] = np.arange(per_batch) % 10
        rows.tofile(folder / "cifar-10-batches-bin" / f"{name}.bin")


def write_fashion_mnist(folder, count=60):
    (folder / "fashion-mnist").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for name, magic, array in (("images-idx3", 2051, images), ("labels-idx1", 2049, labels)):
            header = struct.pack(f">{1 + array.ndim}I", magic, *array.shape)
            (folder / "fashion-mnist" / f"{part}-{name}-ubyte.gz").write_bytes(
                gzip.compress(header + array.tobytes())
            )


def run(folder, *words):
    process = start(folder, "reproduce", *words)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_a_table_is_filled_once_and_one_failure_does_not_stop_the_others(tmp_path):
    write_cifar10(tmp_path / "data")
    words = ("table1", "--noise", "symmetric-50", "--seeds", "1", "--jobs", 2, "--out", "out", *SMALL)
    (tmp_path / "out" / "cells").mkdir(parents=True)
    blocked = "cifar10-symmetric-0.5-early-stopping-resnet18-epochs-25-stop_epoch-25-seed1-scale0.01-limit40"
    (tmp_path / "out" / "cells" / blocked).write_text("in the way")
    code, out, err = run(tmp_path, *words)
    assert (code, err) == (0, "")
    assert f"{blocked} failed: {'out/cells/' + blocked} exists and is no run folder" in out
    assert "(scaled, not the paper's protocol)" in out
    assert "| cifar10 | early-stopping | symmetric-50 | test accuracy |  |  | 70.76±1.24 |  |" in out
    row = next(line for line in out.splitlines() if "| pes | symmetric-50 | test accuracy |" in line)
    assert "| 1 | 75.87±1.33 |" in row
    for word in (
        "resnet18, 1 epochs",
        "labels really changed: symmetric-50",
        "last epoch of the stages",
        "SCALED",
    ):
        assert word in out
    for suffix in ("md", "csv", "tex"):
        page = (tmp_path / "out" / f"table1-scale0.01-limit40.{suffix}").read_text().splitlines()
        assert "scale" in page[-1 if suffix == "csv" else 0]

    (tmp_path / "out" / "cells" / blocked).unlink()
    code, out, _ = run(tmp_path, *words)
    assert code == 0
    assert "1/1  " + blocked in out  # what was done is not done again
    code, out, _ = run(tmp_path, *words)
    assert "1/" not in out.split("# table1")[0]
    assert "| early-stopping | symmetric-50 | test accuracy |  |" not in out


def test_stopped_it_goes_on(tmp_path):
    write_cifar10(tmp_path / "data")
    words = ["table1", "--noise", "symmetric-20", "--methods", "early-stopping", "--seeds", "1-2"]
    words += ["--out", "out", *SMALL]
    process = start(tmp_path, "reproduce", *words)
    for line in process.stdout:
        if line.startswith("1/2"):
            process.send_signal(signal.SIGINT)
            break
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    code, out, _ = run(tmp_path, *words)
    assert code == 0
    assert "1/1  " in out
    assert "| 2 | 82.55±2.46 |" in out


def test_a_layer_figure(tmp_path):
    write_fashion_mnist(tmp_path / "data")
    words = (
        "figure5",
        "--noise",
        "pair-45",
        "--seeds",
        "1",
        "--out",
        "out",
        "--epochs-scale",
        0.04,
        *SMALL[2:],
    )
    code, out, err = run(tmp_path, *words)
    assert (code, err) == (0, "")
    for layer in ("1st layer", "4th layer", "final layer"):
        assert f"| pair-45 | {layer} | epochs on noisy labels 2 | test accuracy |" in out
    base = tmp_path / "out" / "figure5-scale0.04-limit40"
    svg = base.with_name(base.name + ".svg").read_text()
    assert "<svg" in svg
    assert base.with_name(base.name + ".png").read_bytes().startswith(b"\x89PNG")


def test_figure_2_is_read_from_the_runs(tmp_path):
    """Runs written by hand: before the stages the net is at 0.5 + T1 / 100, after them 0.2 higher."""
    order = Order({"column": ["pair-45"]}, [1, 2], 1, Scale(), tmp_path, "", "auto")
    for cell in CURVES["figure2"].cells:
        for seed in (1, 2):
            folder = order.job(cell, seed).folder
            folder.mkdir(parents=True)
            first = 0.5 + cell.settings["stage_epochs"][0] / 100 + 0.01 * seed
            rows = [{"stage": "part 1", "test_accuracy": 0.1}, {"stage": "part 1", "test_accuracy": first}]
            rows += [{"stage": "part 3", "test_accuracy": first + 0.2}]
            (folder / "epochs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            (folder / "result.json").write_text("{}")
    page, written = fill("figure2", order, say=pytest.fail)
    assert (
        "| pair-45 | early stopping | epochs of the first stage 10 | test accuracy | 61.50±0.71 | 2 |" in page
    )
    assert "| pair-45 | PES | epochs of the first stage 10 | test accuracy | 81.50±0.71 | 2 |" in page
    assert "symmetric-50" not in page
    assert (tmp_path / "figure2.svg").exists()
    assert "figure2.png" in written


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("tabel2",), "did you mean 'table2'"),
        (("table2", "--methods", "pse"), "did you mean 'pes'"),
        (("table2", "--noise", "symetric-50"), "did you mean 'symmetric-50'"),
        (("table2", "--dataset", "cifar1"), "did you mean 'cifar10'"),
        (("table2", "--seeds", "one"), "no seed"),
        (("table2", "--jobs", "0"), "--jobs"),
        (("table2", "--epochs-scale", "0"), "above 0"),
    ],
)
def test_it_refuses(tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["labelsift", "reproduce", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert says in err
    assert not list(tmp_path.iterdir())


def test_the_list_says_what_is_done_missing_and_impossible(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["labelsift", "reproduce", "--list"])
    with pytest.raises(SystemExit):
        main()
    out = capsys.readouterr().out
    names = ["figure1", "figure2", "figure3a", "figure3b", "figure4", "figure5"]
    names += ["table1", "table2", "table3", "table4", "table5", "table6", "table9"]
    for name in names:
        assert name in out
    assert "not built yet" in out
