"""Tables of runs: mean and standard deviation over seeds, beside what somebody else found."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labelsift.results.store import RunFolder, csv_text

WALL = "wall.json"  # beside a run that had the device for itself: its seconds from start to end
HEADER = ("data", "method", "noise", "measure", "here", "n", "paper", "difference")


def mean_and_deviation(values: Sequence[float], digits: int = 2) -> str:
    """Of some values, the latter from two on; nothing of none."""
    if not values:
        return ""
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean}±{statistics.stdev(values):.{digits}f}"


@dataclass(frozen=True)
class Line:
    """One cell of a table: its runs' values, in the unit that is shown, and the paper's."""

    data: str
    method: str
    noise: str
    measure: str
    values: tuple[float, ...]
    paper: str = ""  # mean±deviation
    digits: int = 2

    @property
    def here(self) -> str:
        """Mean and, from two runs on, standard deviation."""
        return mean_and_deviation(self.values, self.digits)

    @property
    def difference(self) -> str:
        """Mean here less the paper's mean."""
        if not (self.values and self.paper):
            return ""
        return f"{statistics.mean(self.values) - float(self.paper.split('±')[0]):+.{self.digits}f}"

    @property
    def row(self) -> tuple[str, ...]:
        """The line as text, in the order of HEADER."""
        count = str(len(self.values)) if self.values else ""
        return (
            self.data,
            self.method,
            self.noise,
            self.measure,
            self.here,
            count,
            self.paper,
            self.difference,
        )


def read_result(folder: RunFolder) -> dict[str, Any]:
    """The result of a finished run, with what a clock beside it said."""
    record = folder.read_json("result.json")
    if folder.file(WALL).exists():
        wall = folder.read_json(WALL)
        record = {"commit": wall.get("commit", ""), **record, "wall": wall}
    return record


def look_up(record: Mapping[str, Any], path: str) -> float | None:
    """A number of a result: `test_accuracy.best`; `clock` and `hours` are the time it took by the clock.

    Where no clock stood beside it, that of its epochs.
    """
    if path in ("clock", "hours"):
        return float(record.get("wall", record)["seconds"]) / (3600 if path == "hours" else 1)
    value: Any = record
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else float(value)


def as_markdown(lines: Sequence[Line], title: str, protocol: Sequence[str]) -> str:
    """A page with the table and how it came about."""
    rows = [HEADER, ("---",) * 4 + ("---:",) * 4, *(line.row for line in lines)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"# {title}\n\n{table}\n\n" + "\n".join(f"- {sentence}" for sentence in protocol) + "\n"


def as_csv(lines: Sequence[Line], scaled: str) -> str:
    """The same for a spreadsheet, with the values of the single runs, and whether they are scaled."""
    rows = [(*line.row, " ".join(f"{value:.4f}" for value in line.values), scaled) for line in lines]
    return csv_text((*HEADER, "runs", "scaled"), rows)


def as_latex(lines: Sequence[Line], title: str, protocol: Sequence[str]) -> str:
    """The same as a tabular."""
    body = [
        " & ".join(_latex(word) for word in row) + r" \\" for row in (HEADER, *(line.row for line in lines))
    ]
    body.insert(1, r"\midrule")
    notes = "\n".join(f"% {sentence}" for sentence in (title, *protocol))
    start, end = r"\begin{tabular}{llllrrrr}", r"\end{tabular}"
    return "\n".join([notes, start, r"\toprule", *body, r"\bottomrule", end]) + "\n"


def _latex(word: str) -> str:
    for plain, escaped in (("%", r"\%"), ("_", r"\_"), ("&", r"\&"), ("±", r"$\pm$")):
        word = word.replace(plain, escaped)
    return word
