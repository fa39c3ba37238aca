"""One run as an HTML page that needs nothing but itself: it opens offline, prints, and is light or dark."""

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

Row = Mapping[str, Any]
PER_CLASS = 12  # suspicious pictures of each label ...
IN_ALL = 480  # ... but of many labels fewer of each
CLEAN = 12  # pictures that look right, for contrast
WIDTH, HEIGHT, LEFT, BOTTOM = 720, 240, 62, 28  # of the chart
LETTER, LINE = 11, 20  # room for the names of stages below it, also in the large letters of a phone
PAGE = Path(__file__).with_name("report.html")


def report_page(
    title: str,
    history: Sequence[Row],
    classes: Sequence[str],
    doubtful: Sequence[Row],
    clean: Sequence[Row],
    matrix: Sequence[Sequence[int]],
    facts: Mapping[str, str],
    command: str,
    sentence: str,
    notes: Sequence[str],
    picture: Callable[[int], bytes | None],
) -> str:
    """The page. Whatever came from outside (names, labels, paths) is escaped."""
    return Template(PAGE.read_text(encoding="utf-8")).substitute(
        title=escape(title),
        sentence=escape(sentence),
        notes="\n".join(f'<p class="note">{escape(note)}</p>' for note in notes),
        chart=chart(history),
        matrix=matrix_table(classes, matrix),
        gallery=gallery(classes, doubtful, picture),
        clean=figures(clean[:CLEAN], picture) or "<p>None.</p>",
        facts="".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()),
        command=escape(command),
    )


def chart(history: Sequence[Row]) -> str:
    """Accuracy and the share of confident examples over the epochs, the stages marked, as SVG."""
    lines = {
        "test": ("test accuracy", [row.get("test_accuracy") for row in history]),
        "noisy": (
            "accuracy on held-out given labels",
            [row.get("noisy_validation_accuracy") for row in history],
        ),
        "train": ("agreement with given labels", [row.get("train_accuracy") for row in history]),
        "confident": ("confident share", [row.get("confident_share") for row in history]),
    }
    count = max(len(history) - 1, 1)

    def x(epoch: float) -> float:
        return LEFT + (WIDTH - LEFT - 8) * epoch / count

    def y(share: float) -> float:
        return 8 + (HEIGHT - BOTTOM - 8) * (1 - share)

    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{y(share):.1f}" y2="{y(share):.1f}"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y(share) + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>'
        )
    ends: list[float] = []  # of the lines of names: one that meets another goes below it
    before: Row = {}
    for epoch, row in enumerate(history):
        anew = row.get("net") != before.get("net")
        if epoch == 0 or anew or row["stage"] != before["stage"]:
            name = f"net {row['net']}, {row['stage']}" if anew else str(row["stage"])
            left = x(max(epoch - 0.5, 0))
            line = next((line for line, end in enumerate(ends) if end <= left), len(ends))
            ends[line : line + 1] = [left + LETTER * (len(name) + 1)]
            parts.append(
                f'<line class="stage" x1="{left:.1f}" x2="{left:.1f}" y1="8" y2="{HEIGHT - BOTTOM}"/>'
            )
            below = HEIGHT - 8 + LINE * line
            parts.append(f'<text x="{left + 3:.1f}" y="{below}">{escape(name)}</text>')
        before = row
    legend = []
    for kind, (name, values) in lines.items():
        points = [f"{x(epoch):.1f},{y(value):.1f}" for epoch, value in enumerate(values) if value is not None]
        if points:
            points = points if len(points) > 1 else 2 * points  # a line of one point is a dot
            parts.append(f'<polyline class="{kind}" points="{" ".join(points)}"/>')
            legend.append(f'<span class="key {kind}">{name}</span>')
    height = HEIGHT + LINE * max(len(ends) - 1, 0)
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Accuracy over epochs">'
    return f'{head}{"".join(parts)}</svg><p class="legend">{"".join(legend)}</p>'


def matrix_table(classes: Sequence[str], matrix: Sequence[Sequence[int]]) -> str:
    """Given (rows) against suggested labels (columns); of many classes, the largest exchanges."""
    if len(classes) > 20:
        pairs = [
            (count, classes[i], classes[j])
            for i, row in enumerate(matrix)
            for j, count in enumerate(row)
            if i != j and count
        ]
        rows = "".join(
            f"<tr><td>{escape(a)}</td><td>{escape(b)}</td><td>{count:,}</td></tr>"
            for count, a, b in sorted(pairs, reverse=True)[:40]
        )
        head = "<tr><th>given</th><th>suggested</th><th>labels</th></tr>"
        return _noted("The exchanges that concern most labels.", f'<table class="pairs">{head}{rows}</table>')
    largest = max((n for i, row in enumerate(matrix) for j, n in enumerate(row) if i != j), default=0) or 1
    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in classes)
    body = []
    for i, (name, row) in enumerate(zip(classes, matrix, strict=True)):
        cells = "".join(
            f'<td class="same">{n:,}</td>'
            if i == j
            else f'<td style="--share:{n / largest:.3f}">{n or ""}</td>'
            for j, n in enumerate(row)
        )
        body.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    return _noted(
        "Rows: labels as given. Columns: what the net suggests. The redder, the more labels changed places.",
        f'<table class="matrix"><tr><td></td>{head}</tr>{"".join(body)}</table>',
    )


def _noted(note: str, table: str) -> str:
    return f'<p><small>{note}</small></p><div class="scroll">{table}</div>'


def gallery(classes: Sequence[str], doubtful: Sequence[Row], picture: Callable[[int], bytes | None]) -> str:
    """The most suspicious examples of each given label."""
    parts = []
    for name in classes:
        rows = [row for row in doubtful if row["label"] == name]
        if rows:
            parts.append(f"<h3>{escape(name)} <small>{len(rows):,} doubtful</small></h3>")
            parts.append(figures(rows[: min(PER_CLASS, max(2, IN_ALL // len(classes)))], picture))
    return "".join(parts) or "<p>No label is doubtful.</p>"


def figures(rows: Sequence[Row], picture: Callable[[int], bytes | None]) -> str:
    """Examples with their labels and scores, with their pictures where there are any."""
    parts = []
    for row in rows:
        image = picture(int(row["index"]))
        shown = ""
        if image is not None:
            data = base64.b64encode(image).decode()
            kind = "jpeg" if image.startswith(b"\xff\xd8") else "png"
            shown = f'<img src="data:image/{kind};base64,{data}" alt="">'
        label, suggested = escape(str(row["label"])), escape(str(row["suggested_label"]))
        arrow = f"<s>{label}</s> {suggested}" if label != suggested else label
        where = escape(str(row["path"] or f"example {row['index']}"))
        about = f"{float(row['label_quality']):.2f} {escape(str(row.get('why', '')))}"
        parts.append(
            f"<figure>{shown}<figcaption><b>{arrow}</b><span>{about}</span>"
            f"<span>{where}</span></figcaption></figure>"
        )
    return f'<div class="gallery">{"".join(parts)}</div>' if parts else ""
