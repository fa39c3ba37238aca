"""Tables of paths and of features, as CSV, TSV and Parquet."""

import importlib
import os

import numpy as np
import pytest

from labelsift import InputError, load
from labelsift.data import Reading, load_inputs
from labelsift.data.cells import NEEDED
from labelsift.data.table import list_table
from pictures import band_folder, save


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path):
    def write(text, name="t.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def listed(file, **reading):
    return list_table(file, Reading(**reading))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("path,label\na/1.png,cat\nb/2.png,dog\n", "t.csv"),
        ("\ufeffFile_Name,Class\r\na/1.png,cat\r\n\r\nb/2.png,dog\r\n", "t.csv"),
        ("image path;target;split\na/1.png;cat;1\nb/2.png;dog;2\n", "t.CSV"),
        ("n\tcategory\tfilename\n1\tcat\ta/1.png\n2\t dog \tb/2.png\n", "t.tsv"),
        ('img,label\n"a/1.png",cat\n"b/2.png","dog"\n', "t.csv"),
        ("path;label;size, cm\na/1.png;cat;1,5\nb/2.png;dog;2,5\n", "t.csv"),
        ("path\tlabel\tsize, cm\na/1.png\tcat\t1,5\nb/2.png\tdog\t2,5\n", "t.csv"),
        ("path,label,size; cm\na/1.png,cat,1;5\nb/2.png,dog,2\n", "t.csv"),
    ],
)
def test_columns_are_guessed_when_obvious(table, text, name, tmp_path):
    listing = listed(table(text, name))
    assert listing.paths == ["a/1.png", "b/2.png"]
    assert listing.labels == ["cat", "dog"]
    assert listing.sources == [str(tmp_path / path) for path in listing.paths]
    assert listing.true_labels == []


def test_columns_by_name_the_truth_and_a_folder_of_images(table, tmp_path):
    (tmp_path / "im").mkdir()
    file = table("where,path,said,true_label\n1.png,x,3,1\n../im/2.png,x,1,1\n")
    listing = listed(file, path_column="where", label_column="said", image_dir=str(tmp_path / "im"))
    assert listing.labels == ["3", "1"]
    assert listing.true_labels == ["1", "1"]
    assert os.path.normpath(listing.sources[1]) == str(tmp_path / "im" / "2.png")


@pytest.mark.parametrize(
    ("text", "reading", "says"),
    [
        ("", {}, "is empty"),
        ("path,label\n", {}, "names no images"),
        ("path,label\na.png,\n", {}, "Line 2 of .* has no label"),
        ("path,label\na.png,x\n,x\n", {}, "Line 3 of .* has no path"),
        ("path,label\na.png,x\nb.png, \n", {}, "Line 3 of .* has no label"),
        ("path,label\na.png,x,y\n", {}, "Line 2 .* 3 cells but there are 2 columns: mend"),
        ("path,path\na.png,x\n", {}, "Two columns .* named 'path'"),
        ("path,file,label\na.png,b.png,x\n", {}, "'path' or 'file'.*--path-column"),
        ("path,label,class\na.png,b.png,x\n", {}, "'label' or 'class'.*--label-column"),
        ("path,sort\na.png,x\n", {}, "holds the labels, of path, sort.*--label-column"),
        ("path,label\na.png,x\n", {"label_column": "lable"}, "did you mean 'label'"),
        ("path,label\na.png,x\n", {"path_column": "where"}, "no column of .* named 'where'"),
        ("path,label\na.png,x\n", {"path_column": "label"}, "path and label at once"),
        ("path,label\na.png,x\n", {"image_dir": "nowhere"}, "no folder nowhere"),
        ("path,label\n../a.png,x\n", {}, "not below .*--image-dir"),
        ("path,label\n/etc/passwd,x\n", {}, "names /etc/passwd, which is not below"),
        ("path,label\nok/../../a.png,x\n", {}, "not below"),
        ("path,label\nlink/a.png,x\n", {}, "not below"),
        ("path,label\nlinked.png,x\n", {}, "not below"),
        ("path,label\na\0.png,x\n", {}, "not below|damaged"),
        ('path,label\n"a.png,x\n', {}, "is damaged"),
        ("where,label\nphoto one.JPG,x\n", {}, "--path-column; it is no table of features"),
        ("a,city,label\n1,Bonn,x\n", {}, "'Bonn' in the column 'city', which is no number: encode"),
        ("a;b;label\n1;-1.003,41;x\n", {}, r"'-1.003,41' in .* decimal points, as in -1003\.41"),
        ("a,b,label\n,1,x\n2,,y\n,,y\n3,4,x\n", {}, "3 rows lack a number, first Line 2 .* 'a': fill in"),
        ("label\nx\n", {}, "no column with paths and none with features"),
        ("a,label\n1,x\n2,x\nnan,y\n", {}, r"1 row lacks a number, Line 4 .* 'a' \('nan'\): fill in"),
        ("a,b,label\n1,2,x\n1e99,3,x\n", {}, "Line 3 .* '1e99'"),
        ("a,b,label\n1,2,x\n3,,x\n", {}, "Line 3 .* in the column 'b': fill in"),
        ("a,label,target\n1,x,x\n", {}, "'label' or 'target'.*--label-column"),
        ("label,target\n1,2\n", {"label_column": "label"}, "none with features"),
    ],
)
def test_tables_that_cannot_be_used(table, tmp_path, text, reading, says):
    (tmp_path / "ok").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "linked.png").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match=says):
        listed(table(text), **reading)


def test_text_that_is_none(tmp_path):
    (tmp_path / "latin.csv").write_bytes("path,label\nä.png,x\n".encode("latin-1"))
    with pytest.raises(InputError, match="UTF-8"):
        listed(tmp_path / "latin.csv")
    with pytest.raises(InputError, match="no file"):
        listed(tmp_path / "none.csv")


def test_features_without_a_path(table, tmp_path):
    file = table(
        "id,height,weight,label,true_label\n" + "".join(f"{n},{n}.5,{-n},{n % 2},1\n" for n in range(8))
    )
    data = load(str(file))
    assert data.inputs.dtype == np.float32
    assert (data.inputs == [[n + 0.5, -n] for n in range(8)]).all()  # the number of the row is no feature
    assert data.labels.tolist() == [0, 1] * 4
    assert data.true_labels.tolist() == [1] * 8
    assert (data.classes, data.paths) == (("0", "1"), ())
    assert data.columns == ("height", "weight")
    inputs, labels, columns = load_inputs(str(table("height,weight\n1,2\n3,4\n", "new.csv")), "train")
    assert columns == ("height", "weight")
    assert inputs.tolist() == [[1, 2], [3, 4]]
    assert labels is None
    test = table("height,label\n1,0\n2,1\n", "test.csv")
    with pytest.raises(InputError, match=r"The feature column 'weight' is in one of .* only"):
        load(str(file), reading=Reading(test=str(test)))
    turned = table("label,weight,height\n0,-1,1.5\n1,-2,2.5\n", "turned.csv")
    data = load(str(file), reading=Reading(test=str(turned)))
    assert data.test_inputs.tolist() == [[1.5, -1], [2.5, -2]]  # columns go by their names
    with pytest.raises(InputError, match="leave out --image-size"):
        load(str(file), reading=Reading(image_size=20))
    alone = table("a,label\n1,x\n2,y\n3,y\n", "alone.csv")
    with pytest.raises(InputError, match=r"'x' .* one example only, example 0"):
        load(str(alone))


def test_a_class_may_be_called_nan(table):
    assert listed(table("path,label\na.png,nan\nb.png,NaN\n")).labels == ["nan", "NaN"]


def test_true_and_false_are_features(table):
    assert listed(table("a,b,label\nTrue,1.5,x\nfalse,2,y\n")).rows.tolist() == [[1, 1.5], [0, 2]]


def test_a_second_column_of_labels_is_no_feature(table):
    file = table("a,label,target\n" + "".join(f"{n}.5,{n % 2},{n % 2}\n" for n in range(4)))
    data = load(str(file), reading=Reading(label_column="target"))
    assert data.columns == ("a",)
    assert data.notes == (
        "The column 'label' has the name of a label and is no feature: give it another one if it is.",
    )
    exported = table("index,label,corrected_label,label_quality,changed,a\n0,x,y,0.1,true,5\n")
    assert listed(exported, label_column="corrected_label").columns == ("a",)
    assert listed(exported).labels == ["x"]
    assert listed(exported).notes[0].startswith("The column 'a' has another whole number in every row")


@pytest.mark.parametrize(("first", "noted"), [(1000, True), (10**9, True), (0.5, False), (1e30, False)])
def test_a_column_that_counts_the_rows_is_pointed_out(table, first, noted):
    rows = "".join(f"{first + n},{n % 3},{n % 2}\n" for n in range(6))
    data = load(str(table(f"customer,three,label\n{rows}")))
    assert data.columns == ("customer", "three")
    assert [note.split(" has ")[0] for note in data.notes] == ["The column 'customer'"] * noted


def test_images_of_a_table_and_those_that_are_missing(table, tmp_path):
    band_folder(tmp_path / "im", 12)
    save(tmp_path / "im" / "=cmd().png", np.zeros((12, 12), np.uint8))
    rows = [
        f"im/{path.parent.name}/{path.name},{path.parent.name}" for path in (tmp_path / "im").rglob("0*.png")
    ]
    file = table("\n".join(["file,label", *sorted(rows), "im/=cmd().png,ant", "im/gone.png,bee", ""]))
    data = load(str(file))
    assert data.inputs.shape == (13, 1, 28, 28)
    assert data.paths[-1] == "im/=cmd().png"
    assert data.left_out == (("im/gone.png", "No such file or directory"),)
    names = [line.split(",")[0] for line in file.read_text().splitlines()[1:]]
    assert [names[place] for place in data.index] == list(data.paths)  # in the table, whatever is left out
    with pytest.raises(InputError, match=r"such as x/1\.png \(No such file or directory\): .* --image-dir"):
        load(str(table("file,label\nx/1.png,ant\nx/2.png,bee\n", "gone.csv")))
    test = table("file,label\nim/ant/000.png,ant\nim/bee/001.png,wasp\n", "test.csv")
    with pytest.raises(InputError, match=r"'wasp' of im/bee/001\.png"):
        load(str(file), reading=Reading(test=str(test)))
    rows_only = table("a,label\n1,ant\n2,bee\n", "rows.csv")
    with pytest.raises(InputError, match="give images for both, or rows"):
        load(str(file), reading=Reading(test=str(rows_only)))


def test_parquet_without_pyarrow_says_what_to_install(table, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError) as caught:
        listed(table("PAR1", "t.parquet"))
    assert str(caught.value) == NEEDED
    assert "pip install 'labelsift[parquet]'" in NEEDED


def test_parquet(tmp_path):
    pyarrow = importlib.import_module("pyarrow")
    from pyarrow import parquet

    file = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"path": ["a.png", "b.png"], "label": [1.0, 2.0]}), file)
    assert (listed(file).paths, listed(file).labels) == (["a.png", "b.png"], ["1", "2"])
    named = pyarrow.array(["cat", "dog"]).dictionary_encode()
    parquet.write_table(pyarrow.table({"x": [1, 2], "y": named}), file)
    assert listed(file).rows.tolist() == [[1], [2]]
    assert listed(file).labels == ["cat", "dog"]
    parquet.write_table(pyarrow.table({"path": [b"a.png", b"b.png"], "label": [1, 2]}), file)
    assert listed(file).paths == ["a.png", "b.png"]
    for path, label in (([{"bytes": b"x"}], ["x"]), (["a.png"], [["x", "y"]])):
        parquet.write_table(pyarrow.table({"path": path, "label": label}), file)
        with pytest.raises(InputError, match=r"Row 1 of .* has several values as its (path|label)"):
            listed(file)
    for label in (["x", None], [1.0, float("nan")]):
        parquet.write_table(pyarrow.table({"path": ["a.png", "b.png"], "label": label}), file)
        with pytest.raises(InputError, match=r"Row 2 of .* has no label"):
            listed(file)
    parquet.write_table(pyarrow.table({"a": [True, False, None], "label": ["nan", "x", "x"]}), file)
    with pytest.raises(InputError, match=r"1 row lacks a number, Row 3 of .* in the column 'a': fill in"):
        listed(file)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(InputError, match="damaged or no Parquet"):
        listed(file)
