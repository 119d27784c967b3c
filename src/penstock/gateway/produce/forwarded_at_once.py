"""Forwards Produce requests where they are received, if no worker has to judge a batch of theirs.

Most requests are small, most records are accepted, and many topics have no policies. All other
requests are left to `ProduceExchange`, which comes to the same decision in more steps: a request
is only forwarded at once if each of its batches is accepted inline, or its topic has no policies,
or these only observe (`penstock.mode`).

In quarantine that is so of batches without a producer id, here and in native threads. They need no
state: nothing is known, or kept, of their producers, brokers store them in any order of sequence
numbers because they have none, and whatever became of others of the topic, in any gateway, changes
no byte of those that are accepted. Batches with sequence numbers are never forwarded at once: how
many records of their producer were set aside before is only known after the state of all gateways
has been read, and a success after them may be taken for theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.produce.observed_batches import ObservedBatch
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.records.header import read_producer
from penstock.kafka.wire.names import NO_ID, is_topic_name
from penstock.kafka.wire.requests.produce import VALID_ACKS
from penstock.policy import ClientContext

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from penstock.engine.inline import InlineJudge
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.gateway.observing.metrics.counts import GatewayCounts
    from penstock.gateway.produce.gateway import (
        KnownTopics,
        ProduceConnection,
        ProduceGateway,
        RoutingGateway,
    )
    from penstock.gateway.produce.policy_set import PolicySet
    from penstock.kafka.wire.requests.produce import ProduceRequest, TopicData

_ENTRIES_MAX: Final = 1_000
"""Requests with more topics and partitions are handled in slices, which this is not."""
_LARGE_BYTES: Final = 4 * 1024
"""Topics of shorter requests become known when their batches are accepted inline. Other requests
may have a batch that is too large for that. To look topics up takes less time than to judge."""


def known_topics(
    request: ProduceRequest, connection: ProduceConnection
) -> Sequence[tuple[TopicPlan, TopicData]] | None:
    """Return the topics that have policies; None if a request has to take all steps.

    Its topics are not all known, or their batches may have to be changed or to wait.

    Args:
        connection: The client's connection.
    """
    if request.acks not in VALID_ACKS or request.entries > _ENTRIES_MAX:
        return None
    return _judged_topics(request, connection) if _is_possible(connection) else None


def is_forwarded_at_once(
    topic_plans: Sequence[tuple[TopicPlan, TopicData]],
    request: ProduceRequest,
    connection: ProduceConnection,
) -> bool:
    """Return whether all batches of a request are accepted inline, or need not be judged.

    Args:
        topic_plans: The result of `known_topics`.
        connection: The client's connection.
    """
    if connection.has_waiting and _has_numbered(request):
        return False  # it would wait, too, and the broker may have earlier batches retried then
    if topic_plans and not _are_accepted(topic_plans, request, connection):
        return False
    _pass_topics(topic_plans, request, connection)
    return True


def pass_judged_topics(request: ProduceRequest, connection: ProduceConnection) -> None:
    """Let native threads know the topics of a request whose batches workers have accepted.

    That is of use where they have later batches judged by these workers, or judge batches that are
    too large to be judged inline.
    """
    gateway = connection.gateway
    pool, inline = gateway.policies.pool, gateway.policies.inline
    has_rings = pool is not None and pool.rings is not None
    is_large = inline is not None and len(request.frame) > _LARGE_BYTES
    if gateway.lane is not None and (has_rings or is_large):
        topic_plans = known_topics(request, connection)
        if topic_plans is not None:
            _pass_topics(topic_plans, request, connection)


def _pass_topics(
    topic_plans: Sequence[tuple[TopicPlan, TopicData]],
    request: ProduceRequest,
    connection: ProduceConnection,
) -> None:
    """Let native threads know the topics of a request whose batches are all accepted."""
    lane = connection.gateway.lane
    if lane is not None:
        lane.passed(request.topics, topic_plans, connection.topics)


def _are_accepted(
    topic_plans: Sequence[tuple[TopicPlan, TopicData]],
    request: ProduceRequest,
    connection: ProduceConnection,
) -> bool:
    """Return whether the batches of topics with policies are accepted inline, or only observed."""
    waited_for = [(plan.waited_for, plan, topic) for plan, topic in topic_plans if plan.waited_for]
    inline = connection.gateway.policies.inline
    if (waited_for and inline is None) or not _are_in_order(topic_plans, request, connection):
        return False
    lane = connection.gateway.lane
    if waited_for and not _accepts_all(inline, lane, request, waited_for):
        return False
    if not _observe_all(topic_plans, request, connection):
        return False
    if connection.gateway.counts is not None:
        _count(connection.gateway.counts, request, waited_for)
    return True


def _judged_topics(
    request: ProduceRequest, connection: ProduceConnection
) -> list[tuple[TopicPlan, TopicData]] | None:
    """Return the topics that have policies; None if the request has an unknown topic.

    Or a topic whose batches may have to be changed, or to wait for earlier batches.
    """
    gateway = connection.gateway
    plan = gateway.policies.plan
    topic_plans = []
    for topic in request.topics:
        name_and_configs = _name_and_configs(topic, connection)
        if name_and_configs is None:
            return None
        of_topic = plan.for_topic(*name_and_configs)
        if of_topic is not None and of_topic.quarantines:
            if not (passes_accepted(of_topic, gateway) and _is_unnumbered(topic, request)):
                return None
        elif _may_be_changed(topic, name_and_configs[0], gateway):
            return None
        if of_topic is not None:
            topic_plans.append((of_topic, topic))
        elif gateway.missing_batches.has_topic(name_and_configs[0]):
            return None
    return topic_plans


def is_decided_by_topics(policies: PolicySet) -> bool:
    """Return whether a topic's name or id alone may decide which policies judge its batches.

    Then that is so until the policies, or the configs of a topic, change, and while no batch for
    the topic is missing, and none of its batches may have to be changed (`_may_be_changed`).
    """
    return not policies.whole_request


def passes_accepted(plan: TopicPlan, gateway: RoutingGateway) -> bool:
    """Return whether accepted batches of a topic in quarantine pass, if they have no producer id.

    They do not where they count (`bad_shares`), or as long as nothing could keep the decision about
    others. That is so until the policies, or the configs of a topic, change.
    """
    return plan.quarantines and not plan.limits_bad_share and gateway.keeps_decisions


def _is_unnumbered(topic: TopicData, request: ProduceRequest) -> bool:
    """Return whether no batch of a topic has a producer id, and each has a header."""
    producers = (read_producer(request.records(partition)) for partition in topic.partitions)
    return all(producer is not None and producer.producer_id < 0 for producer in producers)


def _has_numbered(request: ProduceRequest) -> bool:
    """Return whether a batch of a request has a producer id."""
    partitions = (partition for topic in request.topics for partition in topic.partitions)
    producers = (read_producer(request.records(partition)) for partition in partitions)
    return any(producer is not None and producer.producer_id >= 0 for producer in producers)


def _may_be_changed(topic: TopicData, name: str, gateway: ProduceGateway) -> bool:
    """Return whether a topic's batches may have to be changed, at least their sequence numbers.

    Records of the topic may be dropped, or were dropped before, here or by another gateway; or it
    is not decided yet whether they are.
    """
    producers = gateway.producers
    return gateway.policies.plan.intercepts(name) or (
        bool(producers)
        and (
            producers.has_topic(name)
            or producers.arrivals.have_topic(name)
            or (topic.topic_id is not None and producers.arrivals.have_topic(topic.topic_id))
        )
    )


def _observe_all(
    topic_plans: Sequence[tuple[TopicPlan, TopicData]],
    request: ProduceRequest,
    connection: ProduceConnection,
) -> bool:
    """Judge all observed topics of a request; return False if an id must be looked up first."""
    observed = []
    for topic_plan, topic in topic_plans:
        plan = topic_plan.observed
        if plan is not None:
            topic_id = _topic_id(topic, connection)
            if topic_id is None and plan.needs_topic_id:
                return False
            observed.append((plan, topic_id or NO_ID, topic))
    for plan, topic_id, topic in observed:
        observe(plan, topic_id, topic, request, connection)
    return True


def observe(
    plan: TopicPlan,
    topic_id: UUID,
    topic: TopicData,
    request: ProduceRequest,
    connection: ProduceConnection,
) -> None:
    """Judge the batches of an observed topic; the request does not wait for it.

    Args:
        plan: The topic's policies.
        topic_id: The topic's id, if a policy needs it.
        topic: The topic's part of the request.
        connection: The client's connection.
    """
    observed = connection.gateway.policies.observed
    if observed is None:
        return
    sender = sender_of(request, connection)
    for partition in topic.partitions:
        if partition.number >= 0:
            batch = ObservedBatch(
                plan,
                partition.number,
                topic_id,
                request.version,
                request.client_id,
                connection.number,
                sender,
            )
            observed.submit(batch, request.records(partition))


def sender_of(request: ProduceRequest, connection: ProduceConnection) -> ClientContext:
    """Return who sends a request, for policies."""
    return ClientContext(connection.authentication.principal, request.client_id, connection.address)


def _topic_id(topic: TopicData, connection: ProduceConnection) -> UUID | None:
    if topic.topic_id is not None or topic.name is None:
        return topic.topic_id
    return cached_topic_id(topic.name, connection)


def _is_possible(connection: ProduceConnection) -> bool:
    gateway = connection.gateway
    policies = gateway.policies
    return not (
        connection.may_change_policies
        # No batch of a request may be stored if one of its topics does not exist. And
        # every batch of a request before it may have to be retried, in any topic.
        or (
            policies.whole_request
            and (connection.has_undecided or not gateway.topic_configs.are_stored)
        )
    )


def _are_in_order(
    topic_plans: Sequence[tuple[TopicPlan, TopicData]],
    request: ProduceRequest,
    connection: ProduceConnection,
) -> bool:
    """Return whether no earlier batch has to be retried first."""
    return all(_is_in_order(plan.topic, topic, request, connection) for plan, topic in topic_plans)


def _is_in_order(
    name: str, topic: TopicData, request: ProduceRequest, connection: ProduceConnection
) -> bool:
    """Return whether no earlier batch for a topic has to be retried first."""
    missing_batches = connection.gateway.missing_batches
    if not missing_batches:
        return True
    principal = connection.authentication.principal or ""
    for partition in topic.partitions:
        producer = read_producer(request.records(partition))
        if producer is not None and producer.producer_id >= 0:
            key = ProducerKey(name, partition.number, producer.producer_id, principal)
            if key in missing_batches:
                return False
    return True


def _count(
    counts: GatewayCounts,
    request: ProduceRequest,
    judged_topics: Sequence[tuple[TopicPlan, TopicPlan, TopicData]],
) -> None:
    for plan, _, topic in judged_topics:
        for partition in topic.partitions:
            counts.accepted(plan, request.records(partition))


def _accepts_all(
    inline: InlineJudge | None,
    lane: KnownTopics | None,
    request: ProduceRequest,
    judged_topics: Sequence[tuple[TopicPlan, TopicPlan, TopicData]],
) -> bool:
    """Return whether batches are accepted by the first of the plans of their topic.

    The second has all policies: native threads judge by those that only observe, too.
    """
    if inline is None:
        return False
    for plan, _, _ in judged_topics:
        if plan.unusable or not inline.judges(plan):
            return False
    version = request.version
    for plan, full_plan, topic in judged_topics:
        for partition in topic.partitions:
            records = request.records(partition)
            if partition.number < 0:
                return False
            if not inline.accepts(plan, version, records) and (
                lane is None or not lane.accepts(full_plan, version, records)
            ):
                return False
    return True


def _name_and_configs(
    topic: TopicData, connection: ProduceConnection
) -> tuple[str, Mapping[str, str]] | None:
    """Return a topic's name and its own configs; None if not known, or it is the gateway's."""
    gateway = connection.gateway
    configs = gateway.topic_configs
    name, topic_id = topic.name, topic.topic_id
    if topic_id is not None:
        name = connection.topics.name(topic_id)
    elif name is not None and configs.are_stored:
        topic_id = cached_topic_id(name, connection)
        if topic_id is None:
            return None
    if name is None or not is_topic_name(name) or is_for_gateways(name, gateway):
        return None
    if topic_id is not None and configs.unknown((topic_id,)):
        return None
    try:
        return name, configs.of(name, topic_id or NO_ID)
    except UnreadableTopicConfigsError:
        return None


def cached_topic_id(name: str, connection: ProduceConnection) -> UUID | None:
    """Return a topic's id, if it was stored after the last change of the topic's configs."""
    change_time = connection.gateway.topic_configs.changed_at(name)
    return connection.topics.topic_id(name, changed_at=change_time)


def is_for_gateways(name: str, gateway: ProduceGateway) -> bool:
    """Return whether a topic is written by gateways only, so that no client may write to it."""
    shared = gateway.shared_producers
    return name in (gateway.topic_configs.topic, gateway.audit_topic) or (
        shared is not None and name == shared.topic
    )
