"""The page about schemas says what each key of a topic does; docs/configuration.md lists all keys."""

import re
from pathlib import Path

import pytest

from penstock.policies.schema_policy.rules.options import KEYS as RULE_KEYS
from penstock.policies.schema_policy.settings import FILE_KEYS, TOPIC_CONFIGS

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "built-in.md").read_text()


@pytest.mark.parametrize(
    "key", [*(config.name for config in TOPIC_CONFIGS), *FILE_KEYS, *RULE_KEYS]
)
def test_each_key_has_its_place(key):
    assert re.search(rf"`(topics\.\S+\.)?{re.escape(key)}[`=]", GUIDE)


@pytest.mark.parametrize("key", TOPIC_CONFIGS, ids=lambda key: key.name)
def test_each_value_of_a_key_has_its_place(key):
    for value in key.valid_values or ():
        if "." not in value and value not in {"true", "false"}:
            assert re.search(rf"[`=]{re.escape(value)}`", GUIDE), value
