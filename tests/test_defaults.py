"""What is chosen where nothing is said, and that nothing is chosen where something is."""

import tomllib
from dataclasses import asdict

import numpy as np
import pytest

import labelsift
import labelsift.cli
from labelsift import CE, PES, InputError, make_dataset
from labelsift.data import load
from labelsift.defaults import choose, too_few
from labelsift.methods import METHODS, make_method
from pictures import band_folder, save
from toys import toy_arrays

ONCE = {"method": "ce", "settings": {"epochs": 1}}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSIFT_CACHE", str(tmp_path / "cache"))


def rows(count, classes=2, name="arrays"):
    return make_dataset(name, np.zeros((count, 3)), np.arange(count) % classes)


def images(*shape, name="arrays"):
    return make_dataset(name, np.zeros((4, *shape), np.uint8), [0, 1, 0, 1])


def names(plan):
    return [choice.name for choice in plan.choices]


@pytest.mark.parametrize("cuda", [False, True])
def test_the_bundled_set_keeps_its_settings(cuda):
    data = load("fashion-demo")
    plan = choose(data, len(data.labels), noise="symmetric:0.5", cuda=cuda)
    assert (plan.net, plan.method) == ("lenet", PES(patient=True))
    assert (plan.method.epochs, plan.method.batch_size, plan.method.stage_epochs) == (40, 64, (10, 7, 5))
    assert names(plan) == ["method", "net", "batch_size", "epochs", "stage_epochs", "patient"]
    assert choose(data, 5400).method == PES(patient=True)  # with a tenth held out


@pytest.mark.parametrize("method", ["pes", "pes-semi"])
@pytest.mark.parametrize(
    ("count", "given", "patient"),
    [
        (200, {}, True),
        (199, {}, False),  # too few to hold some out
        (8000, {"stage_epochs": (4, 1, 1)}, False),
        (8000, {"stage_epochs": (4, 1, 1), "patient": True}, True),
        (8000, {"patient": False}, False),
    ],
)
def test_a_first_stage_whose_length_nobody_gave_is_patient(method, count, given, patient):
    assert choose(images(8, 8, 1), count, method, settings=given).method.patient is patient
    assert not choose(rows(4), count, method).method.patient


@pytest.mark.parametrize(("method", "net"), [("pes", "resnet18"), ("pes-semi", "preact-resnet18")])
def test_the_papers_stages_are_kept_to(method, net):
    data = make_dataset("cifar10", np.zeros((4, 32, 32, 3), np.uint8), [0, 1, 0, 1])
    assert not choose(data, 45000, method, net).method.patient


@pytest.mark.parametrize("method", METHODS)
def test_large_sets_get_the_methods_own_settings_and_small_ones_small_batches(method):
    data = images(8, 8, 1)
    own = METHODS[method](patient=True) if "pes" in method else METHODS[method]()
    assert choose(data, 8000, method).method == own
    small = choose(data, 300, method)
    assert small.method.batch_size == 16
    own = asdict(METHODS[method]())
    differ = {name for name, value in asdict(small.method).items() if own[name] != value}
    stages = {"stage_epochs"} if "pes" in method else set()
    assert differ == {"batch_size"} | stages | ({"patient"} if "pes" in method else set())


@pytest.mark.parametrize(
    ("count", "batch", "stages"),
    [
        (2, 2, (2, 1, 1)),
        (20, 4, (2, 1, 1)),
        (64, 16, (2, 1, 1)),
        (569, 16, (4, 3, 2)),
        (1500, 16, (6, 4, 3)),
        (2500, 32, (7, 5, 4)),
        (4096, 64, (9, 6, 4)),
        (100_000, 64, (10, 7, 5)),
    ],
)
def test_batches_and_stages_follow_the_number_of_examples(count, batch, stages):
    data = images(8, 8, 1)
    method = choose(data, count).method
    assert (method.batch_size, method.stage_epochs) == (batch, stages)
    assert choose(data, count, "pes-semi").method.stage_epochs[0] == stages[0]


@pytest.mark.parametrize(
    ("count", "stages"), [(20, (2, 1, 1)), (300, (3, 2, 2)), (1500, (4, 3, 2)), (100_000, (4, 3, 2))]
)
def test_feature_rows_are_learnt_by_heart_sooner(count, stages):
    plan = choose(rows(4), count)
    assert (plan.method.stage_epochs, plan.method.patient) == (stages, False)
    assert choose(rows(4), count, "pes-semi").method.stage_epochs == stages[:2]
    (told,) = [str(choice) for choice in plan.choices if choice.name == "stage_epochs"]
    assert "feature rows are learnt by heart" in told
    assert choose(rows(4), count, settings={"stage_epochs": (9, 8, 7)}).method.stage_epochs == (9, 8, 7)


def test_the_papers_settings_stay_but_for_a_batch_larger_than_the_set():
    data = images(32, 32, 3, name="cifar10")
    plan = choose(data, 50_000, cuda=True)
    assert plan.method == make_method("pes", "cifar10", "resnet18", "", {})
    assert choose(data, 500, cuda=True).method == plan.method
    assert [*map(str, plan.choices)][2:] == ["settings the paper's: known for cifar10 with resnet18"]
    tiny = choose(data, 100, cuda=True)
    assert (tiny.method.batch_size, tiny.method.stage_epochs) == (16, (25, 7, 5))
    assert names(tiny) == ["method", "net", "settings", "batch_size"]


def test_what_is_given_is_neither_changed_nor_listed():
    own = {"batch_size": "50", "stage_epochs": "9,8,7", "epochs": 5}
    plan = choose(rows(300), 300, "pes", "mlp", own)
    assert (plan.method, plan.choices) == (PES(batch_size=50, stage_epochs=(9, 8, 7), epochs=5), ())
    assert names(choose(rows(300), 300, "pes", "mlp", {"batch_size": 50})) == ["epochs", "stage_epochs"]
    given = PES(lr=0.3)
    plan = choose(rows(300), 300, given, "mlp")
    assert plan.method is given
    assert plan.choices == ()


@pytest.mark.parametrize(
    ("shape", "on_gpu", "on_cpu"),
    [
        ((28, 28), "lenet", "lenet"),
        ((32, 32), "lenet", "lenet"),
        ((8, 8), "resnet18", "resnet18"),
        ((32, 32, 3), "resnet18", "lenet"),
        ((64, 64), "resnet18", "lenet"),
        ((96, 96, 3), "resnet50", "lenet"),
    ],
)
def test_the_net_follows_the_images_and_the_device(shape, on_gpu, on_cpu):
    data = images(*shape)
    assert choose(data, 4, cuda=True).net == on_gpu
    cpu = choose(data, 4)
    assert cpu.net == on_cpu
    assert (f"{on_gpu} would take far longer on a CPU" in str(cpu.choices[1])) == (on_gpu != on_cpu)
    assert choose(data, 4, weights="mine.pth").net == on_gpu  # weights are of a net worth them
    labelsift.nets.blueprint(cpu.net, 2, data.shape)  # which takes such images


def test_photos_are_small_on_a_cpu_unless_a_net_or_a_size_is_named(tmp_path):
    big = np.random.default_rng(0).integers(0, 255, (24, 100, 120, 3), np.uint8)
    for place, image in enumerate(big):
        save(tmp_path / "photos" / "ab"[place % 2] / f"{place}.png", image)
    source, told = str(tmp_path / "photos"), []
    fitted = labelsift.fit(source, **ONCE, device="cpu", observe=told.append)
    assert (fitted.config.net, fitted.config.image_size) == ("lenet", 64)
    begin = next(event["begin"] for event in told if "begin" in event)
    size = begin["choices"][1]
    assert (size["name"], size["value"]) == ("image_size", 64)
    assert "at most 64 on a CPU" in size["reason"]
    decoded = [e["images"] for e in told if e.get("images", {}).get("what") == "decoded"]
    assert [event["total"] for event in decoded if event["done"] == event["total"]] == [24]  # once
    assert len(list((tmp_path / "cache" / "images").iterdir())) == 1  # at one size
    for asked, size in (({"net": "lenet"}, 96), ({"image_size": 70}, 70)):
        config = labelsift.fit(source, **ONCE, **asked, device="cpu").config
        assert (config.net, config.image_size) == ("lenet", size)


def test_a_resumed_run_keeps_what_another_device_chose(tmp_path):
    def stop(event):
        if "epoch" in event:
            raise KeyboardInterrupt

    source, out = str(band_folder(tmp_path / "photos", 12)), tmp_path / "run"
    options = {"method": "ce", "settings": {"epochs": 2}, "out": out, "checkpoint_seconds": 0}
    with pytest.raises(KeyboardInterrupt):
        labelsift.fit(source, **options, net="toys:TinyNet", image_size=12, observe=stop)
    with pytest.raises(InputError, match="holds another run"):
        labelsift.fit(source, **options)
    told = []
    config = labelsift.fit(source, **options, resume=True, observe=told.append).config
    assert (config.net, config.image_size) == ("toys:TinyNet", 12)
    begin = next(event["begin"] for event in told if "begin" in event)
    assert [choice["name"] for choice in begin["choices"]] == ["batch_size"]
    with pytest.raises(InputError, match="holds another run"):
        labelsift.fit(source, **options, resume=True, net="lenet")


def test_few_examples_are_pointed_out():
    assert too_few(rows(200)) == ()
    assert "199 examples are too few to judge labels well" in too_few(rows(199))[0]
    rare = make_dataset("a", np.zeros((300, 2)), ["no"] * 281 + ["oh\ndear"] * 19)
    assert "The class 'oh?dear' has 19 examples" in too_few(rare)[0]
    x, y = toy_arrays(60)
    told = []
    result = labelsift.fit(x, y, method=CE(epochs=1, batch_size=16), net="lenet", observe=told.append)
    assert [*too_few(make_dataset("a", x, y))] == result.record["warnings"] == [told[0]["warning"]]


def test_a_batch_larger_than_the_set_is_an_error_only_where_it_was_asked_for():
    x, y = toy_arrays(30)
    assert labelsift.fit(x, y, **ONCE).config.settings["batch_size"] == 4
    for asked in ({"method": CE(epochs=1)}, {"method": "ce", "settings": {"batch_size": 64}}):
        with pytest.raises(InputError, match="fewer than a batch of 64"):
            labelsift.fit(x, y, **asked)


def test_the_estimator_goes_through_the_same_door():
    x, y = toy_arrays(150)
    model = labelsift.NoisyLabelClassifier(epochs=2, random_state=0).fit(x, y)
    direct = labelsift.fit(x, y, settings={"epochs": 2})
    assert [row["stage"] for row in model.history_] == [row["stage"] for row in direct.history]
    assert direct.config.settings["stage_epochs"] == [2, 2, 1]
    assert direct.config.settings["batch_size"] == 16


def test_the_command_says_what_it_chose_and_why_and_its_config_repeats_it(tmp_path, monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr("sys.argv", ["labelsift", "fit", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            labelsift.cli.main()
        out = capsys.readouterr().out
        assert stop.value.code == 0
        return [line.strip() for line in out.splitlines() if line.startswith("  ")]

    x, y = toy_arrays(300)
    np.savez(tmp_path / "toy.npz", x=x, y=y)
    told = run(tmp_path / "toy.npz", "--epochs", 3, "--device", "cpu", "--out", tmp_path / "a")
    assert told == [
        "method pes: withstands wrong labels without knowing how many there are",
        "net lenet: for grey images of 12 x 12",
        "batch_size 16: makes 19 steps of 300 examples",
        "stage_epochs 3,2,2: 300 examples may be learnt by heart, wrong labels and all, sooner than 6,000",
        "patient True: the first stage goes on as long as no wrong labels are learned by heart",
    ]
    assert run("--config", tmp_path / "a" / "config.toml", "--out", tmp_path / "b") == []
    first, again = (tomllib.loads((tmp_path / run / "config.toml").read_text()) for run in "ab")
    assert first == again
    assert run(tmp_path / "toy.npz", "--epochs", 3, "--quiet", "--out", tmp_path / "c") == []
