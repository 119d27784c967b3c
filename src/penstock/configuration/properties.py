"""A Kafka-style `.properties` file as text, and the variables in it."""

from __future__ import annotations

import difflib
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import javaproperties

from penstock.configuration.errors import ConfigurationError
from penstock.configuration.misreadings import misreadings
from penstock.configuration.topic_keys import DEAD_LETTER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_VARIABLE: Final = re.compile(r"\$\{(?:([^:{}]*):)?([^}]*)(\}?)")
_PROVIDERS: Final = ("env", "file")
_PROVIDER: Final = re.compile(r"[\w.-]{1,40}")
_KNOWN: Final = "write ${env:NAME}, ${file:PATH} or ${file:PATH:KEY}"


class Properties(NamedTuple):
    """The content of a `.properties` file.

    Attributes:
        values: The values as they are written, by key. Of a repeated key, the last value applies,
            as in Java.
        warnings: A sentence for each repeated key, and each line that may be misread.
    """

    values: dict[str, str]
    warnings: list[str]


def load_properties(path: str | Path, file: Path) -> Properties:
    """Read a `.properties` file as it is written.

    Args:
        path: As errors name it.
        file: Where it is.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        return _parse(_text_of(file))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: is not UTF-8 text") from None
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def _text_of(file: Path) -> str:
    """Return a file's text, without the byte order mark that some editors write."""
    return file.read_text(encoding="utf-8-sig")


def _parse(text: str) -> Properties:
    properties = Properties({}, [])
    lines: dict[str, int] = {}
    line = 1
    for element in javaproperties.parse(text):
        if isinstance(element, javaproperties.KeyValue):
            earlier_line = lines.get(element.key)
            if earlier_line is not None:
                properties.warnings.append(
                    f"{element.key} is in line {earlier_line} and in line {line}: "
                    "the last value applies"
                )
            lines[element.key] = line
            properties.values[element.key] = element.value
            properties.warnings.extend(
                misreadings(element.key, element.value, element.source, line)
            )
        line += element.source.count("\n")
    return properties


def resolve_variables(file: Path, properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties with `${env:...}` and `${file:...}` replaced by their values.

    Raises:
        ConfigurationError: A file or variable that a property names cannot be read, or a property
            has a `${` of another kind, which would be its value as it is written.
    """
    for key in properties:
        if "${" in key:
            raise ConfigurationError(f"{file}: {key}: a key cannot have a variable")
    return {
        key: _VARIABLE.sub(partial(_variable, file, key), value)
        for key, value in properties.items()
    }


def _variable(file: Path, key: str, match: re.Match[str]) -> str:
    """Resolve `${env:NAME}`, `${file:PATH}` (its text) or `${file:PATH:KEY}` (a property)."""
    kind, name, end = match.groups()
    if kind is None and key.endswith(DEAD_LETTER_TOPIC):
        return match[0]  # `${topic}`, or an error where the name of the topic is read
    if not end or kind not in _PROVIDERS or not name:
        raise ConfigurationError(f"{file}: {key} {_fault(kind, name, end)}: {_KNOWN}")
    if kind == "env":
        try:
            return os.environ[name]
        except KeyError:
            raise ConfigurationError(
                f"{file}: {key} names the environment variable {name}, which is not set"
            ) from None
    path_text, separator, property_key = name.rpartition(":")
    secret = file.parent / (path_text if separator else name)
    try:
        content = _text_of(secret)
        return javaproperties.loads(content)[property_key] if separator else content.strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: {key} names {secret}, unreadable: {error}") from None
    except javaproperties.InvalidUEscapeError:
        raise ConfigurationError(f"{file}: {key}: {secret} has a wrong \\u escape") from None
    except KeyError:
        raise ConfigurationError(f"{file}: {key}: {secret} has no key {property_key}") from None


def _fault(kind: str | None, name: str, end: str) -> str:
    """Return what is wrong with a variable, without what may be a part of a secret."""
    if not end:
        return "has a ${ without its }"
    if kind is None or not _PROVIDER.fullmatch(kind):
        return "has a variable without a provider"
    if kind in _PROVIDERS and not name:
        return f"has a variable of {kind} without a name"
    near = difflib.get_close_matches(kind.lower(), _PROVIDERS, n=1)
    hint = f", did you mean {near[0]}?" if near else ""
    return f"has a variable of {kind}, which is no provider{hint}"
