"""The benchmarks run, small; what they measure is for a quiet machine."""

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from labelsift.training import Machine

FOLDER = Path(__file__).parents[1] / "benchmarks"


def module(name, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # they import one another
    return importlib.import_module(name)


@pytest.fixture
def speed(monkeypatch):
    return module("speed", monkeypatch)


@pytest.fixture
def measure(speed, monkeypatch):
    """The whole benchmark, but nothing is measured: gives its rows, of a second an epoch."""
    seen = []

    def second(case, device, peak, last_stage):
        seen.append(case.name)
        row = dict.fromkeys(("selection_seconds", "evaluation_seconds", "images_per_second"), 1.0)
        row |= dict.fromkeys(("share_of_peak", "peak_memory_gib", "warm_up_seconds"), 0.5)
        return {"name": case.name, "epoch_seconds": 1.0, "stage": "train", **row}

    monkeypatch.setattr(speed, "measure", second)
    monkeypatch.setattr(speed, "matrix_peak", lambda machine: 1e12)

    def main(*words):
        monkeypatch.setattr(sys, "argv", ["speed.py", "--device", "cpu", *map(str, words)])
        seen.clear()
        speed.main()
        return list(seen)

    return main


def test_a_case_is_measured(speed):
    case = speed.Case("pes", "lenet", 288, compile=False, capture=False, precision="fp32")
    row = speed.measure(case, "cpu", peak=1e12)
    assert row["stage"] == "confident"
    assert list(row["stages"]) == ["part 1", "part 2", "part 3", "confident"]
    assert row["images_per_second"] == pytest.approx(288 / row["epoch_seconds"])
    passes = row["share_of_peak"] * 1e12 * row["epoch_seconds"] / 288
    # LeNet takes about 2 x 0.65 million operations for an image, which is seen twice to select it; most
    # are trained on, and two test images come on nine.
    assert 2 * 1.3e6 < passes < 8 * 1.3e6


def test_a_loss_of_a_tenth_is_found(speed):
    old = {"cases": [{"name": "a", "epoch_seconds": 1.0}, {"name": "b", "epoch_seconds": 1.0}]}
    new = {"cases": [{"name": "a", "epoch_seconds": 1.2}, {"name": "b", "epoch_seconds": 1.05}]}
    assert len(speed.compare(old, new)) == 1
    assert "a: 1.200 s" in speed.compare(old, new)[0]
    assert not speed.compare(new, old)


def test_nothing_to_compare_with_is_no_success(speed):
    old = {"device": "a GPU", "cases": [{"name": "a", "epoch_seconds": 1.0}]}
    new = {"device": "a GPU", "cases": [{"name": "b", "epoch_seconds": 1.0}]}
    assert "none of these cases" in speed.compare(old, new)[0]
    assert "none of these cases" in speed.compare({**old, "cases": []}, new)[0]
    assert "of a GPU" in speed.compare(old, {**old, "device": "another"})[0]


def test_a_file_is_gone_on_with_if_it_is_of_this_machine(measure, tmp_path):
    file = tmp_path / "speed.json"
    assert len(measure("--methods", "ce", "--out", file)) == 1
    assert len(measure("--methods", "ce,elr", "--out", file)) == 1  # the other one
    record = json.loads(file.read_text())
    assert [row["name"].split()[0] for row in record["cases"]] == ["ce", "elr"]
    assert list(tmp_path.iterdir()) == [file]
    file.write_text(json.dumps({**record, "device": "a GPU"}))
    with pytest.raises(SystemExit, match=r"measured with a GPU, here is .*: choose another --out"):
        measure("--methods", "ce,elr", "--out", file)
    assert json.loads(file.read_text())["device"] == "a GPU"


def test_a_comparison_fails_by_its_exit_and_before_anything_is_measured(measure, tmp_path):
    file = tmp_path / "old.json"
    measure("--methods", "ce", "--out", file)
    assert measure("--methods", "ce", "--compare", file)
    record = json.loads(file.read_text())
    record["cases"][0]["epoch_seconds"] = 0.9
    file.write_text(json.dumps(record))
    with pytest.raises(SystemExit, match=r"ce .*1\.000 s an epoch, 0\.900 s before"):
        measure("--methods", "ce", "--compare", file)
    with pytest.raises(FileNotFoundError):
        measure("--methods", "ce", "--compare", tmp_path / "none.json", "--out", tmp_path / "new.json")
    assert not (tmp_path / "new.json").exists()


def test_what_is_measured_follows_the_device(speed, measure):
    assert [name.split()[7:] for name in measure("--techniques")] == [["fp32"], ["bf16"], ["compile", "bf16"]]
    options = argparse.Namespace(techniques=True, net=None, images=90, precision="auto", growth=False)
    there = [case.name.split()[7:] for case in speed.cases(options, Machine(torch.device("cuda")))]
    assert there[3:] == [["capture", "bf16"], ["compile", "capture", "bf16"]]
    assert [name.split()[2:7:3] for name in measure("--growth", "--net", "lenet")] == [
        ["10,000", "10"], ["20,000", "10"], ["45,000", "10"], ["45,000", "100"], ["45,000", "1000"],
    ]  # fmt: skip


def test_every_method_gets_stages_of_a_few_epochs(speed):
    for name in speed.METHODS:
        case = speed.Case(
            name, speed.NETS.get(name, "resnet18" if name in speed.TABLE_2 else "preact-resnet18")
        )
        assert speed.METHODS[name](**speed.settings(case)).total_epochs <= 10, name


def test_warm_epochs_are_as_quick_as_the_last_of_their_stage(speed):
    history = [{"stage": "a", "seconds": s} for s in (9, 2, 1)] + [
        {"stage": "b", "seconds": s} for s in (7, 3)
    ]
    assert speed.warm(history) == 3 * 1 + 2 * 3


def test_kernels_of_the_compiler_are_its_own_whatever_they_are_fused_with(monkeypatch):
    kernels = module("kernels", monkeypatch)
    kinds = {
        "triton_poi_fused_add_convolution_backward_native_batch_norm_backward_0": "compiled",
        "sm90_xmma_fprop_implicit_gemm_bf16": "convolution",
        "nvjet_tst_128x64_64x8_1x2": "matrix product",
        "void at::native::(anonymous)::multi_tensor_apply_kernel<FusedSgdMathFunctor>": "optimiser",
        "Memcpy DtoD (Device -> Device)": "copies",
        "void at::native::index_kernel": "other",
    }
    assert {
        name: kernels.kind_of(name).split(":")[0].removesuffix(" small kernels") for name in kinds
    } == kinds


def test_runs_side_by_side_share_a_compilers_cache_that_begins_empty(monkeypatch, tmp_path):
    parallel = module("parallel", monkeypatch)
    started, ended = [], []

    class Process:
        code = 0

        def __init__(self, words, env):
            started.append((words, env))

        def wait(self):
            return self.code

        def kill(self):
            ended.append(self)

    monkeypatch.setattr(subprocess, "Popen", Process)
    history = [{"seconds": seconds} for seconds in (9.0, 1.0, 2.0, 3.0, 3.0)]
    monkeypatch.setattr(parallel.labelsift, "Result", lambda folder: argparse.Namespace(history=history))
    options = argparse.Namespace(
        method="pes", net="lenet", device="cpu", settings="epochs=9,stage_epochs=4;2", cache=None
    )
    _, epoch = parallel.side_by_side(3, tmp_path / "images.npz", options)
    assert epoch == 2.5
    assert len(started) == len(ended) == 3
    words, env = started[2]
    assert env["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "compiled")
    assert int(env["OMP_NUM_THREADS"]) >= 1
    assert words[words.index("--seed") + 1] == "3"
    assert words[-8:-4] == ["--set", "epochs=9", "--set", "stage_epochs=4,2"]
    assert "--compile" not in words
    Process.code = 1
    with pytest.raises(SystemExit, match="A run failed"):
        parallel.side_by_side(2, tmp_path / "images.npz", options)
    assert len(ended) == 5


def test_runs_side_by_side_are_gone_on_with(monkeypatch, tmp_path):
    parallel = module("parallel", monkeypatch)
    asked: list[int] = []
    monkeypatch.setattr(parallel, "side_by_side", lambda jobs, *_: (asked.append(jobs) or 10.0 * jobs, 0.5))
    words = ["parallel.py", "--images", "90", "--device", "cpu", "--out", str(tmp_path / "out.json")]
    for jobs, more in (("1", ()), ("1,2", ("--cache", "compiled"))):
        monkeypatch.setattr(sys, "argv", [*words, "--jobs", jobs, *more])
        parallel.main()
    assert asked == [1, 1, 1, 2]  # each time one goes before all
    record = json.loads((tmp_path / "out.json").read_text())
    assert [row["jobs"] for row in record["rows"]] == [1, 2]
    assert "compiled" not in json.dumps(record)
    monkeypatch.setattr(sys, "argv", [*words, "--images", "80"])
    with pytest.raises(SystemExit, match="another images"):
        parallel.main()


def test_a_cpu_is_not_measured_as_a_gpu_that_is_shared(monkeypatch, tmp_path):
    parallel = module("parallel", monkeypatch)
    file = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["parallel.py", "--mps", "--device", "cpu", "--out", str(file)])
    with pytest.raises(SystemExit, match="leave it out"):
        parallel.main()
    assert not file.exists()


def test_an_epoch_is_timed_without_the_first_of_its_stage(speed, monkeypatch):
    seconds = {"part 1": (9.0, 1.0), "part 2": (7.0, 1.0), "confident": (8.0, 2.0, 3.0, 4.0)}
    history = [{"stage": stage, "seconds": s} for stage, times in seconds.items() for s in times]
    monkeypatch.setattr(speed, "run", lambda *_, last_stage: history)
    monkeypatch.setattr(speed, "prediction_seconds", lambda *_: (0.5, 0.25))
    monkeypatch.setattr(speed, "flops_per_image", lambda *_: 1e6)
    row = speed.measure(speed.Case("pes", "lenet", 90, precision="fp32"), "cpu", peak=1e9)
    assert row["epoch_seconds"] == 3.0
    assert row["images_per_second"] == 30
    assert row["share_of_peak"] == pytest.approx(0.03)
    assert row["warm_up_seconds"] == pytest.approx(-(2 * 1 + 2 * 1 + 4 * 4), abs=1)  # no time has passed
    assert (row["selection_seconds"], row["evaluation_seconds"]) == (0.5, 0.25)
    assert row["peak_memory_gib"] == 0


def test_a_selection_is_of_two_views_and_timed_warm(speed, monkeypatch):
    asked, clock = [], iter([0, 9, 10, 11, 20, 22, 30, 33] * 2)
    monkeypatch.setattr(speed.Learner, "pred_probs", lambda *words, views=0: asked.append(views))
    monkeypatch.setattr(speed.time, "perf_counter", lambda: next(clock))
    case = speed.Case("ce", "lenet", 90, compile=False, capture=False, precision="fp32")
    assert speed.prediction_seconds(case, speed.easy_data(case), "cpu") == (2, 2)
    assert asked == [2, 2, 2, 2, 0, 0, 0, 0]


def test_of_the_last_stage_alone_nets_are_compiled(speed, monkeypatch):
    case = speed.Case("pes", "lenet", 90, capture=False, precision="fp32")
    data, short = speed.easy_data(case), []

    def fit(data, **options):
        machine = speed.Machine.choose()
        examples, _ = speed.make_examples(data, "none", 0, machine)
        learner = speed.Learner(speed.blueprint("lenet", 10, data.shape), machine)
        for epochs in (2, speed.EPOCHS):
            learner.expect(epochs, examples)
            short.append(learner.short)
        return argparse.Namespace(record={"warnings": []}, history=[])

    monkeypatch.setattr(speed.labelsift, "fit", fit)
    for last_stage in (True, False):
        speed.run(case, data, None, "cpu", last_stage=last_stage)
    assert short == [True, False, False, False]


def test_clean_labels_are_trained_on_plainly_and_by_default(monkeypatch, tmp_path, capsys):
    clean, out = module("clean", monkeypatch), tmp_path / "clean.json"
    words = ["clean.py", "--data", "iris", "--seeds", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    for told in ("iris ", ""):  # the second time there is nothing left to do
        clean.main()
        assert capsys.readouterr().out[:5] == told
        (row,) = json.loads(out.read_text())["rows"]
        assert (row["data"], row["net"], row["examples"]) == ("iris", "mlp", 105)
        assert all(len(row[method]) == 1 and row[method][0] > 0.8 for method in ("ce", "pes"))


def test_clean_labels_of_another_device_are_measured_anew(monkeypatch, tmp_path):
    clean, out = module("clean", monkeypatch), tmp_path / "clean.json"
    row = {"data": "iris", "limit": 0, "device": "a fast one", "ce": [0.5], "pes": [0.5]}
    out.write_text(json.dumps({"rows": [row]}))
    monkeypatch.setattr(sys, "argv", ["clean.py", "--data", "iris", "--seeds", "1", "--out", str(out)])
    clean.main()
    other, mine = json.loads(out.read_text())["rows"]
    assert other == row
    assert mine["device"] != "a fast one"


def test_images_of_a_known_set_are_trained_on_as_if_they_were_ones_own(monkeypatch):
    clean, fitted = module("clean", monkeypatch), []

    def fit(data, **chosen):
        fitted.append((data.name, len(data.labels), chosen["noise"]))
        record = {"examples": 0, "device": ""}
        return argparse.Namespace(
            record=record, config=argparse.Namespace(net=""), test_accuracy={"last": 0.5}
        )

    monkeypatch.setattr(clean.labelsift, "fit", fit)
    options = argparse.Namespace(device="cpu", data_dir="")
    for noise in (clean.CLEAN, "pair:0.2"):
        assert clean.fit("fashion-demo", 100, noise, "pes", 1, options)["last"] == 0.5
    assert fitted == [("own", 100, ""), ("own", 100, "pair:0.2")]


def test_few_examples_are_trained_on_with_and_without_noise(monkeypatch, tmp_path):
    clean, out = module("clean", monkeypatch), tmp_path / "few.json"
    ran = {"last": 0.5, "about": {"examples": 1, "net": "lenet", "device": Machine.choose("cpu").description}}
    monkeypatch.setattr(clean, "fit", lambda name, limit, noise, method, *_: {**ran, "method": method})
    words = ["--data", "fashion-demo", "--limit", "20,30", "--noise", "none,pair:0.2", "--seeds", "2"]
    monkeypatch.setattr(sys, "argv", ["clean.py", *words, "--device", "cpu", "--out", str(out)])
    for _ in range(2):  # the second time there is nothing left to do
        clean.main()
        rows = json.loads(out.read_text())["rows"]
        assert [(row["limit"], row["noise"]) for row in rows] == [
            (20, "none"),
            (20, "pair:0.2"),
            (30, "none"),
            (30, "pair:0.2"),
        ]
        assert [len(row["pes"]) for row in rows] == [2] * 4

    words += ["--methods", "pes,pes-semi", "--device", "cpu", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["clean.py", *words])
    monkeypatch.setattr(
        clean, "fit", lambda name, limit, noise, method, *_: {**ran, "method": method, "last": 0.25}
    )
    clean.main()
    joined = json.loads(out.read_text())["rows"]
    assert [row.pop("pes-semi") for row in joined] == [[0.25, 0.25]] * 4
    assert joined == rows  # what was there is not measured again
