"""What all pages of numbers are made with."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labelsift.reproduce.records import FinishedRun
from labelsift.reproduce.runner import provenance
from labelsift.results.tables import mean_and_deviation


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def percent(share: float) -> str:
    """A share as in the paper's tables."""
    return f"{100 * share:.1f} %"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and deviation, with room between them."""
    return mean_and_deviation(values, digits).replace("±", " ± ")


def listed(sentences: Sequence[str]) -> str:
    """Sentences below a table, one by one."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def origin(runs: Sequence[FinishedRun]) -> str:
    """Where the numbers come from."""
    said = provenance([run.config.seed for run in runs], [run.record for run in runs])
    return f"{said} Records: `results/`."


def seconds(value: float) -> str:
    """To three digits or so."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def paragraphs(*texts: str) -> str:
    """Those that say something, one below the other."""
    return "\n\n".join(filter(None, texts))


def told(header: Sequence[str], rows: Sequence[Sequence[str]], *sentences: str) -> str:
    """A table and what is to be said about it."""
    return f"{markdown(header, rows)}\n\n{listed(sentences)}"


def on(record: dict[str, Any]) -> str:
    """What it was measured on."""
    words = [record["device"], f"torch {record['torch']}"]
    words += [f"labelsift {record['labelsift']}"] if "labelsift" in record else []
    commits = shortened(record.get("commit", ""))
    words += [f"commit{'s' if ' and ' in commits else ''} {commits}"] if commits else []
    if "matrix_peak_tflops" in record:
        words.append(f"{record['matrix_peak_tflops']:.0f} TFLOP/s measured in a large matrix product")
    return "; ".join([*words, record["date"]] if "date" in record else words) + "."


def shortened(commits: str) -> str:
    """One or several, each by its first seven digits."""
    return re.sub(r"\b([0-9a-f]{7})[0-9a-f]+\b", r"\1", commits)


def measured(file: Path) -> dict[str, Any]:
    """What a benchmark wrote, or nothing."""
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


def joined(title: str, intro: str, sections: Sequence[tuple[str, str]]) -> str:
    """A page of those sections that have something to say."""
    said = [f"## {name}\n\n{text}\n" for name, text in sections if text]
    return "\n".join([f"# {title}\n\n{intro}\n", *said])


def between(text: str, mark: str, new: str, about: str = "") -> str:
    """A page's text with this between its marks."""
    start, end = f"<!-- {mark}{about} -->\n", f"<!-- /{mark} -->"
    head, rest = text.split(start)
    return head + start + (f"{new}\n" if new else "") + end + rest.split(end)[1]
