"""The topics that a validation policy will judge, as far as they are known before records come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from penstock.configuration.globs import is_glob
from penstock.engine.plans.plan import NO_SETTINGS
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.kafka.cluster.metadata import MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from penstock.engine.plans.plan import Plan
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.gateway.admin.topic_configs import TopicConfigs
    from penstock.kafka.cluster.metadata import ClusterMetadata

log = structlog.get_logger()

KNOWN_MAX: Final = 1000
_AT_ONCE: Final = 100
"""How many topics are read before requests have their turn again."""


async def validated_topics(
    plan: Plan, topic_configs: TopicConfigs, cluster: ClusterMetadata
) -> list[TopicPlan]:
    """Return the plans of topics that a validation policy judges, `KNOWN_MAX` at most.

    First the topics that the file names without a wildcard, then topics with configs, then
    the other topics of the cluster. If the cluster does not respond, only those of the file.

    Args:
        topic_configs: The configs that were set on topics.
        cluster: Has the names of the topics.
    """
    named = [glob for glob in plan.globs if not is_glob(glob)]
    try:
        cluster_topics = sorted(await cluster.topics())
    except MetadataUnavailableError as error:
        log.warning("the cluster's topics are not known", reason=str(error))
        cluster_topics = []
    configured = [name for name in cluster_topics if topic_configs.names(name)][:KNOWN_MAX]
    # The settings on a topic are kept by its id.
    ids = await asyncio.to_thread(cluster.ids, configured)
    topic_plans: list[TopicPlan] = []
    for count, name in enumerate(_each_once(named, configured, cluster_topics)):
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)
        topic_plan = _plan_of(name, ids.get(name), plan, topic_configs)
        if topic_plan is not None and topic_plan.needs_topic_id and not topic_plan.unusable:
            topic_plans.append(topic_plan)
            if len(topic_plans) == KNOWN_MAX:
                break
    return topic_plans


def _each_once(*names: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(name for some in names for name in some)


def _plan_of(
    name: str, topic_id: UUID | None, plan: Plan, topic_configs: TopicConfigs
) -> TopicPlan | None:
    try:
        own = NO_SETTINGS if topic_id is None else topic_configs.of(name, topic_id)
    except UnreadableTopicConfigsError:
        return None
    return plan.for_topic(name, own)
