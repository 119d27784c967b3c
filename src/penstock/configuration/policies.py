"""The part of a configuration that worker processes need; it does not import pydantic."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping  # noqa: TC003 - the model reads the fields of NamedPolicy
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.configuration.declared_keys import as_configs, rows_of
from penstock.configuration.topic_keys import TopicDefault
from penstock.configuration.values import items

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.configuration.topic_keys import TopicKey
    from penstock.policy import TopicConfig

NAMES: Final = "policies"
"""The key with the names of policies."""


class NamedPolicy(NamedTuple):
    """A policy of the key `policies`, with checked class and keys.

    Attributes:
        name: Its name, by which topics have it and everything calls it.
        type: As the file has it: a class, or the short name of an installed policy.
        interface: The key of the interface that the class has; see `interfaces`.
        configs: Its own keys, without the prefix.
        topic_configs: The topic level keys that its class declares, with their defaults: of a
            named policy they are its own keys.
        mode: What becomes of the records that it refuses (`policies.<name>.mode`): `observe`,
            `mark`, `quarantine` or `enforce`; None where the topic's own mode holds.
        secret_keys: Its own keys whose values are secrets, as its class declares them.
    """

    name: str
    type: str
    class_name: str
    interface: str
    configs: Mapping[str, str]
    topic_configs: Mapping[str, str] = MappingProxyType({})
    mode: str | None = None
    secret_keys: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name and its class, for people."""
        return f"{self.name} ({self.class_name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfiguration:
    """The part of a configuration that is about policies, with checked values.

    It travels to policy workers as JSON, and to Spark's executors pickled, as the same JSON.
    The attributes are those of `Configuration`.
    """

    path: Path
    properties: Mapping[str, str]
    topic_defaults: tuple[TopicDefault, ...]
    class_path: tuple[Path, ...]
    record_validator_classes: tuple[str, ...]
    record_validation_policy_class_name: str | None
    records_policy_class_names_allowed: tuple[str, ...]
    topic_settings_keys_allowed: tuple[str, ...]
    produce_request_interceptors: tuple[str, ...]
    produce_request_interceptors_failed_error_code: int
    policy_worker_memory_max_bytes: int
    policy_inline_max_bytes: int
    decompressed_batch_max_bytes: int
    decompressed_batch_max_records: int
    socket_request_max_bytes: int
    penstock_quarantine_internal_topics: bool = False
    declared_topic_keys: tuple[TopicConfig, ...] = ()
    named_policies: tuple[NamedPolicy, ...] = ()

    @classmethod
    def of(cls, configuration: object) -> PolicyConfiguration:
        """Return the part of a `Configuration`."""
        return cls(**{field.name: getattr(configuration, field.name) for field in fields(cls)})

    @property
    def topic_keys(self) -> dict[str, TopicKey]:
        """The topic level keys that the validation policy declares, by name."""
        return rows_of(self.declared_topic_keys)

    def named(self, name: str) -> NamedPolicy | None:
        """Return the policy with a name; None if there is none."""
        return next((policy for policy in self.named_policies if policy.name == name), None)

    @property
    def folder(self) -> Path:
        """The file's folder: policies are imported from here first."""
        return self.path.parent

    def encode(self) -> str:
        """Return it as JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["path"] = str(self.path)
        values["properties"] = dict(self.properties)
        values["class_path"] = [str(folder) for folder in self.class_path]
        values["named_policies"] = [
            policy._replace(configs=dict(policy.configs), topic_configs=dict(policy.topic_configs))
            for policy in self.named_policies
        ]
        return json.dumps(values)

    @classmethod
    def decode(cls, data: str) -> PolicyConfiguration:
        """Read what `encode` returned."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in json.loads(data).items()
        }
        values["path"] = Path(values["path"])
        values["properties"] = MappingProxyType(values["properties"])
        values["topic_defaults"] = tuple(
            TopicDefault(*default) for default in values["topic_defaults"]
        )
        values["class_path"] = tuple(map(Path, values["class_path"]))
        values["declared_topic_keys"] = as_configs(values["declared_topic_keys"])
        values["named_policies"] = tuple(
            NamedPolicy(*policy)._replace(secret_keys=tuple(policy[-1]))
            for policy in values["named_policies"]
        )
        return cls(**values)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return PolicyConfiguration.decode, (self.encode(),)


def unknown_name(value: str, names: Collection[str]) -> str | None:
    """Return an error about a name in a topic's `penstock.policies` that no policy has, or None.

    Args:
        value: What the topic has.
        names: The policies that there are.
    """
    for name in items(value):
        if name not in names:
            if not names:
                return f"there is no policy {name}: the gateway's file names none ({NAMES})"
            close = difflib.get_close_matches(name, names, n=1)
            return f"there is no policy {name}; there are {', '.join(names)}" + (
                f"; did you mean {close[0]}?" if close else ""
            )
    return None
