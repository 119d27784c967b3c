"""docs/choosing.md and docs/built-in.md: the examples work, and the keys of the classes exist."""

import re
from io import StringIO
from pathlib import Path

import javaproperties
import pytest

import penstock.policies
from penstock.configuration.installed_policies import own_policies
from penstock.policies import Required, Rules
from penstock.policies.json_schema.settings import KEYS as JSON_SCHEMA_KEYS
from penstock.policy.testing import judge

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "choosing.md").read_text()
BUILT_IN = (DOCS / "built-in.md").read_text()
OWN = {"order.schema.json": '{"type": "object"}'}


def test_the_keys_at_the_top_are_right(tmp_path):
    [block, *_] = re.findall(r"```properties\n(.*?)```", TEXT, re.DOTALL)
    keys = javaproperties.load(StringIO(block))
    for name, text in OWN.items():
        (tmp_path / name).write_text(text)
    names = keys["policies"].split(",")
    assert keys["topics.orders-*.penstock.policies"].split(",") == names
    for name in names:
        prefix = f"policies.{name}."
        own = {key.removeprefix(prefix): text for key, text in keys.items() if prefix in key}
        policy = getattr(penstock.policies, own.pop("type").rpartition(".")[2])()
        if hasattr(policy, "use_folder"):
            policy.use_folder(tmp_path)
        policy.configure(own)


def test_the_keys_in_place_of_checks_of_dqx_judge_alike():
    [block] = re.findall(r"```properties\n(.*?)```", TEXT.partition("\n## From DQX")[2], re.DOTALL)
    keys = javaproperties.load(StringIO(block))
    known = {"rules.known": keys["policies.currency.rules.known"]}
    values = ['{"currency": "EUR"}', '{"currency": null}', "{}", '{"currency": "GBP"}']
    assert [verdict.outcome for verdict in judge(Rules, values, configs=known)] == [
        "accepted"
    ] * 3 + ["refused"]
    fields = {"fields": keys["policies.required.fields"]}
    values = ['{"id": 1}', '{"id": null}', "{}"]
    assert [verdict.outcome for verdict in judge(Required, values, configs=fields)] == [
        "accepted"
    ] + ["refused"] * 2


def conditions():
    """Yield the conditions of the tables of other tools, and those of the first table."""
    tables = TEXT.partition("## From Conduktor")[2].partition("## From Confluent")[0]
    tables += (DOCS / "tables.md").read_text().partition("## Coming from DQX")[2]
    for line in tables.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        if len(cells) > 3:
            for found in re.findall(r"`([^`]+)`", cells[2].replace(r"\|", "|")):
                if re.search(r"(value\.|key |headers\.|partition |timestamp )", found):
                    yield found
    yield from re.findall(r"`rules\.\w+=([^`]+)`", TEXT.partition("\n## ")[0])


@pytest.mark.parametrize(
    "condition", [condition for condition in conditions() if "count" not in condition]
)
def test_a_documented_condition_is_valid(condition):
    Rules().configure({"rules.r": condition})


def test_there_are_conditions():
    assert len(list(conditions())) > 25


@pytest.mark.parametrize("name", [name for name in own_policies() if name != "SchemaPolicy"])
def test_each_built_in_policy_has_its_section_with_its_keys(name):
    section = BUILT_IN.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert section
    for key in getattr(penstock.policies, name).config_keys:
        if not key.name.startswith(("json.schema.", "schema.registry.")):
            assert re.search(rf"`{re.escape(key.name)}[`=]", section), key.name
            if key.default:
                assert f"`{key.default}`" in section, key.name


@pytest.mark.parametrize("key", JSON_SCHEMA_KEYS)
def test_the_keys_of_json_schemas_have_their_place(key):
    section = BUILT_IN.partition("\n## JsonSchema\n")[2].partition("\n## ")[0]
    assert f"`{key}" in section
    assert f"`{key}=" in section or JSON_SCHEMA_KEYS[key][0] in section
