"""Opens `audit.topic` or `audit.file`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from penstock.gateway.observing.audit_trail.file import AuditFile
from penstock.gateway.observing.audit_trail.topic import AuditTopic, AuditTopicError
from penstock.gateway.observing.audit_trail.trail import AuditTrail
from penstock.kafka.cluster.brokers import UnreachableError

if TYPE_CHECKING:
    from penstock.configuration import Configuration

log = structlog.get_logger()

OPEN_TIMEOUT_S: Final = 30.0


async def open_audit_trail(configuration: Configuration, gateway: str) -> AuditTrail | None:
    """Open the file or the topic, and start to write; None where neither is configured.

    Args:
        configuration: Names it; checked by `keys.check_audit_keys`.
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
        configuration.audit_topic,
        configuration.path,
    )
    log.info(
        "opening the audit trail",
        topic=configuration.audit_topic,
        gives_up_after_s=OPEN_TIMEOUT_S,
    )
    try:
        await asyncio.to_thread(topic.open, OPEN_TIMEOUT_S)
    except AuditTopicError as error:
        raise UnreachableError(str(error)) from None
    return AuditTrail(topic, gateway)
