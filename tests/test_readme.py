"""README.md agrees with the code, and its links work on a package index."""

import importlib.util
import re
from io import StringIO
from pathlib import Path

import javaproperties
import pytest

from penstock.policy.testing import judge

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
LINK = re.compile(r"\]\(([^)]*)\)")


def dist_tree():
    specification = importlib.util.spec_from_file_location("tree", ROOT / "deploy/dist/tree.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_policy_returns_the_shown_reason():
    names = {"__name__": "policy"}
    exec(re.search(r"```python\n(.*?)```", README, re.DOTALL)[1], names)
    keys = javaproperties.load(
        StringIO(re.search(r"```properties\n(.*?)```", README, re.DOTALL)[1])
    )
    cls = names[keys["record.validation.policy.class.name"].removeprefix("policy.")]
    good, bad = judge(cls, ['{"amount": 5}', '{"amount": -1}'], validation_policy="order")
    assert good.outcome == "accepted"
    assert f"INVALID_RECORD ({bad.code}): {bad.message}`" in README


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (None, "accepted"),
        ("no JSON", "refused"),
        ("[1]", "refused"),
        ("1", "refused"),
        ("{}", "refused"),
        ('{"amount": "5"}', "refused"),
    ],
)
def test_the_policy_fails_on_no_value(value, outcome):
    names = {"__name__": "policy"}
    exec(re.search(r"```python\n(.*?)```", README, re.DOTALL)[1], names)
    [verdict] = judge(names["Orders"], [value], validation_policy="order")
    assert verdict.outcome == outcome


def test_a_package_index_shows_absolute_links():
    text = dist_tree().for_an_index(README, "https://git.example.com/shop/penstock", "1.2.3")
    links = LINK.findall(text)
    assert len(links) > 20
    for link in links:
        assert link.startswith("https://git.example.com/shop/penstock/")
        path = link.partition("/v1.2.3/")[2].partition("#")[0]
        assert (ROOT / path).exists()
    assert "penstock/raw/v1.2.3/docs/console-light.png)](https://" in text


def test_without_an_address_a_package_index_shows_no_broken_link():
    text = dist_tree().for_an_index(README, "", "1.2.3")
    assert LINK.findall(text) == []
    assert "![" not in text
    assert "Getting started: your own policy in ten minutes" in text


@pytest.mark.parametrize("address", ["", "https://git.example.com/shop/penstock"])
def test_absolute_links_stay(address):
    text = "[KIP](https://cwiki.apache.org/x)"
    assert dist_tree().for_an_index(text, address, "1.2.3") == text
