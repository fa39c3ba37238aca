import pytest
from torch import nn

from labelsift.data import DATASETS
from labelsift.methods import make_method
from labelsift.nets import NETS
from labelsift.noise import Noise
from labelsift.parts import split
from labelsift.reproduce.cells import Cell, noise_name
from labelsift.reproduce.exhibits import CURVES, LAYERS, TABLES
from labelsift.reproduce.runner import Order, Scale, cell_settings

CELLS = [cell for exhibit in (*TABLES.values(), *CURVES.values()) for cell in exhibit.cells]


def test_every_cell_can_be_asked_for():
    for cell in CELLS:
        assert cell.data in DATASETS
        assert cell.net in NETS
        assert not cell.noise or Noise.parse(cell.noise)
        _, _, kind = cell.data.partition(":")
        assert cell.column == (kind or noise_name(cell.noise))
    for layers in LAYERS.values():
        assert layers.net in NETS


def test_cells_that_differ_have_folders_that_differ():
    runs = {
        (c.name, c.data, c.net, c.method, c.noise, c.nets, c.validation, str(dict(c.settings))) for c in CELLS
    }
    names = [run[0] for run in runs]
    again = {name for name in names if names.count(name) > 1}
    assert not again


def test_methods_have_the_names_they_are_or_will_be_built_by():
    known = {"ce", "mixup", "pes", "pes-semi", "early-stopping"}
    known |= {"co-teaching", "forward", "joint-optim", "t-revision", "dmi", "cdr"}
    known |= {"m-correction", "dividemix", "elr-plus"}
    assert {cell.method for cell in CELLS} == known


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_cut_where_the_paper_counts_them(name):
    net = NETS[LAYERS[name].net](10, 3)
    for layer, cut in LAYERS[name].cuts.items():
        before = split(net, (cut,))[0].modules
        # Shortcuts run beside the layers and are not counted.
        counted = [
            m for n, m in before.items() if isinstance(m, nn.Conv2d | nn.Linear) and "downsample" not in n
        ]
        assert layer.startswith(str(len(counted)))


def test_the_papers_numbers_are_in_their_places():
    def paper(table, data, method, noise, measure="test accuracy"):
        (cell,) = [c for c in TABLES[table].cells if (c.data, c.row, c.column) == (data, method, noise)]
        return cell.paper[measure]

    assert paper("table1", "cifar10", "pes", "symmetric-50", "label recall") == "81.03±1.83"
    assert paper("table2", "cifar10", "pes", "pair-45") == "88.43±1.08"
    assert paper("table2", "cifar100", "cdr", "instance-40") == "55.94±0.56"
    assert paper("table3", "cifar10", "pes-semi", "symmetric-80") == "93.1±0.2"
    assert paper("table3", "cifar10", "dividemix*", "symmetric-20") == "95.2"
    assert paper("table4", "cifar100", "elr-plus", "pair-45") == "65.3±1.3"
    assert paper("table5", "clothing1m", "pes, two nets", "its own") == "74.99"
    assert paper("table6", "cifar10", "dividemix", "symmetric-50", "hours") == "5.5"
    assert paper("table9", "cifar100", "pes-semi", "symmetric-80") == "62.3"


def test_protocols():
    (pes,) = [
        c for c in TABLES["table2"].cells if (c.data, c.row, c.column) == ("cifar10", "pes", "symmetric-50")
    ]
    assert (pes.net, pes.validation, pes.noise) == ("resnet18", 0.1, "symmetric:0.5")
    (semi,) = [
        c
        for c in TABLES["table3"].cells
        if (c.data, c.row, c.column) == ("cifar10", "pes-semi", "symmetric-50")
    ]
    assert (semi.net, semi.validation, semi.noise) == ("preact-resnet18", 0.0, "symmetric-inclusive:0.5")
    assert {c.nets for c in TABLES["table9"].cells} == {1}  # as its text says; DivideMix and ELR+ have two
    assert all(c.weights == "timm:resnet50.tv_in1k" for c in TABLES["table5"].cells)


def test_labels_by_people_are_learned_with_the_settings_for_them():
    cells = TABLES["cifar10n"].cells
    assert [cell.column for cell in cells] == ["aggregate", "random1", "worst"]
    for cell in cells:
        method = make_method(cell.method, cell.data, cell.net, cell.noise, cell.settings)
        assert (cell.net, cell.noise, method.unlabelled_weight, method.epochs) == ("resnet34", "", 5.0, 300)


def test_resting_is_the_very_run_of_another_table(tmp_path):
    order = Order(tmp_path)
    others = {order.cell_job(c, 1) for name in ("table2", "table3", "table4") for c in TABLES[name].cells}
    ways = {"resting": [], "training on": []}
    for cell in TABLES["rest"].cells:
        ways[cell.row.split(", ")[1]].append(cell)
    assert len(ways["resting"]) == len(ways["training on"]) == 5 + 6
    for way, cells in ways.items():
        for cell in cells:
            method = make_method(cell.method, cell.data, cell.net, cell.noise, cell.settings)
            assert method.renewed_rest == (way == "resting")
            assert (order.cell_job(cell, 1) in others) == (way == "resting")


def test_scaling_shortens_every_length_and_marks_the_run(tmp_path):
    (pes,) = [
        c for c in TABLES["table2"].cells if (c.data, c.row, c.column) == ("cifar10", "pes", "symmetric-50")
    ]
    assert cell_settings(pes, Scale()) == {}
    small = cell_settings(pes, Scale(0.1, 80))
    assert small == {"epochs": 20, "stage_epochs": (2, 1, 1), "batch_size": 10}
    job = Order(tmp_path, scale=Scale(0.1, 80)).cell_job(pes, 3)
    assert job.name == "cifar10-symmetric-0.5-pes-resnet18-seed3-scale0.1-limit80"
    assert "stage_epochs=2,1,1" in job.command
    assert not job.done
    zero = Cell("r", "c", "cifar10", "resnet18", "pes", settings={"stage_epochs": (25, 0, 5), "epochs": 25})
    assert cell_settings(zero, Scale(0.1))["stage_epochs"] == (2, 0, 1)


@pytest.mark.parametrize(
    ("noise", "name"), [("symmetric-inclusive:0.8", "symmetric-80"), ("pair:0.45", "pair-45")]
)
def test_noises_are_named_as_in_the_paper(noise, name):
    assert noise_name(noise) == name
