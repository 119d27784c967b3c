"""A Kafka-style `.properties` file as text, and the variables in it."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Final

import javaproperties

from penstock.configuration.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_VARIABLE: Final = re.compile(r"\$\{(env|file):([^}]*)\}")


def load_properties(path: str | Path, file: Path) -> dict[str, str]:
    """Read a `.properties` file as it is written.

    Args:
        path: As errors name it.
        file: Where it is.

    Raises:
        ConfigurationError: It cannot be read, or has a key twice.
    """
    try:
        return _keys_once(path, file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: is not UTF-8 text") from None
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def _keys_once(path: str | Path, text: str) -> dict[str, str]:
    """Return properties. A repeated key is an error; Java would silently use its last value."""
    properties: dict[str, str] = {}
    lines: dict[str, int] = {}
    line = 1
    for element in javaproperties.parse(text):
        if isinstance(element, javaproperties.KeyValue):
            first = lines.setdefault(element.key, line)
            if first != line:
                raise ConfigurationError(
                    f"{path}: {element.key} is in line {first} and in line {line}, but "
                    "can have only one value: remove one"
                )
            properties[element.key] = element.value
        line += element.source.count("\n")
    return properties


def resolve_variables(file: Path, properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties with `${env:...}` and `${file:...}` replaced by their values.

    Raises:
        ConfigurationError: A file or variable that a property names cannot be read.
    """
    return {
        key: _VARIABLE.sub(partial(_variable, file, key), value)
        for key, value in properties.items()
    }


def _variable(file: Path, key: str, match: re.Match[str]) -> str:
    """Resolve `${env:NAME}`, `${file:PATH}` (its text) or `${file:PATH:KEY}` (a property)."""
    kind, name = match[1], match[2]
    if kind == "env":
        try:
            return os.environ[name]
        except KeyError:
            raise ConfigurationError(
                f"{file}: {key} names the environment variable {name}, which is not set"
            ) from None
    path_text, separator, wanted = name.rpartition(":")
    secret = file.parent / (path_text if separator else name)
    try:
        content = secret.read_text(encoding="utf-8")
        return javaproperties.loads(content)[wanted] if separator else content.strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: {key} names {secret}, unreadable: {error}") from None
    except javaproperties.InvalidUEscapeError:
        raise ConfigurationError(f"{file}: {key}: {secret} has a wrong \\u escape") from None
    except KeyError:
        raise ConfigurationError(f"{file}: {key}: {secret} has no key {wanted}") from None
