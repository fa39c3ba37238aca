"""Bad input is one sentence, exit code 2, and nothing lost; a run that was stopped or killed goes on."""

import json
import resource
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import labelsift
from toys import start, toy_arrays

FAST = ("--method", "ce", "--epochs", "2", "--set", "batch_size=32")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "There is no data"),
        (("fashion-dem",), "did you mean 'fashion-demo'"),
        (("toy.npz", "--method", "pess"), "did you mean 'pes'"),
        (("toy.npz", "--net", "lennet"), "did you mean 'lenet'"),
        (("toy.npz", "--set", "stage_epoch=3"), "did you mean 'stage_epochs'"),
        (("toy.npz", "--set", "lr=fast"), "it takes a finite number"),
        (("toy.npz", "--set", "epochs=2.5"), "a whole number"),
        (("toy.npz", "--set", "lr"), "not NAME=VALUE"),
        (("toy.npz", "--seed", "one"), "--seed"),
        (("toy.npz", "--seed", "-1"), "outside"),
        (("toy.npz", "--epochs", "0"), "1 to 1000000"),
        (("toy.npz", "--noise", "symmetric:1.2"), "outside 0..1"),
        (("toy.npz", "--noise", "symetric:0.2"), "did you mean 'symmetric'"),
        (("toy.npz", "--noise", "labels=nowhere.csv"), "There is no file nowhere.csv"),
        (("toy.npz", "--noise", "matrix=bad.csv"), "sums to"),
        (("toy.npz", "--noise", "labels=high.csv"), "outside 0..2"),
        (("toy.npz", "--validation", "1.5"), "below 1"),
        (("toy.npz", "--augment", "flop"), "did you mean 'flip'"),
        (("rows.npz", "--augment", "crop"), "rows.npz holds feature rows and no images: leave out --augment"),
        (("--resume", "--out", "nothing"), "There is no run in nothing that could be finished"),
        (("--resume", "--out", "full"), "There is no run in full that could be finished"),
        (("toy.npz", "--device", "gpu"), "no device"),
        (("toy.npz", "--device", "cuda:7"), "use --device cpu"),
        (("toy.npz", "--device", "cuda:1000"), "no device"),
        (("toy.npz", "--nets", "0"), "--nets 2"),
        (("toy.npz", "--noise", "labels=same.csv"), "one class only"),
        (("toy.npz", "--checkpoint-seconds", "nan"), "0 or more"),
        (("toy.npz", "--validation", "0.99"), "--validation"),
        (("",), "no data"),
        (("toy.npz", "--device", "mps"), "no device"),
        (("toy.npz", "--config", "nowhere.toml"), "cannot be read"),
        (("toy.npz", "--config", "broken.toml"), "is not TOML"),
        (("toy.npz", "--config", "strange.toml"), "did you mean 'method'"),
        (("toy.npz", "--config", "typed.toml"), "seed"),
        (("toy.npz", "--set", "batch_size=1000"), "fewer than a batch"),
        (("toy.npz", "--net", "mlp"), "does not take images"),
        (("toy.npz", "--bogus", "1"), "bogus"),
        (("toy.npz", "--set", "cuts=fc9,fc3"), "no child"),
        (("toy.npz", "--out", "toy.npz"), "no run folder"),
        (("toy.npz", "--out", "toy.npz/run"), "Not a directory"),
        (("toy.npz", "--out", "/proc/none/run"), "No such file"),
        (("toy.npz", "--out", "full"), "no run folder"),
        (("negative.npz",), "outside 0..1"),
        (("nan.npz",), "NaN"),
        (("one.npz",), "the same class"),
        (("lonely.npz",), "The class '3' of lonely.npz has one example only, example 7: give it more"),
        (("unnamed.npz",), "in y has no label"),
        (("empty.npz",), "is empty"),
        (("none.npz",), "no examples"),
        (("cut.npz",), "damaged"),
        (("pickled.npz",), "never loaded"),
        (("nowhere.npz",), "There is no file"),
    ],
)
def test_fit_refuses(refuses, tmp_path, words, says):
    x, y = toy_arrays(90)
    np.savez(tmp_path / "toy.npz", x=x, y=y)
    np.savez(tmp_path / "rows.npz", x=x.reshape(90, -1), y=y)
    np.savez(tmp_path / "negative.npz", x=x, y=np.where(y == 2, -1, y))
    np.savez(tmp_path / "nan.npz", x=np.where(np.eye(90, 5), np.nan, 1.0), y=y)
    np.savez(tmp_path / "one.npz", x=x, y=y * 0)
    np.savez(tmp_path / "lonely.npz", x=x, y=np.where(np.arange(90) == 7, 3, y))
    np.savez(tmp_path / "unnamed.npz", x=x, y=np.array(["cat", "dog", ""])[y])
    np.savez(tmp_path / "none.npz", x=x[:0], y=y[:0])
    np.savez(tmp_path / "pickled.npz", x=np.array([None] * 90, dtype=object), y=y)
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "toy.npz").read_bytes()[:-300])
    (tmp_path / "bad.csv").write_text("1,0,0\n0,1,0\n0,0.5,0.4\n")
    (tmp_path / "same.csv").write_text("label\n" + "1\n" * 90)
    (tmp_path / "high.csv").write_text("label\n" + "3\n" * 90)
    (tmp_path / "broken.toml").write_text("data = \n")
    (tmp_path / "strange.toml").write_text("methd = 'ce'\n")
    (tmp_path / "typed.toml").write_text("seed = 'one'\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("dear")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert says in refuses("fit", *words)
    after = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert after == before  # nothing written, nothing lost


def test_other_commands_refuse(refuses, cli, toy_file, tmp_path):
    cli("fit", toy_file, *FAST, "--out", "run")
    (tmp_path / "there.csv").write_text("precious")
    rows = tmp_path / "rows.npz"
    np.savez(rows, x=np.zeros((5, 4)))
    for words, says in {
        ("noise", toy_file, "--noise", "pair:0.1", "--out", "there.csv"): "exists already",
        ("noise", toy_file, "--noise", "pair", "--out", "x.csv"): "has no rate",
        ("noise", toy_file, "--out", "x.csv"): "--noise",
        ("noise", toy_file, "--noise", "", "--out", "x.csv"): "There is no noise",
        ("noise", toy_file, "--noise", "pair:0.1", "--out", "."): "no name of a file",
        ("noise", toy_file, "--noise", "pair:0.1", "--seed", "-1", "--out", "x.csv"): "outside",
        ("demo", "--noise", ""): "noise",
        ("predict", "nowhere", toy_file, "--out", "x.csv"): "no finished run",
        ("predict", "run", toy_file, "--out", "there.csv"): "exists already",
        ("predict", "run", rows, "--out", "x.csv"): "was trained on",
        ("predict", "run", toy_file, "--part", "tset", "--out", "x.csv"): "did you mean 'test'",
        ("predict", "run", toy_file, "--out", "no/where/x.csv"): "No such file",
        ("methods", "pess"): "did you mean 'pes'",
        ("ft",): "ft",
    }.items():
        assert says in refuses(*words)
    assert (tmp_path / "there.csv").read_text() == "precious"
    assert not (tmp_path / "x.csv").exists()


def test_a_folder_with_another_run_is_left_alone(refuses, cli, toy_file, tmp_path):
    cli("fit", toy_file, *FAST, "--out", "run")
    before = {f.name: f.read_bytes() for f in (tmp_path / "run").iterdir()}
    assert "seed = 1, not 2" in refuses("fit", toy_file, *FAST, "--out", "run", "--seed", 2)
    assert "lr = 0.02, not 0.5" in refuses(
        "fit", toy_file, *FAST, "--out", "run", "--set", "lr=0.5", "--resume"
    )
    assert {f.name: f.read_bytes() for f in (tmp_path / "run").iterdir()} == before


def test_changed_data_is_another_run(refuses, cli, toy_file):
    cli("fit", toy_file, *FAST, "--out", "run")
    x, y = toy_arrays(150, seed=9)
    np.savez(toy_file, x=x, y=y)
    sentence = refuses("fit", toy_file, *FAST, "--out", "run")
    assert f"the examples or labels of {toy_file} have changed since then): choose another --out" in sentence
    sentence = refuses("fit", "--config", "run/config.toml", "--out", "again")
    assert "not what the config was made with: restore it, or fit it anew" in sentence


def test_a_config_repeats_with_the_weights_that_it_was_made_with_or_not_at_all(refuses, cli, toy_file):
    net = labelsift.NETS["lenet"](3, 1)
    torch.save(net.state_dict(), "w.pth")
    assert cli("fit", toy_file, *FAST, "--net", "lenet", "--weights", "w.pth", "--out", "run")[0] == 0
    again = ("fit", "--config", "run/config.toml", "--out")
    assert cli(*again, "again")[0] == 0
    torch.save({name: tensor + 1 for name, tensor in net.state_dict().items()}, "w.pth")
    assert "The weights w.pth are not those the config was made with: restore them" in refuses(
        *again, "third"
    )
    assert cli(*again, "fourth", "--weights", "w.pth")[0] == 0  # which asks for those that are there
    words = ("fit", toy_file, *FAST, "--net", "lenet", "--weights", "w.pth", "--out", "run", "--resume")
    assert "another run (the weights in w.pth have changed since then)" in refuses(*words)


def test_data_that_was_named_by_its_whole_path_and_is_gone(refuses, cli, toy_file, tmp_path):
    assert cli("fit", tmp_path / "toy.npz", *FAST, "--out", "run")[0] == 0
    (tmp_path / "toy.npz").rename(tmp_path / "moved.npz")
    for words in (("fit", "--resume", "--out", "run"), ("report", "run")):
        assert f"There is no {tmp_path / 'toy.npz'} any more: put it back" in refuses(*words)


def test_a_run_whose_data_is_elsewhere_says_where_to_start(refuses, cli, toy_file, tmp_path, monkeypatch):
    words = ("fit", "toy.npz", *FAST, "--noise", "symmetric:0.4")
    assert cli(*words, "--out", "run")[0] == 0
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    assert before["report.html"].count(b"<img") > 10
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    for words in (
        ("fit", "--resume", "--out", "../run"),
        ("fit", "--config", "../run/config.toml"),
        ("report", "../run"),
    ):
        sentence = refuses(*words)
        remedy = f"There is no 'toy.npz' in {tmp_path / 'other'}: start this in the folder where it is."
        assert sentence.endswith(f"{remedy}\n")
        assert ("report.html stays as it is" in sentence) == (words[0] == "report")
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before
    (tmp_path / "run" / "report.html").unlink()
    code, _, err = cli("report", "../run")  # then there is nothing to lose
    assert code == 0
    assert "The page has no pictures: There is no 'toy.npz'" in err


def test_a_new_run_that_was_to_be_resumed_says_so(cli, toy_file):
    told = "note: There is no run in typo that could be finished: this begins a new one.\n"
    assert cli("fit", toy_file, *FAST, "--out", "typo", "--resume")[1].startswith(told)
    assert told not in cli("fit", toy_file, *FAST, "--out", "typo", "--resume")[1]


def test_a_damaged_run_is_said_to_be(refuses, cli, toy_file, tmp_path):
    cli("fit", toy_file, *FAST, "--out", "run")
    for name in ("model.safetensors", "result.json"):
        shutil.copytree(tmp_path / "run", tmp_path / name)
        (tmp_path / name / name).write_bytes(b"\x80\x04rubbish")
        assert "damaged" in refuses("predict", name, toy_file, "--out", "p.csv")
    for number, record in enumerate(("[]", "{}", "null", '{"confident": 3, "classes": []}')):
        shutil.copytree(tmp_path / "run", tmp_path / f"odd{number}")
        (tmp_path / f"odd{number}" / "result.json").write_text(record)
        assert "damaged" in refuses("fit", toy_file, *FAST, "--out", f"odd{number}")
    tensors = load_file(tmp_path / "run" / "model.safetensors")
    for about in ({}, {"labelsift": "{}"}, {"labelsift": "[]"}):
        save_file(tensors, tmp_path / "run" / "model.safetensors", metadata=about)
        assert "damaged" in refuses("predict", "run", toy_file, "--out", "p.csv")
    for at, (name, spoil) in enumerate(
        [
            ("examples.csv", lambda text: text[: len(text) // 2]),
            ("examples.csv", lambda text: text[: text[:-1].rindex("\n") + 1]),  # whole lines, but not all
            ("examples.csv", lambda text: text.replace("\n1,,", "\n1,,7")),  # a class that is none
            ("examples.csv", lambda text: ""),
            ("result.json", lambda text: text.replace("estimated_noise", "noise")),
            ("epochs.jsonl", lambda text: text[:-9]),
        ]
    ):
        shutil.copytree(tmp_path / "run", tmp_path / f"spoilt{at}")
        file = tmp_path / f"spoilt{at}" / name
        file.write_text(spoil(file.read_text()))
        assert f"{name} is damaged" in refuses("report", f"spoilt{at}")
        if name != "epochs.jsonl":
            assert f"{name} is damaged" in refuses("issues", f"spoilt{at}")
            assert f"{name} is damaged" in refuses("export", f"spoilt{at}", "--to", "cleanlab")
        file.unlink()
        assert name in refuses("report", f"spoilt{at}")
    (tmp_path / "run" / "config.toml").write_text("seed = ")
    assert "is not TOML" in refuses("report", "run")
    assert "is not TOML" in refuses("fit", toy_file, *FAST, "--out", "run")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda text: text.replace(b"seed = 1", b"seed = "), "it is not TOML"),
        (lambda text: text[:20] + b"\xff" + text[20:], "it is not TOML"),
        (lambda text: text.replace(b"method =", b"metod ="), "it is incomplete: it lacks method"),
        (lambda text: text.replace(b"seed =", b"sed ="), "did you mean 'seed'?"),
        (lambda text: text.replace(b"seed = 1", b"seed = 'one'"), "it takes a whole number"),
    ],
)
def test_a_damaged_config_of_a_run_comes_with_a_remedy(refuses, cli, toy_file, tmp_path, spoil, says):
    cli("fit", toy_file, *FAST, "--out", "run")
    file = tmp_path / "run" / "config.toml"
    file.write_bytes(spoil(file.read_bytes()))
    for words in (("--resume",), (toy_file, *FAST, "--resume"), (toy_file, *FAST)):
        sentence = refuses("fit", *words, "--out", "run")
        assert str(Path("run") / "config.toml") in sentence
        assert says in sentence
        assert "remove the folder, or choose another --out" in sentence


def test_predict_knows_class_names_and_ignores_labels_that_do_not_fit(cli, tmp_path):
    x, y = toy_arrays(120)
    names = np.array(["bag", "coat", "shoe"])[y]
    np.savez(tmp_path / "named.npz", x=x, y=names)
    cli("fit", "named.npz", "--method", "ce", "--epochs", 6, "--set", "batch_size=16", "--out", "run")
    _, out, _ = cli("predict", "run", "named.npz", "--out", "p.csv")
    predicted = [line.split(",")[1] for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
    assert set(predicted) == {"bag", "coat", "shoe"}
    assert float(out.split("\n")[1].split(" %")[0]) > 80
    np.savez(tmp_path / "odd.npz", x=x, y=y[:7])
    code, out, _ = cli("predict", "run", "odd.npz", "--out", "q.csv")
    assert code == 0
    assert "agree" not in out


@pytest.mark.parametrize("header", ["height,y", "y,height", "note,y,height", "path,y,height", ",y,height"])
def test_predict_reads_the_columns_that_the_model_takes_and_no_others(cli, tmp_path, header):
    """Also features that are named as labels often are, and tables that hold more than features."""
    numbers = np.random.default_rng(0).normal(size=(60, 2)).round(3).tolist()

    def write(name, columns):
        rows = [{"height": h, "y": y, "kind": "short" if h < 0 else "tall"} for h, y in numbers]
        lines = [",".join(str(row.get(column, "some words")) for column in columns) for row in rows]
        (tmp_path / name).write_text("\n".join([",".join(columns), *lines]) + "\n")

    write("train.csv", ["height", "y", "kind"])
    words = ("--label-column", "kind", "--method", "ce", "--epochs", 6, "--set", "batch_size=16")
    assert cli("fit", "train.csv", *words, "--out", "run")[0] == 0
    code, said, err = cli("predict", "run", "train.csv")
    assert code == 0, err
    write("new.csv", header.split(","))
    assert cli("predict", "run", "new.csv") == (0, said, err)


def test_predict_takes_feature_columns_by_their_names(cli, refuses, tmp_path):
    rng = np.random.default_rng(0)
    rows = np.stack([rng.normal(size=120), 1000 + rng.normal(size=120)], axis=1)
    labels = (rows[:, 0] > 0).astype(int)

    def table(name, columns, order):
        lines = [",".join(str(row[at]) for at in order) for row in [columns, *rows.tolist()]]
        (tmp_path / name).write_text("\n".join(lines) + "\n")

    lines = [f"{a},{b},{label}" for (a, b), label in zip(rows.tolist(), labels, strict=True)]
    (tmp_path / "train.csv").write_text("\n".join(["height,weight,label", *lines]) + "\n")
    cli("fit", "train.csv", "--method", "ce", "--epochs", 6, "--set", "batch_size=16", "--out", "run")
    table("same.csv", ["height", "weight"], (0, 1))
    table("turned.csv", ["height", "weight"], (1, 0))
    table("other.csv", ["height", "width"], (0, 1))

    def predicted(run, name):
        code, out, err = cli("predict", run, name)
        assert code == 0, err
        return out

    said = predicted("run", "same.csv")
    right = [
        line.split(",")[1] == str(label) for line, label in zip(said.splitlines()[1:], labels, strict=True)
    ]
    assert np.mean(right) > 0.9
    assert predicted("run", "turned.csv") == said
    sentence = refuses("predict", "run", "other.csv")
    assert "The feature column 'weight' is in one of run and other.csv only: give both" in sentence
    file = tmp_path / "run" / "model.safetensors"
    with safe_open(file, "pt") as archive:
        about = json.loads(archive.metadata()["labelsift"])
    assert about.pop("columns") == ["height", "weight"]
    tensors = load_file(file)
    for odd in ("height", ["height"], 3):
        save_file(tensors, file, metadata={"labelsift": json.dumps(about | {"columns": odd})})
        assert "model.safetensors is damaged" in refuses("predict", "run", "same.csv")
    save_file(tensors, file, metadata={"labelsift": json.dumps(about)})  # as runs were before
    assert predicted("run", "same.csv") == predicted("run", "other.csv") == said
    assert predicted("run", "turned.csv") != said
    np.savez(tmp_path / "rows.npz", x=rows)
    assert predicted("run", "rows.npz") == said


def test_files_of_the_user_are_left_alone(cli, refuses, toy_file, tmp_path):
    (tmp_path / ".keep.csv.tmp").write_text("precious")
    cli("noise", toy_file, "--noise", "pair:0.2", "--out", "keep.csv")
    assert (tmp_path / ".keep.csv.tmp").read_text() == "precious"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".notes").write_text("precious")
    assert "no run folder" in refuses("fit", toy_file, *FAST, "--out", "mine")


def test_predictions_that_are_no_numbers_are_no_result(refuses, toy_file, tmp_path):
    words = (
        "--method",
        "ce",
        "--epochs",
        1,
        "--set",
        "batch_size=150",
        "--set",
        "lr=1e6",
        "--set",
        "weight_decay=1e6",
    )
    assert "lower the learning rate" in refuses("fit", toy_file, *words, "--quiet", "--out", "run")
    assert not (tmp_path / "run" / "result.json").exists()


# What follows needs processes of their own: they are stopped, killed and starved.


def long_run(toy_file, out):
    words = ["fit", toy_file, "--noise", "symmetric:0.3", "--epochs", 60, "--set", "stage_epochs=20,3,3"]
    return [*words, "--set", "batch_size=16", "--out", out]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    x, y = toy_arrays(150)
    np.savez(folder / "toy.npz", x=x, y=y)
    process = start(folder, *long_run("toy.npz", "run"))
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return folder


def same_result(whole, other):
    a, b = load_file(whole / "run" / "model.safetensors"), load_file(other / "model.safetensors")
    assert all((a[key] == b[key]).all() for key in a)
    assert (whole / "run" / "examples.csv").read_bytes() == (other / "examples.csv").read_bytes()
    strip = lambda f: [{**json.loads(line), "seconds": 0} for line in f.read_text().splitlines()]  # noqa: E731
    assert strip(whole / "run" / "epochs.jsonl") == strip(other / "epochs.jsonl")


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_killed_or_stopped_it_resumes_to_the_same_bits(whole, tmp_path, stop):
    shutil.copy(whole / "toy.npz", tmp_path)
    for epoch in (3, 22, 40):  # in the first part, in a later one, among the confident epochs
        words = [*long_run("toy.npz", "run"), "--checkpoint-seconds", 0.05]
        process = start(tmp_path, *words, *(["--resume"] if epoch > 3 else []))
        for line in process.stdout:
            if line.startswith(f"epoch {epoch}/"):
                process.send_signal(stop)
                break
        _, err = process.communicate(timeout=60)
        if stop == signal.SIGINT:
            assert process.returncode == 130
            assert "--resume" in err
            assert "Traceback" not in err
        assert not (tmp_path / "run" / "result.json").exists()
    refused = start(tmp_path, *long_run("toy.npz", "run"))
    assert "add --resume" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 2
    process = start(tmp_path, "fit", "--resume", "--out", "run")  # the folder knows what it was
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "epoch 3/" not in out  # it went on, and did not begin again
    same_result(whole, tmp_path / "run")


def test_a_full_disk_is_said_and_the_run_goes_on_later(whole, tmp_path):
    """A limit on the size of files stands for the disk: the same failed write, without a disk to fill."""
    shutil.copy(whole / "toy.npz", tmp_path)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))

    process = start(tmp_path, *long_run("toy.npz", "run"), preexec_fn=limit)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2, err
    assert "no space left" in err
    assert err.count("\n") == 1
    process = start(tmp_path, *long_run("toy.npz", "run"), "--resume")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    same_result(whole, tmp_path / "run")


@pytest.mark.parametrize("module", ["typer", "torch._C", "labelsift.data"])
def test_stopped_while_it_starts_it_says_nothing_odd(whole, tmp_path, monkeypatch, module):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # a line on stderr for each module, once it is loaded
    shutil.copy(whole / "toy.npz", tmp_path)
    process = start(tmp_path, *long_run("toy.npz", "run"))
    while not process.stderr.readline().endswith(f" {module}\n"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_issues_refuses_what_makes_no_sense(refuses, cli, toy_file):
    quick = ("--method", "ce", "--epochs", 1, "--set", "batch_size=32")
    assert cli("fit", toy_file, "--out", "run", *quick)[0] == 0
    assert "did you mean 'csv'" in refuses("issues", "run", "--format", "cvs")
    assert "between 0 and 1" in refuses("issues", "run", "--threshold", 2)
    assert "--top 20" in refuses("issues", "run", "--top", 0)
    assert "There is no class 'cat'" in refuses("issues", "run", "--class", "cat")
    refuses("issues", "nowhere")


def test_a_config_without_data(refuses, tmp_path):
    (tmp_path / "c.toml").write_text('fingerprint = "abc"\n')
    assert "There is no data" in refuses("fit", "--config", "c.toml")


def test_a_run_on_arrays_has_no_pictures(cli, tmp_path):
    x, y = toy_arrays(60)
    labelsift.fit(x, y, method=labelsift.CE(epochs=1, batch_size=16), out=tmp_path / "run")
    code, _, err = cli("report", "run")
    assert (code, err) == (
        0,
        "labelsift: The page has no pictures: The run was trained on arrays, which are not kept.\n",
    )
