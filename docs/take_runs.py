"""Take finished runs into `results/`, from where `make results` writes them into the pages.

Usage: python docs/take_runs.py FOLDER --commit COMMIT [--others EXHIBIT] [--root FOLDER]

Looks for run folders anywhere below FOLDER and copies those of the paper's tables and figures: config,
epochs and result, no weights, with the commit of the program that ran them. What was there of the same cell
and seed is replaced. A run of no table or figure is named and left or, with `--others rest` say, goes to that
table under the name of its folder: the page shows it beside.
"""

import argparse
import re
import shutil
import sys
from pathlib import Path

from labelsift.config import read_toml
from labelsift.reproduce.cells import Cell
from labelsift.reproduce.exhibits import LAYERS, TABLES, WITH_CELLS
from labelsift.reproduce.layers import POINTS
from labelsift.reproduce.records import FinishedRun, is_run_of, read_run
from labelsift.results.store import RunFolder
from labelsift.results.tables import WALL

ROOT = Path(__file__).resolve().parent.parent
KEPT = ("config.toml", "epochs.jsonl", POINTS, WALL)  # beside the result


def place_of(folder: RunFolder) -> Path | None:
    """Where in `results/` a run goes: to the first exhibit with such a cell, whose runs later ones share."""
    config = read_toml(folder.config)
    for name, layers in LAYERS.items():
        if folder.file(POINTS).exists() and (layers.data, layers.net) == (config["data"], config["net"]):
            return Path(name) / f"{config['noise'].replace(':', '-')}-seed{config['seed']}"
    run = read_run(folder)
    for name, exhibit in WITH_CELLS.items():
        for cell in exhibit.cells:
            if is_run_of(cell, run):
                return Path(name) / name_of(cell, run)
    return None


def name_of(cell: Cell, run: FinishedRun) -> str:
    """The row and the column of its cell, and its seed."""
    told = "-oracle" if run.record.get("oracle") else ""
    return re.sub(r"[^\w.]+", "-", f"{cell.row.replace('*', '')}{told}-{cell.column}-seed{run.config.seed}")


def take(folder: RunFolder, place: Path, commit: str) -> None:
    """Copy what is published of a run."""
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(parents=True)
    for name in KEPT:
        if folder.file(name).exists():
            shutil.copy(folder.file(name), place / name)
    RunFolder(place).write_json("result.json", {"commit": commit, **folder.read_json("result.json")})


def main() -> None:
    """Take what there is, and say what was taken and left."""
    parser = argparse.ArgumentParser(description="Take finished runs of the paper's exhibits into results/.")
    parser.add_argument("folder", type=Path, help="where the runs are")
    parser.add_argument("--commit", required=True, help="of the program that ran them")
    parser.add_argument("--others", choices=TABLES, help="the table that runs of no cell are shown beside")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    options = parser.parse_args()
    results, source = options.root / "results", options.folder.resolve()
    files = sorted(source.rglob("result.json"))
    if not files or results.resolve() in (source, *source.parents):
        sys.exit(
            f"{options.folder} has no run to take: name the folder that `labelsift reproduce --out` had."
        )
    for file in files:
        folder = RunFolder(file.parent)
        place = place_of(folder) or (Path(options.others) / folder.path.name if options.others else None)
        if place is None:
            print(f"left   {folder.path}: a run of no table or figure")  # noqa: T201
        else:
            take(folder, results / place, options.commit)
            print(f"taken  {place}")  # noqa: T201


if __name__ == "__main__":
    main()
