"""CreatePartitions (API key 37), versions 0 to 3: applies `CreateTopicPolicy` to the new count.

Behaviour: the topic that stores topic configs keeps one partition (POLICY_VIOLATION). If a
`CreateTopicPolicy` is set and applies to partitions, the request is first sent with
`validate_only`, over the client's connection. Then the policy gets each valid topic as if it were
created now: with the new partition count, and its present replication factor and configs. Each
topic has its own result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kio.schema.describe_configs.v1.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v1.response import DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from penstock.engine.admin_policies import TopicCreation
from penstock.engine.topic_configs import definitions
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.admin.policy_checks import STORES_TOPIC_CONFIGS, PolicyChecks, PolicyRefusal
from penstock.kafka.wire.errors import NONE, POLICY_VIOLATION
from penstock.kafka.wire.requests.described_configs import TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.admin.gateway import AdminGateway
    from penstock.gateway.context.handler_context import HandlerContext


async def create_partitions(context: HandlerContext[AdminGateway]) -> bytes:
    """Return the response to a request."""
    settings, policies = context.gateway.topic_configs, context.gateway.policies.topics
    body, steps = await context.body(), context.steps()
    has_policy = policies.create_topic is not None and policies.judges_partitions
    named = any(topic.name == settings.topic for topic in body.topics)
    if not (has_policy or named):
        return await context.forward()
    probe = await context.forward_changed(replace(body, validate_only=True))
    results = {result.name: result async for result in steps.over(probe.results)}
    valid = [
        topic
        async for topic in steps.over(body.topics)
        if topic.name in results and results[topic.name].error_code == NONE
    ]
    names = [topic.name for topic in valid]
    replicas = {
        topic.name: topic.replication_factor for topic in await context.find_existing(names)
    }
    configs = await _configs(context, names) if names else {}
    checks = PolicyChecks.of(context)
    accepted = []
    async for topic in steps.over(valid):
        refusal: PolicyRefusal | None = None
        if topic.name == settings.topic:
            refusal = PolicyRefusal(POLICY_VIOLATION, STORES_TOPIC_CONFIGS)
        elif has_policy:
            creation = TopicCreation(
                topic.name,
                topic.count,
                replicas.get(topic.name, 0),
                None,
                configs.get(topic.name, {}),
            )
            refusal = await checks.creation(creation)
        if refusal is None:
            accepted.append(topic)
            continue
        results[topic.name] = replace(
            results[topic.name],
            error_code=ErrorCode(refusal.code),
            error_message=refusal.message,
        )
    throttle_time = probe.throttle_time
    if body.validate_only:
        async for topic in steps.over(accepted):
            context.gateway.cluster.disallow(topic.name)
    elif accepted:
        if len(accepted) == len(body.topics):
            return await context.forward()
        response = await context.forward_changed(replace(body, topics=tuple(accepted)))
        throttle_time = response.throttle_time
        results |= {result.name: result async for result in steps.over(response.results)}
    return await context.response(
        context.request.response_type(throttle_time=throttle_time, results=tuple(results.values()))
    )


async def _configs(
    context: HandlerContext[AdminGateway], topics: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return the configs that were set on topics, as far as the client may see them."""
    steps = context.steps()
    resources = [
        DescribeConfigsResource(
            resource_type=i8(TOPIC), resource_name=topic, configuration_keys=None
        )
        async for topic in steps.over(topics)
    ]
    response = await context.send_as_client(
        DescribeConfigsRequest(resources=tuple(resources)), DescribeConfigsResponse
    )
    configs_by_topic = {
        result.resource_name: {
            config.name: config.value
            async for config in steps.over(result.configs)
            if config.config_source == definitions.SET_ON_TOPIC and config.value is not None
        }
        for result in response.results
    }
    settings = context.gateway.topic_configs
    if settings.are_stored:
        configured_topics = [topic for topic in topics if settings.names(topic)]
        for topic, topic_id in (await context.topic_ids(configured_topics)).items():
            try:
                configs_by_topic.setdefault(topic, {}).update(settings.of(topic, topic_id))
            except UnreadableTopicConfigsError:
                continue
    return configs_by_topic
