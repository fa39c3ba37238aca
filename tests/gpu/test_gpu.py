"""By hand, on a machine with a GPU: pytest -m gpu."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import labelsift
from labelsift import METHODS, PES, PESSemi, make_dataset
from labelsift.data.views import Views
from labelsift.losses import mix, mixing_share
from labelsift.nets import NETS, blueprint, folding
from labelsift.preparation import make_examples
from labelsift.reproduce.runner import Job, run_jobs
from labelsift.reproduce.sharing import PIPES
from labelsift.training import Learner, Machine
from labelsift.training.capture import record
from methods.test_contract import SHORT
from toys import TinyNet, toy_data, toy_examples

pytestmark = pytest.mark.gpu
PRECISIONS = pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 0.01), ("bf16", 0.05)])


def images(count=640):
    """Ten classes of colour images that a net can tell apart, half of the labels wrong."""
    rng = np.random.default_rng(0)
    y = np.arange(count) % 10
    x = rng.integers(0, 160, (count, 32, 32, 3))
    for place, label in enumerate(y):
        x[place, 3 * label : 3 * label + 5] += 90
    noisy = np.where(rng.random(count) < 0.3, rng.integers(0, 10, count), y)
    return make_dataset("bands", x.astype(np.uint8), noisy, y, x[:100].astype(np.uint8), y[:100])


def fit(method, data, net, **options):
    return labelsift.fit(data, method=method, net=net, augment="crop+flip", device="cuda", **options)


def assert_fast_follows_eager(method, data, net, precision, tolerance):
    """Compiled and recorded, every epoch has the loss that it has without."""
    fast, eager = (fit(method, data, net, compile=on, precision=precision) for on in (True, False))
    assert fast.record["warnings"] == []
    losses = [[row["train_loss"] for row in result.history] for result in (fast, eager)]
    print(method, precision, losses)  # noqa: T201
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=tolerance, atol=tolerance)


@PRECISIONS
@pytest.mark.parametrize("rest", [True, False])
def test_the_fast_path_follows_the_eager_one_across_stages(precision, tolerance, rest):
    method = PES(epochs=3, stage_epochs=(2, 2, 1), batch_size=128, lr=0.01, stage_lr=1e-4, renewed_rest=rest)
    assert_fast_follows_eager(method, images(), "resnet18", precision, tolerance)


@PRECISIONS
def test_mixmatch_on_the_fast_path_follows_the_eager_one(precision, tolerance, monkeypatch):
    def choose(self, run, learner):  # always the same: one example more or less changes all that follows
        pool = self.epoch_of(run.examples)
        return pool, torch.arange(len(pool), device=pool.index.device) < 0.7 * len(pool)

    monkeypatch.setattr(PESSemi, "choose_confident", choose)
    method = PESSemi(epochs=6, stage_epochs=(2, 1), batch_size=128, lr=1e-3, stage_lr=1e-4, ramp_epochs=2)
    assert_fast_follows_eager(method, images(2560), "preact-resnet18", precision, tolerance)


def test_what_is_drawn_in_a_replay_is_new_and_as_it_should_be():
    """Crops, flips, partners and shares of a recorded step, over many replays of it."""
    device, times, rows = torch.device("cuda:0"), 2000, 16
    place = torch.arange(32, device=device, dtype=torch.uint8) + 1  # 0 is the padding's
    image = torch.stack([place[:, None].expand(32, 32), place.expand(32, 32)])
    inputs = image.expand(rows, 2, 32, 32)
    views = Views.of(inputs, "crop+flip", mean=(0.0, 0.0), std=(1 / 255, 1 / 255))
    generator = torch.Generator(device).manual_seed(1)
    alpha, one = torch.tensor(4.0, device=device), torch.eye(rows, device=device)

    def step():
        share = mixing_share(alpha)
        return views.random(inputs, generator)[:, :, 16, 16], mix(one, one, torch.zeros_like(share))[0], share

    step()
    replay, drawn = record(step, [generator], device)

    def replays():
        for _ in range(times):
            replay()
            yield [tensor.clone() for tensor in drawn]

    pixels, partners, shares = map(torch.stack, zip(*replays(), strict=True))
    down = pixels[:, :, 0].round() - 13  # 0 to 8: the padding is 4 on each side
    mirrored = pixels[:, :, 1].round()  # the column before or behind the middle, moved as far
    assert float(shares.var()) == pytest.approx(1 / 36, rel=0.15)  # of Beta(4, 4)
    assert float(shares.mean()) == pytest.approx(0.5, abs=0.02)
    for name, seen, kinds in (("down", down, 9), ("partner", partners.argmax(2).float(), rows)):
        for row in (0, 7, rows - 1):
            counts = torch.bincount(seen[:, row].long(), minlength=kinds) / times
            assert len(counts) == kinds, name
            assert (counts - 1 / kinds).abs().max() < 0.03, (name, row, counts)
    assert mirrored.unique().numel() == 10  # 13 to 21 as it is, 12 to 20 mirrored
    assert (down[:, 0] == down[:, 1]).float().mean() < 0.2  # each row for itself
    assert (down[1:, 0] == down[:-1, 0]).float().mean() < 0.2  # and each time
    alpha.fill_(0.75)
    assert float(torch.stack([share for _, _, share in replays()]).var()) == pytest.approx(1 / 10, rel=0.15)


def test_a_stage_moves_what_it_trains_and_nothing_else(monkeypatch):
    moved, before = [], {}
    learners = []
    make = labelsift.training.Run.learner
    monkeypatch.setattr(
        labelsift.training.Run, "learner", lambda run: learners.append(make(run)) or learners[-1]
    )

    def look(event):
        if "epoch" not in event:
            return
        now = {name: p.detach().clone() for name, p in learners[0].net.named_parameters()}
        changed = {name.split(".")[0] for name in now if before and not torch.equal(now[name], before[name])}
        moved.append((event["stage"], changed))
        before.update(now)

    method = PES(epochs=5, stage_epochs=(2, 2, 2), batch_size=128, lr=0.01, stage_lr=1e-4)
    fit(method, images(), "resnet18", observe=look)
    everything = {"conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc"}
    later = {"part 2": {"layer4", "fc"}, "part 3": {"fc"}, "confident": everything - {"layer4", "fc"}}
    assert moved[1] == ("part 1", everything)
    for stage, changed in moved[1:]:
        assert changed == later.get(stage, everything), stage


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_captured_and_follows_eager(name):
    method = METHODS[name](**{"batch_size": 16, "lr": 0.05, **SHORT[name]})
    fast, eager = (fit(method, toy_data(240), TinyNet, compile=on, precision="fp32") for on in (True, False))
    assert not [w for w in fast.record["warnings"] if "captured" in w or "compiled" in w]
    assert fast.history[0]["train_loss"] == pytest.approx(eager.history[0]["train_loss"], rel=0.02)


def test_resumed_on_the_gpu_follows_the_uninterrupted_run(tmp_path):
    method = PES(epochs=4, stage_epochs=(2, 1, 1), batch_size=32)
    options = {"checkpoint_seconds": 0.0}
    whole = fit(method, toy_data(240), TinyNet, out=tmp_path / "whole", **options)

    def kill(event):
        if event.get("epoch") == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(method, toy_data(240), TinyNet, out=tmp_path / "stopped", observe=kill, **options)
    resumed = fit(method, toy_data(240), TinyNet, out=tmp_path / "stopped", resume=True, **options)
    for a, b in zip(whole.history, resumed.history, strict=True):
        assert a["train_loss"] == pytest.approx(b["train_loss"], rel=0.05)


def test_a_net_whose_weights_have_channels_last_is_resumed(tmp_path):
    options = {"checkpoint_seconds": 0.0, "out": tmp_path / "run"}

    def kill(event):
        if event.get("epoch") == 2:
            raise KeyboardInterrupt

    method = labelsift.CE(epochs=4, batch_size=64, lr=0.01)
    with pytest.raises(KeyboardInterrupt):
        fit(method, images(), "resnet18", observe=kill, **options)
    resumed = fit(method, images(), "resnet18", resume=True, **options)
    assert resumed.record["warnings"] == []
    assert resumed.history[-1]["train_loss"] < resumed.history[0]["train_loss"]


def test_a_step_that_waits_for_the_device_falls_back_and_says_so():
    class Waits(labelsift.CE):
        def plain_step(self, run, learner, class_weights=None):
            def step(batch):
                loss = torch.nn.functional.cross_entropy(learner(batch.view()), batch.labels)
                assert loss.item() > 0  # no graph can do that
                learner.update(loss)

            return run.capture(step, self.batch_size)

    result = fit(Waits(epochs=2, batch_size=32), toy_data(240), TinyNet)
    assert ["could not be captured" in warning for warning in result.record["warnings"]] == [True]
    assert result.test_accuracy["best"] > 0.5


def test_what_was_recorded_before_a_recording_failed_goes_on():
    class WaitsAtLast(PES):
        def plain_step(self, run, learner, class_weights=None):
            def step(batch):
                loss = torch.nn.functional.cross_entropy(learner(batch.view()), batch.labels)
                assert class_weights is None or loss.item() > 0
                learner.update(loss)

            return run.capture(step, self.batch_size)

    method = WaitsAtLast(epochs=8, stage_epochs=(4, 2, 2), batch_size=32)
    result = fit(method, toy_data(240), TinyNet)  # whose test set is predicted by a graph from epoch 2 on
    assert ["could not be captured" in warning for warning in result.record["warnings"]] == [True]
    assert len(result.history) == 12


def test_images_stay_bytes_on_the_gpu():
    examples = toy_examples(toy_data(60))
    result = fit(labelsift.CE(epochs=1, batch_size=16), toy_data(60), TinyNet)
    assert examples.inputs.take(examples.index[:1]).dtype == torch.uint8
    assert torch.cuda.get_device_name() in result.record["device"]
    assert Machine.choose("cuda").capture
    assert not Machine.choose("cuda", False).capture


def test_resnet50_is_torchvisions():
    torchvision = pytest.importorskip("torchvision")
    theirs = torchvision.models.resnet50(weights=None).eval()
    ours = NETS["resnet50"](1000, 3).eval()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("net", ["resnet18", "preact-resnet18", "resnet50"])
@pytest.mark.parametrize("compiled", [True, False])
def test_folded_predictions_err_no_more_than_others_in_half_the_precision(net, compiled, monkeypatch):
    machine = Machine.choose("cuda", compile=compiled)
    examples, _ = make_examples(images(2600), "crop+flip", 0, machine)
    torch.manual_seed(0)
    learner = Learner(blueprint(net, 10, (3, 32, 32)), machine)
    learner.begin(learner.sgd(0.05, 0.9, 0.0))
    with torch.no_grad():  # norms that are not those of a new net
        for norm in (module for module in learner.net.modules() if isinstance(module, nn.BatchNorm2d)):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.uniform_(norm.bias, -0.5, 0.5)
        for batch in examples.batches(100):
            learner(batch.view())
    views = [batch.plain() for batch in examples.batches(100, shuffle=False)]
    with learner.evaluating(), torch.no_grad():  # classes that are about equally likely, but not everywhere
        logits = torch.cat([learner.net(view) for view in views])
        fc, scale = learner.net.fc, 2 / logits.std(0).mean()
        fc.bias.sub_(logits.mean(0)).mul_(scale)
        fc.weight.mul_(scale)
    folded = learner.pred_probs(examples)
    monkeypatch.setattr(folding, "_folds", lambda *_: False)
    with learner.evaluating():
        exact = torch.cat([learner.net(view).softmax(1) for view in views])
        other = torch.cat([learner(view).softmax(1) for view in views])
    errors = [float((probs - exact).abs().mean()) for probs in (folded, other)]
    print(net, compiled, errors)  # noqa: T201
    assert exact.std(0).mean() > 0.01
    assert 0 < errors[0] < 1.5 * errors[1]


def test_runs_side_by_side_share_the_gpu(tmp_path, monkeypatch):
    """Both are clients of one service at the same time, which is gone when they are done."""
    monkeypatch.delenv(PIPES, raising=False)
    code = "import os, pathlib, time, torch; torch.ones(9, device='cuda').sum().item(); "
    code += "here = pathlib.Path(r'{}'); (here / '{}').write_text(os.environ['" + PIPES + "'])\n"
    code += "for _ in range(300): time.sleep(0.1 if len(list(here.glob('?'))) < 2 else 0)"
    jobs = [
        Job(str(n), tmp_path / "runs" / str(n), (sys.executable, "-c", code.format(tmp_path, n)))
        for n in (1, 2)
    ]
    said = []
    assert run_jobs(jobs, 2, said.append, "cuda") == []
    assert len(said) == 2, said
    folders = {(tmp_path / name).read_text() for name in "12"}
    assert len(folders) == 1
    assert not Path(folders.pop()).exists()
