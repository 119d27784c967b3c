"""`audit.topic` and `audit.file`: checked without contacting anything, and opened."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.cluster.brokers import UnreachableError
from penstock.configuration import ConfigurationError
from penstock.engine.plan import INTERNAL_TOPICS
from penstock.gateway.audit_trail.audit_file import AuditFile
from penstock.gateway.audit_trail.audit_topic import AuditTopic, AuditTopicError
from penstock.gateway.audit_trail.trail import AuditTrail
from penstock.wire.names import is_topic_name

if TYPE_CHECKING:
    from penstock.configuration import Configuration

OPEN_TIMEOUT_S: Final = 30.0


def check_audit_keys(configuration: Configuration) -> None:
    """Check that the keys of the audit trail fit together, and with others.

    Raises:
        ConfigurationError: They do not.
    """
    topic, file = configuration.audit_topic, configuration.audit_file
    if topic and file:
        raise ConfigurationError(
            f"{configuration.path}: audit.topic and audit.file are both set; leave one of them out"
        )
    if not topic:
        return
    where = f"{configuration.path}: audit.topic"
    if not is_topic_name(topic):
        raise ConfigurationError(f"{where} must be the name of a topic; it is {topic!r}")
    if topic in INTERNAL_TOPICS:
        raise ConfigurationError(f"{where} must not be {topic}, which is Kafka's own")
    others = {
        "topic.settings.topic": configuration.topic_settings_topic,
        "produce.request.interceptors.state.topic": (
            configuration.produce_request_interceptors_state_topic
        ),
        "redrive.places.topic": configuration.redrive_places_topic,
    }
    for key, other in others.items():
        if topic == other:
            raise ConfigurationError(f"{where} must not be {topic}, which is that of {key}")


async def open_audit_trail(configuration: Configuration, gateway: str) -> AuditTrail | None:
    """Open the file or the topic, and start to write; None where neither is configured.

    Args:
        configuration: Names it; checked by `check_audit_keys`.
        gateway: The name of the gateway.

    Raises:
        ConfigurationError: It cannot be used.
        UnreachableError: The cluster does not respond.
    """
    if configuration.audit_file:
        path = configuration.folder / configuration.audit_file
        file = await asyncio.to_thread(AuditFile, path, configuration.path)
        return AuditTrail(file, gateway)
    if not configuration.audit_topic:
        return None
    topic = AuditTopic(
        configuration.upstream_properties,
        configuration.folder,
        configuration.audit_topic,
        configuration.path,
    )
    try:
        await asyncio.to_thread(topic.open, OPEN_TIMEOUT_S)
    except AuditTopicError as error:
        raise UnreachableError(str(error)) from None
    return AuditTrail(topic, gateway)
