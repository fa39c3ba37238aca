"""The README's own commands run, and the docs' numbers are those of the records."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labelsift.cli import main
from toys import toy_arrays

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, flags=re.S)


def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = toy_arrays(150)
    np.savez("mine.npz", x=x, y=y)
    for place, (pixels, label) in enumerate(zip(x, y, strict=True)):
        for folder in [f"photos/{label}", *(["new"] if place < 20 else [])]:
            Path(folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(f"{folder}/{place}.png")
    Path("more.csv").write_text("path,label\nnew/0.png,0\nnew/1.png,1\n")
    commands = [shlex.split(line, comments=True) for line in blocks("sh")[1].splitlines()]
    commands = [words for words in commands if words[0] == "labelsift"]
    assert {words[1] for words in commands} == {
        "fit", "issues", "report", "export", "predict", "methods", "parts", "noise",
    }  # fmt: skip
    for words in commands:
        short = ["--epochs", "2", "--set", "stage_epochs=1,1,1"] if words[1] == "fit" else []
        monkeypatch.setattr(sys, "argv", [*words, *short])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0, words
    assert Path("predictions.csv").read_text().count("\n") == 21


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    short = code.replace("PES(epochs=20)", "PES(epochs=2, stage_epochs=(1, 1, 1))")
    assert short != code
    exec(compile(short, "README.md", "exec"), {})
    assert "suggested_label" in capsys.readouterr().out


def test_set_up_is_two_commands():
    makefile = (ROOT / "Makefile").read_text()
    for line in blocks("sh")[0].splitlines():
        assert f"\n{line.split()[1]}: $(READY)" in makefile
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_number_of_the_docs_is_from_the_records():
    command = [sys.executable, ROOT / "docs" / "make_results.py", "--check"]
    check = subprocess.run(command, capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
