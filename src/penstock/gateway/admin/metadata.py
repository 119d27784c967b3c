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
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from penstock.cluster.metadata import INTERNAL_TOPICS, MetadataUnavailableError
from penstock.engine.admin_policies import TopicCreation
from penstock.gateway.admin.policy_checks import PolicyChecks, Refusal
from penstock.wire.addresses import replace_addresses
from penstock.wire.client_requests import as_version
from penstock.wire.errors import (
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from penstock.wire.own_requests import read_response, write_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.request_context import RequestContext

_CHOICE_FROM: Final = 4
"""The first version in which a client says whether topics may be created."""
_TIMEOUT: Final = i32Timedelta.parse(dt.timedelta(seconds=30))


async def metadata(context: RequestContext) -> bytes:
    """Return the response to a request."""
    body = context.request.body
    creates = context.request.version < _CHOICE_FROM or body.allow_auto_topic_creation
    if not creates or not body.topics:
        return await context.forward()
    frame, response = await _without_creation(context)
    unknown = [
        topic.name
        for topic in response.topics
        if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION and topic.name is not None
    ]
    if not unknown or not await context.gateway.cluster.creates_topics():
        return frame
    refusals = {name: await _refusal(context, name) for name in unknown}
    allowed = [name for name, refusal in refusals.items() if refusal is None]
    if allowed:  # the cluster creates them
        await context.send_as_client(_question(allowed, creating=True), MetadataResponse)
    topics = tuple(
        replace(topic, error_code=ErrorCode(_code(context, refusals[topic.name])))
        if topic.name in refusals
        else topic
        for topic in response.topics
    )
    return context.request.response(replace(response, topics=topics))


async def _without_creation(context: RequestContext) -> tuple[bytes, Any]:
    """Send the client's request without automatic creation.

    Returns:
        The frame and the body of the response.
    """
    request = context.request
    if request.version >= _CHOICE_FROM:
        asked = request.with_body(replace(request.body, allow_auto_topic_creation=False))
        frame = await context.forward(asked)
        return frame, request.read_response(frame)
    question = _question([topic.name for topic in request.body.topics], creating=False)
    frame = await context.send(
        partial(write_request, request=question, client_id=request.client_id)
    )
    learn = context.gateway.addresses.learn_for_clients
    replaced = b"".join(replace_addresses(frame, request.api_key, 12, learn))
    body = as_version(read_response(replaced, MetadataResponse), request.response_type)
    return request.response(body), body


def _question(names: Sequence[str], *, creating: bool) -> MetadataRequest:
    return MetadataRequest(
        topics=tuple(MetadataRequestTopic(topic_id=None, name=TopicName(one)) for one in names),
        allow_auto_topic_creation=creating,
        include_topic_authorized_operations=False,
    )


async def _refusal(context: RequestContext, topic: str) -> Refusal | None:
    checks = PolicyChecks(context)
    try:
        if topic in INTERNAL_TOPICS:
            missing = await context.gateway.cluster.missing_internal_topic(topic)
            return None if missing is None else await checks.internal_topic(missing)
        created = await _as_created(context, topic)
    except MetadataUnavailableError as error:
        return checks.cannot_be_judged(topic, error)
    return created if isinstance(created, Refusal) else await checks.creation(created)


async def _as_created(context: RequestContext, topic: str) -> TopicCreation | Refusal:
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
        return Refusal(int(result.error_code), result.error_message)
    # The response has the counts only if the client may describe the configs of the topic.
    counts = await context.gateway.cluster.counts(result.num_partitions, result.replication_factor)
    return TopicCreation(topic, *counts, None, {})


def _code(context: RequestContext, refusal: Refusal | None) -> int:
    if refusal is None:
        return UNKNOWN_TOPIC_OR_PARTITION
    if refusal.code == TOPIC_AUTHORIZATION_FAILED:
        return refusal.code
    return context.gateway.policies.refused_automatic_creation_code
