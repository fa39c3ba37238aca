import pytest

from labelsift.results.store import RunFolder
from labelsift.results.tables import WALL, Line, as_csv, as_latex, as_markdown, look_up, read_result

LINE = Line("cifar10", "pes", "pair-45", "test accuracy", (88.0, 89.0, 90.0), "88.43±1.08")


def test_a_line_says_mean_deviation_count_and_difference():
    assert LINE.row[4:] == ("89.00±1.00", "3", "88.43±1.08", "+0.57")
    assert Line("d", "m", "n", "x", (88.0,), "88.43").row[4:] == ("88.00", "1", "88.43", "-0.43")
    assert Line("d", "m", "n", "x", ()).row[4:] == ("", "", "", "")


def test_pages():
    page = as_markdown([LINE], "table2: x", ["Net: y."])
    assert page.startswith("# table2: x\n\n| data | method |")
    assert "| 89.00±1.00 | 3 | 88.43±1.08 | +0.57 |" in page
    assert page.endswith("- Net: y.\n")
    assert as_csv([LINE], "no").splitlines()[1].endswith("+0.57,88.0000 89.0000 90.0000,no")
    latex = as_latex([LINE], "50 %", ["y"])
    assert r"89.00$\pm$1.00" in latex
    assert latex.count("&") == 14
    assert latex.startswith("% 50 %\n% y\n")


def test_numbers_are_found_by_their_path(tmp_path):
    record = {"test_accuracy": {"best": 0.5}, "seconds": 1800}
    assert look_up(record, "test_accuracy.best") == 0.5
    assert look_up(record, "hours") == pytest.approx(0.5)
    assert look_up(record, "test_accuracy.best_on_noisy_validation") is None
    assert look_up(record, "nothing.at.all") is None


def test_what_a_clock_said_goes_into_the_result_and_is_its_time(tmp_path):
    folder, record = RunFolder(tmp_path), {"seconds": 1800}
    folder.write_json("result.json", record)
    assert read_result(folder) == record
    assert look_up(record, "clock") == 1800
    folder.write_json(WALL, {"seconds": 3600.0, "commit": "abc"})
    clocked = read_result(folder)
    assert clocked == {**record, "commit": "abc", "wall": {"seconds": 3600.0, "commit": "abc"}}
    assert (look_up(clocked, "clock"), look_up(clocked, "hours")) == (3600, 1)
    folder.write_json("result.json", {**record, "commit": "def"})
    assert read_result(folder)["commit"] == "def"
