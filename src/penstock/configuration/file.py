"""Reads and checks a configuration file as a whole."""

from __future__ import annotations

import difflib
import fnmatch
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from penstock.configuration.clients.stores import CHAIN, KEY, TRUSTED
from penstock.configuration.clients.upstream_keys import read_upstream_login
from penstock.configuration.declared_keys import (
    VALIDATION,
    declared_by_own,
    declared_by_user,
    is_own,
    rows_of,
)
from penstock.configuration.errors import ConfigurationError
from penstock.configuration.globs import check_glob, meaningless_in
from penstock.configuration.keys import Keys
from penstock.configuration.model import Configuration
from penstock.configuration.named_policies import PREFIX, read_named_policies
from penstock.configuration.policy_classes import PolicyClass, class_of_own, classes_of_user
from penstock.configuration.producer_state_keys import FORMER_KEYS, former_keys
from penstock.configuration.properties import load_properties, resolve_variables
from penstock.configuration.topic_keys import (
    DEAD_LETTER_TOPIC,
    GROUP_DEAD_LETTERS,
    TOPIC_KEYS,
    Scope,
    TopicDefault,
    TopicKey,
    keys_in,
)
from penstock.configuration.unread_keys import (
    OF_BUILT_IN_POLICIES,
    unread_keys,
    unread_security_keys,
)
from penstock.configuration.values import paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic.fields import FieldInfo

    from penstock.configuration.declared_keys import ReadDeclaredKeys
    from penstock.configuration.policies import NamedPolicy
    from penstock.configuration.policy_classes import DescribeClasses
    from penstock.policy import TopicConfig

_SHOWN_MAX: Final = 200
_LIKE_TOPICS: Final = "topic"
PENSTOCKS_ALONE: Final = ("penstock.", "errors.deadletterqueue.")
"""The prefixes of keys that only Penstock has."""
CLOSE: Final = 0.88
CLOSE_OF_PENSTOCKS_ALONE: Final = 0.75
_CLASS_PATH: Final = "record.validation.policy.class.path"
_BROKER_PORTS: Final = "broker.ports"
_ONE_PORT: Final = (
    "broker.ports={0} is one port, so clients can reach one broker only; write FIRST-LAST "
    "({0}-{0} if the cluster has a single broker)"
)
_UPSTREAM_KEYSTORE: Final = "upstream.ssl.keystore."
_ONE_PRINCIPAL: Final = (
    "upstream.ssl.keystore.*: with upstream.security.protocol=SSL there is no login, and every "
    "client acts in the cluster as the principal of this certificate; let only those connect who "
    "may (listeners=SSL://..., ssl.client.auth=required)"
)
LISTENER_TLS_KEYS: Final = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        KEY,
        CHAIN,
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        TRUSTED,
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
    }
)
"""The keys of a broker for the listener's certificate."""
FILE_KEYS: Final[dict[str, FieldInfo]] = {
    str(field.alias): field for field in Keys.model_fields.values()
}
"""The keys of the file, without topic level keys, by name."""


def load_configuration(
    path: str | Path,
    *,
    without: str = "",
    replaced: Mapping[str, str] = MappingProxyType({}),
    read_declared: ReadDeclaredKeys = declared_by_user,
    describe_classes: DescribeClasses = classes_of_user,
) -> Configuration:
    """Read and check a configuration file.

    Args:
        path: A `.properties` file.
        without: Keys with this prefix are left out, if it is not empty.
        replaced: Values that replace those of the file.
        read_declared: Returns the topic level keys that a validation policy of the user declares;
            by default it imports the policy in another process.
        describe_classes: Returns descriptions of the classes of the user's named policies; by
            default it imports them in another process.

    Raises:
        ConfigurationError: It cannot be read, or a key or value in it is not usable.
    """
    file = Path(path).resolve()
    raw_properties, warnings = load_properties(path, file)
    if without:
        raw_properties = {
            key: value for key, value in raw_properties.items() if not key.startswith(without)
        }
    raw_properties |= replaced
    properties = resolve_variables(file, raw_properties)
    name = properties.get(VALIDATION, "").strip()
    class_path = properties.get(_CLASS_PATH, "").strip()
    declared = None
    if name and (class_path or not is_own(name)):
        folders = [file.parent / folder for folder in paths(class_path)]
        declared = read_declared(name, file, folders)
    return read_configuration(
        file,
        properties,
        raw_properties=raw_properties,
        declared=declared,
        describe_classes=describe_classes,
        warnings=warnings,
    )


def read_configuration(
    file: Path,
    properties: Mapping[str, str],
    *,
    raw_properties: Mapping[str, str] | None = None,
    declared: Sequence[TopicConfig] | None = None,
    named: Sequence[NamedPolicy] | None = None,
    describe_classes: DescribeClasses = classes_of_user,
    warnings: Sequence[str] = (),
) -> Configuration:
    """Check properties as if they were in `file`; see `load_configuration`.

    Args:
        file: The file that errors name.
        properties: Text by key, with all variables resolved.
        raw_properties: The same before they were resolved: errors show these, because the value
            of a variable may be a secret.
        declared: The topic level keys that the validation policy declares; by default those
            of a built-in policy.
        named: The named policies, where they have been read before.
        describe_classes: See `load_configuration`.
        warnings: Warnings about the file.
    """
    shown = properties if raw_properties is None else raw_properties
    name = properties.get(VALIDATION, "").strip()
    if declared is None:
        declared = declared_by_own(name)
    try:
        keys = rows_of(declared, (*FILE_KEYS, *LISTENER_TLS_KEYS))
    except ValueError as error:
        raise ConfigurationError(f"{file}: {VALIDATION}: {name}: {error}") from None
    topic_defaults = _topic_defaults(file, properties, shown, keys)
    policy = _built_in(name)
    known_keys = frozenset({*FILE_KEYS, *LISTENER_TLS_KEYS, *keys_in(Scope.FILE, keys)})
    warnings = [
        *warnings,
        *(
            sentence
            for key in properties
            if key not in FORMER_KEYS
            and (sentence := _unknown(file, key, known_keys, keys, policy)) is not None
        ),
    ]
    if named is None:
        named, more = read_named_policies(file, properties, shown, describe_classes)
        warnings += more
    warnings += former_keys(file, properties, shown)
    warnings += unread_keys(properties)
    warnings += unread_security_keys(properties)
    warnings += _meaningless(topic_defaults)
    if _is_single_port(properties):
        warnings.append(_ONE_PORT.format(properties[_BROKER_PORTS].strip()))
    if _has_one_principal(properties):
        warnings.append(_ONE_PRINCIPAL)
    values: dict[str, Any] = {name: properties[name] for name in FILE_KEYS if name in properties}
    values |= {
        "path": file,
        "properties": MappingProxyType(dict(properties)),
        "topic.defaults": topic_defaults,
        "warnings": tuple(warnings),
        "declared.topic.keys": tuple(declared),
        "named.policies": tuple(named),
    }
    try:
        configuration = Configuration.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(_describe(file, error, shown)) from None
    read_upstream_login(configuration.upstream_properties, f"{file}: upstream.")
    _check_dead_letter_topics(configuration)
    _check_allowed(file, configuration.topic_settings_keys_allowed, keys)
    return configuration


def _check_dead_letter_topics(configuration: Configuration) -> None:
    """Raise ConfigurationError if dead letters would go to an internal topic of the gateway."""
    own = {topic: key for key, topic in configuration.own_topics.items()}
    for default in configuration.topic_defaults:
        if default.key == DEAD_LETTER_TOPIC and default.value in own:
            bare = default.key in configuration.properties
            key = default.key if bare else f"topics.{default.glob}.{default.key}"
            raise ConfigurationError(
                f"{configuration.path}: {key}: {default.value} is the topic of "
                f"{own[default.value]}; name another topic"
            )


def _check_allowed(file: Path, allowed: Iterable[str], declared: Mapping[str, TopicKey]) -> None:
    """Raise ConfigurationError if a pattern matches none of the topic level keys."""
    keys = keys_in(Scope.TOPIC, declared)
    for pattern in allowed:
        if pattern != GROUP_DEAD_LETTERS and not fnmatch.filter(keys, pattern):
            close = difflib.get_close_matches(pattern, keys, n=1)
            raise ConfigurationError(
                f"{file}: topic.settings.keys.allowed: {pattern} is not one of the topic level "
                f"keys {', '.join(keys)}" + (f"; did you mean {close[0]}?" if close else "")
            )


def _describe(file: Path, error: ValidationError, shown: Mapping[str, str]) -> str:
    """Report the first wrong value, in the order of the reference."""
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0])
    if first["type"] == "missing":
        return f"{file}: {name} is missing: {FILE_KEYS[name].description}"
    requirement = first.get("ctx", {}).get("error", first["msg"])
    return _must_be(file, name, requirement, shown[name])


def _must_be(file: Path, key: str, requirement: object, value: str) -> str:
    if len(value) > _SHOWN_MAX:
        value = value[:_SHOWN_MAX] + "..."
    return f"{file}: {key} must be {requirement}; it is {value!r}"


def _topic_defaults(
    file: Path,
    properties: Mapping[str, str],
    shown: Mapping[str, str],
    declared: Mapping[str, TopicKey],
) -> tuple[TopicDefault, ...]:
    """Return the defaults of topic level keys: those with a glob first, because they win."""
    with_glob, bare = [], []
    of_file = keys_in(Scope.FILE, declared)
    for name, value in properties.items():
        if name.startswith("topics."):
            glob, key = _glob_and_key(file, name, declared)
            with_glob.append(TopicDefault(glob, key.name, value.strip()))
        elif name in of_file:
            key = of_file[name]
            bare.append(TopicDefault("*", name, value.strip()))
        else:
            continue
        try:
            key.type.read(value)
        except ValueError as error:
            raise ConfigurationError(_must_be(file, name, error, shown[name])) from None
    return (*with_glob, *bare)


def _glob_and_key(file: Path, name: str, declared: Mapping[str, TopicKey]) -> tuple[str, TopicKey]:
    """Split `topics.<glob>.<key>`; if two keys match, take the longer key."""
    rest = name.removeprefix("topics.")
    keys = keys_in(Scope.GLOB, declared)
    for key in sorted(keys.values(), key=lambda key: -len(key.name)):
        glob = rest.removesuffix("." + key.name)
        if glob and glob != rest:
            try:
                return check_glob(glob), key
            except ValueError as error:
                raise ConfigurationError(f"{file}: {name}: {glob} {error}") from None
    raise ConfigurationError(
        f"{file}: {name} must be topics.<glob>.<key> with one of the keys {', '.join(keys)}"
        + _suggestion(rest, keys)
    )


def _suggestion(rest: str, keys: Iterable[str]) -> str:
    """Suggest a key that is similar to the end of `<glob>.<key>`."""
    words = rest.split(".")
    for key in keys:
        if key.endswith(f".{words[-1]}") and key.count(".") == 1:
            return f"; did you mean {key}?"
        end = ".".join(words[-key.count(".") - 1 :])
        if difflib.get_close_matches(end, [key], n=1, cutoff=0.88):
            return f"; did you mean {key}?"
    return ""


def _meaningless(defaults: Iterable[TopicDefault]) -> Iterator[str]:
    """Yield a warning for each glob that is written as a regular expression."""
    for glob, key in {default.glob: default.key for default in defaults}.items():
        if text := meaningless_in(glob):
            yield f"topics.{glob}.{key}: {glob} {text}"


def _is_single_port(properties: Mapping[str, str]) -> bool:
    """Whether `broker.ports` has a port that does not look like a range of brokers."""
    return properties.get(_BROKER_PORTS, "").strip().isdecimal()


def _has_one_principal(properties: Mapping[str, str]) -> bool:
    """Whether brokers authenticate all clients by the gateway's certificate."""
    protocol = properties.get("upstream.security.protocol", "").strip().upper()
    return protocol == "SSL" and any(key.startswith(_UPSTREAM_KEYSTORE) for key in properties)


def _built_in(class_name: str) -> PolicyClass | None:
    """Return the description of a built-in validation policy; None for any other policy."""
    try:
        return class_of_own(class_name)
    except ValueError:
        return None  # the workers say so


def _unknown(
    file: Path,
    key: str,
    known_keys: frozenset[str],
    declared: Mapping[str, TopicKey],
    policy: PolicyClass | None,
) -> str | None:
    """Return a warning about an unknown key; None for a known key.

    Args:
        key: A key of the file.
        known_keys: The keys that a file may have.
        declared: The topic level keys that the validation policy declares.
        policy: That policy, if it is built in: its keys are known, too.

    Raises:
        ConfigurationError: The key is misspelt.
    """
    if key in known_keys or key.startswith(("topics.", "upstream.", PREFIX, *OF_BUILT_IN_POLICIES)):
        return None
    if key in TOPIC_KEYS or key in declared:
        raise ConfigurationError(
            f"{file}: {key} belongs to a topic: write topics.<glob>.{key}, "
            f"for example topics.*.{key}"
        )
    own = next((name for name in keys_in(Scope.GLOB, {}) if key.endswith(f".{name}")), "")
    if own.startswith(PENSTOCKS_ALONE) or (own and key.startswith(_LIKE_TOPICS)):
        raise ConfigurationError(f"{file}: {key} is unknown; write topics.<glob>.{own}")
    cutoff = CLOSE_OF_PENSTOCKS_ALONE if key.startswith(PENSTOCKS_ALONE) else CLOSE
    close = difflib.get_close_matches(key, known_keys, n=1, cutoff=cutoff)
    if close:
        raise ConfigurationError(f"{file}: {key} is unknown; did you mean {close[0]}?")
    if policy is not None and policy.key(key) is not None:
        return None
    suggestion = policy and policy.close_to(key)
    if suggestion:
        raise ConfigurationError(f"{file}: {key} is unknown; did you mean {suggestion}?")
    return f"{key} is unknown to Penstock; it is handed to the policies' configure()"
