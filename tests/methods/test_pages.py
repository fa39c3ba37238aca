"""Every method has its page, with all that a page has, and every setting of its own is on it."""

import dataclasses
import re
from pathlib import Path

import pytest

from labelsift import METHODS, Method

PAGES = Path(__file__).parents[2] / "docs" / "methods"
SECTIONS = ["Idea", "Algorithm", "Hyper-parameters", "Differs", "Cost", "What it reached here", "Citation"]
PLAIN = ("ce", "early-stopping")  # of no paper of their own


def sections(name):
    """The text below each heading."""
    _, *parts = re.split(r"^## (.*)$", (PAGES / f"{name}.md").read_text(), flags=re.M)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_a_page_has_all_its_sections(name):
    found = sections(name)
    assert list(found) == SECTIONS
    assert all(text.strip() for text in found.values())
    assert re.search(r"<!-- results -->\n.*\n<!-- /results -->", found["What it reached here"], flags=re.S)
    assert ("```bibtex\n@" in found["Citation"]) == (name not in PLAIN)
    file = f"methods/{METHODS[name].__module__.rsplit('.', 1)[1]}.py"
    assert f"(../../src/labelsift/{file})" in (PAGES / f"{name}.md").read_text()


@pytest.mark.parametrize("name", METHODS)
def test_a_page_names_every_setting_of_its_own_with_the_papers_symbol(name):
    cls, shared = METHODS[name], {field.name for field in dataclasses.fields(Method)}
    own = [f for f in dataclasses.fields(cls) if f.name in cls.__annotations__ and f.name not in shared]
    text = sections(name)["Hyper-parameters"]
    for field in own:
        row = re.search(rf"^.*`{field.name}`.*$", text, flags=re.M)
        assert row, f"{field.name} is not on the page"
        assert field.metadata["symbol"] in row.group(), field.name


@pytest.mark.parametrize("name", METHODS)
def test_what_is_known_of_the_noise_is_said_on_the_page(name):
    text = sections(name)["Hyper-parameters"]
    for setting in METHODS[name].oracle:
        assert re.search(rf"`{setting}`[^#]*`oracle`", text), setting
