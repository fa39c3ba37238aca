"""The scripts in `examples/` run, here on less data, and show what they say."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def main_of(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="example")["main"]


def test_fewer_labels_are_wrong_after_the_correction(capsys):
    reached = main_of("find_wrong_labels")(limit=1000, epochs=20)
    assert reached["wrong after"] < reached["wrong before"]
    assert capsys.readouterr().out.count("the label's quality is") == 3


def test_features_in_a_pipeline():
    reached = main_of("features_in_a_pipeline")(epochs=(20,))
    assert reached["labelsift"] > reached["logistic regression"]
    assert reached["doubted labels that are wrong"] > 0.9


@pytest.mark.parametrize(("name", "methods"), [("own_method", 3), ("own_net", 2)])
def test_what_is_ones_own_stands_beside_plain_training(name, methods, capsys):
    reached = main_of(name)(limit=300, epochs=3)
    assert len(reached) == methods
    assert capsys.readouterr().out.startswith("ce ")


def test_every_example_is_tested_and_named_in_the_readme():
    text, readme = Path(__file__).read_text(), (EXAMPLES.parent / "README.md").read_text()
    for file in EXAMPLES.glob("*.py"):
        assert f'"{file.stem}"' in text
        assert f"examples/{file.name}" in readme
