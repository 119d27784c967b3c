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

from penstock.gateway.admin.policy_checks import STORES_TOPIC_CONFIGS
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from penstock.kafka.wire.client_requests import NO_TIME
from penstock.kafka.wire.errors import NONE, TOPIC_DELETION_DISABLED

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.gateway.admin.gateway import AdminGateway
    from penstock.gateway.context.handler_context import HandlerContext

log = structlog.get_logger()

_IDS_FROM: Final = 6
_MESSAGES_FROM: Final = 5


async def delete_topics(context: HandlerContext[AdminGateway]) -> bytes:
    """Return the response to a request."""
    settings, steps = context.gateway.topic_configs, context.steps()
    if not settings.are_stored:
        frame = await context.forward()
        async for topic in steps.over((await context.read_response(frame)).responses):
            if topic.error_code == NONE and topic.name is not None:
                context.gateway.topic_deleted(topic.name)
        return frame
    body = await context.body()
    requested = _RequestedTopics(context, body)
    await requested.read()
    over = {
        name: settings.open_creations(name)
        async for name in steps.over(requested.names)
        if settings.names(name)
    }
    ids = await context.topic_ids(over)
    if not requested.refused:
        frame = await context.forward()
        response = await context.read_response(frame)
    elif requested.kept:
        response = await context.forward_changed(
            replace(body, **{requested.field: tuple(requested.kept)})
        )
    else:
        response = None
    responses = response.responses if response else ()
    deleted = [topic async for topic in steps.over(responses) if topic.error_code == NONE]
    await context.finish(_forget(context, deleted, ids, over))
    if not requested.refused:
        return frame
    results = [
        *responses,
        *[_refusal(context, topic) async for topic in steps.over(requested.refused)],
    ]
    return await context.response(
        replace(response, responses=tuple(results))
        if response
        else context.request.response_type(throttle_time=NO_TIME, responses=tuple(results))
    )


class _RequestedTopics:
    """The topics that a request deletes.

    Attributes:
        field: The field of the request with the topics.
        names: The names of topics.
        refused: The topics that are not deleted.
    """

    def __init__(self, context: HandlerContext[AdminGateway], body: Any) -> None:
        self._context = context
        self._body = body
        self._has_ids = context.request.version >= _IDS_FROM
        self.field = "topics" if self._has_ids else "topic_names"
        self.names: set[str] = set()
        self.refused: list[Any] = []
        self.kept: list[Any] = []

    async def read(self) -> None:
        own = self._context.gateway.topic_configs.topic
        own_id = await _id_of_settings_topic(self._context, self._body) if self._has_ids else None
        async for topic in self._context.steps().over(getattr(self._body, self.field)):
            name = topic.name if self._has_ids else topic
            if name is not None:
                self.names.add(name)
            is_own = name == own or (own_id is not None and topic.topic_id == own_id)
            (self.refused if is_own else self.kept).append(topic)


async def _id_of_settings_topic(context: HandlerContext[AdminGateway], body: Any) -> UUID | None:
    name = context.gateway.topic_configs.topic
    if name is None or all(topic.topic_id is None for topic in body.topics):
        return None
    return (await context.topic_ids({name})).get(name)


async def _forget(
    context: HandlerContext[AdminGateway],
    deleted: list[Any],
    ids: dict[str, UUID],
    over: dict[str, list[UUID]],
) -> None:
    """Delete the configs of deleted topics, and close their policy instances."""
    settings = context.gateway.topic_configs
    gone: list[UUID] = []
    ended: list[UUID] = []
    async for topic in context.steps().over(deleted):
        topic_id = getattr(topic, "topic_id", None) or ids.get(topic.name)
        if topic_id is not None:
            gone.append(topic_id)
        if topic.name is not None:
            ended += over.get(topic.name, ())
            context.gateway.topic_deleted(topic.name)
    try:
        await settings.store.forget(gone, over=ended)
    except CompactedTopicError as error:
        # They are stored under a topic id that is never reused; `sweep` will delete them.
        log.warning("settings of deleted topics are deleted later", reason=str(error))


def _refusal(context: HandlerContext[AdminGateway], requested: Any) -> Any:
    types, version = context.request.response_types, context.request.version
    fields: dict[str, Any] = {"error_code": ErrorCode(TOPIC_DELETION_DISABLED)}
    if version >= _IDS_FROM:
        fields |= {"name": requested.name, "topic_id": requested.topic_id}
    else:
        fields["name"] = requested
    if version >= _MESSAGES_FROM:
        fields["error_message"] = STORES_TOPIC_CONFIGS
    return types.DeletableTopicResult(**fields)
