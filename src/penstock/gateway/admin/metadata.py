"""Metadata (API key 3), versions 0 to 13: applies `CreateTopicPolicy` to automatic creation.

Behaviour, if a `CreateTopicPolicy` is set: the client's request is sent without automatic creation.
For each topic that does not exist the policy gets the topic as the cluster would create it. For
accepted topics a second request with automatic creation is sent. The client gets
UNKNOWN_TOPIC_OR_PARTITION, as from a KRaft cluster at first, and retries. For a refused topic it
gets the same, or POLICY_VIOLATION if so configured. Versions 0 to 3 cannot disable automatic
creation, so the gateway sends a request of version 12 for them.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from penstock.engine.admin_policies import TopicCreation
from penstock.gateway.admin.policy_checks import PolicyChecks, PolicyRefusal
from penstock.kafka.cluster.metadata import INTERNAL_TOPICS, MetadataUnavailableError
from penstock.kafka.wire.addresses import replace_in_slices
from penstock.kafka.wire.client_requests import as_version
from penstock.kafka.wire.errors import (
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from penstock.kafka.wire.own_requests import response_in_slices
from penstock.kafka.wire.primitives import INT16
from penstock.kafka.wire.requests import topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.admin.gateway import AdminGateway
    from penstock.gateway.context.handler_context import HandlerContext

_CHOICE_FROM: Final = 4
"""The first version in which a client can forbid the creation of topics."""
_OWN_VERSION: Final = 12
_TIMEOUT: Final = i32Timedelta.parse(dt.timedelta(seconds=30))


async def metadata(context: HandlerContext[AdminGateway]) -> bytes:
    """Return the response to a request."""
    body = await context.body()
    version = context.request.version
    creates = version < _CHOICE_FROM or body.allow_auto_topic_creation
    if not creates or not body.topics:
        return await context.forward()
    frame = await _without_creation(context, body)
    found_in = version if version >= _CHOICE_FROM else _OWN_VERSION
    unknown = await context.in_turns(topics.unknown_in(frame, found_in))
    if unknown and await context.gateway.cluster.creates_topics():
        frame = await _with_creations(context, frame, unknown)
    return frame if version >= _CHOICE_FROM else await _in_old_version(context, frame)


async def _with_creations(
    context: HandlerContext[AdminGateway], frame: bytes, unknown: Sequence[topics.UnknownTopic]
) -> bytes:
    """Create the topics that the policy accepts; return the response with its refusals."""
    refusals = {topic.name: await _refusal(context, topic.name) for topic in unknown}
    allowed = [name for name, refusal in refusals.items() if refusal is None]
    if allowed:  # the cluster creates them
        await context.send_metadata(allowed, creating=True)
    response = bytearray(frame)
    async for topic in context.steps().over(unknown):
        INT16.pack_into(response, topic.code_at, _code(context, refusals[topic.name]))
    return bytes(response)


async def _without_creation(context: HandlerContext[AdminGateway], body: Any) -> bytes:
    """Send the client's request without automatic creation; return the response.

    Before version 4 a client cannot forbid it: the response has version 12.
    """
    request = context.request
    if request.version >= _CHOICE_FROM:
        slices = request.with_body(replace(body, allow_auto_topic_creation=False))
        return await context.forward(await context.in_turns(slices))
    return await context.send_metadata([topic.name for topic in body.topics])


async def _in_old_version(context: HandlerContext[AdminGateway], frame: bytes) -> bytes:
    learn = context.gateway.addresses.learn_for_clients
    api_key, kind = context.request.api_key, context.request.response_type
    parts = await context.in_turns(replace_in_slices(frame, api_key, _OWN_VERSION, learn))
    body = await context.in_turns(response_in_slices(b"".join(parts), MetadataResponse))
    return await context.response(await context.in_turns(as_version(body, kind)))


async def _refusal(context: HandlerContext[AdminGateway], topic: str) -> PolicyRefusal | None:
    checks = PolicyChecks.of(context, are_awaited=True)
    try:
        if topic in INTERNAL_TOPICS:
            missing_topic = await context.gateway.cluster.missing_internal_topic(topic)
            return None if missing_topic is None else await checks.internal_topic(missing_topic)
        created = await _as_created(context, topic)
    except MetadataUnavailableError as error:
        return checks.cannot_be_judged(topic, error)
    return created if isinstance(created, PolicyRefusal) else await checks.creation(created)


async def _as_created(
    context: HandlerContext[AdminGateway], topic: str
) -> TopicCreation | PolicyRefusal:
    """Return a topic as the cluster would create it automatically for the client."""
    request = CreateTopicsRequest(
        topics=(
            CreatableTopic(
                name=TopicName(topic),
                num_partitions=i32(-1),
                replication_factor=i16(-1),
                assignments=(),
                configs=(),
            ),
        ),
        timeout=_TIMEOUT,
        validate_only=True,
    )
    (result,) = (await context.send_as_client(request, CreateTopicsResponse)).topics
    if result.error_code != NONE:
        return PolicyRefusal(int(result.error_code), result.error_message)
    # The response has the counts only if the client may describe the configs of the topic.
    counts = await context.gateway.cluster.counts(result.num_partitions, result.replication_factor)
    return TopicCreation(topic, *counts, None, {})


def _code(context: HandlerContext[AdminGateway], refusal: PolicyRefusal | None) -> int:
    if refusal is None:
        return UNKNOWN_TOPIC_OR_PARTITION
    if refusal.code == TOPIC_AUTHORIZATION_FAILED:
        return refusal.code
    return context.gateway.policies.topics.refused_automatic_creation_code
