"""Finished runs go to where the pages are made from; here made-up ones."""

import json
import sys

import pytest

from docs.made_up import DOCS, cells_of, make_results, make_site, row_of, section, write_run
from labelsift.config import as_toml
from labelsift.reproduce.exhibits import CURVES, TABLES


def take_runs(monkeypatch, folder, root, *more):
    """`python docs/take_runs.py`, here."""
    monkeypatch.syspath_prepend(str(DOCS))
    words = [str(folder), "--commit", "abcdef012345", "--root", str(root), *more]
    monkeypatch.setattr(sys, "argv", ["take_runs.py", *words])
    from take_runs import main

    main()


def taken(site):
    """The runs in `results/`."""
    return sorted(str(file.parent.relative_to(site / "results")) for file in site.rglob("result.json"))


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path / "site")


def cell(table, row, column):
    (found,) = cells_of(TABLES[table], data="cifar10", row=row, column=column)
    return found


def test_each_run_goes_to_the_first_exhibit_that_has_its_cell(tmp_path, site, monkeypatch, capsys):
    runs = tmp_path / "runs" / "cells"
    (people,) = cells_of(TABLES["cifar10n"], column="worst")
    chosen = [
        cell("table1", "pes", "pair-45"),
        cell("table2", "pes", "pair-45"),
        cell("table3", "dividemix", "symmetric-80"),
        cell("rest", "pes-semi, training on", "pair-45"),
        cell("rest", "pes, resting", "instance-20"),  # a run of Table 2
        people,
        cells_of(CURVES["figure2"], column="symmetric-50")[0],
        cells_of(CURVES["figure3"], row="T3", column="pair-45")[0],
    ]
    for number, one in enumerate(chosen):
        write_run(runs / str(number), one, seed=number)
    write_run(runs / "other", chosen[1], settings={"epochs": 7})
    (runs / "0" / "model.safetensors").write_text("weights")
    layers = runs / "layers"
    layers.mkdir()
    about = {"data": "fashion-mnist", "net": "lenet", "noise": "pair:0.45", "seed": 9}
    (layers / "config.toml").write_text(as_toml(about))
    (layers / "points.jsonl").write_text("{}\n")
    (layers / "result.json").write_text("{}")

    take_runs(monkeypatch, tmp_path / "runs", site)
    assert taken(site) == [
        "cifar10n/pes-semi-worst-seed5",
        "figure2/T1-5-symmetric-50-seed6",
        "figure3/T3-pair-45-seed7",
        "figure5/pair-0.45-seed9",
        "rest/pes-semi-training-on-pair-45-seed3",
        "table1/pes-pair-45-seed0",
        "table2/pes-instance-20-seed4",
        "table2/pes-pair-45-seed1",
        "table3/dividemix-symmetric-80-seed2",
    ]
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 10
    assert f"left   {runs / 'other'}: a run of no table or figure" in said
    kept = site / "results" / "table1" / "pes-pair-45-seed0"
    assert sorted(file.name for file in kept.iterdir()) == ["config.toml", "epochs.jsonl", "result.json"]
    assert json.loads((kept / "result.json").read_text())["commit"] == "abcdef012345"


def test_a_run_that_was_done_again_replaces_the_old_one_on_the_page(tmp_path, site, monkeypatch):
    again = cell("table2", "pes", "pair-45")
    for accuracy in (0.7, 0.8):
        write_run(tmp_path / f"runs{accuracy}" / "a", again, accuracy=accuracy, wall={"seconds": 1.0})
    (tmp_path / "runs0.8" / "a" / "wall.json").unlink()
    for accuracy in (0.7, 0.8):
        take_runs(monkeypatch, tmp_path / f"runs{accuracy}", site)
    assert taken(site) == ["table2/pes-pair-45-seed1"]
    assert not list(site.rglob("wall.json"))
    make_results(monkeypatch, site)
    page = (site / "docs" / "results.md").read_text()
    assert "60.00" in page  # best on noisy validation
    assert "commit abcdef0" in page


def test_a_run_of_no_cell_may_be_shown_beside_a_table(tmp_path, site, monkeypatch):
    cut = cell("rest", "pes-semi, training on", "pair-45")
    write_run(tmp_path / "runs" / "short", cut, settings={"epochs": 40})
    take_runs(monkeypatch, tmp_path / "runs", site, "--others", "rest")
    assert taken(site) == ["rest/short"]
    make_results(monkeypatch, site)
    text = section((site / "docs" / "results.md").read_text(), TABLES["rest"].title)
    assert row_of(text, "`pes-semi`", "cifar10, pair:0.45")[1] == "epochs 40, renewed_rest False"


@pytest.mark.parametrize("below", [False, True])
def test_without_runs_it_says_which_folder_is_meant(tmp_path, site, monkeypatch, below):
    folder = site / "results" / "table2" if below else tmp_path / "nothing"
    if below:
        write_run(folder / "a", cell("table2", "pes", "pair-45"))
    with pytest.raises(SystemExit, match="has no run to take: name the folder"):
        take_runs(monkeypatch, folder, site)
    assert taken(site) == (["table2/a"] if below else [])
