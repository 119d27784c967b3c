"""The topic level keys that admin tools may set, and the checks of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.topic_keys import Scope, TopicKey, key_named, keys_in

if TYPE_CHECKING:
    from collections.abc import Mapping

SET_ON_TOPIC: Final = 1
DEFAULT: Final = 5
"""The sources of a config in DescribeConfigs: DYNAMIC_TOPIC_CONFIG and DEFAULT_CONFIG."""


VALUE_MAX_BYTES: Final = 4096


def config_keys() -> dict[str, TopicKey]:
    """Return the keys that may be set for a topic, sorted by name."""
    return dict(sorted(keys_in(Scope.TOPIC).items()))


def select(configs: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the configs whose names are topic level keys of Penstock."""
    names = config_keys()
    return {name: value for name, value in configs.items() if name in names}


def normalize(name: str, value: str) -> str:
    """Return a value as brokers describe values of its type."""
    return key_named(name).type.normalize(value)


def value_error(name: str, value: str) -> str | None:
    """Return the message of Kafka's ConfigException for a value; None if it is valid."""
    if len(value.encode("utf-8", "replace")) > VALUE_MAX_BYTES:
        return f"Invalid value for configuration {name}: it is longer than {VALUE_MAX_BYTES} bytes"
    key_type = key_named(name).type
    try:
        key_type.read(value)
    except ValueError as error:
        why = key_type.complaint or f"Expected {key_type.expectation or error}"
        return invalid_value(name, value, why)
    return None


def invalid_value(name: str, value: str, why: str) -> str:
    """Return the message of Kafka's ConfigException for an invalid value."""
    return f"Invalid value {value} for configuration {name}: {why}"
