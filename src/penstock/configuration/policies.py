"""The part of a configuration that processes which run policies need: plain, without pydantic."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from penstock.configuration.declared_keys import as_configs, rows_of
from penstock.configuration.topic_keys import TopicDefault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.configuration.topic_keys import TopicKey
    from penstock.policy import TopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfiguration:
    """What a configuration says about policies; its values have been checked.

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
    declared_topic_keys: tuple[TopicConfig, ...] = ()

    @classmethod
    def of(cls, configuration: object) -> PolicyConfiguration:
        """Return the part of a `Configuration`."""
        return cls(**{one.name: getattr(configuration, one.name) for one in fields(cls)})

    @property
    def topic_keys(self) -> dict[str, TopicKey]:
        """The topic level keys that the validation policy declares, by name."""
        return rows_of(self.declared_topic_keys)

    @property
    def folder(self) -> Path:
        """The file's folder: policies are imported from here first."""
        return self.path.parent

    def encode(self) -> str:
        """Return it as JSON."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values["path"] = str(self.path)
        values["properties"] = dict(self.properties)
        values["class_path"] = [str(folder) for folder in self.class_path]
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
        values["topic_defaults"] = tuple(TopicDefault(*one) for one in values["topic_defaults"])
        values["class_path"] = tuple(map(Path, values["class_path"]))
        values["declared_topic_keys"] = as_configs(values["declared_topic_keys"])
        return cls(**values)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return PolicyConfiguration.decode, (self.encode(),)
