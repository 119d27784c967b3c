"""The keys `json.schema.*` of the configuration file, and a topic's own text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.policies.own_keys import accepts
from penstock.policy import ConfigKey

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "json.schema."
SCHEMA: Final = "schema"
FOLDER: Final = "json.schema.folder"
FORMATS: Final = "json.schema.formats"
NULL_VALUES: Final = "json.schema.null.values"
NULL_KEYS: Final = "json.schema.null.keys"
KEYS: Final = {
    FOLDER: (".", "The folder of schemas, relative to the file's folder."),
    FORMATS: (
        "false",
        "`true`: `format` is validated, also by `SchemaPolicy`. `false`: it is ignored.",
    ),
    NULL_VALUES: (
        "accept",
        "`accept` or `refuse` records without a value (tombstones), if values are validated.",
    ),
    NULL_KEYS: ("refuse", "`refuse` or `accept` records without a key, if keys are validated."),
}
"""The keys, with their defaults and meanings for the configuration reference."""


CONFIG_KEYS: Final = (
    ConfigKey(
        SCHEMA,
        documentation="The schema's file: `order.schema.json`, or `key=FILE,value=FILE`.",
        required=True,
    ),
    *(
        ConfigKey(
            name.removeprefix(PREFIX),
            documentation=f"Overrides `{name}`.",
            valid_values=("accept", "refuse"),
        )
        for name in (NULL_VALUES, NULL_KEYS)
    ),
    *(ConfigKey(name, "STRING", default, meaning) for name, (default, meaning) in KEYS.items()),
)
"""The keys of a policy with a name."""


@dataclass(frozen=True, slots=True)
class JsonSchemaSettings:
    """The values of the keys.

    Attributes:
        folder: Where the schemas are, absolute or relative to the configuration file.
        formats: Whether `format` is judged.
        null_values: Whether a record may have no value, where values are judged.
        null_keys: Whether a record may have no key, if keys are judged.
        schema: The schema, instead of a topic's text; empty if the topic's text names it.
    """

    folder: str
    formats: bool
    null_values: bool
    null_keys: bool
    schema: str = ""

    @classmethod
    def read(cls, configs: Mapping[str, str]) -> JsonSchemaSettings:
        """Read the keys out of a configuration.

        Raises:
            ValueError: A key is unknown, or has a value that it cannot have.
        """
        for key in configs:
            if key.startswith(PREFIX) and key not in KEYS:
                raise ValueError(f"{key} is unknown; there are {', '.join(KEYS)}")
        return cls(
            _given(configs, FOLDER) or ".",
            judges_formats(configs),
            _accepts(configs, NULL_VALUES),
            _accepts(configs, NULL_KEYS),
            configs.get(SCHEMA, "").strip(),
        )


def judges_formats(configs: Mapping[str, str]) -> bool:
    """Return whether `format` is judged, by `JsonSchema` and by `SchemaPolicy`.

    Raises:
        ValueError: The key has a value that it cannot have.
    """
    return _either(configs, FORMATS, "true", "false")


def _accepts(configs: Mapping[str, str], key: str) -> bool:
    """Return whether nulls pass; a policy with a name may say it without the prefix."""
    of_name = key.removeprefix(PREFIX)
    if of_name in configs:
        return accepts(configs, of_name, "accept")
    return _either(configs, key, "accept", "refuse")


def _given(configs: Mapping[str, str], key: str) -> str:
    return configs.get(key, KEYS[key][0]).strip()


def _either(configs: Mapping[str, str], key: str, yes: str, no: str) -> bool:
    value = _given(configs, key).lower()
    if value not in {yes, no}:
        raise ValueError(f"{key} must be {yes} or {no}, not {value or 'nothing'}")
    return value == yes


def schema_names(text: str) -> dict[str, str]:
    """Read a topic's `record.validation.policy`: `v.json`, or `key=k.json,value=v.json`.

    Returns:
        Names of files by `key` and `value`, at least one of them.

    Raises:
        ValueError: It is neither.
    """
    names: dict[str, str] = {}
    for part in text.split(","):
        field, equals, name = (text.strip() for text in part.partition("="))
        if not equals:
            field, name = "value", field
        if field not in {"key", "value"} or not name or field in names:
            raise ValueError(
                f"must name a schema file, like order.schema.json, or "
                f"key=FILE,value=FILE, not {text or 'nothing'}"
            )
        names[field] = name
    return names
