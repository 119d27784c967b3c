"""StreamsGroupHeartbeat (API key 88), version 0: applies `CreateTopicPolicy` to internal topics.

Behaviour, if a `CreateTopicPolicy` is set: brokers create the internal topics of a topology. When a
member sends a topology, the policy gets those that do not exist. If one is refused, the member gets
POLICY_VIOLATION with the policy's message, and does not join. If the topology leaves the partition
count of a topic to the broker, the policy gets the largest count of the topology's source topics,
which is at least the count that a broker would choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32

from penstock.cluster.metadata import MetadataUnavailableError
from penstock.engine.admin_policies import TopicCreation
from penstock.gateway.admin.policy_checks import PolicyChecks, Refusal
from penstock.wire.client_requests import NO_TIME
from penstock.wire.errors import NONE, POLICY_VIOLATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.gateway.request_context import RequestContext


async def streams_group_heartbeat(context: RequestContext) -> bytes:
    """Return the response to a request."""
    topology = context.request.body.topology
    if topology is None:
        return await context.forward()
    internal = {topic.name: topic for topic in _internal(topology)}
    read = {name for subtopology in topology.subtopologies for name in subtopology.source_topics}
    found = {
        topic.name: topic
        for topic in await context.find_topics(read | internal.keys())
        if topic.code == NONE
    }
    given = [int(topic.partitions) for topic in internal.values()]
    absent = sorted(read - found.keys() - internal.keys())
    undecided = [name for name in internal if name not in found and not internal[name].partitions]
    checks = PolicyChecks(context)
    left_out = {name for name in undecided if absent and checks.leaves_out(name)}
    if absent and left_out != set(undecided):
        # The broker would store the topology, and create them later without another request.
        return _refused(
            context,
            Refusal(
                POLICY_VIOLATION,
                f"Source topics {', '.join(absent)} are missing: the policy cannot be asked about "
                f"{', '.join(sorted(undecided))}, which get as many partitions",
            ),
        )
    largest = max((*given, *(topic.partitions for topic in found.values())), default=1)
    for name, topic in internal.items():
        if name in found or name in left_out:
            continue
        try:
            replicas = int(topic.replication_factor)
            if replicas <= 0:
                replicas = await context.gateway.cluster.default("default.replication.factor")
        except MetadataUnavailableError as error:
            unjudged = checks.cannot_be_judged(name, error)
            if unjudged is None:
                continue
            return _refused(context, unjudged)
        configs = {config.key: config.value for config in topic.topic_configs}
        asked = TopicCreation(name, int(topic.partitions) or largest, replicas, None, configs)
        refusal = await checks.creation(asked)
        if refusal is not None:
            return _refused(context, refusal)
    return await context.forward()


def _internal(topology: Any) -> Iterator[Any]:
    for subtopology in topology.subtopologies:
        yield from subtopology.repartition_source_topics
        yield from subtopology.state_changelog_topics


def _refused(context: RequestContext, refusal: Refusal) -> bytes:
    return context.request.response(
        context.request.response_type(
            throttle_time=NO_TIME,
            error_code=ErrorCode(refusal.code),
            error_message=refusal.message,
            member_id=context.request.body.member_id,
            member_epoch=i32(context.request.body.member_epoch),
            heartbeat_interval=NO_TIME,
            acceptable_recovery_lag=i32(0),
            task_offset_interval=NO_TIME,
            status=None,
            active_tasks=None,
            standby_tasks=None,
            warmup_tasks=None,
            endpoint_information_epoch=i32(0),
            partitions_by_user_endpoint=None,
        )
    )
