"""The paper's tables and figures from records: here in a repository of made-up ones."""

import dataclasses
import json

import pytest

from docs.made_up import DOCS, cells_of, make_results, make_site, row_of, section, write_run
from labelsift.config import as_toml
from labelsift.reproduce.cells import Cell
from labelsift.reproduce.exhibits import CURVES, LAYERS, TABLES
from labelsift.reproduce.published import CUT, SHARED


@pytest.fixture
def site(tmp_path):
    return make_site(tmp_path)


def results_page(monkeypatch, site):
    make_results(monkeypatch, site)
    make_results(monkeypatch, site, "--check")
    return (site / "docs" / "results.md").read_text()


def pes_cell(noise, table="table2", method="pes"):
    (cell,) = cells_of(TABLES[table], data="cifar10", method=method, column=noise)
    return cell


def test_without_records_every_section_is_left_out(site, monkeypatch):
    page = results_page(monkeypatch, site)
    assert "##" not in page
    assert (site / "README.md").read_text().count("<!--") == 6
    assert "|" not in (site / "README.md").read_text()
    assert "No run of it is recorded yet." in (site / "docs" / "methods" / "pes.md").read_text()
    assert "Nothing is measured yet." in (site / "docs" / "performance.md").read_text()


def test_a_table_has_the_papers_layout(site, monkeypatch):
    folder = site / "results" / "table2"
    for seed, accuracy in ((1, 0.5), (2, 0.52), (3, 0.54)):
        write_run(
            folder / f"a{seed}",
            pes_cell("symmetric-20"),
            seed,
            accuracy,
            commit="abcdef012345",
            precision="bf16",
        )
    write_run(folder / "b", pes_cell("pair-45"), 1, 1.0843)
    text = section(results_page(monkeypatch, site), "Table 2: Without semi-supervised learning")
    assert "| cifar10 |  | symmetric-20 | pair-45 |" in text
    assert row_of(text, "`pes`", "here") == ["32.00 ± 2.00 (n 3)", "88.43 (n 1)"]  # best on noisy validation
    assert row_of(text, "", "paper") == ["92.38 ± 0.40", "88.43 ± 1.08"]
    assert row_of(text, "", "difference") == ["**-60.38**", "+0.00"]
    assert "Bold: further from the paper's mean than its deviation." in text
    assert "| `ce` |" not in text  # of which there is no run
    assert "cifar10, pes: resnet18, epochs 200, stage_epochs 25+7+5; 10 % held out" in text
    assert "true noise rate: symmetric-20 12.5 %, pair-45 12.5 %." in text
    assert "How the epoch was chosen: best on noisy validation." in text
    assert (
        "Seeds 1, 2, 3; A made-up device and A made-up device, bf16; torch 0.0.1, labelsift 0.0.2; " in text
    )
    assert "commit abcdef0; 2001-02-03." in text


def test_what_has_not_been_run_is_said(site, monkeypatch):
    for cell in cells_of(TABLES["table2"], data="cifar10", method="ce"):
        write_run(site / "results" / "table2" / cell.column, cell)
    write_run(site / "results" / "table2" / "pes", pes_cell("pair-45"))
    page = results_page(monkeypatch, site)
    text = section(page, "Table 2: Without semi-supervised learning")
    (sentence,) = [line for line in text.splitlines() if line.startswith("- Not run yet: ")]
    methods = "`cdr`, `co-teaching`, `dmi`, `forward`, `joint-optim` and `t-revision` on cifar10"
    noises = "instance-20, instance-40, symmetric-20 and symmetric-50"
    assert sentence == f"- Not run yet: {methods}; `pes` on cifar10 with {noises}; all of cifar100."
    assert "- Figure 1: " in section(page, "Not run yet")
    assert "Table 2" not in section(page, "Not run yet")
    for cell in TABLES["table2"].cells:
        if (cell.data, cell.method) != ("cifar10", "ce"):
            write_run(site / "results" / "table2" / f"{cell.name}-whole", cell)
    text = section(results_page(monkeypatch, site), "Table 2: Without semi-supervised learning")
    assert "Not run yet" not in text


@pytest.mark.parametrize(("accuracy", "bold"), [(1.1278, False), (1.1279, True), (1.1197, True)])
def test_what_is_off_by_more_than_the_papers_deviation_is_bold(site, monkeypatch, accuracy, bold):
    """92.38 and 0.40: their sum as decimals, whose binary fraction is a little more."""
    write_run(site / "results" / "table2" / "a", pes_cell("symmetric-20"), 1, accuracy)
    text = section(results_page(monkeypatch, site), "Table 2: Without semi-supervised learning")
    assert ("**" in text) == bold


def test_a_table_of_one_noise_has_a_row_for_each_measure(site, monkeypatch):
    (cell,) = cells_of(TABLES["table1"], method="pes", column="pair-45")
    write_run(site / "results" / "table1" / "a", cell)
    text = section(results_page(monkeypatch, site), f"Table 1: {TABLES['table1'].title}")
    assert "| cifar10, pair-45 | here | runs | paper | difference |" in text
    assert row_of(text, "test accuracy, `pes`") == ["40.00", "1", "62.40 ± 2.34", "**-22.40**"]  # last
    assert row_of(text, "label precision, `pes`")[0] == "75.00"
    assert row_of(text, "label recall, `pes`")[0] == "25.00"


def test_early_stopping_without_runs_of_its_own_is_the_first_stage_of_pes(site, monkeypatch):
    folder = site / "results" / "table1"
    cell = pes_cell("pair-45", "table1")
    noted = {"confident": 9, "confident_precision": 0.5, "confident_recall": 0.375}
    history = [{"stage": "part 1", "test_accuracy": 0.2}, {"stage": "part 1", "test_accuracy": 0.3, **noted}]
    history += [{"stage": "part 2", "test_accuracy": 0.35}]
    write_run(folder / "a", cell, history=history)
    text = section(results_page(monkeypatch, site), f"Table 1: {TABLES['table1'].title}")
    assert row_of(text, "test accuracy, `early-stopping`")[:2] == ["30.00", "1"]
    assert row_of(text, "label precision, `early-stopping`")[0] == "50.00"
    assert row_of(text, "label recall, `early-stopping`")[0] == "37.50"
    assert row_of(text, "test accuracy, `pes`")[0] == "40.00"
    assert CUT in text
    assert "cifar10, early-stopping: resnet18, epochs 25, stop_epoch 25; 10 % held out" in text
    write_run(folder / "b", pes_cell("pair-45", "table1", "early-stopping"), accuracy=0.7)
    text = section(results_page(monkeypatch, site), f"Table 1: {TABLES['table1'].title}")
    assert row_of(text, "test accuracy, `early-stopping`")[:2] == ["60.00", "1"]
    assert CUT not in text


def stages_and_more(accuracy):
    """Made-up epochs of PES: of its first stage, of a later one and the first confident one."""
    noted = {"confident": 9, "confident_precision": 0.5, "confident_recall": 0.375}
    chosen = {"confident": 9, "confident_precision": 0.625, "confident_recall": 0.875}
    stages = [
        {"stage": "part 1", "test_accuracy": 0.3, **noted},
        {"stage": "part 2", "test_accuracy": accuracy},
    ]
    return [*stages, {"stage": "confident", "test_accuracy": 0.9, **chosen}]


def test_the_stages_of_longer_runs_stand_for_runs_that_end_with_them(site, monkeypatch):
    own, longer = pes_cell("pair-45", "table1"), pes_cell("pair-45")
    write_run(site / "results" / "table1" / "a", own, 1, 0.5)
    for seed, accuracy in ((1, 0.1), (2, 0.44)):  # of seed 1 there is one
        history = stages_and_more(accuracy)
        write_run(site / "results" / "table2" / f"{seed}", longer, seed, history=history)
    for seed, settings in ((3, {"stage_epochs": (25, 7, 4)}), (4, {"epochs": 40}), (5, {"lr": 0.2})):
        history = stages_and_more(0.2)  # other stages, or another rate: in one of them after 20 epochs
        write_run(site / "results" / "table2" / f"{seed}", longer, seed, settings=settings, history=history)
    text = section(results_page(monkeypatch, site), f"Table 1: {TABLES['table1'].title}")
    assert row_of(text, "test accuracy, `pes`")[:2] == ["42.00 ± 2.83", "2"]
    assert row_of(text, "label precision, `pes`")[0] == "68.75 ± 8.84"
    assert row_of(text, "label recall, `pes`")[0] == "56.25 ± 44.19"
    assert row_of(text, "test accuracy, `early-stopping`")[:2] == ["30.00 ± 0.00", "2"]
    assert CUT in text
    text = section(results_page(monkeypatch, site), f"Table 2: {TABLES['table2'].title}")
    assert row_of(text, "`pes`", "30.00 ± 0.00", "2")  # where they are what they were


def test_how_far_accuracy_jumps_is_told_where_a_number_shows_one_epoch(site, monkeypatch):
    def climbing(stage, *steps):
        accuracies = [0.1] * 15 + [0.1 + sum(steps[: place + 1]) for place in range(len(steps))]
        return [{"stage": stage, "test_accuracy": accuracy} for accuracy in accuracies]

    ten, nine = [0.06, -0.02] * 5, [0.05] * 9
    folder = site / "results" / "table2"
    write_run(folder / "a", pes_cell("pair-45"), history=climbing("part 1", *ten))
    write_run(folder / "b", pes_cell("pair-45", method="ce"), history=climbing("train", *[0.02] * 10, 0.5))
    write_run(folder / "c", pes_cell("symmetric-20"), history=climbing("part 1", *[-0.005] * 10))
    write_run(folder / "d", pes_cell("instance-20"), history=climbing("part 1", *nine))  # too short
    write_run(folder / "e", pes_cell("instance-40"), history=climbing("confident", *ten))
    other = {"epochs": 300}  # of another protocol
    write_run(folder / "f", pes_cell("symmetric-50"), settings=other, history=climbing("part 1", *ten))
    text = section(results_page(monkeypatch, site), "Table 2: Without semi-supervised learning")
    assert "between epochs 15 and 25" in text
    assert "by so many points in the mean: symmetric-20 0.5, pair-45 3.0. What" in text


def test_what_a_choice_nearly_as_good_gives_is_told_where_validation_chooses(site, monkeypatch):
    def rated(count, stage="train", test=None):
        """Epochs, later ones rated lower by validation; of 0, 1, 2 % on the test set, or `test`."""
        return [
            {
                "stage": stage,
                "test_accuracy": test or place / 100,
                "noisy_validation_accuracy": 0.5 - place / 1000,
            }
            for place in range(count)
        ]

    folder = site / "results" / "table2"
    write_run(folder / "a", pes_cell("pair-45", method="ce"), history=rated(40))
    write_run(folder / "b", pes_cell("symmetric-20"), history=rated(11))
    write_run(folder / "c", pes_cell("symmetric-20"), 2, history=rated(10, test=0.3))
    own = [*rated(10, "estimate"), *rated(10, "corrected", 0.6)]  # Forward's own epochs count
    write_run(folder / "d", pes_cell("pair-45", method="forward"), history=own)
    write_run(folder / "e", pes_cell("instance-20"), history=rated(9))  # too short
    told = {"settings": {"noise_rate": "oracle"}, "oracle": True}
    write_run(folder / "f", pes_cell("pair-45", method="co-teaching"), history=rated(10), **told)
    (more,) = cells_of(TABLES["table2"], data="cifar100", method="ce", column="pair-45")
    write_run(folder / "g", more, history=rated(10, test=0.2))
    alike = [{**row, "noisy_validation_accuracy": 0.5} for test in (0.1, 0.3) for row in rated(10, test=test)]
    write_run(folder / "h", pes_cell("instance-20", method="ce"), history=alike)  # the first is chosen
    text = section(results_page(monkeypatch, site), "Table 2: Without semi-supervised learning")
    first = "cifar10, `ce` pair-45 4.50, instance-20 10.00; cifar10, `co-teaching (oracle)` pair-45 4.50; "
    rest = (
        "cifar10, `forward` pair-45 60.00; cifar10, `pes` symmetric-20 17.25; cifar100, `ce` pair-45 20.00."
    )
    assert f"test accuracy of: {first}{rest}" in text
    write_run(site / "results" / "table1" / "a", pes_cell("pair-45", "table1"), history=rated(40))
    text = section(results_page(monkeypatch, site), f"Table 1: {TABLES['table1'].title}")
    assert "Validation rates" not in text  # whose runs end where they are judged


def test_what_is_noted_by_hand_stands_below_its_table(site, monkeypatch):
    write_run(site / "results" / "table2" / "a", pes_cell("pair-45"))
    (site / "results" / "table2" / "notes.md").write_text("The moon was full.\n")
    text = section(results_page(monkeypatch, site), "Table 2: Without semi-supervised learning")
    assert text.index("How the epoch was chosen") < text.index("The moon was full.")


def test_a_run_of_another_protocol_is_in_no_cell_but_is_shown(site, monkeypatch):
    folder = site / "results" / "table2"
    write_run(folder / "whole", pes_cell("pair-45"), 1, 0.9)
    for seed, accuracy in ((2, 0.3), (3, 0.5)):
        write_run(folder / f"short{seed}", pes_cell("pair-45"), seed, accuracy, settings={"epochs": 27})
    page = results_page(monkeypatch, site)
    text = section(page, "Table 2: Without semi-supervised learning")
    assert row_of(text, "`pes`", "70.00", "1")[0] == "88.43 ± 1.08"
    other = row_of(text, "`pes`", "cifar10, pair:0.45", "resnet18")
    assert other == ["epochs 27, 10.0 % held out", "2", "40.00 ± 14.14", "30.00 ± 14.14"]


def test_runs_of_a_folder_that_the_paper_does_not_know_are_shown(site, monkeypatch):
    write_run(site / "results" / "tried" / "a", pes_cell("pair-45"), settings={"lr": 0.125})
    text = section(results_page(monkeypatch, site), "tried")
    assert row_of(text, "`pes`", "cifar10, pair:0.45", "resnet18")[0] == "lr 0.125, 10.0 % held out"


def test_a_run_that_was_told_the_noise_has_a_row_of_its_own(site, monkeypatch):
    cell = pes_cell("pair-45", method="co-teaching")
    write_run(site / "results" / "table2" / "a", cell, 1, 0.8)
    told = {"settings": {"noise_rate": "oracle"}, "oracle": True}
    write_run(site / "results" / "table2" / "b", cell, 1, 0.9, **told)
    text = section(results_page(monkeypatch, site), "Table 2: Without semi-supervised learning")
    assert row_of(text, "`co-teaching`")[0] == "60.00"
    assert row_of(text, "`co-teaching (oracle)`")[0] == "70.00"


def test_times_are_those_of_whole_runs_or_come_from_epochs_and_say_so(site, monkeypatch):
    whole = pes_cell("symmetric-50")
    write_run(site / "results" / "table2" / "a", whole, wall={"seconds": 1000, "commit": "abcdef0"})
    write_run(site / "results" / "table2" / "b", whole, 2, wall={"seconds": 1400})
    write_run(site / "results" / "table2" / "c", whole, 3)  # which had no clock beside it
    case = {"method": "dividemix", "net": "preact-resnet18", "images": 45_000, "compile": True}
    case |= {"capture": True, "epoch_seconds": 2.0, "warm_up_seconds": 30.0}
    other = {**case, "method": "pes", "net": "resnet18", "epoch_seconds": 9.0}
    folder = site / "results" / "performance"
    folder.mkdir()
    for cases in ([other, {**case, "images": 10_000, "epoch_seconds": 1.0}, case], []):
        record = {"device": "A slow one", "torch": "0.0.3", "cases": cases}
        (folder / "speed.json").write_text(json.dumps(record))
        text = section(times_page(monkeypatch, site), "Table 6: Training time")
        whole_times = ["resnet18", "212", "1200 ± 283", "0.333", "1.0", "3.0", "by the clock, 2 runs"]
        assert row_of(text, "`pes`") == whole_times
        assert "Seeds 1, 2; A made-up device" in text
        if cases:
            from_epochs = ["preact-resnet18", "300", "697", "0.194", "5.5", "28.4", "from epochs"]
            assert row_of(text, "`dividemix`") == from_epochs
            assert "Epochs: A slow one; torch 0.0.3." in text
        else:
            assert "`dividemix`" not in text


def test_whole_runs_with_other_noises_have_a_row_of_their_own(site, monkeypatch):
    for noise, seconds in (("symmetric-50", 720), ("pair-45", 360), ("instance-20", 360)):
        cell = pes_cell(noise)
        write_run(site / "results" / "table2" / noise, cell, wall={"seconds": seconds})
    short = {"epochs": 40}  # another protocol, whatever its noise
    write_run(site / "results" / "table2" / "short", pes_cell("pair-45"), settings=short, wall={"seconds": 1})
    (site / "results" / "table6").mkdir()
    (site / "results" / "table6" / "notes.md").write_text("What is to be said of it.\n")
    text = section(times_page(monkeypatch, site), "Table 6: Training time")
    assert row_of(text, "`pes`")[2:] == ["720", "0.200", "1.0", "5.0", "by the clock, 1 run"]
    others = row_of(text, "`pes`, instance:0.2 and pair:0.45")
    assert others[1:] == ["212", "360 ± 0", "0.100", "1.0", "10.0", "by the clock, 2 runs"]
    assert text.endswith("What is to be said of it.")


def times_page(monkeypatch, site):
    """The page alone: what speed.py writes has more than times need, and the other page needs all of it."""
    monkeypatch.syspath_prepend(str(DOCS))
    from make_times import times

    return f"## Table 6: Training time\n{times(site / 'results')}"


def test_labels_by_people_stand_beside_what_is_published(site, monkeypatch):
    for cell in TABLES["cifar10n"].cells:
        write_run(site / "results" / "cifar10n" / cell.column, cell, accuracy=0.96)
    text = section(results_page(monkeypatch, site), TABLES["cifar10n"].title)
    assert "| cifar10n |  | aggregate | random1 | worst |" in text
    assert row_of(text, "", "difference") == ["+1.34", "+0.94", "+3.32"]


def test_resting_is_compared_on_the_same_noise_and_seed(site, monkeypatch):
    assert "table2" in SHARED["rest"]
    cell = pes_cell("pair-45")
    for seed in (1, 2, 3):
        write_run(site / "results" / "table2" / f"{seed}", cell, seed, 0.9)
    write_run(site / "results" / "table2" / "short", cell, 1, 0.1, settings={"epochs": 27})
    for seed in (1, 2):
        write_run(site / "results" / "rest" / f"{seed}", cell, seed, 0.8, settings={"renewed_rest": False})
    text = section(results_page(monkeypatch, site), TABLES["rest"].title)
    assert row_of(text, "best, `pes, resting`")[:2] == ["90.00 ± 0.00", "2"]
    assert row_of(text, "best, `pes, training on`")[:2] == ["80.00 ± 0.00", "2"]
    assert row_of(text, "last, `pes, training on`")[0] == "70.00 ± 0.00"
    assert "other runs" not in text


def test_resting_on_other_data_is_shown_beside_and_brings_no_runs_of_cifar10(site, monkeypatch):
    cell = pes_cell("pair-45")
    write_run(site / "results" / "table2" / "a", cell, 1, 0.9)
    for rests in (True, False):
        other = dataclasses.replace(cell, data="fashion-mnist", settings={"renewed_rest": rests})
        write_run(site / "results" / "rest" / str(rests), other, 1, 0.8)
    text = section(results_page(monkeypatch, site), TABLES["rest"].title)
    assert "cifar10" not in text
    rows = [line for line in text.splitlines() if line.startswith("| `pes` | fashion-mnist, pair:0.45 |")]
    assert ["renewed_rest False" in row for row in rows] == [False, True]


def test_the_head_stands_in_the_readme_and_a_method_page_has_its_runs(site, monkeypatch):
    write_run(site / "results" / "table2" / "a", pes_cell("pair-45"), accuracy=0.5)
    write_run(site / "results" / "table2" / "b", pes_cell("pair-45", method="ce"), accuracy=0.6)
    write_run(site / "results" / "table4" / "c", pes_cell("pair-45", "table4", "pes-semi"), accuracy=0.7)
    write_run(site / "results" / "table2" / "short", pes_cell("pair-45"), 7, settings={"epochs": 27})
    write_run(site / "results" / "table2" / "beside", pes_cell("pair-45"), 8, 0.9, settings={"lr": 0.125})
    write_run(site / "results" / "cifar10n" / "d", TABLES["cifar10n"].cells[0], accuracy=0.8)
    make_results(monkeypatch, site)
    readme = (site / "README.md").read_text()
    assert row_of(readme, "`pes`", "pair-45") == ["30.00", "1", "88.43 ± 1.08", "**-58.43**"]
    assert row_of(readme, "`pes-semi`", "pair-45") == ["70.00", "1", "94.5 ± 0.3", "**-24.50**"]
    assert row_of(readme, "`pes-semi`", "people's, aggregate") == ["80.00", "1", "94.66", "-14.66"]
    assert "`ce`" not in readme
    assert "\nSeed 1; " in readme
    (site / "results" / "notes.md").write_text("What is to be said of them.\n")
    make_results(monkeypatch, site)
    assert "\nWhat is to be said of them.\n\nSeed 1; " in (site / "README.md").read_text()
    method = (site / "docs" / "methods" / "pes.md").read_text()
    assert row_of(method, "cifar10, pair:0.45", "resnet18", "212") == ["1", "50.0 %", "40.0 %"]


def write_layers(site, noise, seed, accuracy):
    folder = site / "results" / "figure5" / f"{noise[:4]}-{seed}"
    folder.mkdir(parents=True)
    about = {"data": "fashion-mnist", "net": "lenet", "noise": noise, "seed": seed}
    (folder / "config.toml").write_text(as_toml(about))
    points = [
        {"epoch": epoch, "layer": layer, "test_accuracy": accuracy + epoch / 100}
        for epoch in (1, 5)
        for layer in (*LAYERS["figure5"].cuts, "final layer")
    ]
    (folder / "points.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))
    record = {"noise_rate": 0.25, "device": "A made-up device", "clean_epochs": 3, "finished": "2001-02-03"}
    (folder / "result.json").write_text(json.dumps(record))


def test_a_figure_of_layers_is_drawn_and_its_numbers_stand_below(site, monkeypatch):
    for seed, accuracy in ((1, 0.3), (2, 0.4)):
        write_layers(site, "pair:0.45", seed, accuracy)
    text = section(results_page(monkeypatch, site), "Figure 5: Layers under noise: Fashion-MNIST, LeNet")
    assert "](figures/figure5.svg)" in text
    assert row_of(text, "Pairflip 45%", "5")[0] == "40.00±7.07 (n 2)"
    assert "clean labels for 3 epochs" in text
    assert "Seeds 1, 2; A made-up device; 2001-02-03." in text
    write_layers(site, "instance:0.4", 1, 0.3)
    write_layers(site, "symmetric:0.5", 1, 0.3)
    text = section(results_page(monkeypatch, site), "Figure 5: Layers under noise: Fashion-MNIST, LeNet")
    assert text.index("| Symmetric") < text.index("| Pairflip") < text.index("| Instance")
    picture = site / "docs" / "figures" / "figure5.svg"
    drawn = picture.read_bytes()
    picture.unlink()
    make_results(monkeypatch, site)
    assert picture.read_bytes() == drawn


def test_figure_2_takes_over_the_runs_of_table_1(site, monkeypatch):
    def history(first):
        return [{"stage": "part 1", "test_accuracy": 0.3}] * first + [
            {"stage": "part 3", "test_accuracy": 0.6}
        ]

    (short,) = [
        cell for cell in cells_of(CURVES["figure2"], column="pair-45") if cell.settings["epochs"] == 5
    ]
    (shared,) = cells_of(TABLES["table1"], column="pair-45", method="pes")
    write_run(site / "results" / "figure2" / "a", short, history=history(5))
    write_run(site / "results" / "table1" / "b", shared, history=history(25))
    text = section(results_page(monkeypatch, site), f"Figure 2: {CURVES['figure2'].title}")
    for place in ("5", "25"):
        assert row_of(text, "Pairflip 45%", place) == ["30.00 (n 1)", "60.00 (n 1)"]
    assert (
        "- Not run yet: T1 = 5 with instance-40 and symmetric-50; T1 = 10; T1 = 15; T1 = 20; T1 = 25 with"
        in text
    )
    # A run that goes on is one more where there is no other of its seed.
    write_run(site / "results" / "figure2" / "c", short, 2, history=history(5))
    for seed in (1, 2, 3):
        longer = [*history(25), {"stage": "confident", "test_accuracy": 0.9}]
        write_run(site / "results" / "table2" / f"{seed}", pes_cell("pair-45"), seed, history=longer)
    text = section(results_page(monkeypatch, site), f"Figure 2: {CURVES['figure2'].title}")
    assert row_of(text, "Pairflip 45%", "25") == ["30.00±0.00 (n 2)", "60.00±0.00 (n 2)"]


@pytest.mark.parametrize(
    "page", ["docs/results.md", "docs/performance.md", "README.md", "docs/methods/pes.md"]
)
def test_a_page_that_was_altered_is_found(site, monkeypatch, page):
    write_run(site / "results" / "table2" / "a", pes_cell("pair-45"))
    with pytest.raises(SystemExit, match=r"results\.md, performance\.md, README\.md, pes\.md: not what"):
        make_results(monkeypatch, site, "--check")
    assert not (site / "docs" / "results.md").exists()
    make_results(monkeypatch, site)
    make_results(monkeypatch, site, "--check")
    file = site / page
    text = file.read_text()
    altered = text.replace("pair", "pear").replace("is measured", "was measured")
    assert altered != text
    file.write_text(altered)
    if page in ("README.md", "docs/methods/pes.md"):
        assert "pear" in altered
    with pytest.raises(SystemExit, match=f"{file.name}: not what the records in results/ say"):
        make_results(monkeypatch, site, "--check")
    make_results(monkeypatch, site)
    assert file.read_text() == text


def test_a_figure_of_other_numbers_is_found(site, monkeypatch):
    write_layers(site, "pair:0.45", 1, 0.3)
    make_results(monkeypatch, site)
    picture = site / "docs" / "figures" / "figure5.svg"
    old = picture.read_text()
    write_layers(site, "pair:0.45", 2, 0.4)
    make_results(monkeypatch, site)
    make_results(monkeypatch, site, "--check")
    picture.write_text(old)
    with pytest.raises(SystemExit, match=r"figure5\.svg: not what"):
        make_results(monkeypatch, site, "--check")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "with the settings that any data gets;"),
        ({"epochs": 20, "batch_size": 128}, "with epochs 20 and batch_size 128 but else the settings that"),
    ],
)
def test_what_every_method_was_given_is_told(site, monkeypatch, settings, said):
    for method in ("ce", "pes"):
        for noise, accuracy in (("symmetric:0.5", 0.5), ("pair:0.45", 0.25)):
            cell = Cell("", "", "fashion-mnist", "lenet", method, noise)
            more = {"patient": True} if method == "pes" else {}  # its own, and not all methods'
            folder = site / "results" / "methods-fashion-mnist" / f"{method}-{noise.replace(':', '-')}"
            write_run(folder, cell, accuracy=accuracy, settings={**settings, **more})
    (folder.parent / "notes.md").write_text("What stays open.\n")
    text = section(results_page(monkeypatch, site), "Every method on Fashion-MNIST")
    assert text.rstrip().endswith("\n\nWhat stays open.")
    assert row_of(text, "`ce`") == [
        "50.0 %",
        "40.0 %",
        "25.0 %",
        "15.0 %",
        str(settings.get("epochs", 40)),
        "3600",
    ]
    assert said in text
