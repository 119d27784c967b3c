"""The keys `policies` and `policies.<name>.*`: policies that topics have by name.

They work like `transforms` in Kafka Connect: `policies.<name>.type` names the class, and the other
keys that start with `policies.<name>.` are for the `configure()` of that policy.
"""

from __future__ import annotations

import difflib
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration import values
from penstock.configuration.declared_keys import is_own, rows_of
from penstock.configuration.errors import ConfigurationError
from penstock.configuration.installed_policies import class_of_type, what_type_is
from penstock.configuration.interfaces import INTERCEPTORS
from penstock.configuration.policies import NAMES, NamedPolicy
from penstock.configuration.policy_classes import (
    PolicyClass,
    class_of_own,
    required,
    value_error,
)
from penstock.configuration.topic_keys import MODES, TOPIC_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.configuration.policy_classes import DescribeClasses

PREFIX: Final = "policies."
TYPE: Final = "type"
MODE: Final = "mode"
_CLOSE: Final = 0.75
_CLOSE_OF_ALL: Final = 0.85
"""Of `type` and `mode`, which are short: `node` may be a key of a policy."""
_MODE: Final = values.one_of(*MODES)
_SHOWN_MAX: Final = 200
_PENSTOCKS: Final = "penstock."
"""A class may have keys that it does not declare, but not with this prefix."""


class PolicyKeys(NamedTuple):
    """The keys `policies.*` of a file.

    Attributes:
        properties: All keys, with variables resolved.
        source_texts: The same before they were resolved: the value of a variable may be a secret.
    """

    file: Path
    properties: Mapping[str, str]
    source_texts: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """The names in `policies`.

        Raises:
            ConfigurationError: The value is not a list of names.
        """
        try:
            return values.policy_names(self.properties.get(NAMES, ""))
        except ValueError as error:
            raise self.error(NAMES, f"must be {error}; it is {self.text(NAMES)}") from None

    def of(self, name: str) -> dict[str, str]:
        """Return the keys of a policy, without the prefix."""
        prefix = f"{PREFIX}{name}."
        return {
            key.removeprefix(prefix): value
            for key, value in self.properties.items()
            if key.startswith(prefix)
        }

    def text(self, key: str) -> str:
        """Return a value as it is shown in an error."""
        value = self.source_texts.get(key, "")
        return repr(value if len(value) <= _SHOWN_MAX else value[:_SHOWN_MAX] + "...")

    def error(self, key: str, text: str) -> ConfigurationError:
        """Return the error about a key."""
        return ConfigurationError(f"{self.file}: {key} {text}")


def read_named_policies(
    file: Path, properties: Mapping[str, str], shown: Mapping[str, str], describe: DescribeClasses
) -> tuple[tuple[NamedPolicy, ...], list[str]]:
    """Read the named policies of a file.

    Args:
        properties: Its keys, with variables resolved.
        shown: The same before they were resolved.
        describe: Returns descriptions of users' classes.

    Returns:
        The policies in the order of `policies`, and warnings.

    Raises:
        ConfigurationError: A key or a class is not usable.
    """
    keys = PolicyKeys(file, properties, shown)
    names = keys.names
    classes = {f"{PREFIX}{name}.{TYPE}": _class_name(keys, name) for name in names}
    policy_classes = _load_classes(keys, classes, describe)
    warnings = _not_named(keys, names)
    policies = []
    for name, (key, class_name) in zip(names, classes.items(), strict=True):
        policy, more = _policy(keys, name, class_name, policy_classes[key])
        policies.append(policy)
        warnings += more
    return tuple(policies), warnings


def _class_name(keys: PolicyKeys, name: str) -> str:
    """Return the class of `policies.<name>.type`."""
    key = f"{PREFIX}{name}.{TYPE}"
    type_name = keys.properties.get(key, "").strip()
    if not type_name:
        others = [other for other in keys.properties if other != key and other.startswith(PREFIX)]
        near = difflib.get_close_matches(key, others, 1, _CLOSE_OF_ALL)
        hint = f"; the file has {near[0]}" if near else ""
        raise keys.error(
            key, f"is missing: the type of {name}, which {NAMES} names: {what_type_is()}{hint}"
        )
    try:
        return class_of_type(type_name)
    except ValueError as error:
        raise keys.error(key, f"must be {error}; it is {keys.text(key)}") from None


def _load_classes(
    keys: PolicyKeys, classes: Mapping[str, str], describe: DescribeClasses
) -> dict[str, PolicyClass]:
    """Return the descriptions of the classes, by key."""
    policy_classes: dict[str, PolicyClass] = {}
    for key, class_name in classes.items():
        try:
            own = class_of_own(class_name)
        except ValueError as error:
            raise ConfigurationError(f"{keys.file}: {key}: {class_name} {error}") from None
        if own is not None:
            policy_classes[key] = own
    others = {key: name for key, name in classes.items() if not is_own(name)}
    if others:
        policy_classes.update(describe(others, keys.file))
    return policy_classes


def _not_named(keys: PolicyKeys, names: Sequence[str]) -> list[str]:
    """Warn of keys for policies that `policies` does not name; refuse names that look misspelt."""
    warnings: dict[str, str] = {}
    for key in keys.properties:
        name, _, rest = key.removeprefix(PREFIX).partition(".")
        if not key.startswith(PREFIX):
            continue
        if not (name and rest):
            if names:
                raise keys.error(key, f"must be {PREFIX}<name>.<key>")
            # Without names, it may be a key of the user.
            warnings[key] = (
                f"{key} is unknown to Penstock; it is handed to the policies' configure()"
            )
            continue
        if name in names:
            continue
        close = difflib.get_close_matches(name, names, n=1, cutoff=_CLOSE)
        if close and f"{PREFIX}{name}.{TYPE}" not in keys.properties:
            raise keys.error(
                key, f"is for {name}, which {NAMES} does not name; did you mean {close[0]}?"
            )
        warnings.setdefault(name, f"{key}: {NAMES} does not name {name}: it is not used")
    return list(warnings.values())


def _policy(
    keys: PolicyKeys, name: str, class_name: str, policy_class: PolicyClass
) -> tuple[NamedPolicy, list[str]]:
    settings = keys.of(name)
    own = {key: value for key, value in settings.items() if key not in {TYPE, MODE}}
    prefix = f"{PREFIX}{name}."
    warnings = []
    for key, value in own.items():
        declared = policy_class.key(key)
        if declared is not None:
            why = value_error(declared, value)
            if why is not None:
                raise keys.error(prefix + key, f"must be {why}; it is {keys.text(prefix + key)}")
        elif not any(topic_config.name == key for topic_config in policy_class.topic_configs):
            warnings += _undeclared(keys, prefix, key, class_name, policy_class)
    for key in required(policy_class.config_keys):
        if key not in own and key not in keys.properties:
            documentation = next(k.documentation for k in policy_class.config_keys if k.name == key)
            raise keys.error(prefix + key, f"is missing: {documentation}")
    policy = NamedPolicy(
        name=name,
        type=settings[TYPE].strip(),
        class_name=class_name,
        interface=policy_class.interface,
        configs=MappingProxyType(own),
        topic_configs=MappingProxyType(_topic_configs(keys, prefix, own, class_name, policy_class)),
        mode=_mode(keys, prefix + MODE, policy_class.interface),
        secret_keys=tuple(filter(policy_class.is_secret, own)),
    )
    return policy, warnings


def _undeclared(
    keys: PolicyKeys, prefix: str, key: str, class_name: str, policy_class: PolicyClass
) -> list[str]:
    """Refuse a key that looks misspelt; warn of other keys that the class does not declare."""
    if key in TOPIC_KEYS and (policy_class.config_keys or key.startswith(_PENSTOCKS)):
        raise keys.error(
            prefix + key,
            f"belongs to a topic: write topics.<glob>.{key}"
            + (
                f", or {prefix}{MODE} for the records that this policy refuses"
                if key == f"penstock.{MODE}"
                else ""
            ),
        )
    close = policy_class.close_to(key)
    if close is not None:
        raise keys.error(prefix + key, f"is unknown; did you mean {prefix}{close}?")
    if not policy_class.config_keys:
        return []
    of_all = difflib.get_close_matches(key.lower(), (TYPE, MODE), n=1, cutoff=_CLOSE_OF_ALL)
    if of_all:
        raise keys.error(prefix + key, f"is unknown; did you mean {prefix}{of_all[0]}?")
    names = ", ".join(config_key.name for config_key in policy_class.config_keys)
    return [f"{prefix}{key} is unknown to {class_name}, whose keys are {names}"]


def _topic_configs(
    keys: PolicyKeys,
    prefix: str,
    own: Mapping[str, str],
    class_name: str,
    policy_class: PolicyClass,
) -> dict[str, str]:
    """Return the values of the topic level keys that the class declares; it gets them as keys."""
    try:
        rows = rows_of(policy_class.topic_configs)
    except ValueError as error:
        raise keys.error(prefix + TYPE, f"{class_name}: {error}") from None
    configs = {}
    for name, row in rows.items():
        value = own.get(name, row.default)
        if value is None:
            continue
        try:
            row.type.read(value)
        except ValueError as error:
            key = prefix + name
            raise keys.error(key, f"must be {error}; it is {keys.text(key)}") from None
        configs[name] = row.type.normalize(value)
    switches = [name for name, row in rows.items() if row.switches_on]
    if switches and not any(configs.get(name) == "true" for name in switches):
        others = "".join(f", or {prefix}{other}" for other in switches[1:])
        raise keys.error(
            prefix + switches[0] + others, f"must be true: otherwise {class_name} judges nothing"
        )
    return configs


def _mode(keys: PolicyKeys, key: str, interface: str) -> str | None:
    value = keys.properties.get(key)
    if value is None:
        return None
    if interface == INTERCEPTORS:
        raise keys.error(
            key,
            "has no effect on an interceptor, which refuses nothing: penstock.mode of the topic"
            " applies",
        )
    try:
        return _MODE(value)
    except ValueError as error:
        raise keys.error(key, f"must be {error}; it is {keys.text(key)}") from None
