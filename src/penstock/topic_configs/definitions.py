"""The topic level keys as configs of a topic: what admin tools may set, and how it is described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.topic_keys import Scope, TopicKey, keys_in

if TYPE_CHECKING:
    from collections.abc import Mapping

SET_ON_TOPIC: Final = 1
DEFAULT: Final = 5
"""Sources of a config's value, as DescribeConfigs numbers them: DYNAMIC_TOPIC_CONFIG and
DEFAULT_CONFIG."""


VALUE_MAX_BYTES: Final = 4096


def config_keys() -> dict[str, TopicKey]:
    """Return the keys that may be set on a topic, in the order of their names."""
    return dict(sorted(keys_in(Scope.TOPIC).items()))


def select(configs: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return those of some configs that are kept by Penstock."""
    ours = config_keys()
    return {name: value for name, value in configs.items() if name in ours}


def normalize(name: str, value: str) -> str:
    """Return a value as brokers describe one of its type."""
    return config_keys()[name].type.normalize(value)


def value_error(name: str, value: str) -> str | None:
    """Say what is wrong with a value, in the words of Kafka's ConfigException; None if nothing."""
    if len(value.encode("utf-8", "replace")) > VALUE_MAX_BYTES:
        return f"Invalid value for configuration {name}: it is longer than {VALUE_MAX_BYTES} bytes"
    key_type = config_keys()[name].type
    try:
        key_type.read(value)
    except ValueError as error:
        return invalid_value(name, value, f"Expected {key_type.expected or error}")
    return None


def invalid_value(name: str, value: str, why: str) -> str:
    """State that a value may not be set, as Kafka's ConfigException does."""
    return f"Invalid value {value} for configuration {name}: {why}"
