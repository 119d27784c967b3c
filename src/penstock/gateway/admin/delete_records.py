"""DeleteRecords (API key 21), versions 0 to 2: protects the topic that stores topic configs.

Behaviour: for that topic the response has INVALID_TOPIC_EXCEPTION, as for a Produce request. The
other topics of the request are forwarded. All other requests are forwarded unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.static.primitive import i64

from penstock.kafka.wire.client_requests import NO_TIME
from penstock.kafka.wire.errors import INVALID_TOPIC_EXCEPTION

if TYPE_CHECKING:
    from penstock.gateway.admin.gateway import AdminGateway
    from penstock.gateway.context.handler_context import HandlerContext


async def delete_records(context: HandlerContext[AdminGateway]) -> bytes:
    """Return the response to a request."""
    settings, body = context.gateway.topic_configs, await context.body()
    steps = context.steps()
    refused = [topic async for topic in steps.over(body.topics) if topic.name == settings.topic]
    if not refused:
        return await context.forward()
    types = context.request.response_types
    results = []
    async for topic in steps.over(refused):
        partitions = [
            types.DeleteRecordsPartitionResult(
                partition_index=partition.partition_index,
                low_watermark=i64(-1),
                error_code=ErrorCode(INVALID_TOPIC_EXCEPTION),
            )
            async for partition in steps.over(topic.partitions)
        ]
        results.append(
            types.DeleteRecordsTopicResult(name=topic.name, partitions=tuple(partitions))
        )
    throttle_time = NO_TIME
    other_topics = [
        topic async for topic in steps.over(body.topics) if topic.name != settings.topic
    ]
    if other_topics:
        response = await context.forward_changed(replace(body, topics=tuple(other_topics)))
        throttle_time = response.throttle_time
        results = [*response.topics, *results]
    return await context.response(
        context.request.response_type(throttle_time=throttle_time, topics=tuple(results))
    )
