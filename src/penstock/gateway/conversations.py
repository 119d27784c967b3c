"""Which requests of topics and configs are held and answered by a handler; all others pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway import routing
from penstock.gateway.handlers.alter_configs import alter_configs
from penstock.gateway.handlers.coordinators import find_coordinator
from penstock.gateway.handlers.create_partitions import create_partitions
from penstock.gateway.handlers.create_topics import create_topics
from penstock.gateway.handlers.delete_records import delete_records
from penstock.gateway.handlers.delete_topics import delete_topics
from penstock.gateway.handlers.describe_configs import describe_configs
from penstock.gateway.handlers.metadata import metadata
from penstock.gateway.handlers.streams_groups import streams_group_heartbeat

if TYPE_CHECKING:
    from penstock.gateway.handlers.conversation import Handler
    from penstock.gateway.handlers.produce import Policies


def handlers(policies: Policies, *, keeps_settings: bool) -> dict[int, Handler]:
    """Give the handlers that some policies and settings need, by API key."""
    chosen: dict[int, Handler] = {}
    topics = policies.topics
    if topics.create_topic is not None or topics.alter_config is not None or keeps_settings:
        chosen[routing.CREATE_TOPICS] = create_topics
    if topics.alter_config is not None or keeps_settings:
        chosen[routing.ALTER_CONFIGS] = alter_configs
        chosen[routing.INCREMENTAL_ALTER_CONFIGS] = alter_configs
    if keeps_settings:
        chosen[routing.DESCRIBE_CONFIGS] = describe_configs
        chosen[routing.DELETE_RECORDS] = delete_records
    if keeps_settings or topics.needs_context or policies.plan.names["records.policy.class.name"]:
        chosen[routing.DELETE_TOPICS] = delete_topics
    if topics.create_topic is not None:
        chosen[routing.METADATA] = metadata
        chosen[routing.FIND_COORDINATOR] = find_coordinator
        chosen[routing.STREAMS_GROUP_HEARTBEAT] = streams_group_heartbeat
    if keeps_settings or (topics.create_topic is not None and policies.judges_partitions):
        chosen[routing.CREATE_PARTITIONS] = create_partitions
    return chosen
