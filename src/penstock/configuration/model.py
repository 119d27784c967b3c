"""A configuration file that has been read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import SkipValidation

from penstock.configuration.keys import Keys, extra
from penstock.configuration.policies import NamedPolicy, PolicyConfiguration
from penstock.configuration.topic_keys import TopicDefault
from penstock.policy import TopicConfig

_CONNECTIONS: Final = ("upstream.", "ssl.")
"""The prefixes of the keys of Kafka's clients and brokers for connections."""
_AT_RESTART: Final = frozenset(
    field.alias for field in Keys.model_fields.values() if not extra(field)["reloaded"]
)


class Configuration(Keys):
    """A configuration file, with all values read.

    Attributes:
        properties: The whole file as text by key, which is what `configure()` receives.
        topic_defaults: The lines `topics.<glob>.<key>`.
        warnings: Messages about unknown keys.
        declared_topic_keys: The topic level keys that the validation policy declares.
        named_policies: The policies of `policies`, in its order.
    """

    path: SkipValidation[Path]
    properties: SkipValidation[Mapping[str, str]]
    topic_defaults: SkipValidation[tuple[TopicDefault, ...]]
    warnings: SkipValidation[tuple[str, ...]]
    declared_topic_keys: SkipValidation[tuple[TopicConfig, ...]] = ()
    named_policies: SkipValidation[tuple[NamedPolicy, ...]] = ()

    @property
    def folder(self) -> Path:
        """The file's folder: policies are imported from here first."""
        return self.path.parent

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
    def own_topics(self) -> dict[str, str]:
        """The topics that Penstock writes for itself, by the keys that name them."""
        topics = {
            "topic.settings.topic": self.topic_settings_topic,
            "produce.request.interceptors.state.topic": (
                self.produce_request_interceptors_state_topic
            ),
            "redrive.places.topic": self.redrive_places_topic,
            "audit.topic": self.audit_topic,
        }
        return {key: topic for key, topic in topics.items() if topic}

    def changed_until_restart(self, other: Configuration) -> list[str]:
        """Return the keys that differ in another configuration and take effect at a restart."""
        old_properties, new_properties = self.properties, other.properties
        return sorted(
            key
            for key in old_properties.keys() | new_properties.keys()
            if old_properties.get(key) != new_properties.get(key)
            and (key in _AT_RESTART or key.startswith(_CONNECTIONS))
        )

    @property
    def class_path(self) -> tuple[Path, ...]:
        """The folders of `record.validation.policy.class.path`."""
        return tuple(self.folder / entry for entry in self.record_validation_policy_class_path)

    @property
    def policies(self) -> PolicyConfiguration:
        """The part that worker processes need."""
        return PolicyConfiguration.of(self)
