"""DescribeConfigs (API key 32), versions 1 to 4: adds Penstock's topic level keys.

Behaviour: the request is forwarded unchanged; brokers ignore names of configs that they do not
know. To each topic in the response the requested topic level keys are added, with their dynamic
value (DYNAMIC_TOPIC_CONFIG), or else the default of the configuration file, if any
(DEFAULT_CONFIG). All other requests are forwarded unchanged.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kio.static.primitive import i8

from penstock.configuration.topic_keys import key_named
from penstock.gateway.admin.alter_configs import TOPIC
from penstock.topic_configs import definitions
from penstock.topic_configs.index import UnreadableTopicConfigsError
from penstock.wire.errors import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.gateway.request_context import RequestContext

_TYPES_FROM: Final = 3


async def describe_configs(context: RequestContext) -> bytes:
    """Return the response to a request."""
    # A topic may be named twice, with different keys.
    requested: dict[str, deque[list[str]]] = defaultdict(deque)
    for resource in context.request.body.resources:
        if resource.resource_type == TOPIC:
            requested[resource.resource_name].append(_own(resource))
    frame = await context.forward()
    settings = context.gateway.topic_configs
    if not any(map(any, requested.values())):
        return frame
    body = context.request.read_response(frame)
    topics = {
        one.resource_name
        for one in body.results
        if one.resource_type == TOPIC and one.error_code == NONE
    }
    if not topics:
        return frame
    ids = await context.topic_ids({topic for topic in topics if settings.names(topic)})
    results = []
    for result in body.results:
        topic = result.resource_name
        queue = requested[topic] if result.resource_type == TOPIC else None
        own_keys = queue.popleft() if queue else []
        if own_keys and result.error_code == NONE:
            try:
                own = settings.of(topic, ids[topic]) if topic in ids else {}
            except UnreadableTopicConfigsError:
                own = {}
            added = [_config(context, topic, name, own) for name in own_keys]
            result = replace(  # noqa: PLW2901 - the same result
                result, configs=(*result.configs, *added)
            )
        results.append(result)
    return context.request.response(replace(body, results=tuple(results)))


def _own(resource: Any) -> list[str]:
    """Return the requested topic level keys of Penstock."""
    keys = resource.configuration_keys
    return [name for name in definitions.config_keys() if not keys or name in keys]


def _config(context: RequestContext, topic: str, name: str, own: Mapping[str, str]) -> Any:
    """Describe one key."""
    types, body = context.request.response_types, context.request.body
    key = key_named(name)
    default = context.gateway.policies.plan.settings(topic).get(name, key.default)
    source = definitions.SET_ON_TOPIC if name in own else definitions.DEFAULT
    synonyms = []
    if body.include_synonyms:
        if name in own:
            synonyms.append((own[name], definitions.SET_ON_TOPIC))
        if default is not None:
            synonyms.append((default, definitions.DEFAULT))
    fields: dict[str, Any] = {
        "name": name,
        "value": own.get(name, default),
        "read_only": False,
        "config_source": i8(source),
        "is_sensitive": False,
        "synonyms": tuple(
            types.DescribeConfigsSynonym(name=name, value=value, source=i8(number))
            for value, number in synonyms
        ),
    }
    if context.request.version >= _TYPES_FROM:
        fields["config_type"] = i8(key.type.number)
        fields["documentation"] = key.documentation if body.include_documentation else None
    return types.DescribeConfigsResourceResult(**fields)
