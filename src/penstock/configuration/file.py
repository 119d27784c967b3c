"""The configuration file: a Kafka-style `.properties` file, read and checked as a whole."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import javaproperties

from penstock.configuration.errors import ConfigurationError
from penstock.configuration.keys import KEYS, REQUIRED, TOPIC_LEVEL_KEYS
from penstock.configuration.values import boolean, class_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.configuration.values import Address, Listener

_UPSTREAM_KEYSTORE = "upstream.ssl.keystore."
_ONE_PRINCIPAL = (
    "upstream.ssl.keystore.*: with upstream.security.protocol=SSL there is no login, and every "
    "client acts in the cluster as the principal of this certificate; let only those connect who "
    "may (listeners=SSL://..., ssl.client.auth=required)"
)
_VARIABLE = re.compile(r"\$\{(env|file):([^}]*)\}")
_BUILT_IN_POLICIES = "topic.rules."
"""Keys of the ready-made policies of topics, which check them themselves."""
_LISTENER_TLS_KEYS = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
    }
)
_TOPIC_VALUES: dict[str, Callable[[str], object]] = {
    "records.policy.class.name": class_name,
    "records.policy.enabled": boolean,
    "record.validation.policy": str,
}


@dataclass(frozen=True, slots=True)
class TopicDefault:
    """One line `topics.<glob>.<topic level key>=<value>` of the file."""

    glob: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration file whose every value has been read.

    Attributes:
        path: The file.
        properties: The whole file as text by key, which is what `configure()` receives.
        topic_defaults: The lines `topics.<glob>.<key>`.
        warnings: Sentences about keys nobody here knows.
    """

    path: Path
    properties: Mapping[str, str]
    topic_defaults: tuple[TopicDefault, ...]
    warnings: tuple[str, ...]
    values: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        """Give the value of a key of `KEYS`, its default where the file is silent."""
        return self.values[key]

    @property
    def folder(self) -> Path:
        """The file's folder: policies are imported from here first."""
        return self.path.parent

    @property
    def upstream_servers(self) -> tuple[Address, ...]:
        """The cluster's bootstrap addresses."""
        servers: tuple[Address, ...] = self["upstream.bootstrap.servers"]
        return servers

    @property
    def listener(self) -> Listener:
        """Where clients connect."""
        listener: Listener = self["listeners"]
        return listener

    @property
    def upstream_properties(self) -> dict[str, str]:
        """The keys after `upstream.`, as a Kafka client takes them."""
        prefix = "upstream."
        return {
            key.removeprefix(prefix): value
            for key, value in self.properties.items()
            if key.startswith(prefix)
        }

    @property
    def class_path(self) -> tuple[Path, ...]:
        """The folders of `record.validation.policy.class.path`."""
        return tuple(self.folder / entry for entry in self["record.validation.policy.class.path"])


def load_configuration(path: str | Path) -> Configuration:
    """Read and check a configuration file.

    Args:
        path: A `.properties` file.

    Raises:
        ConfigurationError: It cannot be read, or a key or value in it is not usable.
    """
    return read_configuration(Path(path).resolve(), load_properties(path))


def load_properties(path: str | Path) -> dict[str, str]:
    """Read a `.properties` file, with `${env:...}` and `${file:...}` resolved, unchecked.

    Raises:
        ConfigurationError: It, or a file or variable that it names, cannot be read.
    """
    file = Path(path).resolve()
    try:
        with file.open(encoding="utf-8") as lines:
            properties = javaproperties.load(lines)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: is not a text in UTF-8") from None
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    return _resolve_variables(file, properties)


def read_configuration(file: Path, properties: Mapping[str, str]) -> Configuration:
    """Check properties as if they stood in `file`; see `load_configuration`."""
    values: dict[str, Any] = {}
    for key in KEYS:
        given = properties.get(key.name)
        if given is not None and not key.served and given.strip():
            raise ConfigurationError(
                f"{file}: {key.name} is not served by this version of Penstock; "
                "remove it, because nothing would be judged by it"
            )
        if given is None:
            if key.default is REQUIRED:
                raise ConfigurationError(f"{file}: {key.name} is missing: {key.meaning}")
            given = key.default
        try:
            values[key.name] = None if given is None else key.read(given)
        except ValueError as error:
            raise ConfigurationError(f"{file}: {key.name} must be {error}") from None
    warnings = [sentence for key in properties if (sentence := _unknown(file, key)) is not None]
    if _has_one_principal(properties):
        warnings.append(_ONE_PRINCIPAL)
    return Configuration(
        path=file,
        properties=MappingProxyType(dict(properties)),
        topic_defaults=_topic_defaults(file, properties),
        warnings=tuple(warnings),
        values=MappingProxyType(values),
    )


def _resolve_variables(file: Path, properties: Mapping[str, str]) -> dict[str, str]:
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
    except KeyError:
        raise ConfigurationError(f"{file}: {key}: {secret} has no key {wanted}") from None


def _topic_defaults(file: Path, properties: Mapping[str, str]) -> tuple[TopicDefault, ...]:
    found = []
    for key, value in properties.items():
        if not key.startswith("topics."):
            continue
        for level_key, read in _TOPIC_VALUES.items():
            if key.endswith("." + level_key) and len(key) > len("topics..") + len(level_key):
                glob = key[len("topics.") : -len(level_key) - 1]
                try:
                    read(value)
                except ValueError as error:
                    raise ConfigurationError(f"{file}: {key} must be {error}") from None
                found.append(TopicDefault(glob, level_key, value.strip()))
                break
        else:
            raise ConfigurationError(
                f"{file}: {key} must be topics.<glob>.<key> with one of the keys "
                + ", ".join(TOPIC_LEVEL_KEYS)
            )
    return tuple(found)


def _has_one_principal(properties: Mapping[str, str]) -> bool:
    """Whether brokers know a client by nothing but the gateway's certificate."""
    protocol = properties.get("upstream.security.protocol", "").strip().upper()
    return protocol == "SSL" and any(key.startswith(_UPSTREAM_KEYSTORE) for key in properties)


def _unknown(file: Path, key: str) -> str | None:
    """Say nothing of a known key, warn of an unknown one, refuse one that looks misspelt."""
    known = {one.name for one in KEYS} | _LISTENER_TLS_KEYS
    if key in known or key.startswith(("topics.", "upstream.", _BUILT_IN_POLICIES)):
        return None
    if key in TOPIC_LEVEL_KEYS:
        raise ConfigurationError(
            f"{file}: {key} belongs to a topic: write topics.<glob>.{key}, "
            f"for example topics.*.{key}"
        )
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.88)
    if close:
        raise ConfigurationError(f"{file}: {key} is unknown; did you mean {close[0]}?")
    return f"{key} is unknown to Penstock; it is handed to the policies' configure()"
