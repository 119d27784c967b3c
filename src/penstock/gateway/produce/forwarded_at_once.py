"""Forwards Produce requests where they are received, if no worker has to judge a batch of theirs.

Most requests are small, most records are accepted, and many topics have no policies. Whatever is
not as plain is left to `ProduceExchange`, which comes to the same decision in more steps: a request
is only forwarded at once if each of its batches is accepted inline, or its topic has no policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.topic_configs.index import UnreadableTopicConfigsError
from penstock.wire.names import NO_ID, is_topic_name

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.engine.inline import InlineJudge
    from penstock.engine.plan import TopicPlan
    from penstock.gateway.exchange import ConnectionContext
    from penstock.wire.produce import ProduceRequest, TopicData

VALID_ACKS = frozenset({-1, 0, 1})
"""The values that a broker accepts. It checks them first, and stores nothing for others."""


def is_forwarded_at_once(request: ProduceRequest, connection: ConnectionContext) -> bool:
    """Return whether all batches of a request are accepted inline, or need not be judged.

    Args:
        request: The request.
        connection: The client's connection.
    """
    gateway = connection.gateway
    policies = gateway.policies
    if (
        request.acks not in VALID_ACKS
        or policies.plan.has_interceptors
        or gateway.producers
        or connection.may_change_policies
    ):
        return False
    for topic in request.topics:
        named = _name_and_id(topic, connection)
        if named is None:
            return False
        try:
            own = gateway.topic_configs.of(*named)
        except UnreadableTopicConfigsError:
            return False
        plan = policies.plan.for_topic(named[0], own)
        if plan is not None and not _accepts_topic(policies.inline, plan, request, topic):
            return False
    return True


def _accepts_topic(
    inline: InlineJudge | None, plan: TopicPlan, request: ProduceRequest, topic: TopicData
) -> bool:
    if inline is None or plan.unusable:
        return False
    version = request.version
    for partition in topic.partitions:
        if partition.number < 0 or not inline.accepts(plan, version, request.records(partition)):
            return False
    return True


def _name_and_id(topic: TopicData, connection: ConnectionContext) -> tuple[str, UUID] | None:
    """Return the name and id of a topic; None if they, or the topic's configs, are not known."""
    configs = connection.gateway.topic_configs
    name, topic_id = topic.name, topic.topic_id
    if topic_id is not None:
        name = connection.topics.name(topic_id)
    elif name is not None and configs.are_stored:
        topic_id = connection.topics.topic_id(name, since=configs.changed_at(name))
        if topic_id is None:
            return None
    if name is None or name == configs.topic or not is_topic_name(name):
        return None
    if topic_id is not None and configs.unknown((topic_id,)):
        return None
    return name, topic_id or NO_ID
