"""The page about speed, from made-up measurements."""

import json

import pytest

from docs.made_up import cells_of, make_results, make_site, row_of, section, write_run
from labelsift.reproduce.exhibits import TABLES

ON = {"device": "A made-up device", "torch": "0.0.1", "labelsift": "0.0.2", "matrix_peak_tflops": 123.4}

PARALLEL = {
    "device": "A made-up device",
    "torch": "0.0.1",
    "method": "pes",
    "net": "resnet18",
    "images": 45_000,
}


def case(method="ce", **more):
    row = {"method": method, "net": "resnet18", "images": 45_000, "classes": 10, "size": 32}
    row |= {"compile": True, "capture": True, "precision": "bf16", "stage": "train"}
    row |= {"epoch_seconds": 1.0, "selection_seconds": 0.34, "evaluation_seconds": 0.17}
    row |= {"stages": {"part 1": 1.25, "train": 1.0}}
    row |= {"images_per_second": 45_000.0, "share_of_peak": 0.25, "warm_up_seconds": 12.34}
    row |= {"peak_memory_gib": 5.67, "name": f"{method} resnet18 45,000 x 32"}
    return row | more


def way(precision, compiled, captured, seconds):
    return case(precision=precision, compile=compiled, capture=captured, epoch_seconds=seconds)


def at_once(jobs, seconds):
    """Epochs take a second for a run alone, and two for several."""
    epoch = 1.0 if jobs == 1 else 2.0
    row = {"jobs": jobs, "seconds": seconds, "runs_per_hour": 3600 * jobs / seconds}
    return {**row, "epoch_seconds": epoch, "epochs_per_hour": 3600 * jobs / epoch}


SETTINGS = "epochs=3,stage_epochs=1;1;1"
FILES = {
    "speed": {**ON, "cases": [case(), case("pes", stage="confident", epoch_seconds=2.0)]},
    "growth": {**ON, "cases": [case("pes", images=10_000), case("pes", classes=1000, epoch_seconds=1.5)]},
    "techniques": {**ON, "cases": [way("fp32", False, False, 8.0), way("bf16", False, True, 2.0)]},
    "parallel": {**PARALLEL, "mps": False, "settings": SETTINGS, "rows": [at_once(1, 36), at_once(4, 57.6)]},
    "parallel-mps": {**PARALLEL, "mps": True, "settings": SETTINGS, "rows": [at_once(8, 144.0)]},
    "kernels": {
        **ON,
        "cases": [
            {
                "name": "ce resnet18 45,000 x 32",
                "epoch_seconds": 1.25,
                "busy_seconds": 1.0,
                "kinds": {"convolution": 0.5, "optimiser": 0.3, "matrix product": 0.2},
                "kernels": [],
            }
        ],
    },
}
SECTIONS = {
    "speed": ("An epoch and a selection", "Every method", "What remains to the floor"),
    "growth": ("How the cost grows",),
    "techniques": ("What each technique brought",),
    "parallel": ("Runs side by side",),
    "parallel-mps": ("Runs side by side",),
    "kernels": ("Where the time goes",),
}


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


def page_of(monkeypatch, site, *names):
    folder = site / "results" / "performance"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.json").write_text(json.dumps(FILES[name]))
    make_results(monkeypatch, site)
    make_results(monkeypatch, site, "--check")
    return (site / "docs" / "performance.md").read_text()


@pytest.mark.parametrize("name", FILES)
def test_a_file_alone_writes_its_own_sections_and_no_others(site, monkeypatch, name):
    page = page_of(monkeypatch, site, name)
    titles = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert titles == list(SECTIONS[name])
    assert "Nothing is measured yet." not in page
    assert page.count("A made-up device") == len(titles)


def test_an_epoch_and_a_selection_stand_beside_the_authors(site, monkeypatch):
    text = section(page_of(monkeypatch, site, "speed"), "An epoch and a selection")
    assert row_of(text, "plain training epoch") == ["0.830", "4.15", "5.0", "0.85", "0.6"]
    assert row_of(text, "two-view selection") == ["0.340", "3.4", "10.0", "0.35", "0.2"]


def test_every_method_has_a_row(site, monkeypatch):
    text = section(page_of(monkeypatch, site, "speed"), "Every method")
    cells = ["confident", "2.000", "0.170", "0.340", "45,000", "25.0 %", "5.7", "12.3"]
    assert row_of(text, "`pes`", "resnet18") == cells
    assert "123 TFLOP/s measured" in text


def test_techniques_are_compared_with_eager_fp32(site, monkeypatch):
    text = section(page_of(monkeypatch, site, "techniques"), "What each technique brought")
    assert row_of(text, "fp32, eager")[:2] == ["8.000", "1.00"]
    assert row_of(text, "bf16, capture")[:2] == ["2.000", "4.00"]


def test_growth_and_runs_side_by_side(site, monkeypatch):
    page = page_of(monkeypatch, site, "growth", "parallel", "parallel-mps")
    text = section(page, "How the cost grows")
    assert row_of(text, "10,000", "10")[:2] == ["1.250", "1.000"]
    assert row_of(text, "45,000", "1,000")[:2] == ["1.250", "1.500"]
    text = section(page, "Runs side by side")
    assert row_of(text, "4") == ["57.6", "250.0", "2.000", "2.00"]
    assert row_of(text, "8, with MPS") == ["144", "200.0", "2.000", "4.00"]
    assert "Most epochs are done with 8 at once." in text
    assert "epochs=3, stage_epochs=1,1,1;" in text


def test_kernels_have_their_share_of_the_epoch_and_so_has_waiting(site, monkeypatch):
    text = section(page_of(monkeypatch, site, "kernels"), "Where the time goes")
    assert row_of(text, "convolution") == ["0.500 s, 40.0 %"]
    assert row_of(text, "nothing: the GPU waits") == ["0.250 s, 20.0 %"]
    assert row_of(text, "the epoch, traced") == ["1.250 s"]


def test_the_floor_is_the_share_of_the_peak_and_the_trace_says_what_lies_above(site, monkeypatch):
    text = section(page_of(monkeypatch, site, "speed"), "What remains to the floor")
    assert row_of(text, "`pes`", "resnet18") == ["2.000", "25.0 %", "0.500", "1.500"]
    text = section(page_of(monkeypatch, site, "speed", "kernels"), "What remains to the floor")
    assert row_of(text, "`ce`", "resnet18")[-3:] == ["0.700", "0.300", "0.250"]
    assert row_of(text, "`pes`", "resnet18")[-3:] == ["", "", ""]  # was not traced


def test_whole_runs_are_timed_by_the_clock_and_stand_beside_the_authors(site, monkeypatch):
    (cell,) = cells_of(TABLES["table2"], data="cifar10", method="pes", column="symmetric-50")
    folder = site / "results" / "table2"
    clock = {"seconds": 160.0, "cold": True, "commit": "abcdef0123"}
    about = {"precision": "bf16", "compiled": True, "seconds": 150.0, "accuracy": 0.9}
    write_run(folder / "a", cell, wall=clock, **about)
    write_run(folder / "b", cell, seed=2, **about)
    write_run(folder / "c", cell, seed=3, settings={"epochs": 27}, wall=clock, **about)
    text = section(page_of(monkeypatch, site), "Whole runs")
    name = "`pes`, cifar10, symmetric:0.5, resnet18, seed {}: "
    name += "bf16, compiled, compile cache empty, commit abcdef0"
    row = row_of(text, name.format(1))
    assert row == ["212", "160", "1,280", "8.0", "180", "128", "150", "90.0 %", "80.0 %"]
    assert "seed 2" not in text  # no clock stood beside it
    assert row_of(text, name.format(3))[1:4] == ["160", "", ""]  # a shorter run
    assert "commit abcdef0; 2001-02-03." in text
    (site / "results" / "table6").mkdir()
    (site / "results" / "table6" / "notes.md").write_text("What is to be said of the times.\n")
    assert section(page_of(monkeypatch, site), "Whole runs").strip().endswith("to be said of the times.")


def test_fast_and_eager_runs_of_a_cell_stand_beside_each_other(site, monkeypatch):
    (cell,) = cells_of(TABLES["table2"], data="cifar10", method="pes", column="symmetric-50")
    folder = site / "results" / "agreement"
    for seed, accuracy in ((1, 0.9), (2, 0.8)):
        fast = {"precision": "bf16", "compiled": True, "seconds": 10.0 * seed}
        write_run(folder / f"fast-{seed}", cell, seed=seed, accuracy=accuracy, **fast)
    write_run(folder / "eager", cell, accuracy=0.7, precision="fp32", compiled=False, seconds=99.0)
    text = section(page_of(monkeypatch, site), "Fast and eager agree")
    assert row_of(text, "bf16, compiled and captured") == ["2", "85.00±7.07", "75.00±7.07", "15.0"]
    assert row_of(text, "fp32, eager") == ["1", "70.00", "60.00", "99.0"]
