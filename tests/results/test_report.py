"""The page of a run: whole in itself, and nothing from outside becomes markup."""

import re
from html.parser import HTMLParser

import pytest

from labelsift.results.report import chart, matrix_table, report_page

EVIL = '<script>alert("1")</script>'
HISTORY = [
    {"epoch": 1, "stage": "part 1", "train_accuracy": 0.2, "test_accuracy": 0.3},
    {"epoch": 2, "stage": "part 1", "train_accuracy": 0.4, "test_accuracy": 0.5},
    {"epoch": 3, "stage": "confident", "train_accuracy": 0.9, "test_accuracy": 0.6, "confident_share": 0.5},
]


class Tags(HTMLParser):
    """Which elements there are, and whether all are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.addresses = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "line", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(**changes):
    row = {
        "index": 4,
        "path": EVIL,
        "label": EVIL,
        "suggested_label": "b",
        "label_quality": 0.01,
        "why": EVIL,
    }
    words = {
        "title": EVIL,
        "history": [{**row, "stage": EVIL} for row in HISTORY],
        "classes": [EVIL, "b"],
        "doubtful": [row],
        "clean": [{**row, "suggested_label": EVIL}],
        "matrix": [[3, 1], [0, 4]],
        "facts": {EVIL: EVIL},
        "command": EVIL,
        "sentence": EVIL,
        "notes": [EVIL],
        "picture": lambda index: b"picture" if index == 4 else None,
    }
    return report_page(**{**words, **changes})


def test_nothing_from_outside_is_markup_and_all_elements_are_closed():
    text = page()
    tags = Tags(text)
    assert "script" not in tags.seen
    assert tags.open == []
    assert text.count("&lt;script&gt;") >= 10
    assert not re.search(r"\$[a-z]+", text)


def test_it_needs_nothing_but_itself():
    addresses = Tags(page()).addresses
    assert addresses == ["data:image/png;base64,cGljdHVyZQ=="] * 2
    assert "url(" not in page()
    assert "default-src 'none'" in page()


def test_many_labels_have_fewer_pictures_each():
    names = [f"class {n}" for n in range(100)]
    row = {"path": "", "suggested_label": "b", "label_quality": 0.01}
    rows = [{**row, "index": n, "label": name} for n in range(20) for name in names]
    text = page(doubtful=rows, classes=names, clean=[], picture=lambda index: b"\xff\xd8jpeg")
    assert text.count('<img src="data:image/jpeg;') == 4 * 100


def test_paths_are_shown_whole():
    deep = "airplane/nested/deeper/" + "x" * 150 + ".png"
    text = page(clean=[], doubtful=[{"index": 4, "path": deep, "label": EVIL, "suggested_label": "b",
                                     "label_quality": 0.01}])  # fmt: skip
    assert f"<span>{deep}</span>" in text
    assert not re.search(r"fig[^}]*(nowrap|ellipsis)", text)


def test_every_note_has_its_paragraph():
    assert page(notes=["one", "two"]).count('<p class="note">') == 2
    assert '<p class="note">' not in page(notes=[])


def test_without_pictures_and_without_doubts():
    text = page(doubtful=[], clean=[], picture=lambda index: None)
    assert "No label is doubtful." in text
    assert "<img" not in text


def test_the_chart_marks_the_stages_and_leaves_out_what_is_unknown():
    drawn = chart(HISTORY)
    assert drawn.count('class="stage"') == 2
    assert 'class="test"' in drawn
    assert "held-out" not in drawn
    (points,) = re.findall(r'class="test" points="([^"]+)"', drawn)
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert heights == sorted(heights, reverse=True)  # better is higher up
    (points,) = re.findall(r'class="test" points="([^"]+)"', chart(HISTORY[:1]))
    assert len(points.split()) == 2  # one point alone would not be drawn


def test_several_nets_are_told_apart():
    rows = [{"stage": "train", "net": net, "train_accuracy": 0.5} for net in (1, 1, 1, 2, 2, 2)]
    assert re.findall(r">(net \d, train)<", chart(rows)) == ["net 1, train", "net 2, train"]


def test_names_of_short_stages_stand_below_one_another():
    stages = ["part 1"] * 25 + ["part 2"] * 7 + ["part 3"] * 5 + ["confident"] * 163
    drawn = chart([{"stage": stage, "train_accuracy": 0.5} for stage in stages])
    heights = [int(y) for y in re.findall(r'y="(\d+)">[pc]', drawn)]
    assert (
        heights[0]
        == heights[1]
        < heights[2]
        < heights[3]
        < int(re.findall(r'viewBox="0 0 720 (\d+)"', drawn)[0])
    )


@pytest.mark.parametrize("count", [2, 30])
def test_the_matrix_or_its_largest_exchanges(count):
    names = [f"class {n}" for n in range(count)]
    matrix = [[50 if i == j else (7 if j == i + 1 else 0) for j in range(count)] for i in range(count)]
    text = matrix_table(names, matrix)
    assert text.count(">7</td>") == count - 1
    assert ('class="same"' in text) == (count == 2)
