"""FindCoordinator (API key 10), versions 0 to 6: applies `CreateTopicPolicy` to internal topics.

Behaviour, if a `CreateTopicPolicy` is set: brokers create the internal topic of a coordinator when
it does not exist. Before that the policy gets the topic as brokers would create it, as in a KRaft
controller. If it refuses, or cannot judge, the client gets COORDINATOR_NOT_AVAILABLE, as from a
broker that cannot create the topic, and retries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i32

from penstock.gateway.admin.policy_checks import PolicyChecks
from penstock.kafka.cluster.metadata import MetadataUnavailableError
from penstock.kafka.wire.client_requests import NO_TIME
from penstock.kafka.wire.errors import COORDINATOR_NOT_AVAILABLE
from penstock.kafka.wire.requests.coordinator_keys import MANY_FROM, key_type, unavailable

if TYPE_CHECKING:
    from penstock.gateway.admin.gateway import AdminGateway
    from penstock.gateway.context.exchange import Buffers
    from penstock.gateway.context.handler_context import HandlerContext

log = structlog.get_logger()

_TOPICS: Final = {0: "__consumer_offsets", 1: "__transaction_state", 2: "__share_group_state"}
"""The internal topics, by the type of the coordinator key."""


async def find_coordinator(context: HandlerContext[AdminGateway]) -> bytes | Buffers:
    """Return the response to a request."""
    request = context.request
    topic = _TOPICS.get(key_type(request.frame, request.body_at, request.version))
    if topic is None:
        return await context.forward_unjoined()
    checks = PolicyChecks.of(context, are_awaited=True)
    try:
        missing_topic = await context.gateway.cluster.missing_internal_topic(topic)
    except MetadataUnavailableError as error:
        if checks.cannot_be_judged(topic, error) is None:
            return await context.forward_unjoined()
        log.error("an internal topic cannot be judged", topic=topic, reason=str(error))
        return await _refused(context, f"The policy cannot be called about {topic}")
    if missing_topic is None:
        return await context.forward_unjoined()
    refusal = await checks.internal_topic(missing_topic)
    if refusal is None:
        return await context.forward_unjoined()
    return await _refused(context, refusal.message)


async def _refused(context: HandlerContext[AdminGateway], why: str | None) -> bytes:
    """Return the response of a broker without a coordinator."""
    request, version = context.request, context.request.version
    if version >= MANY_FROM:
        return await context.in_turns(
            unavailable(
                request.frame, request.body_at, request.response_header,
                COORDINATOR_NOT_AVAILABLE, why,
            )
        )  # fmt: skip
    fields: dict[str, Any] = {
        "node_id": BrokerId(-1),
        "host": "",
        "port": i32(-1),
        "error_code": ErrorCode(COORDINATOR_NOT_AVAILABLE),
    }
    if version >= 1:
        fields["error_message"] = why
        fields["throttle_time"] = NO_TIME
    return await context.response(request.response_type(**fields))
