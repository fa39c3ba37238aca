"""Every table and figure, run small in this process: tiny nets on small files in the official layouts."""

import csv
import dataclasses
import json
import re
from types import SimpleNamespace

import pytest

from docs import made_up
from labelsift.cli import main
from labelsift.errors import InputError
from labelsift.methods import METHODS
from labelsift.nets import NETS
from labelsift.reproduce import at_hand, figures, report, runner
from labelsift.reproduce.cells import noise_caption
from labelsift.reproduce.exhibits import CURVES, LAYERS, TABLES
from labelsift.reproduce.report import check, fill
from labelsift.reproduce.runner import Order, Scale
from reproduce.small import WRITERS, InThisProcess, Tiny, write_people

SMALL = Scale(0.01, 20)


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """An order for one noise and one seed of everything."""
    for net in ("resnet18", "resnet34", "resnet50", "preact-resnet18"):
        monkeypatch.setitem(NETS, net, Tiny)
    monkeypatch.setattr(runner, "subprocess", SimpleNamespace(Popen=InThisProcess, DEVNULL=0, PIPE=0))
    monkeypatch.setattr("labelsift.nets.timm_weights", lambda name: Tiny(1000, 3).state_dict())
    monkeypatch.setattr(at_hand, "find_spec", lambda name: name)  # timm
    for write in WRITERS.values():
        write(tmp_path / "data")
    write_people(tmp_path / "data")

    def order(noise="symmetric-50", methods=(), scale=SMALL):
        wanted = {"column": [noise] if noise else [], "method": methods}
        data_dir = str(tmp_path / "data")
        return Order(tmp_path / "out", wanted, [1], scale=scale, data_dir=data_dir, device="cpu")

    return order


def read(order, name):
    with order.file(name, ".csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def fails(line):
    assert "failed" not in line, line


@pytest.mark.parametrize("name", TABLES)
def test_every_table(paper, name):
    noise = {"table4": "pair-45", "table5": "its own", "cifar10n": "worst"}.get(name, "symmetric-50")
    order = paper(noise, ("ce", "pes") if name == "table5" else ())  # whose images are decoded outside
    outcome = fill(name, order, fails)
    page, failed = outcome.texts[0], outcome.failed
    assert not failed
    rows = read(order, name)
    cells = order.choose(TABLES[name].cells)
    assert len(rows) == len(cells) * len(TABLES[name].measures)
    for measure in TABLES[name].measures:
        for cell in cells:
            found = [r for r in rows if (r["data"], r["method"], r["noise"]) == (cell.data, cell.row, noise)]
            (row,) = [r for r in found if measure in r["measure"]]
            assert row["paper"] == cell.paper.get(measure, "")
            assert row["n"] == ("1" if cell.method in METHODS else "")
            assert bool(row["here"]) == (cell.method in METHODS)
            assert "(scaled)" in row["measure"]
            assert row["scaled"] == "scale0.01-limit20"
    for word in ("How the epoch was chosen: ", "; true noise rate: ", ", epochs ", "- SCALED: "):
        assert word in page
    assert all(file.stat().st_size for file in (order.file(name, ".md"), order.file(name, ".tex")))
    if name == "table5":
        check_ensemble(order, rows)


def reproduce(monkeypatch, order, *words):
    """The command, small and in this process: its exit code."""
    small = ("--epochs-scale", "0.01", "--limit", "20", "--device", "cpu", "--data-dir", order.data_dir)
    monkeypatch.setattr("sys.argv", ["labelsift", "reproduce", *words, *small, "--out", str(order.out)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code


def test_the_command_for_labels_by_people(paper, monkeypatch, capsys):
    order = paper()
    assert reproduce(monkeypatch, order, "cifar10n", "--seeds", "1", "--dataset", "cifar10n") == 0
    out = capsys.readouterr().out
    assert "1/3  cifar10n-aggregate-pes-semi-resnet34-seed1-scale0.01-limit20" in out
    found = [(row["data"], row["noise"], row["n"], row["paper"]) for row in read(order, "cifar10n")]
    published = {"aggregate": "94.66", "random1": "95.06", "worst": "92.68"}
    assert found == [(f"cifar10n:{kind}", kind, "1", value) for kind, value in published.items()]
    assert "cifar10n:worst, pes-semi: resnet34, epochs 3, stage_epochs 1+1" in out
    assert reproduce(monkeypatch, order, "cifar10n", "--seeds", "1", "--noise", "worst,random1") == 0
    assert capsys.readouterr().out.startswith("# CIFAR-10N")  # nothing was run
    assert [row["noise"] for row in read(order, "cifar10n")] == ["random1", "worst"]


def test_the_command_on_resting_runs_only_what_no_other_table_has(paper, monkeypatch, capsys):
    order = paper()
    words = ("--methods", "pes", "--noise", "symmetric-50,pair-45", "--seeds", "1-2")
    assert reproduce(monkeypatch, order, "table2", "--dataset", "cifar10", *words) == 0
    before = {file: file.stat().st_mtime_ns for file in order.out.glob("cells/*/result.json")}
    capsys.readouterr()
    assert reproduce(monkeypatch, order, "rest", *words) == 0
    started = [line for line in capsys.readouterr().out.splitlines() if "/4  " in line]
    assert len(started) == 4
    assert all("pes-resnet18-renewed_rest-False-seed" in line for line in started)
    after = {file: file.stat().st_mtime_ns for file in order.out.glob("cells/*/result.json")}
    assert len(before) == 4
    assert len(after) == 8
    assert before.items() <= after.items()
    rows = read(order, "rest")
    assert [row["method"] for row in rows[:4]] == ["pes, resting"] * 2 + ["pes, training on"] * 2
    assert [row["measure"] for row in rows] == ["best (scaled)"] * 4 + ["last (scaled)"] * 4
    assert {row["n"] for row in rows} == {"2"}


def test_what_is_not_built_is_impossible_and_stops_no_other(paper, monkeypatch):
    for room in (at_hand, report):
        monkeypatch.setattr(room, "METHODS", {"ce": METHODS["ce"]})
    order = paper(methods=("ce", "cdr"))
    page = fill("table6", order, fails).texts[0]
    assert "Impossible here: cdr is not built yet." in page
    assert [row["n"] for row in read(order, "table6")] == ["1", "", "1", ""]


def check_ensemble(order, rows):
    """Of two nets it is the mean prediction that counts, of one net its own."""
    records = {
        path.parent.name.split("-seed")[0]: json.loads(path.read_text())
        for path in order.out.glob("cells/*/result.json")
    }
    two = records["clothing1m-pes-resnet50-2nets"]
    assert "ensemble_test_accuracy" not in records["clothing1m-pes-resnet50"]
    (row,) = [row for row in rows if row["method"] == "pes, two nets"]
    best = two["ensemble_test_accuracy"]["best_on_clean_validation"]
    assert float(row["runs"]) == pytest.approx(100 * best, abs=1e-3)


@pytest.mark.parametrize("name", LAYERS)
def test_every_figure_of_layers(paper, name):
    order = paper("", scale=Scale(0.02, 20))
    page = fill(name, order, fails).texts[0]
    rows = read(order, name)
    captions = [noise_caption(noise) for noise in ("symmetric:0.5", "pair:0.45", "instance:0.4")]
    assert list(dict.fromkeys(row["panel"] for row in rows)) == captions
    assert list(dict.fromkeys(row["curve"] for row in rows)) == [*LAYERS[name].cuts, "final layer"]
    epochs = {order.scale.length(epoch) for epoch in LAYERS[name].epochs}
    assert {int(row["epochs on noisy labels"]) for row in rows} == epochs
    assert len(rows) == 3 * 3 * len(epochs)
    assert "trained on clean labels for 2 epochs" in page
    assert order.file(name, ".png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in order.file(name, ".svg").read_text()


def test_figure_2_has_a_point_for_every_length(paper):
    order = paper("pair-45", scale=Scale(0.04, 20))
    fill("figure2", order, fails)
    rows = read(order, "figure2")
    places = [int(row["epochs of the first stage, T1"]) for row in rows if row["curve"] == "PES"]
    assert places == [1, 2]  # the scaled 5 to 50, and each once
    assert {(row["panel"], row["n"]) for row in rows} == {("Pairflip 45%", "1")}


def test_figure_3_reads_a_sweep_from_one_run(paper):
    """A shorter stage is the beginning of a longer one, so a run for each length would say the same."""
    order = paper("pair-45", scale=Scale(0.3, 20))
    page = fill("figure3", order, fails).texts[0]
    assert "T3 = 0 while T2 varies" in page
    sweep = {(r["panel"], int(r["epochs of the stage"])): float(r["runs"]) for r in read(order, "figure3")}
    assert sorted(sweep) == [(panel, epochs) for panel in ("T2", "T3") for epochs in range(4)]
    assert sweep["T3", 0] == sweep["T2", 2]  # where T3 begins, at the scaled T2 = 7
    short = [cell for cell in CURVES["figure2"].cells if cell.settings["stage_epochs"] == (25, 7, 5)]
    (job,) = [order.cell_job(cell, 1) for cell in order.choose(short)]
    InThisProcess(job.command)
    accuracy = json.loads((job.folder / "result.json").read_text())["test_accuracy"]["last"]
    assert sweep["T3", 2] == pytest.approx(100 * accuracy, abs=1e-3)


def test_one_failure_in_a_figure_is_said_and_stops_no_other(paper):
    order = paper("", scale=Scale(0.02, 20))
    blocked = order.layers_job(LAYERS["figure5"], "pair:0.45", 1)
    blocked.folder.parent.mkdir(parents=True)
    blocked.folder.write_text("in the way")
    told = []
    outcome = fill("figure5", order, told.append)
    page, (failed,) = outcome.texts[0], outcome.failed
    assert {row["panel"] for row in read(order, "figure5")} == {"Symmetric 50%", "Instance 40%"}
    assert failed.startswith(f"{blocked.name} failed: FileExistsError")
    assert f"- {failed}" in page
    assert f"2/3  {blocked.name} failed: FileExistsError" in "".join(told)


@pytest.mark.parametrize("name", ["table2", "table5", "figure4", "cifar10n"])
def test_without_its_data_it_is_impossible_and_not_failed(paper, name, monkeypatch, tmp_path):
    def load(data, folder):
        raise InputError(f"no way to {data}.")

    monkeypatch.setattr(at_hand, "load", load)
    monkeypatch.setattr(runner, "subprocess", None)  # so nothing can be started
    order = Order(tmp_path / "out", data_dir=str(tmp_path / "nothing"), seeds=[1])
    outcome = fill(name, order, fails)
    page, failed = outcome.texts[0], outcome.failed
    assert not failed
    missing = {"table5": "clothing1m", "cifar10n": "cifar10n:worst"}.get(name, "cifar100")
    assert f"Impossible here: no way to {missing}." in page
    if name in TABLES:
        assert all((row["here"], row["n"]) == ("", "") for row in read(order, name))
        assert all(row["paper"] for row in read(order, name))


def test_what_is_not_in_an_exhibit_is_refused(paper):
    wrong = [("table2", "symmetric-80"), ("figure1", "instance-20"), ("figure2", "its own")]
    for name, noise in (*wrong, ("cifar10n", "pair-45"), ("rest", "worst")):
        with pytest.raises(InputError, match="nothing of this"):
            check(name, paper(noise))
    with pytest.raises(InputError, match="nothing of this"):
        check("figure1", Order(paper().out, {"data": ["cifar100"]}))


def test_figures_ask_for_matplotlib_before_anything_is_run(paper, monkeypatch):
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install"):
        check("figure5", paper())


def test_times_are_taken_one_run_at_a_time(paper, monkeypatch):
    at_once = []
    monkeypatch.setattr(report, "run_jobs", lambda jobs, number, *_: at_once.append(number) or [])
    for name in ("table6", "table1"):
        fill(name, Order(paper().out, jobs=4, data_dir=paper().data_dir, seeds=[1]), fails)
    assert at_once == [1, 4]


@pytest.mark.parametrize(("seeds", "jobs", "clocked"), [([1, 2], 1, 2), ([1, 2], 2, 0), ([1], 4, 1)])
def test_a_clock_stands_beside_a_run_that_is_alone(paper, seeds, jobs, clocked):
    order = paper(methods=["ce"])
    order = dataclasses.replace(order, wanted={**order.wanted, "data": ["cifar10"]}, seeds=seeds, jobs=jobs)
    fill("table2", order, fails)
    folders = [file.parent for file in order.out.glob("cells/*/result.json")]
    walls = {folder: folder / "wall.json" for folder in folders if (folder / "wall.json").exists()}
    assert (len(folders), len(walls)) == (len(seeds), clocked)
    for folder, wall in walls.items():
        epochs = json.loads((folder / "result.json").read_text())["seconds"]
        assert epochs - 0.1 < json.loads(wall.read_text())["seconds"] < 60


def test_a_run_of_another_protocol_in_its_place_is_not_taken(paper):
    order = paper(methods=["ce"])
    order = dataclasses.replace(order, wanted={**order.wanted, "data": ["cifar10"]})
    fill("table2", order, fails)
    assert [row["n"] for row in read(order, "table2")] == ["1"]
    (config,) = order.out.glob("cells/*/config.toml")
    config.write_text(config.read_text().replace("lr = 0.1\n", "lr = 0.9\n"))
    told = []
    (failed,) = fill("table2", order, told.append).failed
    assert "holds another run (lr = 0.9, not 0.1)" in failed
    assert [row["n"] for row in read(order, "table2")] == [""]


@pytest.mark.parametrize("file", ["config.toml", "result.json"])
def test_a_damaged_run_is_a_failed_one_and_stops_no_other(paper, file):
    order = dataclasses.replace(paper(methods=["ce"]), seeds=[1, 2])
    order = dataclasses.replace(order, wanted={**order.wanted, "data": ["cifar10"]})
    fill("table2", order, fails)
    first = next(order.out.glob("cells/*-seed1-*"))
    (first / file).write_text("{")
    told = []
    (failed,) = fill("table2", order, told.append).failed
    assert str(first) in failed
    assert "remove" in failed
    assert "--out" not in failed.replace(str(order.out), "")
    assert [row["n"] for row in read(order, "table2")] == ["1"]


def test_a_resumed_run_has_no_time_by_the_clock(paper):
    order = paper(methods=["ce"])
    cells = order.choose(TABLES["table6"].cells)
    (job,) = [order.cell_job(cell, 1) for cell in cells]
    job.folder.mkdir(parents=True)
    fill("table6", order, fails)
    record = json.loads((job.folder / "result.json").read_text())
    assert not (job.folder / "wall.json").exists()
    (row,) = [row for row in read(order, "table6") if row["measure"] == "seconds (scaled)"]
    assert float(row["runs"]) == pytest.approx(record["seconds"], abs=1e-3)
    (job.folder / "wall.json").write_text('{"seconds": 36000.0}')
    fill("table6", order, fails)
    assert [float(row["runs"]) for row in read(order, "table6")] == [36000.0, 10.0]


@pytest.mark.parametrize(("name", "cells"), [("table1", 10), ("figure3", 6), ("figure5", 3)])
def test_every_cell_has_a_run_before_any_has_two(paper, monkeypatch, name, cells):
    started = []
    for module in (report, figures):
        monkeypatch.setattr(module, "run_jobs", lambda jobs, *_: started.extend(jobs) or [])
    fill(name, Order(paper().out, data_dir=paper().data_dir, seeds=[4, 7]), fails)
    seeds = [re.search(r"-seed(\d)", job.name)[1] for job in started]
    assert seeds == ["4"] * cells + ["7"] * cells


def write_run(order, cell, seed, **record):
    """A finished run, written by hand."""
    made_up.write_run(order.cell_job(cell, seed).folder, cell, seed, **{"seconds": 7200.0, **record})


@pytest.mark.parametrize(
    ("name", "measure", "shown"),
    [
        ("table1", "test accuracy", "70.00"),
        ("table1", "label precision", "96.00"),
        ("table1", "label recall", "81.00"),
        ("table2", "test accuracy", "80.00"),
        ("table3", "test accuracy", "90.00"),
        ("table4", "test accuracy", "90.00"),
        ("table5", "test accuracy", "60.00"),
        ("table6", "seconds", "7200.0"),
        ("table6", "hours", "2.000"),
        ("table9", "highest test accuracy of 1", "90.00"),
        ("cifar10n", "test accuracy", "90.00"),
        ("rest", "best", "90.00"),
        ("rest", "last", "70.00"),
    ],
)
def test_a_table_shows_the_epoch_its_protocol_names(tmp_path, monkeypatch, name, measure, shown):
    order = Order(tmp_path, seeds=[1])
    monkeypatch.setattr(report, "METHODS", {cell.method: None for cell in TABLES[name].cells})
    accuracy = {"best": 0.9, "best_on_noisy_validation": 0.8, "last": 0.7, "best_on_clean_validation": 0.6}
    confident = {"confident_precision": 0.96, "confident_recall": 0.81}
    for cell in TABLES[name].cells:
        write_run(order, cell, 1, test_accuracy=accuracy, confident=confident)
    fill(name, order, pytest.fail)
    assert {row["here"] for row in read(order, name) if row["measure"] == measure} == {shown}


def test_table_9_shows_the_highest_run_and_an_ensemble_where_there_is_one(paper, monkeypatch):
    cells = [c for c in TABLES["table9"].cells if (c.data, c.column) == ("cifar10", "symmetric-20")]
    order = Order(paper().out, {"data": ["cifar10"], "column": ["symmetric-20"]}, data_dir=paper().data_dir)
    monkeypatch.setattr(report, "METHODS", {cell.method: None for cell in cells})
    for cell in cells:
        for seed in (1, 2, 3):
            record = {"test_accuracy": {"best": 0.8 + seed / 100}}
            if cell.method in ("dividemix", "elr-plus"):
                record["ensemble_test_accuracy"] = {"best": 0.9 + seed / 100}
            write_run(order, cell, seed, **record)
    page = fill("table9", order, pytest.fail).texts[0]
    line = "| cifar10 | {} | symmetric-20 | highest test accuracy of 3 | {} | 1 | {} | {} |"
    assert line.format("pes-semi", "83.00", "96.1", "-13.10") in page
    assert line.format("dividemix", "93.00", "96.1", "-3.10") in page
    assert "Seeds 1, 2, 3; A made-up device;" in page


def test_a_method_that_was_told_the_noise_is_marked_and_has_runs_of_its_own(paper):
    order = paper(methods=("co-teaching", "ce"))
    fill("table2", order, fails)
    told = dataclasses.replace(order, oracle=True)
    page = fill("table2", told, fails).texts[0]
    rows = {row["method"]: row for row in read(told, "table2") if row["data"] == "cifar10"}
    assert set(rows) == {"ce", "co-teaching (oracle)"}
    assert "(oracle) was told the noise that is truly there" in page
    runs = {folder.name for folder in (order.out / runner.RUNS).iterdir() if "cifar10-" in folder.name}
    assert sum("co-teaching" in name for name in runs) == 2
    assert sum("-ce-" in name for name in runs) == 1
