"""StreamsGroupHeartbeat (API key 88), versions 0 and 1: applies `CreateTopicPolicy` to a topology.

Behaviour, if a `CreateTopicPolicy` is set: brokers create the internal topics of a topology. When a
member sends a topology, the policy gets those that do not exist. If any is refused, the member gets
POLICY_VIOLATION with the policy's message, and does not join. If the topology leaves the partition
count of a topic to the broker, the policy gets the largest count of the topology's source topics,
which is at least the count that a broker would choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32

from penstock.engine.admin_policies import TopicCreation
from penstock.gateway.admin.policy_checks import PolicyChecks, PolicyRefusal
from penstock.kafka.cluster.metadata import MetadataUnavailableError
from penstock.kafka.wire.client_requests import NO_TIME
from penstock.kafka.wire.errors import NONE, POLICY_VIOLATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.gateway.admin.gateway import AdminGateway
    from penstock.gateway.context.handler_context import HandlerContext


_NAMES_MAX: Final = 20
"""So many topics a message names."""


async def streams_group_heartbeat(context: HandlerContext[AdminGateway]) -> bytes:
    """Return the response to a request."""
    topology = (await context.body()).topology
    if topology is None:
        return await context.forward()
    steps = context.steps()
    internal = {topic.name: topic async for topic in steps.over(_internal(topology))}
    source_names = {name async for name in steps.over(_sources(topology))}
    topics = await context.find_topics(source_names | internal.keys())
    existing_topics = {
        topic.name: topic async for topic in steps.over(topics) if topic.code == NONE
    }
    partition_counts = [int(topic.partitions) for topic in internal.values()]
    absent = sorted(source_names - existing_topics.keys() - internal.keys())
    undecided = [
        name
        async for name in steps.over(internal)
        if name not in existing_topics and not internal[name].partitions
    ]
    checks = PolicyChecks.of(context, are_awaited=True)
    left_out = {name async for name in steps.over(undecided) if absent and checks.leaves_out(name)}
    if absent and left_out != set(undecided):
        # The broker would store the topology, and create them later without another request.
        return await _refused(
            context,
            PolicyRefusal(
                POLICY_VIOLATION,
                f"Source topics {_listed(absent)} are missing: the policy cannot be called about "
                f"{_listed(sorted(undecided))}, which get as many partitions",
            ),
        )
    largest = max(
        (*partition_counts, *(topic.partitions for topic in existing_topics.values())), default=1
    )
    async for name, topic in steps.over(internal.items()):
        if name in existing_topics or name in left_out:
            continue
        try:
            replicas = int(topic.replication_factor)
            if replicas <= 0:
                replicas = await context.gateway.cluster.default("default.replication.factor")
        except MetadataUnavailableError as error:
            unjudged = checks.cannot_be_judged(name, error)
            if unjudged is None:
                continue
            return await _refused(context, unjudged)
        configs = {config.key: config.value for config in topic.topic_configs}
        creation = TopicCreation(name, int(topic.partitions) or largest, replicas, None, configs)
        refusal = await checks.creation(creation)
        if refusal is not None:
            return await _refused(context, refusal)
    return await context.forward()


def _internal(topology: Any) -> Iterator[Any]:
    for subtopology in topology.subtopologies:
        yield from subtopology.repartition_source_topics
        yield from subtopology.state_changelog_topics


def _sources(topology: Any) -> Iterator[str]:
    for subtopology in topology.subtopologies:
        yield from subtopology.source_topics


def _listed(names: Sequence[str]) -> str:
    """Return names as a text; a string of the protocol has 32 KiB at most, a name 249 bytes."""
    more = len(names) - _NAMES_MAX
    return ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


async def _refused(context: HandlerContext[AdminGateway], refusal: PolicyRefusal) -> bytes:
    body = await context.body()
    # Version 1 has it in 64 bits, and -1 where there is none (KIP-1331).
    lag = {} if context.request.version else {"acceptable_recovery_lag": i32(0)}
    return await context.response(
        context.request.response_type(
            throttle_time=NO_TIME,
            error_code=ErrorCode(refusal.code),
            error_message=refusal.message,
            member_id=body.member_id,
            member_epoch=i32(body.member_epoch),
            heartbeat_interval=NO_TIME,
            **lag,
            task_offset_interval=NO_TIME,
            status=None,
            active_tasks=None,
            standby_tasks=None,
            warmup_tasks=None,
            endpoint_information_epoch=i32(0),
            partitions_by_user_endpoint=None,
        )
    )
