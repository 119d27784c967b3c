"""The digests of the topics' plans, as a gateway enforces them, and how they change.

They are looked up from time to time, some topics at a time, and soon after a reload or a change of
a topic's keys; never for a request.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from penstock.engine.plans.plan import NO_SETTINGS
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.kafka.cluster.metadata import MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from uuid import UUID

    from penstock.engine.plans.plan import Plan
    from penstock.kafka.cluster.metadata import ClusterMetadata

log = structlog.get_logger()

TOPICS_MAX: Final = 1000
"""As many as other series by topic: the first topics, and others where some of these are gone."""
EVERY_S: Final = 30.0
_SOON_S: Final = 0.2
"""After a change: others often follow."""
_AT_ONCE: Final = 50
"""How many topics are looked up before other work has its turn."""


class WatchedPolicies(Protocol):
    """The policies in force, as far as they are watched."""

    @property
    def plan(self) -> Plan:
        """The policies of each topic."""


class WatchedConfigs(Protocol):
    """The topic configs that were set through admin tools."""

    def names(self, topic: str, /) -> bool:
        """Whether there may be configs for a topic of this name; then its id is needed."""

    def of(self, topic: str, topic_id: UUID, /) -> Mapping[str, str]:
        """Return the configs of a topic.

        Raises:
            UnreadableTopicConfigsError: They are not known.
        """


class Watched(Protocol):
    """A gateway, as far as its plans are watched."""

    @property
    def policies(self) -> WatchedPolicies:
        """The current policies."""

    @property
    def topic_configs(self) -> WatchedConfigs:
        """The topic configs that were set through admin tools."""

    @property
    def cluster(self) -> ClusterMetadata:
        """The metadata of the cluster."""

    @property
    def is_loaded(self) -> bool:
        """Whether policies are in force."""


class PlanChange(NamedTuple):
    """A topic has another plan than before.

    Attributes:
        before: The digest before; empty if the gateway had none for the topic.
        after: The digest now; empty if the topic has no policy any more, or is gone.
        cause: `reload`, or `topic` for a key of the topic.
        principal: Whose client altered the topic's keys through this gateway, if it is known.
    """

    topic: str
    before: str
    after: str
    cause: str
    principal: str | None = None


class PlanWatch:
    """The digests of the topics that have policies.

    Attributes:
        digests: By topic, at most `TOPICS_MAX`.
    """

    def __init__(self, gateway: Watched, on_change: Callable[[PlanChange], None]) -> None:
        """Prepare; `run` looks the plans up.

        Args:
            on_change: Called for each change of a topic that was there before.
        """
        self.digests: dict[str, str] = {}
        self._gateway = gateway
        self._on_change = on_change
        self._plan: Plan | None = None
        self._names: Mapping[str, None] = {}
        self._without_own: dict[str, str] = {}
        self._altered_by: dict[str, str | None] = {}
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look the plans up soon: some may have changed."""
        self._woken.set()

    def altered(self, topic: str, principal: str | None) -> None:
        """Take note of who may have altered the keys of a topic."""
        if len(self._altered_by) < TOPICS_MAX:
            self._altered_by[topic] = principal

    async def run(self) -> None:
        """Look the plans up, again and again."""
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("an error of the gateway", action="look up the plans of topics")
            try:
                await asyncio.wait_for(self._woken.wait(), EVERY_S)
                await asyncio.sleep(_SOON_S)
            except TimeoutError:
                pass
            self._woken.clear()

    async def look(self) -> None:
        """Look all plans up, and report those that have changed."""
        gateway = self._gateway
        if not gateway.is_loaded:
            return
        old_names = self._names
        with suppress(MetadataUnavailableError):  # the known topics may have other plans now
            self._names = dict.fromkeys(await gateway.cluster.topics())
        names, configs = self._names, gateway.topic_configs
        configured = {name async for name in _in_slices(names) if configs.names(name)}
        ids = await asyncio.to_thread(gateway.cluster.ids, configured)
        plan = gateway.policies.plan
        if self._plan is not plan:
            self._without_own.clear()
        old_digests = self.digests
        new_digests: dict[str, str] = {}
        first_names = [name for name in old_digests if name in names]
        async for name in _in_slices({**dict.fromkeys(first_names), **names}):
            digest = self._digest(plan, name, ids.get(name), is_configured=name in configured)
            if digest:
                new_digests[name] = digest
                if len(new_digests) == TOPICS_MAX:
                    break
        cause = "topic" if self._plan is plan else "reload"
        is_first = self._plan is None
        self._plan, self.digests = plan, new_digests
        if len(self._without_own) > 2 * len(names):
            self._without_own.clear()  # of topics that are gone
        principals, self._altered_by = self._altered_by, {}
        for topic in () if is_first else {**new_digests, **old_digests}:
            old, new = old_digests.get(topic, ""), new_digests.get(topic, "")
            if old != new and topic in names and topic in old_names:
                principal = principals.get(topic) if cause == "topic" else None
                self._on_change(PlanChange(topic, old, new, cause, principal))

    def _digest(self, plan: Plan, name: str, topic_id: UUID | None, *, is_configured: bool) -> str:
        """Return the digest of a topic's plan; the last one while its own keys are not known."""
        if not is_configured:
            digest = self._without_own.get(name)
            if digest is None:
                digest = self._without_own[name] = _digest_of(plan, name, NO_SETTINGS)
            return digest
        try:
            own = (
                NO_SETTINGS if topic_id is None else self._gateway.topic_configs.of(name, topic_id)
            )
        except UnreadableTopicConfigsError:
            return self.digests.get(name, "")
        return _digest_of(plan, name, own)


def _digest_of(plan: Plan, name: str, own: Mapping[str, str]) -> str:
    topic_plan = plan.for_topic(name, own)
    return "" if topic_plan is None else topic_plan.digest


async def _in_slices(names: Iterable[str]) -> AsyncIterator[str]:
    """Yield names; other work has its turn in between."""
    for count, name in enumerate(names):
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)
        yield name
