"""Pictures of one's own through the command line: folders, tables, predictions, and what is bad in them."""

import contextlib
import csv
import html
import io
import json
import os
import re
import resource
import shlex
import shutil
import signal
import sys
import tomllib

import numpy as np
import pytest
from PIL import Image

from labelsift import Result
from labelsift.cli import main
from labelsift.data.cache import look_at
from labelsift.data.pixels import decode_all
from labelsift.data.readers import Readers
from labelsift.results.store import UNFINISHED
from pictures import band_folder, bomb, save

FAST = ("--method", "ce", "--net", "lenet", "--epochs", 1, "--set", "batch_size=16")
EVIL = (
    ":smile:.png",
    "=cmd().png",
    "<script>alert(1).png",
    "ünï\ncode.png",
    "car\rriage.png",
    "'quoted'.png",
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def files_of(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_folder_with_bad_files_and_evil_names(cli, tmp_path):
    photos = band_folder(tmp_path / "photos", 60)
    for name in EVIL:
        save(photos / "bee" / name, np.full((12, 12), len(name), np.uint8))
    (photos / "cat" / "+bomb.png").write_bytes(bomb())
    (photos / "cat" / "lie.jpg").write_text("a letter")
    save(photos / "cat" / "copy.png", Image.open(photos / "ant" / "000.png"))
    code, out, err = cli("fit", "photos", "--test", band_folder(tmp_path / "t", 30, 1), *FAST, "--out", "run")
    assert (code, err) == (0, "")
    assert "photos: 69 images looked at" in out
    assert "photos: 67 images decoded" in out
    assert (
        "note: 1 image is there again with a different label, first ant/000.png (ant) as cat/copy.png" in out
    )
    assert "note: 2 files are left out, first cat/+bomb.png (it claims" in out
    assert "photos: 67 examples of 3 classes" in out
    run = tmp_path / "run"
    left_out = table((run / "left_out.csv").read_text())
    assert [row["path"] for row in left_out] == ["cat/+bomb.png", "cat/lie.jpg"]
    result = Result(run)
    paths = [row["path"] for row in result.examples]
    assert paths == sorted(paths)
    assert {f"bee/{name}" for name in EVIL} < set(paths)
    assert [result.classes[int(row["label"])] for row in result.examples] == [p.split("/")[0] for p in paths]
    assert len(result.record["warnings"]) == 3  # and that there are few
    assert "last" in result.test_accuracy
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["data"], config["test"], config["image_size"]) == ("photos", str(tmp_path / "t"), 28)
    listed = cli("issues", "run", "--threshold", 1, "--format", "csv")[1]
    assert {row["why"] for row in table(listed)} <= {
        "never learned",
        "disagreement over epochs",
        "low margin",
    }
    shown = cli("issues", "run", "--threshold", 1, "--top", 99, "--class", "bee")[1]
    assert ":smile:.png" in shown
    assert "26 of 26 labels are doubtful." in shown
    assert shown.count("note: ") == 3
    assert set(EVIL) < {row["path"].removeprefix("bee/") for row in table(listed)}


def test_the_same_with_and_without_the_cache_and_by_its_config(cli, tmp_path, cache):
    band_folder(tmp_path / "photos", 40)
    names = ("model.safetensors", "examples.csv", "config.toml")
    bytes_of = {}
    for run, words in {
        "cold": ("photos", "--image-size", 20),
        "warm": ("photos", "--image-size", 20),
        "again": ("--config", "cold/config.toml"),
    }.items():
        code, out, err = cli("fit", *words, *FAST, "--out", run)
        assert (code, err) == (0, "")
        assert ("decoded" in out) == (run == "cold")
        bytes_of[run] = [(tmp_path / run / name).read_bytes() for name in names]
    shutil.rmtree(cache)
    cli("fit", "photos", "--image-size", 20, *FAST, "--out", "cleared")
    assert bytes_of["cold"] == bytes_of["warm"] == bytes_of["again"]
    assert bytes_of["cold"] == [(tmp_path / "cleared" / name).read_bytes() for name in names]
    code, out, _ = cli("fit", "--config", "cold/config.toml", "--image-size", 24, *FAST, "--out", "other")
    assert code == 0
    assert "40 images decoded" in out  # another size is another run
    model, about = Result(tmp_path / "other")._files.read_tensors("model.safetensors")
    assert about["shape"] == [1, 24, 24]
    assert model


def test_a_page_never_shows_other_pictures_than_those_of_the_run(cli, refuses, tmp_path):
    photos = band_folder(tmp_path / "photos", 40)
    cli("fit", "photos", *FAST, "--out", "run", "--quiet")
    assert (tmp_path / "run" / "report.html").read_text().count("data:image/png") > 10
    assert cli("report", "run")[2] == ""
    save(photos / "ant" / "0.png", np.zeros((12, 12), np.uint8))  # comes first: all others move on by one
    kept = (tmp_path / "run" / "report.html").read_bytes()
    said = refuses("report", "run")
    assert "report.html stays as it is, for a new one would have no pictures: The data photos has" in said
    assert "fit again" in said
    assert (tmp_path / "run" / "report.html").read_bytes() == kept
    code, _, err = cli("report", "run", "--out", "page.html")
    assert code == 0
    assert "no pictures: The data photos has changed since the run" in err
    page = (tmp_path / "page.html").read_text()
    assert "<img" not in page
    assert "exists already" in refuses("report", "run", "--out", "page.html")
    assert (tmp_path / "page.html").read_text() == page
    assert "exists already" in refuses("report", "run", "--out", ".")
    assert cli("report", "run", "--out", "no/where.html")[2].endswith(
        "refused in no/where.html (No such file or directory): choose another place with --out.\n"
    )


@pytest.mark.parametrize("words", [("--method", "pes-semi"), ("--method", "ce", "--augment", "none")])
def test_the_command_on_a_page_does_the_same_run(cli, tmp_path, words):
    band_folder(tmp_path / "pho tos", 40)
    few = ("--net", "lenet", "--epochs", 1, "--set", "batch_size=20", "--validation", 0.1, "--quiet")
    assert cli("fit", "pho tos", *words, *few, "--out", "run")[0] == 0
    (said,) = re.findall("<pre>(.*)</pre>", (tmp_path / "run" / "report.html").read_text())
    assert "<title>pho tos: labels and model</title>" in (tmp_path / "run" / "report.html").read_text()
    command, *said = shlex.split(html.unescape(said))
    assert command == "labelsift"
    assert cli(*said, "--quiet", "--out", "again")[0] == 0
    for name in ("config.toml", "examples.csv", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_large_pictures_of_the_folder_one_is_in(cli, tmp_path, monkeypatch):
    noise = np.random.default_rng(0)
    for place in range(24):
        pixels = noise.integers(0, 255, (90, 90, 3), dtype=np.uint8)
        save(tmp_path / "photos" / "ab"[place % 2] / f"{place}.png", pixels)
    monkeypatch.chdir(tmp_path / "photos")
    code, _, err = cli("fit", ".", *FAST, "--image-size", 96, "--out", tmp_path / "run", "--quiet")
    assert (code, err) == (0, "")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<title>photos: labels and model</title>" in page
    assert page.count("data:image/jpeg") > 10


def test_a_terminal_sees_how_far_it_is(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    band_folder(tmp_path / "[red]photos", 40)
    _, out, _ = cli("fit", "[red]photos", *FAST, "--out", "run")
    assert "━" in out
    assert "[red]photos: decoded" in out
    assert "40 of 40 images decoded" in out
    _, _, err = cli("predict", "run", "[red]photos", "--out", "p.csv")
    assert "40 of 40 images predicted" in err


def test_predict_gives_each_file_a_class_and_a_probability(cli, tmp_path):
    band_folder(tmp_path / "photos", 90)
    long = ("--method", "ce", "--net", "lenet", "--epochs", 8, "--set", "batch_size=8")
    cli("fit", "photos", *long, "--image-size", 12, "--out", "run", "--quiet")
    new = band_folder(tmp_path / "new", 30, seed=1)
    code, out, err = cli("predict", "run", "new")
    assert code == 0
    assert "30 images predicted" in err
    rows = table(out)
    assert list(rows[0]) == ["path", "label", "probability"]
    assert [row["path"] for row in rows] == sorted(
        str(file.relative_to(tmp_path)) for file in new.rglob("*.png")
    )
    assert np.mean([row["label"] == row["path"].split("/")[1] for row in rows]) > 0.8
    arrays = np.stack([np.asarray(Image.open(tmp_path / row["path"])) for row in rows])
    result = Result(tmp_path / "run")
    assert [row["label"] for row in rows] == [result.classes[label] for label in result.predict(arrays)]
    probs = result.predict_proba(arrays).max(1)
    assert [float(row["probability"]) for row in rows] == pytest.approx(probs, abs=1e-5)
    # Colour, of another size and under a name that is none; and one that is no image.
    image = Image.open(tmp_path / rows[0]["path"]).resize((96, 96), Image.Resampling.NEAREST).convert("RGB")
    save(tmp_path / "=1.png", image)
    (tmp_path / "lie.png").write_text("a letter")
    words = ("predict", "run", "=1.png", "lie.png", rows[1]["path"], "--format", "json", "--out", "p.json")
    code, out, err = cli(*words)
    assert (code, out) == (0, "")
    assert "note: lie.png is left out (no known kind of image)" in err
    first, second = json.loads((tmp_path / "p.json").read_text())
    assert (first["path"], first["label"]) == ("=1.png", rows[0]["label"])
    assert (second["path"], second["label"]) == (rows[1]["path"], rows[1]["label"])
    assert second["probability"] == pytest.approx(float(rows[1]["probability"]), abs=1e-5)


def test_predict_takes_the_table_of_paths_that_fit_takes(cli, refuses, tmp_path):
    photos = band_folder(tmp_path / "photos", 90)
    files = sorted(file.relative_to(photos).as_posix() for file in photos.rglob("*.png"))
    lines = [f"{file},{file.split('/')[0]}" for file in files]
    (tmp_path / "photos" / "paths.csv").write_text("\n".join(["path,label", *lines]) + "\n")
    long = ("--method", "ce", "--net", "lenet", "--epochs", 8, "--set", "batch_size=8")
    cli("fit", "photos/paths.csv", *long, "--image-size", 12, "--out", "run", "--quiet")
    code, out, err = cli("predict", "run", "photos/paths.csv")
    assert code == 0, err
    assert [row["path"] for row in table(out)] == files
    assert "90 images predicted" in err
    assert float(err.splitlines()[-1].split(" % agree with the labels of the data")[0]) > 80
    by_folder = cli("predict", "run", "photos")[1]
    assert by_folder.replace("photos/", "") == out
    # Elsewhere, without labels, under another name, and with one that cannot be read.
    (photos / "lie.png").write_text("a letter")
    (tmp_path / "bare.csv").write_text("\n".join(["where", "lie.png", *files]) + "\n")
    words = ("predict", "run", "bare.csv", "--path-column", "where")
    code, bare, err = cli(*words, "--image-dir", "photos")
    assert (code, bare) == (0, out)
    assert "note: lie.png is left out (no known kind of image)" in err
    assert "agree" not in err
    (photos / "odd.csv").write_text("\n".join(["path,label", "lie.png,ant", *lines]) + "\n")
    said = cli("predict", "run", "photos/odd.csv")[2].splitlines()[-1]
    assert float(said.split(" % agree with the labels of the data")[0]) > 80  # each with its own
    assert "no test part: leave out --part test" in refuses(*words, "--part", "test")
    assert "photos has no test part: leave out --part test" in refuses(
        "predict", "run", "photos", "--part", "test"
    )
    assert "photos cannot be read with --image-dir here: leave it out" in refuses(
        "predict", "run", "photos", "--image-dir", "here"
    )


def test_names_stay_whole_where_no_terminal_would_break_them(cli, tmp_path):
    deep = "photos of the summer/" + "nested and deep/" * 8
    band_folder(tmp_path / deep, 40)
    listing = "\n".join(f"{file.relative_to(tmp_path)},{file.parent.name}" for file in
                        sorted((tmp_path / deep).rglob("*.png")))  # fmt: skip
    (tmp_path / "paths.csv").write_text(f"path,label\n{listing}\n")
    cli("fit", "paths.csv", *FAST, "--out", "run", "--quiet")
    out = cli("issues", "run", "--threshold", 1)[1]
    paths = [row["path"] for row in Result(tmp_path / "run").suspicious(20, 1)]
    assert [line.split(".png")[0] + ".png" for line in out.splitlines()[1:21]] == paths


def test_predict_refuses(refuses, cli, tmp_path):
    band_folder(tmp_path / "photos", 30)
    cli("fit", "photos", *FAST, "--out", "run", "--quiet")
    (tmp_path / "lie.png").write_text("a letter")
    (tmp_path / "empty").mkdir()
    rows = "a,b,label\n" + "".join(f"{n},{n % 2},{n % 2}\n" for n in range(40))
    (tmp_path / "rows.csv").write_text(rows)
    assert (
        cli("fit", "rows.csv", "--method", "ce", "--epochs", 1, "--set", "batch_size=8", "--out", "mlp")[0]
        == 0
    )
    for words, says in {
        ("run", "lie.png"): "No image can be read, such as lie.png (no known kind of image)",
        ("run", "nowhere.png"): "There is no file nowhere.png",
        ("run", "empty"): "no images in empty",
        ("run", "photos", "--format", "cvs"): "did you mean 'csv'",
        ("run", "photos", "--out", "lie.png"): "exists already",
        ("run", "photos", "--out", "no/where.csv"): "No such file",
        ("mlp", "photos"): "not images",
        ("run", "rows.csv"): "was trained on",
        ("nowhere", "photos"): "no finished run",
    }.items():
        assert says in refuses("predict", *words)
    code, out, err = cli("predict", "mlp", "rows.csv")  # features are predicted too
    assert code == 0
    assert len(table(out)) == 40
    assert "40 examples predicted" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nowhere/",), "no data set, folder or file"),
        (("empty",), "There are no images in empty"),
        (("texts",), "only other files, such as a/notes.txt"),
        (("flat",), "give each class a folder of its own"),
        (("lonely",), "The class 'dog' of lonely has one example only, dog/1.png"),
        (("lies",), "None of the images of lies can be read, such as a/1.png (no known kind of image)"),
        (("bombs",), "decompression bomb"),
        (("photos", "--image-size", "-1"), "-1 pixels"),
        (("photos", "--image-size", "1"), "does not take images of 1 x 1 x 1"),
        (("photos", "--label-column", "label"), "leave it out"),
        (("photos", "--test", "nowhere"), "no data set, folder or file"),
        (("photos", "--test", "lonely"), "'dog' of dog/1.png in lonely is none of the 3 classes"),
        (("t.csv", "--label-column", "clas"), "did you mean 'class'"),
        (("t.csv", "--path-column", "path"), "There is no column of t.csv named 'path'"),
        (("t.csv", "--image-dir", "nowhere"), "no folder nowhere"),
        (("out.csv",), "Line 3 of out.csv names ../../x.png, which is not below"),
        (("unlabelled.csv",), "Line 2 of unlabelled.csv has no label"),
        (("t.csv", "--test", "unknown.csv"), "The label 'emu' of photos/ant/000.png in unknown.csv"),
        (("letter.parquet",), "arquet"),
        (("letter.doc",), "no data this version reads"),
        (("toy.npz", "--image-size", "20"), "cannot be read with --image-size 20"),
        (("photos", "--test", "toy.npz"), "toy.npz is no test part for photos: give a folder, a table"),
        (("photos", "--test", "fashion-demo"), "fashion-demo is no test part for photos"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_the_cache_stays_as_it_is(refuses, tmp_path, cache, words, says):
    photos = band_folder(tmp_path / "photos", 12)
    for folder in ("empty", "texts/a", "flat", "lies/a", "lies/b", "bombs/a"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "texts" / "a" / "notes.txt").touch()
    save(tmp_path / "flat" / "1.png", np.zeros((9, 9), np.uint8))
    shutil.copytree(photos, tmp_path / "lonely")
    save(tmp_path / "lonely" / "dog" / "1.png", np.zeros((9, 9), np.uint8))
    for place in ("lies/a/1.png", "lies/b/2.png", "letter.parquet", "letter.doc"):
        (tmp_path / place).write_text("a letter")
    (tmp_path / "bombs" / "a" / "1.png").write_bytes(bomb())
    (tmp_path / "t.csv").write_text(
        "file,class\nphotos/ant/000.png,ant\n" * 1
        + "photos/ant/003.png,ant\n"
        + "photos/bee/001.png,bee\nphotos/bee/004.png,bee\n"
    )
    (tmp_path / "out.csv").write_text("file,class\nphotos/ant/000.png,ant\n../../x.png,ant\n")
    (tmp_path / "unlabelled.csv").write_text("file,class\nphotos/ant/000.png,\n")
    (tmp_path / "unknown.csv").write_text("file,class\nphotos/ant/000.png,emu\n")
    np.savez(tmp_path / "toy.npz", x=np.zeros((9, 9)), y=np.arange(9) % 3)
    entry = cache / "images" / "0123"
    entry.mkdir(parents=True)
    (entry / "pixels.u8").write_bytes(b"of another set")
    assert says in refuses("fit", *words, "--quiet", *FAST, "--out", "run")
    assert (entry / "pixels.u8").read_bytes() == b"of another set"
    assert [file for file in cache.rglob("*") if UNFINISHED in file.name] == []
    assert not (tmp_path / "run").exists()


# What follows happens to a copy of this process, since the copy is starved or killed.


def forked(function):
    pid = os.fork()
    if pid == 0:
        try:
            function()
        finally:
            os._exit(99)
    return pid


@pytest.mark.parametrize("room", [4_000, 30_000])
def test_a_disk_that_fills_up_while_caching(cli, tmp_path, monkeypatch, cache, room):
    """A limit on the size of files stands for the disk: first the index does not fit, then the pixels."""
    cli("fit", band_folder(tmp_path / "other", 30), *FAST, "--out", "first", "--quiet")
    before = files_of(cache)
    band_folder(tmp_path / "photos", 60)
    monkeypatch.setattr(
        sys, "argv", ["labelsift", "fit", "photos", *map(str, FAST), "--out", "run", "--quiet"]
    )

    def starve():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        with open("said", "w") as said, contextlib.redirect_stderr(said):
            try:
                main()
            except SystemExit as stop:
                said.flush()
                os._exit(stop.code)

    assert os.waitstatus_to_exitcode(os.waitpid(forked(starve), 0)[1]) == 2
    said = (tmp_path / "said").read_text()
    assert said.startswith("labelsift: There is no space left")
    assert said.count("\n") == 1
    assert "LABELSIFT_CACHE" in said
    assert ("for 1 MiB of images" in said) == (room == 30_000)
    after = files_of(cache)
    assert {file: after[file] for file in before} == before
    assert [file for file in after if "images" in file.parts and file not in before] == []
    assert not (tmp_path / "run").exists()
    assert cli("fit", "photos", *FAST, "--out", "run", "--quiet")[0] == 0


def test_killed_while_caching_it_begins_again_and_is_the_same(tmp_path, cache):
    files = [str(file) for file in sorted(band_folder(tmp_path / "photos", 60).rglob("*.png"))]
    shape = (1, 28, 28)

    def load(report):
        with Readers(1) as readers:
            looks = look_at(files, "photos", readers, lambda done, total: None)
            return decode_all(files, looks, shape, readers, report)

    ours, theirs = os.pipe()

    def stall():
        load(lambda done, total: os.write(theirs, b"x") and signal.pause())

    child = forked(stall)
    os.close(theirs)
    assert os.read(ours, 1) == b"x"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (half,) = (cache / "images").iterdir()
    assert half.name.endswith(UNFINISHED)
    again = load(lambda done, total: None)
    expected = [np.asarray(Image.open(file).resize((28, 28), Image.Resampling.BILINEAR)) for file in files]
    assert (again.images[:, 0] == np.stack(expected)).all()
    assert [entry.name for entry in (cache / "images").iterdir() if UNFINISHED in entry.name] == []
    os.close(ours)
