"""DeleteTopics (API key 20), versions 1 to 6: deletes the topic configs of deleted topics.

Behaviour: the topic that stores the topic configs cannot be deleted through the gateway
(TOPIC_DELETION_DISABLED). For the topics that the cluster has deleted, the topic configs are
deleted before the response is sent. Requests are forwarded unchanged, unless they name that topic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog
from kio.schema.errors import ErrorCode

from penstock.cluster.compacted_topic import CompactedTopicError
from penstock.gateway.admin.policy_checks import STORES_TOPIC_CONFIGS
from penstock.wire.client_requests import NO_TIME
from penstock.wire.errors import NONE, TOPIC_DELETION_DISABLED

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.gateway.request_context import RequestContext

log = structlog.get_logger()

_IDS_FROM: Final = 6
_MESSAGES_FROM: Final = 5


async def delete_topics(context: RequestContext) -> bytes:
    """Return the response to a request."""
    settings, body = context.gateway.topic_configs, context.request.body
    if not settings.are_stored:
        frame = await context.forward()
        for one in context.request.read_response(frame).responses:
            if one.error_code == NONE and one.name is not None:
                context.gateway.topic_deleted(one.name)
        return frame
    if context.request.version >= _IDS_FROM:
        named = {topic.name for topic in body.topics if topic.name is not None}
        own_id = await _id_of_settings_topic(context, body)

        def is_refused(one: Any) -> bool:
            return one.name == settings.topic or (own_id is not None and one.topic_id == own_id)

        refused = [one for one in body.topics if is_refused(one)]
        kept = tuple(one for one in body.topics if not is_refused(one))
        left = replace(body, topics=kept)
    else:
        named = set(body.topic_names)
        refused = [name for name in body.topic_names if name == settings.topic]
        left = replace(
            body, topic_names=tuple(name for name in body.topic_names if name != settings.topic)
        )
        kept = left.topic_names
    kept_for = {name for name in named if settings.names(name)}
    over = {name: settings.open_creations(name) for name in kept_for}
    ids = await context.topic_ids(kept_for)
    if not refused:
        frame = await context.forward()
        response = context.request.read_response(frame)
    elif kept:
        response = await context.forward_changed(left)
    else:
        response = None
    deleted = [one for one in response.responses if one.error_code == NONE] if response else []
    await context.finish(_forget(context, deleted, ids, over))
    if not refused:
        return frame
    results = [
        *(response.responses if response else ()),
        *(_refusal(context, one) for one in refused),
    ]
    return context.request.response(
        replace(response, responses=tuple(results))
        if response
        else context.request.response_type(throttle_time=NO_TIME, responses=tuple(results))
    )


async def _id_of_settings_topic(context: RequestContext, body: Any) -> UUID | None:
    name = context.gateway.topic_configs.topic
    if name is None or all(topic.topic_id is None for topic in body.topics):
        return None
    return (await context.topic_ids({name})).get(name)


async def _forget(
    context: RequestContext, deleted: list[Any], ids: dict[str, UUID], over: dict[str, list[UUID]]
) -> None:
    """Delete the configs of deleted topics, and close their policy instances."""
    settings = context.gateway.topic_configs
    gone: list[UUID] = []
    ended: list[UUID] = []
    for one in deleted:
        topic_id = getattr(one, "topic_id", None) or ids.get(one.name)
        if topic_id is not None:
            gone.append(topic_id)
        if one.name is not None:
            ended += over.get(one.name, ())
            context.gateway.topic_deleted(one.name)
    try:
        await settings.store.forget(gone, over=ended)
    except CompactedTopicError as error:
        # They are stored under a topic id that is never reused; `sweep` will delete them.
        log.warning("settings of deleted topics are deleted later", reason=str(error))


def _refusal(context: RequestContext, asked: Any) -> Any:
    types, version = context.request.response_types, context.request.version
    fields: dict[str, Any] = {"error_code": ErrorCode(TOPIC_DELETION_DISABLED)}
    if version >= _IDS_FROM:
        fields |= {"name": asked.name, "topic_id": asked.topic_id}
    else:
        fields["name"] = asked
    if version >= _MESSAGES_FROM:
        fields["error_message"] = STORES_TOPIC_CONFIGS
    return types.DeletableTopicResult(**fields)
