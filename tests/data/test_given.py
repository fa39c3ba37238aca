"""Labels from a file of their own."""

import numpy as np
import pytest

from labelsift import InputError
from labelsift.data.given import read_labels

CLASSES = ("ant", "bee", "cow")


def read(folder, text, count=3, classes=CLASSES, index=(), name="l.csv"):
    file = folder / name
    file.write_bytes(text.encode())
    return read_labels(file, count, classes, index).tolist()


@pytest.mark.parametrize(
    "text",
    [
        "index,label\n2,1\n0,2\n1,0\n",
        "label\n2\n0\n1\n",
        "label\ncow\nant\nbee\n",
        "label,corrected_label\n0,cow\n0,ant\n0,bee\n",
        "\ufeffindex;label\r\n2;1\r\n0;2\r\n1;0\r\n\r\n",  # as spreadsheets write it
        "index\tlabel\n2\tbee\n0\tcow\n1\tant\n",
    ],
)
def test_rows_go_by_their_index_and_labels_are_names_or_numbers(tmp_path, text):
    assert read(tmp_path, text) == [2, 0, 1]


def test_names_are_read_as_an_export_guards_them(tmp_path):
    assert read(tmp_path, "corrected_label\n'=ant\na;'=b\n", 2, ("=ant", "a;=b")) == [0, 1]


def test_labels_of_an_array(tmp_path):
    np.save(tmp_path / "l.npy", np.array([2, 0, 1]))
    assert read_labels(tmp_path / "l.npy", 3, CLASSES).tolist() == [2, 0, 1]


def test_names_that_are_digits_are_names_unless_that_is_not_clear(tmp_path):
    assert read(tmp_path, "label\n10\n30\n20\n", classes=("10", "20", "30")) == [0, 2, 1]
    assert read(tmp_path, "label\n1\n0\n1\n", classes=("0", "1")) == [1, 0, 1]
    assert read(tmp_path, "label\n3\n3\n3\n", classes=("1", "2", "3")) == [2, 2, 2]  # no number of a class
    with pytest.raises(InputError, match="call the column 'corrected_label'"):
        read(tmp_path, "label\n1\n2\n1\n", classes=("1", "2", "3"))
    assert read(tmp_path, "corrected_label\n1\n2\n1\n", classes=("1", "2", "3")) == [0, 1, 0]


def test_some_examples_take_their_labels_by_their_places(tmp_path):
    assert read(tmp_path, "index,label\n7,1\n3,2\n5,0\n", 2, index=(3, 7)) == [2, 1]
    with pytest.raises(InputError, match="must hold the places of all examples, each once"):
        read(tmp_path, "index,label\n7,1\n3,2\n5,0\n", 2, index=(3, 4))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("index,label\n0,1\n1,9\n2,0\n", "outside 0..2"),
        ("label\n1\n", "1 labels, but the data has 3 examples: give one for each"),
        (
            "index,label\n0,1\n2,1\n",
            "must hold 0..2, each once .it has 2 of them: .* the same --limit and --seed",
        ),
        ("index,label\n0,1\n0,1\n1,1\n", "each once"),
        ("label\n1\nx\n2\n", "Row 1 of .* but 'x'"),
        ("label\nant\nwasp\nbee\n", "Row 1 of .* 'wasp' .* none of the 3 classes"),
        ("corrected_label\nant\n1\nbee\n", "Row 1 of .* '1' in the column 'corrected_label'"),
        ("label\n1\n99999999999999999999\n2\n", "no whole number"),
        ("index,label\n0,1\nx,1\n2,0\n", "no whole number but 'x' in the column 'index'"),
        ("class\n1\n", "no column 'label'"),
    ],
)
def test_labels_that_do_not_fit(tmp_path, text, says):
    with pytest.raises(InputError, match=says):
        read(tmp_path, text)


def test_a_file_of_another_kind(tmp_path):
    with pytest.raises(InputError, match=r"give a \.csv"):
        read(tmp_path, "1 2", name="l.txt")
