"""DescribeConfigs (API key 32), versions 1 to 4: adds Penstock's topic level keys.

Behaviour: the request is forwarded unchanged; brokers ignore names of configs that they do not
know. To each topic in the response the requested topic level keys are added, with their dynamic
value (DYNAMIC_TOPIC_CONFIG), or else the default of the configuration file, if any
(DEFAULT_CONFIG). A key that may not be set on a topic is read-only (`topic.settings.keys.allowed`);
others set before are shown, without effect. All other requests are forwarded unchanged. The dead
letter topic's name is only added where records are quarantined, or if it is requested by its name:
Kafka has keys of the same beginning. A topic that is named several times is described as many
times, as brokers do, each time with the keys that were requested there.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from kio.serial import entity_writer
from kio.static.primitive import i8

from penstock.configuration.topic_keys import DEAD_LETTER_TOPIC, key_named
from penstock.engine.topic_configs import definitions
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.kafka.wire.requests.described_configs import TYPES_FROM, read_requested, with_added

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from penstock.gateway.admin.gateway import AdminGateway
    from penstock.gateway.context.exchange import Buffers
    from penstock.gateway.context.handler_context import HandlerContext
    from penstock.kafka.wire.requests.described_configs import Keys, Requested

_WRITTEN_MAX: Final = 100


async def describe_configs(context: HandlerContext[AdminGateway]) -> bytes | Buffers:
    """Return the response to a request."""
    request = context.request
    requested = await context.in_turns(
        read_requested(
            request.frame, request.body_at, request.version, definitions.config_keys().keys()
        )
    )
    frame = await context.forward()
    if not any(map(any, requested.keys.values())):
        return frame
    settings = context.gateway.topic_configs
    ids = await context.topic_ids({topic for topic in requested.keys if settings.names(topic)})
    own_configs = _Ours(context, requested, ids)
    context.hold(len(frame))  # the size of the copy
    return await context.in_turns(with_added(frame, request.version, own_configs.next))


class _Ours:
    """Describes the topic level keys of topics, as often as each is named."""

    def __init__(
        self, context: HandlerContext[AdminGateway], requested: Requested, ids: Mapping[str, UUID]
    ) -> None:
        self._context = context
        self._requested = requested
        self._ids = ids
        self._all = tuple(definitions.config_keys())
        self._written: dict[tuple[str, Keys], tuple[int, bytes]] = {}

    def next(self, topic: str) -> tuple[int, bytes]:
        """Return the number of configs of the next topic, and the configs."""
        queue = self._requested.keys.get(topic)
        keys = queue.popleft() if queue else ()
        if not keys:
            return 0, b""
        encoded_configs = self._written.get((topic, keys))
        if encoded_configs is None:
            if len(self._written) == _WRITTEN_MAX:
                self._written.clear()
            encoded_configs = self._written[topic, keys] = self._write(topic, keys)
        return encoded_configs

    def _write(self, topic: str, keys: Keys) -> tuple[int, bytes]:
        settings, ids = self._context.gateway.topic_configs, self._ids
        try:
            own = settings.of(topic, ids[topic]) if topic in ids else {}
        except UnreadableTopicConfigsError:
            own = {}
        write = entity_writer(self._context.request.response_types.DescribeConfigsResourceResult)
        buffer = io.BytesIO()
        shown = self._shown(topic, keys, own)
        for name in shown:
            write(buffer, _config(self._context, self._requested, topic, name, own))
        return len(shown), buffer.getvalue()

    def _shown(self, topic: str, keys: Keys, own: Mapping[str, str]) -> Keys:
        """Leave the dead letter topic out where there is none, if all keys are requested."""
        if keys != self._all or DEAD_LETTER_TOPIC in own:
            return keys
        plan = self._context.gateway.policies.plan.for_topic(topic, own)
        if plan is not None and plan.quarantines:
            return keys
        return tuple(name for name in keys if name != DEAD_LETTER_TOPIC)


def _config(
    context: HandlerContext[AdminGateway],
    requested: Requested,
    topic: str,
    name: str,
    own: Mapping[str, str],
) -> Any:
    """Describe a key."""
    types = context.request.response_types
    key = key_named(name)
    default = context.gateway.policies.plan.settings(topic).get(name, key.default)
    source = definitions.SET_ON_TOPIC if name in own else definitions.DEFAULT
    synonyms = []
    if requested.include_synonyms:
        if name in own:
            synonyms.append((own[name], definitions.SET_ON_TOPIC))
        if default is not None:
            synonyms.append((default, definitions.DEFAULT))
    fields: dict[str, Any] = {
        "name": name,
        "value": own.get(name, default),
        "read_only": not context.gateway.policies.plan.allows_key(name),
        "config_source": i8(source),
        "is_sensitive": False,
        "synonyms": tuple(
            types.DescribeConfigsSynonym(name=name, value=value, source=i8(number))
            for value, number in synonyms
        ),
    }
    if context.request.version >= TYPES_FROM:
        fields["config_type"] = i8(key.type.number)
        fields["documentation"] = key.documentation if requested.include_documentation else None
    return types.DescribeConfigsResourceResult(**fields)
