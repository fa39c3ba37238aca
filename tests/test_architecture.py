"""Imports point one way: noise, losses, parts, nets <- data <- training <- methods <- api <- cli."""

import ast
from pathlib import Path

import labelsift

ROOT = Path(labelsift.__file__).parent
ROOMS = ["errors", "config", "fusion", "noise", "losses", "estimates", "mixtures", "parts", "nets"]
ROOMS += ["results", "data", "issues", "training", "methods", "result", "record", "defaults"]
ROOMS += ["preparation", "api", "estimator", "reproduce", "cli"]
APART = [{"noise", "losses", "estimates", "mixtures", "parts", "nets"}]  # know nothing of one another


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("labelsift.")}


def room(dotted: str) -> str:
    return dotted.split(".")[1]


def test_imports_point_one_way():
    for file in ROOT.rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if parts[0] in ("__init__", "__main__"):
            continue
        assert parts[0] in ROOMS, f"{file.name}: a room the plan does not know"
        for name in imports(file):
            other = room(name)
            if other in ROOMS and other != parts[0]:
                assert ROOMS.index(other) < ROOMS.index(parts[0]), f"{file} imports {name}"
                for group in APART:
                    assert not {parts[0], other} <= group, f"{file} imports {name}"


def test_results_read_files_and_nothing_else():
    for file in (ROOT / "results").rglob("*.py"):
        assert {room(name) for name in imports(file)} <= {"results", "errors", "config"}


def test_methods_do_not_import_one_another():
    shared = {"labelsift.methods.method", "labelsift.methods.progressive", "labelsift.methods.noise_rate"}
    shared |= {"labelsift.methods.held_out", "labelsift.methods.gauge"}
    for file in (ROOT / "methods").glob("*.py"):
        if file.stem != "__init__":
            others = {name for name in imports(file) if name.startswith("labelsift.methods")}
            assert {name.rsplit(".", 1)[0] if name.count(".") > 2 else name for name in others} <= shared


def test_only_the_command_line_prints():
    for file in ROOT.rglob("*.py"):
        if "cli" not in file.parts:
            calls = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call)]
            assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"], file


def test_nothing_is_unpickled():
    for file in ROOT.rglob("*.py"):
        text = file.read_text()
        assert "import pickle" not in text or file.name == "archives.py"  # which allows arrays only
        assert text.count("torch.load(") == text.count("weights_only=True")
        assert "allow_pickle=True" not in text


def test_files_stay_short():
    for file in ROOT.rglob("*.py"):
        assert len(file.read_text().splitlines()) < 300, f"{file} has grown: split it"
