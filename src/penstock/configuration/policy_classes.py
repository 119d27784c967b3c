"""Descriptions of the classes of policies: interface, keys, documentation.

The built-in policies are imported in this process. Classes of users are imported in a separate,
short-lived process, as in `declared_keys`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.configuration import values
from penstock.configuration.declared_keys import (
    ANSWER_MAX_BYTES,
    answer_of,
    as_configs,
    is_own,
)
from penstock.configuration.declared_rows import check_name_and_type, check_values, read_rows
from penstock.configuration.errors import ConfigurationError
from penstock.configuration.interfaces import interface_of
from penstock.configuration.topic_keys import KEY_TYPES, LIST, KeyType
from penstock.policy import ConfigKey, TopicConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from penstock.configuration.processes.bounded import Imports

    DescribeClasses = Callable[[Mapping[str, str], Path], "Mapping[str, PolicyClass]"]
    """Returns descriptions of users' classes; see `classes_of_user`."""

_KEYS_MAX: Final = 200
_DOCUMENTATION_MAX: Final = 500
_NAME: Final = re.compile(r"(?:[A-Za-z0-9._-]|<[A-Za-z0-9_-]+>){1,249}")
_CHOSEN: Final = re.compile(r"<[^<>]+>")
_CLOSE: Final = 0.8

TYPES: Final[dict[str, KeyType]] = {
    **KEY_TYPES,
    "LIST": LIST,
    "DOUBLE": KeyType("DOUBLE", 6, values.number, str.strip),
    "PASSWORD": KeyType("PASSWORD", 9, str, str),
}
"""The types that `ConfigKey` may have."""


class PolicyClass(NamedTuple):
    """The description of a class.

    Attributes:
        interface: The key of its interface; see `interfaces`.
        config_keys: The keys that it declares for `configure()`.
        topic_configs: The topic level keys that it declares.
        documentation: The first sentence of its documentation.
    """

    interface: str
    config_keys: tuple[ConfigKey, ...] = ()
    topic_configs: tuple[TopicConfig, ...] = ()
    documentation: str = ""

    @classmethod
    def of(cls, policy_type: type) -> PolicyClass:
        """Return the description of a class.

        Raises:
            ValueError: It is not a policy of records, or its declarations are not usable; the text
                completes "<class> ...".
        """
        try:
            interface = interface_of(policy_type)
        except TypeError as error:
            raise ValueError(str(error)) from None
        return cls(
            interface,
            as_config_keys(getattr(policy_type, "config_keys", ())),
            as_configs(getattr(policy_type, "topic_configs", ())),
            first_sentence(policy_type),
        )

    @classmethod
    def decode(cls, row: Sequence[Any]) -> PolicyClass:
        """Return the description that was encoded as JSON."""
        interface, keys, configs, documentation = row
        return cls(interface, as_config_keys(keys), as_configs(configs), documentation)

    def key(self, name: str) -> ConfigKey | None:
        """Return the declared key that a name matches."""
        return next((key for key in self.config_keys if _pattern(key.name).fullmatch(name)), None)

    def is_secret(self, name: str) -> bool:
        """Return whether the value of a key is a secret, as the class declares the key."""
        key = self.key(name)
        return key is not None and key.type == "PASSWORD"

    def close_to(self, name: str) -> str | None:
        """Return the declared key that is similar to an unknown name."""
        parts = name.split(".")
        names = [*(key.name for key in self.config_keys), *(key.name for key in self.topic_configs)]
        keys = [key for key in (_filled(name, parts) for name in names) if key != name]
        return next(iter(difflib.get_close_matches(name, keys, n=1, cutoff=_CLOSE)), None)


def first_sentence(cls: type) -> str:
    """Return the first sentence of a class's own documentation, on one line."""
    text = inspect.cleandoc(vars(cls).get("__doc__") or "")
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0][:_DOCUMENTATION_MAX]


def as_config_keys(declarations: Any) -> tuple[ConfigKey, ...]:
    """Read the `config_keys` of a class, which may be anything.

    Raises:
        ValueError: They have another form; the text completes "<class> ...".
    """
    rows = read_rows(declarations, ConfigKey, "config_keys", most=_KEYS_MAX)
    for row in rows:
        where = f"config_keys: {row.name!r}"
        check_name_and_type(row, where, _NAME, TYPES)
        check_values(row, where, TYPES[row.type].read)
    return rows


@lru_cache(1000)
def _pattern(name: str) -> re.Pattern[str]:
    parts = re.split(f"({_CHOSEN.pattern})", name)
    return re.compile("".join("[^.]+" if _CHOSEN.fullmatch(p) else re.escape(p) for p in parts))


def _filled(name: str, user_parts: Sequence[str]) -> str:
    """Return a declared name whose parts in angle brackets are replaced by those of the user."""
    parts = name.split(".")
    if len(parts) != len(user_parts):
        return name
    return ".".join(
        other if _CHOSEN.fullmatch(part) else part
        for part, other in zip(parts, user_parts, strict=True)
    )


def value_error(key: ConfigKey, value: str) -> str | None:
    """Return the values that a declared key may have if this value is wrong, or None."""
    parts = values.items(value) if key.type == LIST.name else (value.strip(),)
    if key.valid_values and not set(parts) <= set(key.valid_values):
        return f"one of {', '.join(key.valid_values)}"
    try:
        TYPES[key.type].read(value)
    except ValueError as error:
        return str(error)
    return None


def class_of_own(class_name: str) -> PolicyClass | None:
    """Return the description of a built-in policy; None for any other class.

    Raises:
        ValueError: The class does not exist, or is not a policy of records; the text completes
            "<class> ...".
    """
    if not is_own(class_name):
        return None
    module, _, name = values.dotted(class_name).rpartition(".")
    try:
        policy_type = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ValueError(f"cannot be imported: {error}") from None
    if not isinstance(policy_type, type):
        raise ValueError(f"is not a class: module {module} has no {name}")  # noqa: TRY004 - of a user
    return PolicyClass.of(policy_type)


def classes_of_user(
    classes: Mapping[str, str], file: Path, *, imports: Imports | None = None
) -> Mapping[str, PolicyClass]:
    """Return descriptions of users' classes; import them in a separate process.

    Args:
        classes: Class names by the key of the file that names them.
        file: The configuration file.
        imports: Can end the process.

    Returns:
        The description of each class, by key.

    Raises:
        ConfigurationError: A class cannot be imported, is not a policy of records, or its
            declarations are not usable; or the import takes too long.
    """
    request = json.dumps([dict(classes), str(file)])
    data = answer_of(["--classes", request], f"{file}: {', '.join(classes)}", imports)
    if not data:
        names = ", ".join(dict.fromkeys(classes.values()))
        raise ConfigurationError(
            f"{file}: {', '.join(classes)}: {names}: the process that imported them ended"
        )
    rows, error = json.loads(data)
    if error:
        raise ConfigurationError(error)
    return {key: PolicyClass.decode(row) for key, row in rows.items()}


def encode_classes(classes: Mapping[str, PolicyClass], error: str = "") -> bytes:
    """Return the output of the process; see `classes_of_user`."""
    data = json.dumps([classes, error]).encode()
    if len(data) > ANSWER_MAX_BYTES:
        keys = ", ".join(classes)
        return json.dumps([{}, f"{keys}: what the classes declare is too long"]).encode()
    return data


def required(keys: Iterable[ConfigKey]) -> list[str]:
    """Return the names of the required keys."""
    return [key.name for key in keys if key.required and not _CHOSEN.search(key.name)]
