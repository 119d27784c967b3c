"""The keys of `SchemaPolicy`, as `configure()` gets them."""

import pytest

from penstock.policies import SchemaPolicy
from penstock.policies.schema_policy.settings import TOPIC_CONFIGS, FileSettings


@pytest.mark.parametrize("config", TOPIC_CONFIGS, ids=lambda config: config.name)
def test_of_a_policy_with_a_name_the_topic_level_keys_are_among_its_own(config):
    assert FileSettings.read({config.name: config.default or ""}).null_values
    SchemaPolicy().configure({config.name: config.default or ""})


@pytest.mark.parametrize("key", ["schema.files", "schema.level", "schema.null.value"])
def test_an_unknown_key_is_an_error(key):
    with pytest.raises(ValueError, match=f"{key} is unknown; there are schema.null.values"):
        FileSettings.read({key: "x"})
