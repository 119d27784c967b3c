"""docs/choosing.md: what it shows works, and what the classes declare is in it."""

import re
from io import StringIO
from pathlib import Path

import javaproperties
import pytest

import penstock.policies
from penstock.policies import (
    DataContract,
    HeaderRequired,
    JsonSchema,
    KeyRequired,
    MaxBytes,
    Required,
    Rules,
)
from penstock.policy.testing import judge

TEXT = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text()
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
    assert [one.outcome for one in judge(Rules, values, configs=known)] == ["accepted"] * 3 + [
        "refused"
    ]
    fields = {"fields": keys["policies.required.fields"]}
    values = ['{"id": 1}', '{"id": null}', "{}"]
    assert [one.outcome for one in judge(Required, values, configs=fields)] == ["accepted"] + [
        "refused"
    ] * 2


def conditions():
    """Yield the conditions of the tables of other tools, and those of the first table."""
    _, _, tables = TEXT.partition("## From Conduktor")
    for line in tables.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        if len(cells) > 3:
            for found in re.findall(r"`([^`]+)`", cells[2].replace(r"\|", "|")):
                if re.search(r"(value\.|key |headers\.|partition |timestamp )", found):
                    yield found
    yield from re.findall(r"`rules\.\w+=([^`]+)`", TEXT.partition("\n## ")[0])


@pytest.mark.parametrize("condition", [one for one in conditions() if "count" not in one])
def test_a_condition_that_is_shown_is_one(condition):
    Rules().configure({"rules.r": condition})


def test_there_are_conditions():
    assert len(list(conditions())) > 25


@pytest.mark.parametrize(
    "cls", [DataContract, HeaderRequired, JsonSchema, KeyRequired, MaxBytes, Required, Rules]
)
def test_each_key_has_its_place(cls):
    part = TEXT.partition(f"\n## {cls.__name__}\n")[2].partition("\n## ")[0]
    for key in cls.config_keys:
        if not key.name.startswith("json.schema."):
            assert f"`{key.name}`" in part, key.name
        if key.default and not key.name.startswith("json.schema."):
            assert f"`{key.default}`" in part, key.name
