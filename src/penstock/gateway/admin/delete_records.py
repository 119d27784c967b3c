"""DeleteRecords (API key 21), versions 0 to 2: the records that keep settings are not deleted.

Behaviour: what the request says of the topic of settings is answered 17, as a produce request
for it is; the rest goes to the broker. All other requests pass as the bytes they came in.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode
from kio.static.primitive import i64

from penstock.wire.client_requests import NO_TIME
from penstock.wire.errors import INVALID_TOPIC_EXCEPTION

if TYPE_CHECKING:
    from penstock.gateway.request_context import RequestContext


async def delete_records(context: RequestContext) -> bytes:
    """Answer one request."""
    settings, body = context.gateway.topic_configs, context.request.body
    refused = [one for one in body.topics if one.name == settings.topic]
    if not refused:
        return await context.forward()
    types = context.request.response_types
    results = [
        types.DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(
                types.DeleteRecordsPartitionResult(
                    partition_index=partition.partition_index,
                    low_watermark=i64(-1),
                    error_code=ErrorCode(INVALID_TOPIC_EXCEPTION),
                )
                for partition in topic.partitions
            ),
        )
        for topic in refused
    ]
    throttle_time = NO_TIME
    kept = tuple(one for one in body.topics if one not in refused)
    if kept:
        answer = await context.forward_changed(replace(body, topics=kept))
        throttle_time = answer.throttle_time
        results = [*answer.topics, *results]
    return context.request.response(
        context.request.response_type(throttle_time=throttle_time, topics=tuple(results))
    )
