import pickle
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from labelsift import CE, InputError, NoisyLabelClassifier
from toys import TinyNet, toy_arrays

STAGES = {"stage_epochs": (5, 3, 2)}
CE_ONCE = {"method": "ce", "epochs": 1, "random_state": 0}


@parametrize_with_checks([NoisyLabelClassifier(epochs=10, settings=STAGES)])
def test_what_scikit_learn_asks_of_a_classifier(estimator, check):
    check(estimator)


def noisy_rows(count, rate=0.3):
    """Three well-separated clouds of points, their names, and the names with some exchanged."""
    x, numbers = make_blobs(count, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    names = np.array(["ant", "bee", "cat"])
    rng = np.random.default_rng(1)
    given = np.where(rng.random(count) < rate, (numbers + rng.integers(1, 3, count)) % 3, numbers)
    return x, names[numbers], names[given]


def test_wrong_labels_are_found_and_named_in_the_users_words():
    x, truth, given = noisy_rows(1000)
    model = NoisyLabelClassifier(epochs=10, settings=STAGES, random_state=0).fit(x, given)
    wrong = given != truth
    assert model.classes_.tolist() == ["ant", "bee", "cat"] == model.record_["classes"]
    assert model.score(x, truth) > 0.95
    assert (model.suggested_labels_ == truth).mean() > 0.95
    assert (model.confident_ == (model.predict(x) == given)).all()
    assert roc_auc_score(~wrong, model.label_quality_) > 0.95
    assert [row["stage"] for row in model.history_].count("part 1") == 5


@pytest.mark.parametrize("labels", [[-7, 40], [2.0, 5.0], [True, False], ["no", "yes"]])
def test_labels_of_any_kind_come_back_as_they_were(labels):
    x, _, _ = noisy_rows(30)
    y = np.array(labels)[(x[:, 0] > 3).astype(int)]
    model = NoisyLabelClassifier(method="ce", epochs=5, random_state=0).fit(x, y)
    for found in (model.predict(x), model.suggested_labels_, model.classes_):
        assert found.dtype == y.dtype
        assert set(found) == set(y)
    assert model.score(x, y) > 0.8


@pytest.mark.parametrize("count", [2, 3, 5, 9, 17])
def test_tiny_sets_get_small_batches(count):
    x, y = np.random.default_rng(0).normal(size=(count, 4)), np.arange(count) % 2
    # Of three examples other seeds hold out the only one of its class, which is refused.
    short = {"epochs": 3, "settings": {"stage_epochs": (1, 1, 1)}, "random_state": 0}
    model = NoisyLabelClassifier(validation=0.2, **short).fit(x, y)
    assert model.predict_proba(x).shape == (count, 2)
    assert len(model.label_quality_) == count
    with pytest.raises(InputError, match="fewer than a batch of 64"):
        NoisyLabelClassifier("ce", settings={"batch_size": 64}).fit(x, y)


def test_what_cannot_be_learned_from_is_refused():
    x, _, y = noisy_rows(30)
    model = NoisyLabelClassifier(**CE_ONCE)
    with pytest.raises(NotFittedError):
        model.predict(x)
    with pytest.raises(ValueError, match="same class"):
        model.fit(x, ["ant"] * 30)
    with pytest.raises(InputError, match="did you mean 'pes'"):
        clone(model).set_params(method="pess").fit(x, y)
    with pytest.raises(InputError, match="in the method itself"):
        NoisyLabelClassifier(CE(batch_size=8), epochs=3).fit(x, y)
    with pytest.raises(InputError, match="was trained on"):
        model.fit(x, y).predict(x[:, :, None])


def test_the_seed_decides_and_without_one_fits_differ():
    x, _, y = noisy_rows(40)

    def probs(seed):
        return NoisyLabelClassifier(**{**CE_ONCE, "random_state": seed}).fit(x, y).predict_proba(x)

    assert (probs(3) == probs(3)).all()
    assert (probs(3) == probs(np.random.RandomState(3))).all()
    assert (probs(3) != probs(4)).any()
    assert (probs(None) != probs(None)).any()


def test_a_row_does_not_depend_on_its_company():
    x, _, y = noisy_rows(100)
    model = NoisyLabelClassifier(**CE_ONCE).fit(x, y)
    alone = np.concatenate([model.predict_proba(row[None]) for row in x[:10]])
    np.testing.assert_allclose(alone, model.predict_proba(x)[:10], rtol=1e-7, atol=1e-9)


def test_nothing_is_left_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    x, _, y = noisy_rows(30)
    model = NoisyLabelClassifier(**CE_ONCE).fit(x, y)
    before = model.predict_proba(x)
    assert list(tmp_path.iterdir()) == []
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(x) == before).all()
    assert (again.suggested_labels_ == model.suggested_labels_).all()
    model.set_params(net="lenet", method="pes")  # the next fit's business
    assert (model.predict_proba(x) == before).all()
    with pytest.raises(InputError):
        clone(model).fit(x, y)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("net", ["auto", TinyNet])
def test_images_are_taken_too(net):
    x, y = toy_arrays(120)
    x.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NoisyLabelClassifier("ce", net, epochs=6, settings={"lr": 0.03}, random_state=0).fit(x, y)
        assert model.score(x, y) > 0.9
    assert (pickle.loads(pickle.dumps(model)).predict(x[:5]) == model.predict(x[:5])).all()
    colour = np.repeat(x[..., None], 3, axis=-1)
    assert NoisyLabelClassifier(**CE_ONCE, net=TinyNet).fit(colour, y).predict(colour[:4]).shape == (4,)
    with pytest.raises(ValueError, match="expecting 12 features"):
        model.predict(x[:, :6])


def test_dark_float_images_keep_the_range_of_the_bright_ones():
    x, y = toy_arrays(60)
    model = NoisyLabelClassifier(**CE_ONCE, net=TinyNet).fit(x.astype(float), y)
    dark = x[:4] // 200  # all 0: as floats they could be of either range, and stand for the same bytes
    dark[:, 0, 0] = 1
    np.testing.assert_array_equal(model.predict_proba(dark.astype(float)), model.predict_proba(dark))


def test_in_a_pipeline_and_a_grid_search():
    x, truth, given = noisy_rows(90, 0.1)
    steps = make_pipeline(StandardScaler(), NoisyLabelClassifier("ce", random_state=0))
    grid = {"noisylabelclassifier__epochs": [4, 8], "noisylabelclassifier__settings": [{"lr": 0.05}]}
    search = GridSearchCV(steps, grid, cv=2, error_score="raise", n_jobs=None).fit(x, given)
    assert search.best_params_["noisylabelclassifier__epochs"] in (4, 8)
    assert search.score(x, truth) > 0.9
    assert len(search.best_estimator_[-1].label_quality_) == 90


def test_inside_cleanlab():
    from cleanlab.classification import CleanLearning

    x, truth, given = noisy_rows(150, 0.2)
    labels = np.unique(given, return_inverse=True)[1]
    model = NoisyLabelClassifier(epochs=5, settings={"stage_epochs": (3, 2, 1)}, random_state=0)
    alone = {"n_jobs": 1}  # else it forks this process, whose threads may hold locks that nobody gives back
    cleaner = CleanLearning(model, cv_n_folds=2, seed=0, find_label_issues_kwargs=alone).fit(x, labels)
    issues = cleaner.get_label_issues()["is_label_issue"].to_numpy()
    assert (issues == (given != truth)).mean() > 0.9
    assert (cleaner.predict(x) == np.unique(truth, return_inverse=True)[1]).mean() > 0.95


def test_without_scikit_learn_the_install_line_is_said():
    code = "import sys; sys.modules['sklearn'] = None; import labelsift; labelsift.NoisyLabelClassifier"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'labelsift[sklearn]'" in run.stderr
