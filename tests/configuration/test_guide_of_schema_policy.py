"""docs/schemas.md has every key of `SchemaPolicy`, with its default and its values."""

from pathlib import Path

import pytest

from penstock.policies.schema_policy.registry.settings import KEYS as REGISTRY_KEYS
from penstock.policies.schema_policy.rules.options import KEYS as RULE_KEYS
from penstock.policies.schema_policy.settings import FILE_KEYS, TOPIC_CONFIGS

GUIDE = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text()
LONG_NAMES = "io.confluent.kafka.serializers.subject."


@pytest.mark.parametrize(("key", "row"), {**REGISTRY_KEYS, **FILE_KEYS, **RULE_KEYS}.items())
def test_each_key_of_the_file_has_its_row(key, row):
    default, meaning = row
    assert f"| `{key}` | {shown(default)} | {meaning} |" in GUIDE.splitlines()


@pytest.mark.parametrize("key", TOPIC_CONFIGS, ids=lambda key: key.name)
def test_each_key_of_a_topic_has_its_default_and_its_values(key):
    [row] = [line for line in GUIDE.splitlines() if line.startswith(f"| `{key.name}` | ")]
    _, values, default, *_ = (cell.strip() for cell in row.split(" |"))

    assert default == shown(key.default or "")
    if key.valid_values and values != "the same":
        short = [one for one in key.valid_values if not one.startswith(LONG_NAMES)]
        assert values == ", ".join(map(shown, short))


def shown(text):
    return f"`{text}`" if text else "none"
