import csv
import html
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from labelsift import METHODS, Result, __version__

SHORT = ("--epochs", 3, "--set", "stage_epochs=2,1,1", "--set", "batch_size=32")
PLAIN = ("--method", "ce", "--epochs", 1, "--set", "batch_size=32")


def table(file):
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def test_version_and_help(cli):
    assert cli("--version")[:2] == (0, f"labelsift {__version__}\n")
    code, out, _ = cli("--help")
    assert code == 0
    assert all(command in out for command in ("fit", "predict", "noise", "methods", "demo"))
    for command in ("fit", "predict", "noise", "methods", "demo"):
        assert cli(command, "--help")[0] == 0


def test_fit_writes_the_whole_run_folder(cli, toy_file, tmp_path):
    code, out, err = cli(
        "fit", toy_file, "--noise", "symmetric:0.4", "--validation", 0.2, "--out", "run", "--seed", 3, *SHORT
    )
    assert (code, err) == (0, "")
    assert "epoch 5/5  confident 1" in out
    run = tmp_path / "run"
    assert {f.name for f in run.iterdir()} == {
        "config.toml", "epochs.jsonl", "result.json", "model.safetensors", "examples.csv",
        "predictions.safetensors", "report.html",
    }  # fmt: skip
    rows = [json.loads(line) for line in (run / "epochs.jsonl").read_text().splitlines()]
    known = [
        "epoch",
        "stage",
        "stage_epoch",
        "lr",
        "train_loss",
        "train_accuracy",
        "noisy_validation_accuracy",
    ]
    known += ["test_accuracy", "confident", "confident_precision", "confident_recall", "seconds"]
    assert list(rows[-1]) == known
    assert list(rows[0]) == [name for name in known if not name.startswith("confident")]
    record = json.loads((run / "result.json").read_text())
    accuracy = record["test_accuracy"]
    assert accuracy["best"] == max(row["test_accuracy"] for row in rows)
    assert rows[accuracy["best_epoch"] - 1]["test_accuracy"] == accuracy["best"]
    assert accuracy["last"] == rows[-1]["test_accuracy"]
    chosen = max(rows, key=lambda row: row["noisy_validation_accuracy"])
    assert accuracy["best_on_noisy_validation"] == chosen["test_accuracy"]
    assert record["noise"]["rate"] == pytest.approx(0.4, abs=0.15)
    assert np.array(record["noise"]["transition"]).shape == (3, 3)
    assert {"seconds", "device", "versions"} <= record.keys()
    examples = table(run / "examples.csv")
    assert len(examples) == 150
    assert list(examples[0]) == [
        "index", "path", "label", "suggested_label", "label_quality", "agreement", "confident", "true_label",
    ]  # fmt: skip
    true = np.load(toy_file)["y"]
    assert [int(row["true_label"]) for row in examples] == true.tolist()
    wrong = np.mean([row["label"] != row["true_label"] for row in examples])
    assert wrong == pytest.approx(record["noise"]["rate"])
    for row in examples:
        assert 0 <= float(row["label_quality"]) <= 1
        assert (float(row["label_quality"]) >= 0.5) == (row["label"] == row["suggested_label"])


def test_config_repeats_the_run_exactly(cli, toy_file, tmp_path):
    cli("fit", toy_file, "--noise", "pair:0.3", "--seed", 5, "--out", "first", *SHORT)
    code, _, err = cli("fit", "--config", "first/config.toml", "--out", "second", "--quiet")
    assert (code, err) == (0, "")
    for name in ("model.safetensors", "examples.csv", "config.toml"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_a_precision_that_was_asked_for_stays_with_the_run(cli, toy_file, tmp_path):
    words = ("fit", toy_file, "--epochs", 2, "--set", "stage_epochs=1,1,1", "--quiet")
    cli(*words, "--precision", "bf16", "--out", "half")
    cli("fit", "--config", "half/config.toml", "--quiet", "--out", "again")
    cli(*words, "--out", "full")
    found = {
        name: json.loads((tmp_path / name / "result.json").read_text()) for name in ("half", "again", "full")
    }
    assert {name: record["precision"] for name, record in found.items()} == {
        "half": "bf16", "again": "bf16", "full": "fp32",
    }  # fmt: skip
    assert found["half"]["id"] == found["again"]["id"] != found["full"]["id"]


def test_flags_win_over_the_config_file(cli, toy_file, tmp_path):
    (tmp_path / "c.toml").write_text(
        f'data = "{toy_file}"\nmethod = "ce"\nseed = 4\n[settings]\nlr = 0.07\nepochs = 9\nbatch_size = 32\n'
    )
    cli("fit", "--config", "c.toml", "--epochs", 1, "--set", "momentum=0.5", "--seed", 6, "--out", "run")
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert (config["method"], config["seed"]) == ("ce", 6)
    settings = config["settings"]
    assert (settings["lr"], settings["momentum"], settings["epochs"]) == (0.07, 0.5, 1)


def test_a_run_without_a_folder_gets_one_by_its_name(cli, toy_file, tmp_path):
    words = ("fit", toy_file, *PLAIN)
    code, out, _ = cli(*words)
    assert code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("toy-ce-lenet-seed1-")
    assert folder.name in out
    before = (folder / "result.json").read_bytes()
    code, again, _ = cli(*words)  # a finished run is not run twice
    assert code == 0
    assert "epoch" not in again.split("test accuracy")[0]
    assert again.startswith(f"note: The run runs/{folder.name} was finished already: nothing was trained.\n")
    assert "finished already" not in out
    assert (folder / "result.json").read_bytes() == before


def test_at_the_end_stands_how_many_labels_are_doubtful_and_what_lists_them(cli, toy_file):
    out = cli("fit", toy_file, "--noise", "symmetric:0.4", "--out", "the run", *SHORT)[1]
    said, command = re.findall(r"^issues +(\d+ of 150 labels are doubtful): labelsift (.*)$", out, re.M)[0]
    assert f"\n{said}" in cli(*shlex.split(command))[1]


def test_epochs_are_said_to_be_those_that_stages_come_on_top_of(cli, toy_file):
    for command in ("fit", "demo"):
        said = " ".join(cli(command, "--help")[1].replace("│", " ").split())
        assert "in all" not in said
    assert "pes and some others add stages to them" in " ".join(
        cli("fit", "--help")[1].replace("│", " ").split()
    )


def test_quiet_says_nothing(cli, toy_file):
    assert cli("fit", toy_file, *PLAIN, "--quiet") == (0, "", "")


def test_noise_writes_labels_that_fit_takes(cli, toy_file, tmp_path):
    code, out, _ = cli("noise", toy_file, "--noise", "symmetric:0.5", "--seed", 2, "--out", "labels.csv")
    assert code == 0
    rows = table(tmp_path / "labels.csv")
    assert list(rows[0]) == ["index", "label", "true_label"]
    stored = json.loads((tmp_path / "labels.noise.json").read_text())
    rate = np.mean([row["label"] != row["true_label"] for row in rows])
    assert stored["rate"] == pytest.approx(rate)
    assert f"{100 * rate:.1f} % of 150 labels changed" in out
    cli(
        "fit",
        toy_file,
        "--noise",
        "labels=labels.csv",
        "--out",
        "a",
        "--method",
        "ce",
        *SHORT[:2],
        *SHORT[4:],
    )
    cli(
        "fit",
        toy_file,
        "--noise",
        "symmetric:0.5",
        "--seed",
        2,
        "--out",
        "b",
        "--method",
        "ce",
        *SHORT[:2],
        *SHORT[4:],
    )
    for run in ("a", "b"):
        assert [r["label"] for r in table(tmp_path / run / "examples.csv")] == [r["label"] for r in rows]


def test_predict_is_the_models_opinion(cli, toy_file, tmp_path):
    cli("fit", toy_file, "--method", "ce", "--epochs", 4, "--set", "batch_size=16", "--out", "run")
    code, out, _ = cli("predict", "run", toy_file, "--part", "test", "--out", "p.csv")
    assert code == 0
    rows = table(tmp_path / "p.csv")
    assert list(rows[0]) == ["index", "label", "probability"]
    result, arrays = Result(tmp_path / "run"), np.load(toy_file)
    assert [int(row["label"]) for row in rows] == result.predict(arrays["test_x"]).tolist()
    accuracy = np.mean([int(row["label"]) for row in rows] == arrays["test_y"])
    assert accuracy == pytest.approx(result.test_accuracy["last"])
    assert f"{100 * accuracy:.1f} % agree" in out
    np.savez(tmp_path / "bare.npz", x=arrays["x"])
    assert cli("predict", "run", "bare.npz", "--out", "q.csv")[0] == 0
    assert len(table(tmp_path / "q.csv")) == 150


def test_predictions_are_compared_with_labels_by_their_names(cli, toy_file, tmp_path):
    arrays, names = np.load(toy_file), ["ant", "bee", "cat"]
    x, y = arrays["x"], arrays["y"]
    np.savez(tmp_path / "train.npz", x=x, y=y, classes=names)
    cli("fit", "train.npz", "--method", "ce", "--epochs", 6, "--set", "batch_size=16", "--out", "run")

    def agreement(**new):
        np.savez(tmp_path / "new.npz", x=x, **new)
        code, _, err = cli("predict", "run", "new.npz")
        assert code == 0, err
        return [line for line in err.splitlines() if "agree" in line]

    (said,) = agreement(y=np.array(names)[y])
    assert float(said.split(" %")[0]) > 80
    assert said.endswith(" % agree with the labels of the data")
    assert agreement(y=y.astype(float), classes=names) == [said]
    assert agreement(y=2 - y, classes=names[::-1]) == [said]
    assert agreement(y=y, classes=["dog", "emu", "fox"]) == agreement(y=y) == []
    assert agreement(y=y[:7], classes=names) == agreement(y=3) == []
    (some,) = agreement(y=y, classes=["ant", "bee", "fox"])
    assert some.endswith(" % agree with the 100 labels of the data that are classes of the model")
    assert float(some.split(" %")[0]) > 80


def test_the_labels_of_a_table_are_compared_too(cli, refuses, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 2)).round(3)

    def write(name, columns):
        lines = [
            ",".join(str({"a": a, "b": b, "kind": "low" if a < 0 else "high", "n": 7}[c]) for c in columns)
            for a, b in rows.tolist()
        ]
        (tmp_path / name).write_text("\n".join([",".join(columns).replace("kind", "label"), *lines]) + "\n")

    write("rows.csv", ["a", "b", "kind"])
    cli("fit", "rows.csv", "--method", "ce", "--epochs", 20, "--set", "batch_size=8", "--out", "run")
    _, out, err = cli("predict", "run", "rows.csv")
    said = err.splitlines()
    assert said[0] == "80 examples predicted"
    assert float(said[1].split(" % agree")[0]) > 80
    write("more.csv", ["kind", "n", "b", "a"])  # in another order, and a number that is no feature
    assert cli("predict", "run", "more.csv")[1:] == (out, err)
    named = (tmp_path / "rows.csv").read_text().replace("label", "what")
    (tmp_path / "named.csv").write_text(named)
    assert cli("predict", "run", "named.csv")[1:] == (out, said[0] + "\n")
    assert cli("predict", "run", "named.csv", "--label-column", "what")[1:] == (out, err)
    assert "There is no column" in refuses("predict", "run", "named.csv", "--label-column", "wat")
    assert "rows.csv has no test part: leave out --part test" in refuses(
        "predict", "run", "rows.csv", "--part", "test"
    )


def test_methods_are_listed_with_every_knob(cli):
    code, out, _ = cli("methods")
    assert code == 0
    assert all(name in out for name in METHODS)
    code, out, _ = cli("methods", "pes")
    assert code == 0
    for name in ("stage_epochs", "10,7,5", "T1, T2", "renewed_rest", "cifar10 with resnet18", "25,7,5"):
        assert name in out


def test_a_terminal_gets_a_bar(toy_file, tmp_path):
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "labelsift", "fit", str(toy_file), "--out", "run", *map(str, SHORT)]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140"}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=slave, stderr=slave, env=env)
    os.close(slave)
    shown = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    assert process.wait() == 0
    text = shown.decode()
    assert "━" in text
    for word in ("confident, epoch 5/5", "loss", "test", "left"):
        assert word in text


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp, which torch computes with on Linux")
@pytest.mark.parametrize(
    ("said", "spins"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "PASSIVE"}, "0")]
)
def test_threads_that_wait_soon_sleep_unless_told_otherwise(said, spins):
    words = {name: value for name, value in os.environ.items() if "OMP_" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "labelsift", "methods"],
        capture_output=True,
        text=True,
        check=True,
        env={**words, **said, "OMP_DISPLAY_ENV": "VERBOSE"},  # what libgomp has read, as it is loaded
    )
    assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr


@pytest.mark.parametrize(("words", "code"), [(["methods"], 0), (["fit", "nowhere"], 2)])
def test_the_compiler_does_not_hold_up_the_end(words, code):
    lines = [
        "import atexit, sys",
        "from labelsift.__main__ import main",
        "import torch._inductor.async_compile",
    ]
    lines += ["atexit.register(print, 'tidied up')", f"sys.argv[1:] = {words}", "main()"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert "tidied up" not in done.stdout
    assert "pes" in done.stdout if code == 0 else done.stderr.startswith("labelsift: ")


def test_issues_lists_the_worst_first(cli, toy_file):
    assert cli("fit", toy_file, "--noise", "symmetric:0.4", "--out", "run", *SHORT)[0] == 0

    def issues(*words):
        code, out, err = cli("issues", "run", *words)
        assert (code, err) == (0, "")
        return out

    listed = issues("--format", "csv")
    rows = list(csv.DictReader(io.StringIO(listed)))
    assert list(rows[0])[:5] == ["index", "path", "label", "suggested_label", "true_label"]
    quality = [float(row["label_quality"]) for row in rows]
    assert quality == sorted(quality)
    assert max(quality) < 0.5
    assert all(row["label"] != row["suggested_label"] for row in rows)
    few = json.loads(issues("--format", "json", "--top", "3", "--class", rows[0]["label"]))
    assert few["issues"][0]["index"] == int(rows[0]["index"])
    assert len(few["issues"]) <= 3
    assert {"rate", "transition", "true_rate", "transition_distance"} <= few["estimated_noise"].keys()
    more = issues("--threshold", "1", "--format", "csv")
    assert len(more) > len(listed)
    shown = issues("--top", "2")
    assert "labels are doubtful, the worst 2 are above" in shown
    assert "Estimated noise" in shown


def test_report_is_a_page_with_pictures_and_the_command_that_made_it(cli, toy_file, tmp_path):
    words = ("fit", "toy.npz", "--noise", "symmetric:0.4", "--seed", 3, *SHORT)
    assert cli(*words, "--out", "run")[0] == 0
    assert cli("report", "run")[::2] == (0, "")
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("<img") > 10
    (made,) = re.findall("<pre>(.*)</pre>", page)
    assert cli(*shlex.split(html.unescape(made))[1:], "--out", "again")[0] == 0
    assert Result(tmp_path / "again").config == Result(tmp_path / "run").config
    (tmp_path / "toy.npz").unlink()
    code, out, err = cli("report", "run", "--out", "other.html")
    assert code == 0
    assert "The page has no pictures" in err
    assert "<img" not in (tmp_path / "other.html").read_text()
    assert "other.html" in out
