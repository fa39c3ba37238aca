import csv
import importlib
import json

import numpy as np
import pytest

from labelsift import Result
from toys import toy_arrays

RUN = ("--noise", "symmetric:0.4", "--epochs", 6, "--set", "stage_epochs=3,2,1", "--set", "batch_size=32")


@pytest.fixture
def run(cli, toy_file, tmp_path):
    assert cli("fit", toy_file, "--out", "run", "--nets", 2, *RUN)[0] == 0
    return tmp_path / "run"


def export(cli, to, *words):
    code, out, err = cli("export", "run", "--to", to, *words)
    assert (code, err) == (0, "")
    return out.split(maxsplit=1)[1].strip()


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
    flagged = cleanlab.filter.find_label_issues(arrays["labels"], arrays["pred_probs"])
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
