"""The policies of each topic, and where each of its settings comes from, as JSON.

Every viewer requests them, so they are made every few seconds at most, on the event loop, some
topics at a time. The names of topics, and the ids under which their own settings are kept, are
read from the cluster, in a thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.configuration.interfaces import (
    ALTER_CONFIG,
    CREATE_TOPIC,
    INTERCEPTORS,
    VALIDATION,
    VALIDATORS,
)
from penstock.configuration.topic_keys import POLICIES, RECORDS_POLICY
from penstock.engine.plans.plan import NO_SETTINGS, KeyOrigin
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.observing.console.recent_refusals import shown
from penstock.gateway.observing.console.subscribers import as_text
from penstock.kafka.cluster.metadata import MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from uuid import UUID

    from penstock.engine.plans.plan import Plan, Setting
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.kafka.cluster.metadata import ClusterMetadata

TOPICS_MAX: Final = 1000
FRESH_S: Final = 5.0
"""Younger plans are not made again."""
_AT_ONCE: Final = 20
"""How many topics are read before other work has its turn."""


class TopicPolicyClasses(Protocol):
    """The classes of the policies for topics and configs."""

    @property
    def create_topic(self) -> str | None:
        """The class of the `CreateTopicPolicy`; None without one."""

    @property
    def alter_config(self) -> str | None:
        """The class of the `AlterConfigPolicy`; None without one."""


class PlannedPolicies(Protocol):
    """The policies of a configuration, as far as they are shown."""

    @property
    def plan(self) -> Plan:
        """The policies of each topic."""

    @property
    def topics(self) -> TopicPolicyClasses:
        """The policies for topics and configs."""


class OwnConfigs(Protocol):
    """The topic configs that were set through admin tools."""

    def names(self, topic: str, /) -> bool:
        """Whether there may be configs for a topic of this name; then its id is needed."""

    def of(self, topic: str, topic_id: UUID, /) -> Mapping[str, str]:
        """Return the configs of a topic.

        Raises:
            UnreadableTopicConfigsError: They are not known.
        """


class Planned(Protocol):
    """The part of a gateway that its plans are read from."""

    @property
    def policies(self) -> PlannedPolicies:
        """The current policies."""

    @property
    def topic_configs(self) -> OwnConfigs:
        """The topic configs that were set through admin tools."""

    @property
    def cluster(self) -> ClusterMetadata:
        """The metadata of the cluster."""

    @property
    def is_loaded(self) -> bool:
        """Whether policies are in force."""


class TopicPlans:
    """The plans of a gateway, as they were lately."""

    def __init__(self, gateway: Planned, clock: Callable[[], float]) -> None:
        """Prepare; nothing is read.

        Args:
            clock: Returns the monotonic time in seconds.
        """
        self._gateway = gateway
        self._clock = clock
        self._made = ""
        self._made_at = 0.0
        self._making = asyncio.Lock()

    def forget(self) -> None:
        """Make them again at the next request: there are other policies."""
        self._made = ""

    async def read(self) -> str:
        """Return them as a line of JSON: those of patterns in the file, and those of topics."""
        async with self._making:
            if not self._made or self._clock() - self._made_at > FRESH_S:
                self._made = await self._make() if self._gateway.is_loaded else ""
                self._made_at = self._clock()
            return self._made or "{}"

    async def _make(self) -> str:
        gateway = self._gateway
        policies = gateway.policies
        plan, topics = policies.plan, policies.topics
        try:
            all_topics: Mapping[str, tuple[int, int]] = await gateway.cluster.topics()
            why_not = ""
        except MetadataUnavailableError as error:
            all_topics, why_not = {}, shown(str(error))
        configured = [name for name in all_topics if gateway.topic_configs.names(name)][:TOPICS_MAX]
        ids = await asyncio.to_thread(gateway.cluster.ids, configured)
        rows, without = await self._of_topics(plan, all_topics, configured, ids)
        others = {
            "topic_policies": [
                {"key": key, "class": name, "observed": plan.observes_topic("*")}
                for key, name in (
                    (CREATE_TOPIC, topics.create_topic),
                    (ALTER_CONFIG, topics.alter_config),
                )
                if name
            ],
            "patterns": [
                {"pattern": glob, **_as_json(plan, glob, plan.for_pattern(glob), NO_SETTINGS)}
                for glob in plan.globs[:TOPICS_MAX]
            ],
            "topics_max": TOPICS_MAX,
            "topics_without_policy": without,
            "topics_not_known": why_not,
        }
        return f'{as_text(others)[:-1]},"topics":[{",".join(rows)}]}}'

    async def _of_topics(
        self,
        plan: Plan,
        all_topics: Mapping[str, tuple[int, int]],
        configured: Collection[str],
        ids: Mapping[str, UUID | None],
    ) -> tuple[list[str], int]:
        """Return the topics that have policies, as JSON, and how many others there are."""
        rows: dict[str, str] = {}
        without = 0
        names = dict.fromkeys([*configured, *sorted(all_topics)])
        for count, name in enumerate(names):
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)
            own, unreadable = self._own(name, ids.get(name))
            topic_plan = plan.for_topic(name, own)
            if topic_plan is None and not own and not unreadable:
                without += 1
            elif len(rows) < TOPICS_MAX:
                shape = {"topic": shown(name), "partitions": all_topics[name][0]}
                # As text at once: all of them together would keep the event loop for long.
                rows[name] = as_text({**shape, **_as_json(plan, name, topic_plan, own, unreadable)})
        return [rows[name] for name in sorted(rows)], without

    def _own(self, name: str, topic_id: UUID | None) -> tuple[Mapping[str, str], str]:
        """Return the settings of a topic's own, and why they are not known."""
        if topic_id is None:
            return NO_SETTINGS, ""
        try:
            return self._gateway.topic_configs.of(name, topic_id), ""
        except UnreadableTopicConfigsError as error:
            return NO_SETTINGS, str(error)


def _as_json(
    plan: Plan,
    name: str,
    topic_plan: TopicPlan | None,
    own: Mapping[str, str],
    unreadable: str = "",
) -> dict[str, Any]:
    return {
        "plan": topic_plan.digest if topic_plan is not None else "",
        "observed": topic_plan is not None and topic_plan.waited_for is None,
        "mode": topic_plan.mode if topic_plan is not None else "",
        "unusable": shown(unreadable or (topic_plan.unusable if topic_plan is not None else "")),
        "policies": _policies(plan, topic_plan) if topic_plan is not None else [],
        "settings": [_setting(setting) for setting in plan.settings_and_origins(name, own)],
    }


def _policies(plan: Plan, topic_plan: TopicPlan) -> list[dict[str, str]]:
    """Return the policies in the order in which they judge, and the keys that name them."""
    batch = [topic_plan.records_policy] if topic_plan.records_policy else []
    last = [topic_plan.validation_policy] if topic_plan.validation_policy else []
    rows = [
        *(("interceptor", name, INTERCEPTORS) for name in topic_plan.interceptors),
        *(("batch", name, RECORDS_POLICY) for name in batch),
        *(("record", name, VALIDATORS) for name in topic_plan.validators),
        *(("record", name, VALIDATION) for name in last),
        *((plan.judges(name), name, POLICIES) for name in topic_plan.named),
    ]
    return [
        {
            "judges": judges,
            "class": shown(plan.label(name)),
            "key": POLICIES if name in plan.named_policies else key,
        }
        for judges, name, key in rows
    ]


def _setting(setting: Setting) -> dict[str, str]:
    key = (
        f"topics.{setting.glob}.{setting.key}"
        if setting.origin is KeyOrigin.PATTERN
        else setting.key
    )
    return {
        "key": setting.key,
        "value": shown(setting.value),
        "from": setting.origin.value,
        "line": shown(key) if setting.origin is not KeyOrigin.TOPIC else "",
    }
