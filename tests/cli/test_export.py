import csv
import importlib
import json

import numpy as np
import pytest

from labelsift import InputError, Result
from labelsift.results.export import as_fiftyone, as_label_studio
from pictures import band_folder
from toys import toy_arrays

RUN = ("--noise", "symmetric:0.4", "--epochs", 6, "--set", "stage_epochs=3,2,1", "--set", "batch_size=32")


@pytest.fixture
def run(cli, toy_file, tmp_path):
    assert cli("fit", toy_file, "--out", "run", "--nets", 2, *RUN)[0] == 0
    return tmp_path / "run"


def export(cli, to, *words):
    code, out, err = cli("export", "run", "--to", to, *words)
    assert (code, err) == (0, "")
    first, *others = out.splitlines()
    assert [line.split()[0] for line in others] == ["corrected"] * (to in ("csv", "fiftyone"))
    return first.split(maxsplit=1)[1].strip()


def test_corrected_labels_only_where_it_is_sure_and_beside_the_given_ones(cli, run, tmp_path):
    result = Result(run)
    with open(tmp_path / export(cli, "csv", "--confidence", 0.6), newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [int(row["label"]) for row in rows] == result.labels.tolist()
    for row, quality, suggested in zip(rows, result.label_quality, result.suggested_labels, strict=True):
        assert int(row["corrected_label"]) == (suggested if 1 - quality >= 0.6 else int(row["label"]))
        assert (row["changed"] == "true") == (row["label"] != row["corrected_label"])
    assert 0 < sum(row["changed"] == "true" for row in rows) < len(rows)


def test_probabilities_as_cleanlab_wants_them(cli, run, tmp_path):
    cleanlab = importlib.import_module("cleanlab")
    arrays = np.load(tmp_path / export(cli, "cleanlab"))
    assert arrays["pred_probs"].shape == (150, 3)
    np.testing.assert_allclose(arrays["pred_probs"].sum(1), 1, rtol=1e-5)
    result = Result(run)
    flagged = cleanlab.filter.find_label_issues(arrays["labels"], arrays["pred_probs"], n_jobs=1)
    wrong = np.array([row["label"] != row["true_label"] for row in result.examples])
    assert wrong[flagged].mean() > wrong.mean()


def test_fiftyone_and_label_studio_know_given_and_suggested_labels(cli, run, tmp_path):
    result = Result(run)
    found = json.loads((tmp_path / export(cli, "fiftyone")).read_text())
    assert found["classes"] == result.classes
    sure = 1 - result.label_quality >= 0.9
    wanted = np.where(sure, result.suggested_labels, result.labels)
    assert [found["labels"][str(n)]["label"] for n in range(150)] == wanted.tolist()
    assert found["labels"]["7"]["attributes"]["given_label"] == result.classes[result.labels[7]]
    tasks = json.loads((tmp_path / export(cli, "label-studio", "--prefix", "/data/?d=")).read_text())
    assert len(tasks) == 150
    task = tasks[7]
    assert task["data"]["image"] == "/data/?d=7"
    assert task["annotations"][0]["result"][0]["value"]["choices"] == [result.classes[result.labels[7]]]
    predicted = task["predictions"][0]["result"][0]
    assert predicted["value"]["choices"] == [result.classes[result.suggested_labels[7]]]
    assert (predicted["type"], predicted["from_name"], predicted["to_name"]) == ("choices", "label", "image")


def test_names_that_other_tools_would_mix_up():
    row = {"index": 0, "label": "x", "suggested_label": "x", "label_quality": 0.9}
    rows = [{**row, "path": "a b/#1&2.png"}, {**row, "path": "a b/#1&2.jpg"}]
    with pytest.raises(InputError, match=r"Two images are a b/#1&2 without their endings"):
        as_fiftyone(rows, ["x"], 0.9)
    assert as_label_studio(rows, "/d/?d=")[0]["data"]["image"] == "/d/?d=a%20b/%231%262.png"
    assert as_label_studio(rows, "")[0]["data"]["image"] == "a b/#1&2.png"


def test_corrected_labels_can_be_trained_on(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "cache"))
    band_folder(tmp_path / "photos", 40, names=("-ant", "=bee()", "'cat"))
    quick = ("--method", "ce", "--net", "lenet", "--epochs", 1, "--set", "batch_size=16", "--quiet")
    assert cli("fit", "photos", *quick, "--out", "first")[0] == 0
    assert cli("export", "first", "--to", "csv", "--out", "c.csv")[0] == 0
    assert "'=bee()" in (tmp_path / "c.csv").read_text()
    words = ("--image-dir", "photos", "--label-column", "corrected_label")
    assert cli("fit", "c.csv", *words, *quick, "--out", "second")[0] == 0
    first, second = Result(tmp_path / "first"), Result(tmp_path / "second")
    assert second.classes == first.classes
    assert [row["path"] for row in second.examples] == [row["path"] for row in first.examples]


QUICK = ("--method", "ce", "--epochs", 1, "--set", "batch_size=16", "--quiet")


def rows_of(file):
    with open(file, newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_it_is_said_how_many_labels_are_corrected(cli, run):
    doubtful = len(Result(run).suspicious(None))
    assert doubtful > 1
    out = cli("export", "run", "--to", "csv", "--confidence", 1, "--out", "none.csv")[1]
    assert f"0 of {doubtful} doubtful labels (--confidence 1); --confidence 0.5 corrects all\n" in out
    out = cli("export", "run", "--to", "csv", "--confidence", 0.5, "--out", "all.csv")[1]
    assert out.endswith(f"{doubtful} of {doubtful} doubtful labels (--confidence 0.5)\n")


def feature_table(file, count=60):
    rng = np.random.default_rng(0)
    lines = [
        f"k{n},{rng.normal() + 3 * (n % 2):.17g},{-1e-5 * n:.3g},{n % 3 == 0},{('red fox', '=jay')[n % 2]}"
        for n in range(count)
    ]
    file.write_text("\n".join(["id,a,b,c,kind", *lines, ""]))


def test_corrected_labels_of_a_feature_table_stand_beside_its_columns(cli, tmp_path):
    feature_table(tmp_path / "rows.csv")
    noise = ("--noise", "symmetric:0.3", "--label-column", "kind")
    assert cli("fit", "rows.csv", *noise, *QUICK, "--out", "first", "--limit", 40)[0] == 0
    assert cli("export", "first", "--to", "csv", "--confidence", 0.5, "--out", "c.csv")[0] == 0
    first, source, exported = Result(tmp_path / "first"), rows_of("rows.csv"), rows_of("c.csv")
    assert list(exported[0]) == [
        "index", "label", "corrected_label", "label_quality", "changed", "id", "a", "b", "c",
    ]  # fmt: skip
    places = [int(row["index"]) for row in exported]
    assert len(places) == 40
    assert places != list(range(40))
    assert [row["id"] for row in exported] == [f"k{place}" for place in places]
    assert [row["a"] for row in exported] == [source[place]["a"] for place in places]
    assert cli("fit", "c.csv", "--label-column", "corrected_label", *QUICK, "--out", "second")[0] == 0
    second = Result(tmp_path / "second")
    assert second.columns == first.columns == ("a", "b", "c")
    assert (second.classes, second.labels.tolist()) == (first.classes, first.suggested_labels.tolist())


def test_columns_of_a_feature_table_that_an_export_has_too(cli, refuses, tmp_path):
    names = "index,a,b,label"
    rows = [f"{1000 - n},{n % 7},{n % 3},{'xyz'[n % 3]}" for n in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join([names, *rows]))
    assert cli("fit", "rows.csv", "--epochs", 2, "--out", "run")[0] == 0
    export(cli, "csv", "--out", "c.csv")
    found = rows_of("c.csv")
    assert [row["index"] for row in found] == [str(1000 - n) for n in range(60)]  # the table's own
    (tmp_path / "other.csv").write_text("\n".join([names.replace("a", "changed", 1), *rows]))
    assert cli("fit", "other.csv", "--epochs", 2, "--out", "other")[0] == 0
    sentence = refuses("export", "other", "--to", "csv")
    assert "has a column 'changed' as the export has: rename it" in sentence


def test_a_table_that_has_changed_gives_no_features(cli, tmp_path):
    feature_table(tmp_path / "rows.csv")
    assert cli("fit", "rows.csv", "--label-column", "kind", *QUICK, "--out", "run")[0] == 0
    feature_table(tmp_path / "rows.csv", 61)
    code, _, err = cli("export", "run", "--to", "csv", "--out", "c.csv")
    assert (code, err) == (
        0,
        "labelsift: The export holds no features: The data rows.csv has changed since the run: fit again to "
        "have them.\n",
    )
    assert len(rows_of("c.csv")) == 60


def test_corrected_labels_of_an_archive_are_taken_from_the_file(cli, tmp_path):
    x, y = toy_arrays(60)
    np.savez(tmp_path / "toy.npz", x=x, y=np.array(["b", "=c", "a"])[y])
    noise = ("--noise", "symmetric:0.3")
    assert cli("fit", "toy.npz", *noise, *QUICK, "--limit", 40, "--out", "first")[0] == 0
    assert cli("export", "first", "--to", "csv", "--confidence", 0.5, "--out", "c.csv")[0] == 0
    words = ("--noise", "labels=c.csv", "--limit", 40)
    assert cli("fit", "toy.npz", *words, *QUICK, "--out", "second")[2] == ""
    first, second = Result(tmp_path / "first"), Result(tmp_path / "second")
    assert second.labels.tolist() == first.suggested_labels.tolist()
    assert [row["index"] for row in second.examples] == [row["index"] for row in rows_of("c.csv")]


def test_a_net_that_onnx_cannot_hold(cli, refuses, toy_file, tmp_path):
    (tmp_path / "moody.py").write_text(
        "from torch import nn\n\n"
        "class Moody(nn.Linear):\n"
        "    def forward(self, x):\n"
        "        x = super().forward(x.flatten(1))\n"
        "        return x * 2 if x.sum().item() > 0 else x\n\n"
        "def net(classes, channels):\n"
        "    return Moody(144, classes)\n"
    )
    quick = ("--method", "ce", "--epochs", 1, "--set", "batch_size=32", "--quiet")
    assert cli("fit", toy_file, "--net", "moody:net", *quick, "--out", "moody")[0] == 0
    assert "moody:net cannot be written as ONNX" in refuses("export", "moody", "--to", "onnx")


def test_onnx_gives_our_probabilities(cli, run, tmp_path):
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession((tmp_path / export(cli, "onnx")).read_bytes())
    x = toy_arrays(17, seed=3)[0]
    (probs,) = session.run(["probabilities"], {"input": x[:, None]})
    np.testing.assert_allclose(probs, Result(run).predict_proba(x), atol=1e-5)


def test_export_refuses(refuses, run):
    assert "did you mean 'csv'" in refuses("export", "run", "--to", "cvs")
    assert "outside 0.5..1" in refuses("export", "run", "--to", "csv", "--confidence", 0.2)
    (run / "csv.csv").write_text("mine")
    assert "exists already" in refuses("export", "run", "--to", "csv")
    assert (run / "csv.csv").read_text() == "mine"
