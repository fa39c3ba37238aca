"""Runs that were broken off, from made-up records."""

import json
import shutil

from docs.made_up import cells_of, make_results, make_site, section, write_run
from labelsift.reproduce.exhibits import TABLES

ABOUT = {"device": "A made-up device", "torch": "0.0.1", "commit": "0123456789", "date": "2001-02-03"}
TITLE = "Runs of full length, as far as they got"


def test_runs_of_one_place_are_told_together(tmp_path, monkeypatch):
    site = make_site(tmp_path)
    for column in ("aggregate", "worst", "random1"):
        cell = cells_of(TABLES["cifar10n"], column=column)[0]
        folder = site / "results" / "trajectories" / column
        write_run(folder, cell, history=[{"epoch": 1, "test_accuracy": 0.5, "stage": ""}])
        (folder / "result.json").unlink()
        about = ABOUT | ({"device": "Another device"} if column == "worst" else {})
        (folder / "about.json").write_text(json.dumps(about))
    make_results(monkeypatch, site)
    text = section((site / "docs" / "results.md").read_text(), TITLE)
    names = [
        f"`pes-semi`, cifar10n:{column}, resnet34, seed 1" for column in ("aggregate", "random1", "worst")
    ]
    assert f"{names[0]}; {names[1]}: A made-up device; torch" in text
    assert f" {names[2]}: Another device; torch" in text


def test_how_far_a_run_got(tmp_path, monkeypatch):
    site = make_site(tmp_path)
    make_results(monkeypatch, site)
    assert TITLE not in (site / "docs" / "results.md").read_text()

    cell = cells_of(TABLES["table3"], method="dividemix", data="cifar10", column="symmetric-50")[0]
    rows = [
        {"epoch": e, "test_accuracy": e / 100, "ensemble_test_accuracy": 0.5, "stage": ""}
        for e in range(1, 31)
    ]
    rows[11]["test_accuracy"] = 0.75
    run = "`dividemix`, cifar10, symmetric-inclusive:0.5"
    folder = site / "results" / "trajectories" / "dividemix"
    write_run(folder, cell, history=rows)
    (folder / "result.json").unlink()  # it never came to its end
    (folder / "about.json").write_text(json.dumps(ABOUT))
    make_results(monkeypatch, site)
    make_results(monkeypatch, site, "--check")
    text = section((site / "docs" / "results.md").read_text(), TITLE)
    latest = f"{(sum(range(6, 31)) + 75 - 12) / 25:.1f}"  # mean of epochs 6 to 30, of which the 12th has 75
    assert f"| {run}, first net | 30 of 300 | 75.0 | {latest} | 1.0 | 10.0 | 25.0 |  |  |" in text
    assert f"| {run}, both nets | 30 of 300 | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 |  |  |" in text
    assert f"{run}, preact-resnet18, seed 1: A made-up device; torch 0.0.1" in text
    assert "commit 0123456; 2001-02-03" in text

    for row in rows:
        del row["ensemble_test_accuracy"]
    folder.joinpath("epochs.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    make_results(monkeypatch, site)
    text = section((site / "docs" / "results.md").read_text(), TITLE)
    assert f"| {run} | 30 of 300 | 75.0 | {latest} | 1.0 | 10.0 | 25.0 |  |  |" in text  # no word of one net

    people = cells_of(TABLES["cifar10n"], column="worst")[0]
    for settings, words in ((None, ""), ({"stage_epochs": (30, 5)}, ", stage_epochs 30+5")):
        write_run(
            folder, people, settings=settings, history=[{"epoch": 1, "test_accuracy": 0.5, "stage": ""}]
        )
        (folder / "result.json").unlink()
        make_results(monkeypatch, site)
        text = section((site / "docs" / "results.md").read_text(), TITLE)
        assert f"| `pes-semi`, cifar10n:worst{words} | 1 of 305 | 50.0 | 50.0 | 50.0 |" in text
        assert f"`pes-semi`, cifar10n:worst{words}, resnet34, seed 1: A made-up device" in text

    assert "the table's run" not in text
    for seed, settings in ((1, None), (2, None), (1, {"epochs": 40})):
        place = site / "results" / "cifar10n" / f"worst-{seed}-{bool(settings)}"
        history = [{"epoch": e, "test_accuracy": 0.6 + e / 100, "stage": ""} for e in (1, 2)]
        write_run(place, people, seed=seed, settings=settings, history=history)
    make_results(monkeypatch, site)
    text = section((site / "docs" / "results.md").read_text(), TITLE)
    assert text.count("the table's run") == 1  # of the same seed, with the paper's settings
    # It is judged up to the epoch that the other got to, and told with the commit that ran it.
    assert "| `pes-semi`, cifar10n:worst, the table's run | 2 of 305 | 61.0 | 61.0 | 61.0 |" in text
    assert "A table's run is the one of the same seed; its best and its mean are those up to" in text
    result = site / "results" / "cifar10n" / "worst-1-False" / "result.json"
    result.write_text(json.dumps(json.loads(result.read_text()) | {"commit": "fedcba9876"}))
    make_results(monkeypatch, site)
    text = section((site / "docs" / "results.md").read_text(), TITLE)
    assert "| `pes-semi`, cifar10n:worst, the table's run (commit fedcba9) | 2 of 305 | 61.0 |" in text

    shutil.rmtree(folder)
    make_results(monkeypatch, site)
    assert TITLE not in (site / "docs" / "results.md").read_text()
