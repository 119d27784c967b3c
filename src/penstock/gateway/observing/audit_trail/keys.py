"""Checks `audit.topic` and `audit.file`, without contacting anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.configuration import ConfigurationError
from penstock.engine.plans.plan import INTERNAL_TOPICS
from penstock.gateway.observing.audit_trail.file import check_file

if TYPE_CHECKING:
    from penstock.configuration import Configuration


def check_audit_keys(configuration: Configuration) -> None:
    """Check that the keys of the audit trail fit together, and with others.

    Raises:
        ConfigurationError: They do not, or the file cannot be written.
    """
    topic, file = configuration.audit_topic, configuration.audit_file
    if topic and file:
        raise ConfigurationError(
            f"{configuration.path}: audit.topic and audit.file are both set; remove one of them"
        )
    if file:
        check_file(configuration.folder / file, configuration.path)
    if not topic:
        return
    where = f"{configuration.path}: audit.topic"
    if topic in INTERNAL_TOPICS:
        raise ConfigurationError(f"{where} must not be {topic}, which is Kafka's own")
    for key, other in configuration.own_topics.items():
        if topic == other and key != "audit.topic":
            raise ConfigurationError(f"{where} must not be {topic}, which is the topic of {key}")
