"""A repository with nothing but pages and records; every number in it is made up."""

import json
import sys
from pathlib import Path

from labelsift.config import Config
from labelsift.methods import make_method

DOCS = Path(__file__).parents[2] / "docs"
README = """# A name

<!-- demo: written by `make results` -->
<!-- /demo -->

<!-- paper: written by `make results` -->
<!-- /paper -->

<!-- wrong labels: written by `make results` -->
<!-- /wrong labels -->
"""
PAGE = "# pes\n\n<!-- results -->\n<!-- /results -->\n"


def make_site(root):
    """The pages that are not wholly written by `make results`, and no records."""
    (root / "docs" / "methods").mkdir(parents=True)
    (root / "results").mkdir()
    (root / "README.md").write_text(README)
    (root / "docs" / "methods" / "pes.md").write_text(PAGE)
    return root


def make_results(monkeypatch, root, *words):
    """`python docs/make_results.py`, here."""
    monkeypatch.syspath_prepend(str(DOCS))
    monkeypatch.setattr(sys, "argv", ["make_results.py", "--root", str(root), *words])
    from make_results import main

    main()


def write_run(folder, cell, seed=1, accuracy=0.5, settings=None, history=(), wall=None, **record):
    """A finished run of a cell that reached a made-up accuracy: best, last 0.1 and validated 0.2 below."""
    values = {**cell.settings, **(settings or {})}
    method = make_method(cell.method, cell.data, cell.net, cell.noise, values)
    config = Config(
        cell.data,
        "made-up",
        cell.net,
        cell.method,
        nets=cell.nets,
        weights=cell.weights,
        noise=cell.noise,
        seed=seed,
        validation=cell.validation,
        settings=vars(method),
    )
    found = {
        "id": config.id,
        "test_accuracy": {
            "best": accuracy,
            "last": accuracy - 0.1,
            "best_on_noisy_validation": accuracy - 0.2,
        },
        "confident": {"confident_precision": 0.75, "confident_recall": 0.25},
        "noise": {"rate": 0.125},
        "epochs": method.total_epochs,
        "seconds": 3600.0,
        "device": "A made-up device",
        "finished": "2001-02-03T04:05:06",
        "versions": {"torch": "0.0.1", "labelsift": "0.0.2"},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(config.toml())
    (folder / "result.json").write_text(json.dumps({**found, **record}))
    (folder / "epochs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in history))
    if wall is not None:
        (folder / "wall.json").write_text(json.dumps(wall))
    return folder


def cells_of(exhibit, **what):
    """The cells that have these attributes."""
    return [cell for cell in exhibit.cells if all(getattr(cell, key) == value for key, value in what.items())]


def section(page, title):
    """The text of a section."""
    return page.split(f"## {title}\n")[1].split("\n## ")[0]


def row_of(text, *begins):
    """The cells of the one row that begins so."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    (row,) = [row for row in rows if row[: len(begins)] == list(begins)]
    return row[len(begins) :]
