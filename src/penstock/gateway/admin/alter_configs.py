"""AlterConfigs (API key 33), versions 0 to 2, and IncrementalAlterConfigs (44), versions 0 and 1.

Behaviour, if a policy is set or a topic level key is used: the request is first sent with
`validate_only`, over the client's connection, so that the cluster's ACLs apply, and its errors
precede those of policies. Penstock's topic level keys are left out, except where any broker would
report an error for any key. Then the `AlterConfigPolicy` (KIP-133) gets the keys in the request,
and as deleted those that AlterConfigs resets by omission, which brokers do not show to their policy
(KAFKA-14195). It learns which deleted keys are not set. The accepted resources are altered, and
their topic level keys stored last. A resource is altered completely or not at all. All other
requests are forwarded unchanged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v1.response import DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from penstock.configuration.topic_keys import GROUP_DEAD_LETTERS, LIST
from penstock.engine.admin_policies import ConfigAlteration
from penstock.engine.topic_configs import definitions, misnamed
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.admin.policy_checks import (
    STORES_TOPIC_CONFIGS,
    PolicyChecks,
    PolicyRefusal,
    config_error,
    explained,
    group_dead_letters_error,
    judging_error,
    keys_refused,
    syntax_error,
)
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from penstock.kafka.wire.errors import (
    INVALID_CONFIG,
    NONE,
    POLICY_VIOLATION,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from penstock.kafka.wire.requests.described_configs import TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from penstock.gateway.admin.gateway import AdminGateway
    from penstock.gateway.context.handler_context import HandlerContext

INCREMENTAL: Final = 44
_BROKER: Final = 4
_TYPE_NAMES: Final = {TOPIC: "TOPIC", _BROKER: "BROKER", 16: "CLIENT_METRICS", 32: "GROUP"}
SET, DELETE, APPEND, SUBTRACT = range(4)
_KNOWN_OPERATIONS: Final = frozenset({SET, DELETE, APPEND, SUBTRACT})
_OPERATIONS: Final = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}
_SOURCES: Final = {TOPIC: 1, _BROKER: 2, 16: 7, 32: 8}
"""The source of configs that are set on a resource, by its type (DescribeConfigsResponse.java)."""
_SOURCE_OF_ALL_BROKERS: Final = 3


class _Change(NamedTuple):
    """A key of a resource."""

    name: str
    operation: int
    value: str | None


class _Resource(NamedTuple):
    """A resource of the request.

    Attributes:
        given: The resource as in the request.
        own: The changes to Penstock's topic level keys.
        stripped: The configs for the cluster.
        is_misnamed: Whether one of them looks like a key of Penstock.
    """

    given: Any
    changes: Sequence[_Change]
    own: Sequence[_Change]
    stripped: Sequence[Any]
    is_misnamed: bool

    @property
    def key(self) -> tuple[int, str]:
        return self.given.resource_type, self.given.resource_name

    @property
    def source(self) -> int:
        """Where configs come from that are set on the resource itself."""
        is_of_all_brokers = self.given.resource_type == _BROKER and not self.given.resource_name
        return _SOURCE_OF_ALL_BROKERS if is_of_all_brokers else _SOURCES[self.given.resource_type]


async def alter_configs(context: HandlerContext[AdminGateway]) -> bytes:
    """Return the response to a request."""
    body = await context.body()
    try:
        return await _AlterConfigs(context, body).respond()
    finally:
        async for resource in context.steps().over(body.resources):
            if resource.resource_type == TOPIC:
                context.gateway.topic_changed(resource.resource_name, context.principal)


class _AlterConfigs:
    """The handling of a request."""

    def __init__(self, context: HandlerContext[AdminGateway], body: Any) -> None:
        self._context = context
        self._request = context.request
        self._body = body
        self._steps = context.steps()
        self._incremental = self._request.api_key == INCREMENTAL
        self._settings = context.gateway.topic_configs
        self._own_keys = definitions.config_keys()
        self._resources: list[_Resource] = []
        self._results: dict[tuple[int, str], Any] = {}
        self._refusals: dict[tuple[int, str], PolicyRefusal] = {}
        self._over: dict[str, list[UUID]] = {}

    async def _read(self, config_resource: Any) -> _Resource:
        changes = [
            _Change(
                config.name, config.config_operation if self._incremental else SET, config.value
            )
            async for config in self._steps.over(config_resource.configs)
        ]
        if config_resource.resource_type != TOPIC:
            return _Resource(
                config_resource, changes, [], config_resource.configs, is_misnamed=False
            )
        own_keys = self._own_keys if self._settings.are_stored else {}
        own, is_misnamed = [], False
        async for change in self._steps.over(changes):
            if change.name in own_keys:
                own.append(change)
            elif misnamed.may_be_own(change.name):
                is_misnamed = True
        if not own:
            return _Resource(config_resource, changes, own, config_resource.configs, is_misnamed)
        names = Counter(change.name for change in changes)
        stripped = [
            config
            async for config, change in self._steps.over(
                zip(config_resource.configs, changes, strict=True)
            )
            # Errors for any key: the broker's message names all of them.
            if change.name not in own_keys
            or names[change.name] > 1
            or (change.value is None and change.operation != DELETE)
        ]
        return _Resource(config_resource, changes, own, stripped, is_misnamed)

    async def respond(self) -> bytes:
        is_handled = False
        async for config_resource in self._steps.over(self._body.resources):
            resource = await self._read(config_resource)
            self._resources.append(resource)
            is_handled = is_handled or self._is_handled(resource)
        if not is_handled:
            return await self._context.forward()
        if self._settings.are_stored:
            self._over = {
                resource.given.resource_name: self._settings.open_creations(
                    resource.given.resource_name
                )
                async for resource in self._steps.over(self._resources)
                if resource.own or self._resets_topic_configs(resource)
            }
        probed = [self._probe(resource) async for resource in self._steps.over(self._resources)]
        probe = await self._context.forward_changed(
            replace(self._body, resources=tuple(probed), validate_only=True)
        )
        await self._take_results(probe)
        async for resource in self._steps.over(self._resources):
            self._explain(resource)
        valid = [
            resource
            async for resource in self._steps.over(self._resources)
            if self._succeeds(resource)
        ]
        ids = await self._topic_ids(valid)
        async for resource in self._steps.over(valid):
            refusal = await self._refusal(resource, ids)
            if refusal is not None:
                self._refusals[resource.key] = refusal
        accepted = [
            resource
            async for resource in self._steps.over(valid)
            if resource.key not in self._refusals
        ]
        throttle_time = probe.throttle_time
        if not self._body.validate_only:
            alters_settings = any(
                resource.own or self._resets_topic_configs(resource) for resource in accepted
            )
            if len(accepted) == len(self._resources) and not alters_settings:
                return await self._context.forward()
            altered = await self._alter(accepted)
            if altered is not None:
                throttle_time = altered.throttle_time
                await self._take_results(altered)
            await self._context.finish(self._keep(accepted, ids))
        return await self._response(throttle_time)

    async def _take_results(self, response: Any) -> None:
        async for result in self._steps.over(response.responses):
            self._results[result.resource_type, result.resource_name] = result

    def _succeeds(self, resource: _Resource) -> bool:
        result = self._results.get(resource.key)
        return result is not None and result.error_code == NONE

    def _explain(self, resource: _Resource) -> None:
        """Explain a key that no broker knows and that looks like a key of Penstock."""
        result = self._results.get(resource.key)
        if resource.is_misnamed and result is not None and result.error_code == INVALID_CONFIG:
            explanation = explained(self._context.gateway, result.error_message)
            if explanation is not None:
                topic = resource.given.resource_name
                self._refusals[resource.key] = keys_refused(self._context, topic, explanation)

    def _is_handled(self, resource: _Resource) -> bool:
        return bool(
            self._context.gateway.policies.topics.alter_config is not None
            or resource.own
            or resource.is_misnamed
            or self._group_dead_letters(resource) is not None
            or self._resets_topic_configs(resource)
            or self._is_settings_topic(resource)
        )

    def _resets_topic_configs(self, resource: _Resource) -> bool:
        """Whether AlterConfigs may reset stored topic level keys by leaving them out."""
        return bool(
            not self._incremental
            and resource.given.resource_type == TOPIC
            and self._settings.names(resource.given.resource_name)
        )

    def _group_dead_letters(self, resource: _Resource) -> str | None:
        """Return the value that a topic gets for Kafka's key of KIP-1191; None if it gets none."""
        if resource.given.resource_type != TOPIC:
            return None
        values = [
            change.value
            for change in resource.changes
            if change.name == GROUP_DEAD_LETTERS and change.operation != DELETE
        ]
        return values[-1] if values else None

    def _is_settings_topic(self, resource: _Resource) -> bool:
        return resource.key == (TOPIC, self._settings.topic)

    # Requests to the cluster

    def _probe(self, resource: _Resource) -> Any:
        """Return the resource to validate; if it has no config left, one DELETE without effect."""
        configs = tuple(resource.stripped)
        if not configs and self._incremental and resource.own:
            kind = self._request.types.AlterableConfig
            configs = (kind(name=resource.own[0].name, config_operation=i8(DELETE), value=None),)
        return replace(resource.given, configs=configs)

    async def _topic_ids(self, resources: Sequence[_Resource]) -> dict[str, UUID]:
        names = {
            resource.given.resource_name
            async for resource in self._steps.over(resources)
            if resource.own
            or self._resets_topic_configs(resource)
            or (
                self._group_dead_letters(resource) is not None
                and self._settings.names(resource.given.resource_name)
            )
        }
        return await self._context.ids_of_existing(names)

    async def _alter(self, accepted: Sequence[_Resource]) -> Any:
        """Alter the cluster's configs; return None if there are none."""
        resources = [
            replace(resource.given, configs=tuple(resource.stripped))
            async for resource in self._steps.over(accepted)
            if resource.stripped or not self._incremental or not resource.own
        ]
        if not resources:
            return None
        return await self._context.forward_changed(replace(self._body, resources=tuple(resources)))

    # Policies

    async def _refusal(self, resource: _Resource, ids: dict[str, UUID]) -> PolicyRefusal | None:
        if self._is_settings_topic(resource):
            return PolicyRefusal(POLICY_VIOLATION, STORES_TOPIC_CONFIGS)
        if resource.own and resource.given.resource_name not in ids:
            return PolicyRefusal(UNKNOWN_TOPIC_OR_PARTITION, None)
        if any(change.operation not in _KNOWN_OPERATIONS for change in resource.own):
            return PolicyRefusal(UNKNOWN_SERVER_ERROR, None)
        topic = resource.given.resource_name
        is_topic = resource.given.resource_type == TOPIC
        own = self._set_on(topic, ids.get(topic) if is_topic else None)
        current = {**self._context.gateway.policies.plan.settings(topic), **own}
        reason = await self._config_error(resource, own)
        if reason is not None:
            return keys_refused(self._context, topic, reason)
        kind = _TYPE_NAMES.get(resource.given.resource_type)
        if kind is None or self._context.gateway.policies.topics.alter_config is None:
            return None
        described = await self._described(resource)
        if described is not None and described.error_code != NONE and not self._incremental:
            return PolicyRefusal(int(described.error_code), described.error_message)
        configs, not_set = await self._configs(resource, described, current, own)
        altered = ConfigAlteration(kind, resource.given.resource_name, configs, not_set)
        return await PolicyChecks.of(self._context).alteration(altered)

    async def _config_error(self, resource: _Resource, own: Mapping[str, str]) -> str | None:
        """Return why a topic cannot be altered so; None if it can.

        Args:
            own: The topic level keys that are set on the topic.
        """
        if resource.given.resource_type != TOPIC:
            return None
        gateway, topic = self._context.gateway, resource.given.resource_name
        current = {**gateway.policies.plan.settings(topic), **own}
        for change in resource.own:
            reason = await self._invalid_reason(change, current.get(change.name))
            if reason is not None:
                return reason
        changes, new_settings = self._altered(topic, own, resource)
        value = self._group_dead_letters(resource)
        reason = group_dead_letters_error(gateway, topic, value, new_settings)
        keys = changes.keys() | (own.keys() - new_settings.keys())
        return reason or await judging_error(gateway, topic, keys, new_settings)

    def _set_on(self, topic: str, topic_id: UUID | None) -> dict[str, str]:
        """Return the topic level keys that are set on a topic, as far as they can be read."""
        if topic_id is None:
            return {}
        try:
            return dict(self._settings.of(topic, topic_id))
        except UnreadableTopicConfigsError:
            return {}

    def _altered(
        self, topic: str, previous_settings: Mapping[str, str], resource: _Resource
    ) -> tuple[dict[str, str | None], dict[str, str]]:
        """Return the new values of topic level keys, None for deleted keys, and all keys then."""
        current = {**self._context.gateway.policies.plan.settings(topic), **previous_settings}
        changes = {
            change.name: definitions.normalize(
                change.name, _value(change, current.get(change.name)) or ""
            )
            if change.operation != DELETE
            else None
            for change in resource.own
        }
        both = {**previous_settings, **changes} if self._incremental else changes
        return changes, {key: value for key, value in both.items() if value is not None}

    async def _invalid_reason(self, change: _Change, current: str | None) -> str | None:
        """Return why a topic level key cannot be changed; None if it can."""
        name, operation, value = change
        if operation in _OPERATIONS and self._own_keys[name].type.number != LIST.number:
            return f"Can't {_OPERATIONS[operation]} to key {name} because its type is not LIST."
        if operation == SUBTRACT:  # the rest was there before
            return syntax_error(self._context.gateway, name, value or "")
        if operation == APPEND:
            value = _value(change, current)
        if operation != DELETE:
            return await config_error(self._context.gateway, name, value or "")
        return None

    async def _configs(
        self,
        resource: _Resource,
        described: Any,
        current: Mapping[str, str],
        own: Mapping[str, str],
    ) -> tuple[dict[str, str | None], tuple[str, ...]]:
        """Return the new values of keys, None for deleted keys; and the unset keys of these.

        Args:
            described: The cluster's configs of the resource; None if they do not matter.
            current: The topic level keys that hold for the topic.
            own: Those that are set on the topic.
        """
        is_known = described is not None and described.error_code == NONE
        values, there = dict(current), set(own)
        async for config in self._steps.over(described.configs if is_known else ()):
            values[config.name] = config.value
            if config.config_source == resource.source:
                there.add(config.name)
        configs = {
            change.name: _value(change, values.get(change.name))
            async for change in self._steps.over(resource.changes)
        }
        if not self._incremental:
            configs |= dict.fromkeys(sorted(there - configs.keys()))
        not_set = tuple(
            name
            for name, value in configs.items()
            if value is None and name not in there and (is_known or name in self._own_keys)
        )
        return configs, not_set

    async def _described(self, resource: _Resource) -> Any:
        """Return the cluster's configs of a resource, as its client gets them.

        Returns:
            All of them if the request resets those that it omits, otherwise those that it deletes,
            and lists that it changes; None if there are none.
        """
        names: tuple[str, ...] | None = None
        if self._incremental:
            names = tuple(
                [
                    change.name
                    async for change in self._steps.over(resource.changes)
                    if change.operation != SET and change.name not in self._own_keys
                ]
            )
            if not names:
                return None
        request = DescribeConfigsRequest(
            resources=(
                DescribeConfigsResource(
                    resource_type=i8(resource.given.resource_type),
                    resource_name=resource.given.resource_name,
                    configuration_keys=names,
                ),
            )
        )
        response = await self._context.once_known(
            lambda: self._context.send_as_client(request, DescribeConfigsResponse),
            lambda description: all(
                result.error_code != UNKNOWN_TOPIC_OR_PARTITION for result in description.results
            ),
        )
        return next(iter(response.results), None)

    # Stored topic level keys

    async def _keep(self, accepted: Sequence[_Resource], ids: dict[str, UUID]) -> None:
        async for resource in self._steps.over(accepted):
            if self._results[resource.key].error_code != NONE:
                continue
            topic = resource.given.resource_name
            if not (resource.own or self._resets_topic_configs(resource)) or topic not in ids:
                continue
            try:
                await self._change(topic, ids[topic], resource)
            except CompactedTopicError as error:
                self._refusals[resource.key] = PolicyRefusal(
                    UNKNOWN_SERVER_ERROR, f"Penstock's settings could not be kept: {error}"
                )

    async def _change(self, topic: str, topic_id: UUID, resource: _Resource) -> None:
        settings = self._settings.store
        async with settings.changing(topic):
            await settings.read_to_end()
            try:
                previous_settings = dict(settings.of(topic, topic_id))
                readable = True
            except UnreadableTopicConfigsError:
                previous_settings, readable = {}, False
            changes, new_settings = self._altered(topic, previous_settings, resource)
            if new_settings != previous_settings or not readable:
                await settings.put(
                    topic,
                    topic_id,
                    new_settings,
                    changes=changes if self._incremental and readable else None,
                    over=self._over.get(topic, ()),
                )

    # The response

    async def _response(self, throttle_time: Any) -> bytes:
        kind = self._request.response_types
        responses = []
        async for resource in self._steps.over(self._resources):
            result = self._refusals.get(resource.key)
            if result is None and resource.key in self._results:
                altered = self._results[resource.key]
                result = PolicyRefusal(int(altered.error_code), altered.error_message)
            code, message = result or PolicyRefusal(UNKNOWN_SERVER_ERROR, None)
            responses.append(
                kind.AlterConfigsResourceResponse(
                    error_code=ErrorCode(code),
                    error_message=message,
                    resource_type=resource.given.resource_type,
                    resource_name=resource.given.resource_name,
                )
            )
        return await self._context.response(
            self._request.response_type(throttle_time=throttle_time, responses=tuple(responses))
        )


def _value(change: _Change, current: str | None) -> str | None:
    """Return the value after a change, as a controller computes it."""
    if change.operation == DELETE:
        return None
    if change.operation not in _OPERATIONS:
        return change.value
    parts = [part.strip() for part in (current or "").split(",") if part.strip()]
    operands = [part.strip() for part in (change.value or "").split(",")]
    if change.operation == APPEND:
        there = set(parts)
        return ",".join((*parts, *(part for part in dict.fromkeys(operands) if part not in there)))
    less = Counter(operands)  # each part once: a list may have a part several times
    remaining_parts = []
    for part in parts:
        if less[part]:
            less[part] -= 1
        else:
            remaining_parts.append(part)
    return ",".join(remaining_parts)
