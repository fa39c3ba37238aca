"""Images of the cache that a GPU has no room for give the run that those in its memory give."""

import pytest

import labelsift
from labelsift import Result
from pictures import band_folder

pytestmark = pytest.mark.gpu


def test_batch_by_batch_is_the_same_as_all_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "cache"))
    photos, new = band_folder(tmp_path / "photos", 300), band_folder(tmp_path / "new", 90, seed=1)
    results = []
    for room in (True, False):
        monkeypatch.setattr("labelsift.data.examples.fits", lambda array, device, room=room: room)
        result = labelsift.fit(
            photos,
            test=new,
            net="lenet",
            method="ce",
            settings={"epochs": 8, "batch_size": 32},
            device="cuda",
            out=tmp_path / str(room),
        )
        results.append(result)
    roomy, tight = results
    assert tight.history[-1]["train_loss"] == pytest.approx(roomy.history[-1]["train_loss"], rel=0.05)
    assert tight.test_accuracy["last"] > 0.8
    files = sorted(map(str, new.rglob("*.png")))
    probs, wrong = Result(tight.folder).predict_files(files, device="cuda")
    assert wrong == {}
    right = [tight.classes[label] in file for label, file in zip(probs.argmax(1), files, strict=True)]
    assert sum(right) / len(right) == pytest.approx(tight.test_accuracy["last"], abs=0.03)
