"""The sections about judged labels, from made-up measurements."""

import json

import pytest

from docs.made_up import make_results, make_site, row_of, section

ON = {"torch": "0.0.1", "labelsift": "0.0.2", "date": "2001-02-03"}


def scores(precision, seconds):
    row = {"auroc": 0.9, "average_precision": precision, "precision_first_1000": 0.75, "f1": 0.5}
    return row | {"seconds": seconds}


FILES = {
    "detection": {
        "data": "shapes",
        "noise": "pair:0.2",
        "net": "lenet",
        "labelsift": scores(0.8, 10.0),
        "cleanlab": scores(0.6, 40.0),
    },
    "walk": {
        "net": "lenet",
        "fit_seconds": 12.5,
        "pictures": 2000,
        "wrong": 200,
        "listed": 1000,
        "found": 150,
        "right_suggestions": 100,
    },
    "clean": {"data": "shapes", "examples": 1234, "net": "lenet", "ce": [0.5, 0.7], "pes": [0.625, 0.625]},
    "few": {
        "data": "shapes",
        "examples": 123,
        "noise": "pair:0.2",
        "net": "lenet",
        "ce": [0.5, 0.7],
        "pes": [0.5, 0.5],
    },
}
TITLES = {
    "detection": "Wrong labels found, beside cleanlab",
    "walk": "A folder of pictures, some misplaced",
    "clean": "Clean labels: the default beside plain training",
    "few": "Few images: the default beside plain training",
}


@pytest.fixture
def page(tmp_path, monkeypatch):
    site = make_site(tmp_path)

    def write(*names):
        for name in names:
            found = FILES[name] if isinstance(FILES[name], list) else [FILES[name]]
            rows = [{**row, "device": "A made-up device"} for row in found]
            (site / "results" / f"{name}.json").write_text(json.dumps({**ON, "rows": rows}))
        make_results(monkeypatch, site)
        make_results(monkeypatch, site, "--check")
        return (site / "docs" / "results.md").read_text()

    return write


@pytest.mark.parametrize("name", FILES)
def test_a_file_alone_writes_its_own_section(page, name):
    text = page(name)
    assert [title for title in TITLES.values() if f"## {title}\n" in text] == [TITLES[name]]
    assert "A made-up device; torch 0.0.1; labelsift 0.0.2; 2001-02-03." in text


def test_the_better_of_two_is_bold(page):
    row = row_of(section(page("detection"), TITLES["detection"]), "`shapes`, pair:0.2", "lenet")
    assert row[1] == "**0.800** / 0.600"
    assert row[4] == "**10.0** / 40.0"
    assert row[0] == "0.900 / **0.900**"  # no better, so not ours


def test_the_readme_tells_it_in_short(page, tmp_path, monkeypatch):
    both = [{**FILES["detection"], "data": data, "commit": data} for data in ("shapes", "fashion-demo")]
    monkeypatch.setitem(FILES, "detection", both)
    page("detection")
    text = (tmp_path / "README.md").read_text()
    assert row_of(text, "`shapes`, pair:0.2") == ["lenet", "0.800", "0.600", "10", "40"]
    assert "commit shapes; 2001-02-03." in text
    assert "fashion-demo" not in text  # nor where that was measured


def test_rows_that_were_measured_elsewhere_say_so(page, monkeypatch):
    monkeypatch.setitem(FILES, "walk", {**FILES["walk"], "torch": "0.0.9", "commit": "0123456789"})
    told = section(page("walk"), TITLES["walk"])
    assert "A made-up device; torch 0.0.9; labelsift 0.0.2; commit 0123456; 2001-02-03." in told


def test_rows_of_one_machine_and_day_share_a_sentence(page, monkeypatch):
    commits = ("cccccccccc", "aaaaaaaaaa", "bbbbbbbbbb", "aaaaaaaaaa")
    monkeypatch.setitem(FILES, "walk", [{**FILES["walk"], "commit": commit} for commit in commits])
    told = section(page("walk"), TITLES["walk"])
    assert told.count("A made-up device;") == 1
    assert "; commits aaaaaaa, bbbbbbb and ccccccc; 2001-02-03." in told


@pytest.mark.parametrize("at_once", [1, 2])
def test_rows_that_shared_the_device_say_so(page, monkeypatch, at_once):
    monkeypatch.setitem(FILES, "detection", {**FILES["detection"], "at_once": at_once})
    told = section(page("detection"), TITLES["detection"])
    assert ("Two at a time had the device, both sides of them: `shapes`, pair:0.2." in told) == (at_once > 1)


def test_rows_whose_sides_shared_the_device_unevenly_say_so(page, monkeypatch):
    monkeypatch.setitem(FILES, "detection", {**FILES["detection"], "at_once": [4, 3]})
    told = section(page("detection"), TITLES["detection"])
    assert "`shapes`, pair:0.2: ours was one of up to 4 runs at a time, theirs of 3." in told
    assert "Two at a time" not in told


def test_what_was_found_and_what_the_default_costs(page):
    text = page("walk", "clean")
    row = row_of(section(text, TITLES["walk"]), "lenet", "A made-up device")
    assert row == ["2,000", "200", "150 (75.0 %)", "100", "12.5"]
    row = row_of(section(text, TITLES["clean"]), "`shapes`", "1,234")
    assert row == ["lenet", "2", "60.00±14.14", "62.50±0.00", "+2.50"]
    row = row_of(section(page("few"), TITLES["few"]), "`shapes`", "123", "pair:0.2")
    assert row == ["lenet", "2", "60.00±14.14", "50.00±0.00", "-10.00"]


def test_a_further_method_has_columns_of_its_own_where_it_was_measured(page, monkeypatch):
    monkeypatch.setitem(
        FILES, "few", [FILES["few"], {**FILES["few"], "examples": 9, "pes-semi": [0.5, 0.75]}]
    )
    text = section(page("few"), TITLES["few"])
    assert "| `ce` | `pes` | difference | `pes-semi` | difference |" in text
    assert row_of(text, "`shapes`", "123")[-3:] == ["-10.00", "", ""]
    assert row_of(text, "`shapes`", "9")[-3:] == ["-10.00", "62.50±17.68", "+2.50"]
