"""CreateTopics (API key 19), versions 2 to 7: applies policies, and stores topic level keys.

Behaviour, if a policy is set or a topic level key is used: the request is first sent with
`validate_only`, over the client's connection, so that the cluster's ACLs apply, and its errors
precede those of policies, as in a KRaft controller. For each valid topic the `AlterConfigPolicy`
(KIP-133) gets the configs, then the `CreateTopicPolicy` (KIP-108) the topic, with the partition
count and replication factor that the cluster resolved. The accepted topics are created, without
Penstock's topic level keys, which are stored before. Each topic has its own result. All other
requests are forwarded unchanged.

A topic that is invalid in the first request is not sent again. Controller mutation quotas are
charged for both requests.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from kio.schema.create_topics.v7 import request as v7
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32

import penstock.kafka.wire.requests.create_topics as wire
from penstock.configuration.topic_keys import GROUP_DEAD_LETTERS
from penstock.engine.admin_policies import ConfigAlteration, TopicCreation
from penstock.engine.topic_configs import definitions, misnamed
from penstock.gateway.admin.policy_checks import (
    PolicyChecks,
    PolicyRefusal,
    config_error,
    explained,
    group_dead_letters_error,
    judging_error,
    keys_refused,
)
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from penstock.kafka.cluster.metadata import MetadataUnavailableError
from penstock.kafka.wire.errors import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    NETWORK_EXCEPTION,
    NONE,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
)
from penstock.kafka.wire.requests.create_topics import Results
from penstock.kafka.wire.requests.entities import write_entity, write_in_slices

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from penstock.gateway.admin.gateway import AdminGateway
    from penstock.gateway.context.handler_context import HandlerContext

log = structlog.get_logger()

SLICE: Final = 25
"""So many topics of a request are read, judged or written in one turn of the event loop."""
_CONFIGS_FROM = 5
_TOPIC_IDS_FROM = 7
_CLUSTER_METADATA = "__cluster_metadata"
_AFTER_CONFIGS = frozenset(
    {INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST}
)
"""Errors that a controller checks only after the configs."""
_OUTCOME_UNKNOWN = frozenset({UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, NETWORK_EXCEPTION})
"""Errors after which the topic may still be created. They are not the retriable errors: most of
those mean that nothing was done, and UNKNOWN_SERVER_ERROR is not among them."""


class _RequestedTopic(NamedTuple):
    """A topic of the request.

    Attributes:
        given: The topic as in the request.
        stripped: The topic for the cluster, without Penstock's topic level keys.
        own: These keys.
        is_misnamed: Whether another config looks like one of these keys.
    """

    given: Any
    stripped: Any
    own: dict[str, str | None]
    is_misnamed: bool

    @property
    def has_own(self) -> bool:
        """Whether a config is for Penstock, or may be meant for it."""
        return bool(self.own or self.is_misnamed or GROUP_DEAD_LETTERS in self.configs)

    @property
    def configs(self) -> dict[str, str | None]:
        return {config.name: config.value for config in self.given.configs}


async def create_topics(context: HandlerContext[AdminGateway]) -> bytes:
    """Return the response to a request."""
    body = await context.body()
    gateway = context.gateway
    requested, is_handled = [], False
    async for creatable_topic in context.steps(SLICE).over(body.topics):
        topic = await _read(context, creatable_topic)
        # Another of its name may have been deleted elsewhere.
        gateway.topic_changed(creatable_topic.name)
        is_handled |= topic.has_own or gateway.topic_configs.names(creatable_topic.name)
        requested.append(topic)
    policies = gateway.policies.topics
    has_policy = policies.create_topic is not None or policies.alter_config is not None
    if not (has_policy or is_handled):
        return await context.forward()
    return await _CreateTopics(context, body, requested).respond()


class _CreateTopics:
    """The handling of a request."""

    def __init__(
        self, context: HandlerContext[AdminGateway], body: Any, requested: list[_RequestedTopic]
    ) -> None:
        self._context = context
        self._body = body
        self._request = context.request
        self._topics = requested
        self._repeated: set[str] = set()
        self._names: list[str] = []
        self._results: dict[str, Any] = {}
        self._read: dict[str, wire.Result] = {}
        self._steps = context.steps(SLICE)
        self._creations: dict[str, UUID] = {}

    async def respond(self) -> bytes:
        names = Counter([topic.given.name async for topic in self._steps.over(self._topics)])
        # A controller creates none of these (ControllerApis.java, createTopics).
        self._repeated = {name for name, count in names.items() if count > 1}
        validated = await self._send([topic.stripped for topic in self._topics], validate_only=True)
        # The order and number of results are those of the cluster.
        self._names = await self._read_results(validated)
        await self._judge()
        accepted = [
            topic
            async for topic in self._steps.over(self._topics)
            if self._results[topic.given.name].error_code == NONE
        ]
        if not accepted or self._body.validate_only:
            for topic in accepted:
                self._context.gateway.cluster.disallow(topic.given.name)
            return await self._response(validated)
        has_settings = any(topic.own or self._has_open_creation(topic) for topic in accepted)
        if len(accepted) == len(self._topics) and not has_settings:
            return await self._forward()
        try:
            created = await self._create(accepted)
        finally:
            for creation in self._creations.values():
                self._context.gateway.topic_configs.store.leave(creation)
        return await self._response(created or validated)

    def _has_open_creation(self, topic: _RequestedTopic) -> bool:
        return bool(self._context.gateway.topic_configs.open_creations(topic.given.name))

    async def _forward(self) -> bytes:
        """Forward the original request."""
        frame = await self._context.forward()
        for result, _ in wire.Results(frame, self._request.response_type):
            if result.error_code != NONE:
                self._context.gateway.cluster.disallow(result.name)
            await self._steps.step()
        return frame

    # Requests to the cluster

    async def _send(self, topics: list[Any], *, validate_only: bool) -> Results:
        encoded_topics = [
            await self._context.in_turns(write_in_slices(topic))
            async for topic in self._steps.over(topics)
        ]
        make = partial(
            wire.request,
            topics=encoded_topics,
            timeout=self._body.timeout,
            validate_only=validate_only,
            client_id=self._request.client_id,
        )
        return Results(await self._context.send(make), CreateTopicsResponse)

    async def _read_results(self, results: Results) -> list[str]:
        """Record results; return the names of their topics, in order."""
        names = []
        for result in results:
            name = result.entity.name
            names.append(name)
            self._results[name], self._read[name] = result.entity, result
            await self._steps.step()
        return names

    # Policies

    async def _judge(self) -> None:
        checks = PolicyChecks.of(self._context)
        for topic in self._topics:
            await self._steps.step()
            name = topic.given.name
            result = self._results.get(name)
            if result is None:
                self._names.append(name)
                self._results[name] = _result(name, PolicyRefusal(UNKNOWN_SERVER_ERROR, None))
                continue
            code = int(result.error_code)
            explanation = None
            if code == INVALID_CONFIG:
                explanation = explained(self._context.gateway, result.error_message)
            if explanation is not None:
                self._results[name] = _result(name, keys_refused(self._context, name, explanation))
                continue
            if code and (
                code not in _AFTER_CONFIGS or name in self._repeated or name == _CLUSTER_METADATA
            ):
                continue
            refusal = await self._refusal(checks, topic, result, sound=not code)
            if refusal is not None:
                self._results[name] = _result(name, refusal)

    async def _refusal(
        self, checks: PolicyChecks, topic: _RequestedTopic, result: Any, *, sound: bool
    ) -> PolicyRefusal | None:
        reason = await self._config_error(topic)
        if reason is not None:
            return keys_refused(self._context, topic.given.name, reason)
        if topic.given.configs:
            altered = ConfigAlteration("TOPIC", topic.given.name, topic.configs)
            refusal = await checks.alteration(altered)
            if refusal is not None:
                return refusal
        if not sound or self._context.gateway.policies.topics.create_topic is None:
            return None  # without a policy, the counts are not needed
        try:
            creation = await self._creation(topic, result)
        except MetadataUnavailableError as error:
            return checks.cannot_be_judged(topic.given.name, error)
        return await checks.creation(creation)

    async def _config_error(self, topic: _RequestedTopic) -> str | None:
        """Return why a topic cannot have its configs; None if it can."""
        gateway, name = self._context.gateway, topic.given.name
        for key, value in topic.own.items():
            reason = await config_error(gateway, key, value or "")
            if reason is not None:
                return reason
        own = {key: definitions.normalize(key, value or "") for key, value in topic.own.items()}
        value = topic.configs.get(GROUP_DEAD_LETTERS)
        reason = group_dead_letters_error(gateway, name, value, own)
        return reason or await judging_error(gateway, name, own.keys(), own)

    async def _creation(self, topic: _RequestedTopic, result: Any) -> TopicCreation:
        creatable_topic = topic.given
        configs = {name: value for name, value in topic.configs.items() if value is not None}
        if creatable_topic.assignments:
            assignments = {
                assignment.partition_index: assignment.broker_ids
                for assignment in creatable_topic.assignments
            }
            return TopicCreation(creatable_topic.name, None, None, assignments, configs)
        # The response has the counts only if the client may describe the configs of the topic.
        partitions, replicas = creatable_topic.num_partitions, creatable_topic.replication_factor
        counts = await self._context.gateway.cluster.counts(
            result.num_partitions if partitions < 0 else partitions,
            result.replication_factor if replicas < 0 else replicas,
        )
        return TopicCreation(creatable_topic.name, *counts, None, configs)

    # Creation

    async def _create(self, accepted: list[_RequestedTopic]) -> Results | None:
        """Create topics, and record their results."""
        ready = []
        for topic in accepted:
            await self._steps.step()
            try:
                await self._keep(topic)
            except CompactedTopicError as error:
                self._fail(topic.given.name, f"its settings could not be kept: {error}")
            else:
                ready.append(topic)
        if not ready:
            return None
        created = await self._send([topic.stripped for topic in ready], validate_only=False)
        missing_names = {topic.given.name for topic in ready}
        missing_names.difference_update(await self._read_results(created))
        for name in missing_names:
            self._results[name] = _result(name, PolicyRefusal(UNKNOWN_SERVER_ERROR, None))
        # This is completed even if the connection is lost in the meantime.
        await self._context.finish(self._settle(ready))
        return created

    async def _keep(self, topic: _RequestedTopic) -> None:
        """Store the topic level keys before the topic is created."""
        settings = self._context.gateway.topic_configs
        own = {key: definitions.normalize(key, value or "") for key, value in topic.own.items()}
        creation = await settings.prepare(topic.given.name, own)
        if creation is not None:
            self._creations[topic.given.name] = creation

    async def _settle(self, topics: list[_RequestedTopic]) -> None:
        """Store the keys of created topics under the topic id, and delete those of others."""
        settings = self._context.gateway.topic_configs
        for topic in topics:
            name = topic.given.name
            result = self._results[name]
            if result.error_code != NONE:
                self._context.gateway.cluster.disallow(name)
            creation = self._creations.pop(name, None)
            if creation is None:
                continue
            try:
                if result.error_code == NONE:
                    await settings.store.finish(creation, result.topic_id)
                elif result.error_code in _OUTCOME_UNKNOWN:
                    settings.store.leave(creation)
                else:
                    await settings.store.withdraw(creation)
            except CompactedTopicError as error:
                settings.store.leave(creation)  # they are effective nevertheless
                log.error("settings are still stored for a creation", topic=name, reason=str(error))

    def _fail(self, name: str, why: str) -> None:
        self._context.gateway.cluster.disallow(name)
        refusal = PolicyRefusal(UNKNOWN_SERVER_ERROR, f"The topic was not created: {why}")
        self._results[name] = _result(name, refusal)

    # The response

    async def _response(self, last: Results) -> bytes:
        """Write the results in the client's version."""
        own = {topic.given.name: topic.own async for topic in self._steps.over(self._topics)}
        results = []
        for name in self._names:
            results.append(self._written(name, own.get(name, {})))
            await self._steps.step()
        return wire.response(
            self._request.correlation_id,
            self._request.response_type,
            throttle_time=last.throttle_time,
            results=results,
        )

    def _written(self, name: str, own: Mapping[str, str | None]) -> bytes:
        """Return the bytes of a result; the cluster's own, where they are in the right version."""
        result, cluster_result = self._results[name], self._read.get(name)
        if (
            cluster_result is not None
            and cluster_result.entity is result
            and self._request.version == CreateTopicsResponse.__version__
            and not (own and result.configs)
        ):
            return cluster_result.data
        return write_entity(self._for_client(result, own))

    def _for_client(self, result: Any, own: Mapping[str, str | None]) -> Any:
        types, version = self._request.response_types, self._request.version
        fields = {
            "name": result.name,
            "error_code": result.error_code,
            "error_message": result.error_message,
        }
        if version >= _CONFIGS_FROM:
            configs = [
                types.CreatableTopicConfigs(
                    name=config.name,
                    value=config.value,
                    read_only=config.read_only,
                    config_source=config.config_source,
                    is_sensitive=config.is_sensitive,
                )
                for config in result.configs or ()
            ]
            if own and configs:
                configs += self._own_configs(result.name, own)
                configs.sort(key=lambda config: config.name)
            fields |= {
                "topic_config_error_code": result.topic_config_error_code,
                "num_partitions": result.num_partitions,
                "replication_factor": result.replication_factor,
                "configs": tuple(configs) if result.configs is not None else None,
            }
        if version >= _TOPIC_IDS_FROM:
            fields["topic_id"] = result.topic_id
        return types.CreatableTopicResult(**fields)

    def _own_configs(self, topic: str, own: Mapping[str, str | None]) -> list[Any]:
        plan = self._context.gateway.policies.plan
        defaults = plan.settings(topic)
        kind = self._request.response_types.CreatableTopicConfigs
        return [
            kind(
                name=name,
                value=definitions.normalize(name, own[name] or "")
                if name in own
                else defaults.get(name, key.default),
                read_only=not plan.allows_key(name),
                config_source=i8(definitions.SET_ON_TOPIC if name in own else definitions.DEFAULT),
                is_sensitive=False,
            )
            for name, key in definitions.config_keys().items()
        ]


async def _read(context: HandlerContext[AdminGateway], topic: Any) -> _RequestedTopic:
    """Separate Penstock's topic level keys from a topic, except those that are invalid anyway."""
    steps = context.steps()
    own: dict[str, str | None] = {}
    if context.gateway.topic_configs.are_stored:
        own = definitions.select({config.name: config.value for config in topic.configs})
    cluster_configs = [
        v7.CreatableTopicConfig(name=config.name, value=config.value)
        async for config in steps.over(topic.configs)
        # A null value is an error for any key: the cluster's message names all of them.
        if config.name not in own or config.value is None
    ]
    assignments = [
        v7.CreatableReplicaAssignment(
            partition_index=assignment.partition_index, broker_ids=assignment.broker_ids
        )
        async for assignment in steps.over(topic.assignments)
    ]
    stripped = v7.CreatableTopic(
        name=TopicName(topic.name),
        num_partitions=i32(topic.num_partitions),
        replication_factor=i16(topic.replication_factor),
        assignments=tuple(assignments),
        configs=tuple(cluster_configs),
    )
    is_misnamed = any(misnamed.may_be_own(config.name) for config in cluster_configs)
    return _RequestedTopic(topic, stripped, own, is_misnamed)


def _result(name: str, refusal: PolicyRefusal) -> Any:
    return CreatableTopicResult(
        name=TopicName(name),
        topic_id=None,
        error_code=ErrorCode(refusal.code),
        error_message=refusal.message,
        configs=(),
    )
