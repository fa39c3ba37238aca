"""Methods that choose an epoch by labels that were held out remember their choice when they are resumed."""

import pytest
import torch

import labelsift
from labelsift import METHODS
from toys import StopError, TinyNet, stop_after, toy_data

SETTINGS = {
    "forward": {"epochs": 3, "estimate_epochs": 3},
    "t-revision": {"epochs": 3, "estimate_epochs": 3, "revision_epochs": 1},
    "dmi": {"epochs": 3, "dmi_epochs": 2},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_resumed_at_any_epoch_equals_uninterrupted(name, tmp_path):
    method = METHODS[name](**SETTINGS[name], batch_size=16, lr=0.3)  # so high that the last is not the best
    options = {"method": method, "net": TinyNet, "validation": 0.25, "checkpoint_seconds": 0.0}
    read = lambda result: result._files.read_tensors("model.safetensors")[0]  # noqa: E731
    whole = read(labelsift.fit(toy_data(80), out=tmp_path / "whole", **options))
    for stop in range(1, method.total_epochs):
        with pytest.raises(StopError):
            labelsift.fit(toy_data(80), out=tmp_path / f"{stop}", observe=stop_after(stop), **options)
        resumed = read(labelsift.fit(toy_data(80), out=tmp_path / f"{stop}", resume=True, **options))
        assert all(torch.equal(resumed[key], whole[key]) for key in whole), f"stopped after epoch {stop}"
