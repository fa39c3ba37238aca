"""By hand, on a machine with a GPU: pytest -m gpu."""

import pytest
import torch

import labelsift
from labelsift import PES
from labelsift.losses import cross_entropy
from labelsift.nets import NETS, blueprint, standard_cuts
from labelsift.parts import split
from labelsift.training import Learner, Machine
from toys import TinyNet, toy_data, toy_examples

pytestmark = pytest.mark.gpu


def run_stages(compile: bool, autocast: bool):
    """PES's stages on the GPU: what every stage moved, and the losses of its steps."""
    machine = Machine(torch.device("cuda"), autocast=autocast, compile=compile)
    with machine.seeded(0):
        inputs = torch.randint(0, 256, (512, 3, 32, 32), dtype=torch.uint8, device="cuda")
        labels = torch.arange(512, device="cuda") % 10
        views = labelsift.data.Views.of(inputs, "crop+flip")
        examples = labelsift.Examples.of(inputs, labels, 10, views, seed=0)
        learner = Learner(blueprint("resnet18", 10, (3, 32, 32)), machine)
        parts = split(learner.net, standard_cuts(learner.net, 3))
        sgd = learner.sgd(0.01, 0.9, 1e-4)
        moved, losses = [], []
        for place, chosen in ((0, None), (1, parts[1:]), (2, parts[2:]), (0, parts[:1]), (0, parts)):
            if place:
                learner.restart(parts[place:])
            learner.begin(learner.adam(1e-4) if place else sgd, chosen)
            before = {name: p.detach().clone() for name, p in learner.net.named_parameters()}
            for batch in examples.batches(128):
                loss = cross_entropy(learner(batch.view()), batch.labels)
                learner.update(loss)
                losses.append(loss.item())
            now = dict(learner.net.named_parameters())
            moved.append({name.split(".")[0] for name in before if not torch.equal(now[name], before[name])})
    torch.compiler.reset()
    return moved, torch.tensor(losses)


@pytest.mark.parametrize(("autocast", "tolerance"), [(False, 0.01), (True, 0.05)])
def test_compiled_equals_eager_across_stage_boundaries(autocast, tolerance):
    eager_moved, eager = run_stages(compile=False, autocast=autocast)
    moved, losses = run_stages(compile=True, autocast=autocast)
    everything = {"conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc"}
    assert eager_moved == [everything, {"layer4", "fc"}, {"fc"}, everything - {"layer4", "fc"}, everything]
    assert moved == eager_moved
    torch.testing.assert_close(losses, eager, rtol=tolerance, atol=tolerance)


def test_resumed_on_the_gpu_follows_the_uninterrupted_run(tmp_path):
    method = PES(epochs=4, stage_epochs=(2, 1, 1), batch_size=32)
    options = {"method": method, "net": TinyNet, "augment": "crop+flip", "device": "cuda"}
    options["checkpoint_seconds"] = 0.0
    whole = labelsift.fit(toy_data(240), out=tmp_path / "whole", **options)

    def kill(event):
        if event.get("epoch") == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        labelsift.fit(toy_data(240), out=tmp_path / "stopped", observe=kill, **options)
    resumed = labelsift.fit(toy_data(240), out=tmp_path / "stopped", resume=True, **options)
    for a, b in zip(whole.history, resumed.history, strict=True):
        assert a["train_loss"] == pytest.approx(b["train_loss"], rel=0.05)


def test_images_stay_bytes_on_the_gpu():
    examples = toy_examples(toy_data(60))
    result = labelsift.fit(toy_data(60), method="ce", settings={"epochs": 1, "batch_size": 16}, device="cuda")
    assert examples.inputs.take(examples.index[:1]).dtype == torch.uint8
    assert torch.cuda.get_device_name() in result.record["device"]


def test_resnet50_is_torchvisions():
    torchvision = pytest.importorskip("torchvision")
    theirs = torchvision.models.resnet50(weights=None).eval()
    ours = NETS["resnet50"](1000, 3).eval()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)
