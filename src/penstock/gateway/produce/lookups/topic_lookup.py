"""The first step of a Produce request: names, ids and stored configs of its topics.

Topic ids (version 13, and KIP-940's metadata) are resolved by a Metadata request over the client's
connection, so the cluster's ACLs apply. Then the topics' own settings, and the state of producers
that other gateways keep, are read as far as they are new here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from penstock.configuration.topic_keys import MODE, POLICIES
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.produce.forwarded_at_once import cached_topic_id
from penstock.gateway.produce.request import SLICE
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from penstock.kafka.wire.errors import (
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from penstock.kafka.wire.own_requests import CLIENT_ID
from penstock.kafka.wire.requests import topics
from penstock.kafka.wire.requests.produce import PartitionResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from penstock.gateway.produce.intercepted.received_batches import ReceivedBatches
    from penstock.gateway.produce.partition import ProducePartition, ProduceTopic
    from penstock.gateway.produce.request import ReceivedRequest
    from penstock.kafka.wire.slices import Slices

log = structlog.get_logger()

_PRODUCER_STATE_NOT_READ: Final = (
    "It is not known yet which of this producer's records were dropped by other gateways"
)


class TopicLookup:
    """The look-up of the topics of one request.

    Attributes:
        unread: The ids of topics whose own settings could not be read.
    """

    __slots__ = ("_errors", "_on_done", "_received", "_request", "unread")

    def __init__(
        self,
        request: ReceivedRequest,
        received: ReceivedBatches,
        on_done: Callable[[], None],
    ) -> None:
        self._request = request
        self._received = received
        self._on_done = on_done
        self._errors: dict[str | UUID, int] = {}
        self.unread: frozenset[UUID] = frozenset()

    def begin(self) -> None:
        """Look up; `on_done` is called when all that can be known is known."""
        self._request.do(self._unknown_topics(), self._request_topics)

    def has_failed(self, topic_id: UUID) -> bool:
        """Return whether the broker does not know a topic id."""
        return topic_id in self._errors

    def error_of(self, topic: ProduceTopic) -> int:
        """Return Kafka's error code for a topic whose name or id is not known."""
        if topic.data.topic_id is not None:
            return self._errors.get(topic.data.topic_id, UNKNOWN_TOPIC_ID)
        return self._errors.get(topic.known_name, UNKNOWN_TOPIC_OR_PARTITION)

    # Names and ids

    def _unknown_topics(self) -> Slices[tuple[set[str], set[UUID]]]:
        """Return the topics to look up at the broker, by name and by id."""
        names: set[str] = set()
        ids: set[UUID] = set()
        for number, topic in enumerate(self._request.topics, 1):
            if number % SLICE == 0:
                yield
            if topic.data.topic_id is not None:
                name = self._request.name_of(topic)
                if name is None or self._has_retry(topic, topic.data.topic_id):
                    ids.add(topic.data.topic_id)
            elif topic.name is not None and self._request.needs_topic_id(topic.name):
                topic_id = cached_topic_id(topic.name, self._request.connection)
                if topic_id is None or self._has_retry(topic, topic_id):
                    names.add(topic.name)
                else:
                    topic.topic_id = topic_id
        return names, ids

    def _has_retry(self, topic: ProduceTopic, topic_id: UUID) -> bool:
        """Return whether a topic has a batch that is a retry, unless it was created again."""
        return any(
            self._received.depends_on_topic_id(partition, topic_id)
            for partition in self._request.partitions_of(topic)
        )

    def _request_topics(self, unknown: tuple[set[str], set[UUID]]) -> None:
        names, ids = unknown
        gateway = self._request.gateway
        if names or ids:
            self._request.do(topics.metadata_body(names, ids), self._send_metadata_request)
        elif not gateway.topic_configs.are_stored and gateway.shared_producers is None:
            self._on_done()
        else:
            self._on_topics_resolved()

    def _send_metadata_request(self, body: bytes) -> None:
        make = partial(topics.framed_metadata, body=body, client_id=CLIENT_ID)
        self._request.connection.send_request(make, self._on_topics)

    def _on_topics(self, frame: bytes) -> None:
        """Handle the Metadata response."""
        self._request.gateway.turns.begin(
            topics.names_in(frame), self._on_names, self._request.fail
        )

    def _on_names(self, names: Sequence[topics.NamedTopic]) -> None:
        if not self._request.is_cancelled:
            self._request.do(self._take_names(names), self._on_topics_resolved)

    def _take_names(self, names: Sequence[topics.NamedTopic]) -> Slices[None]:
        for number, topic in enumerate(names, 1):
            if number % SLICE == 0:
                yield
            if topic.code or topic.name is None:
                if topic.name is not None:
                    self._request.connection.topics.drop(topic.name)
                self._errors[topic.name or topic.topic_id] = topic.code or UNKNOWN_TOPIC_ID
            else:
                self._request.connection.topics.put(topic.name, topic.topic_id)

    # Settings of topics, and state of producers, that are kept in the cluster

    def _on_topics_resolved(self, _: None = None) -> None:
        """Continue when the names and ids of the topics are known."""
        if not self._request.is_cancelled:
            self._request.do(self._unread_logs(), self._read)

    def _unread_logs(self) -> Slices[tuple[list[UUID], bool]]:
        """Return the topics whose settings, and whether producers' state, are to be read first."""
        for number, topic in enumerate(self._request.topics, 1):
            if number % SLICE == 0:
                yield
            name = topic.data.name
            if name is not None and self._request.needs_topic_id(name):
                # The cache may have expired since it was looked at.
                cached = cached_topic_id(name, self._request.connection)
                topic.topic_id = cached or topic.topic_id
        gateway = self._request.gateway
        ids = (topic.topic_id for topic in self._request.topics)
        new = gateway.topic_configs.unknown(filter(None, ids))
        if gateway.shared_producers is None:
            return new, False
        for number, partition in enumerate(self._unknown_producers(are_modes_known=not new), 1):
            if partition is not None:
                return new, True
            if number % SLICE == 0:
                yield
        return new, False

    def _read(self, unread: tuple[list[UUID], bool]) -> None:
        new, producers = unread
        if new or producers:
            self._request.run(self._read_logs(new, producers=producers))
        else:
            self._on_done()

    async def _read_logs(self, new: Sequence[UUID], *, producers: bool) -> None:
        """Read the stored state of topics and producers that are new here."""
        try:
            if new:
                await self._read_settings(new)
            if producers:
                await self._read_producers()
            self._on_done()
        except Exception as error:
            self._request.fail(error)

    async def _read_settings(self, new: Sequence[UUID]) -> None:
        configs = self._request.gateway.topic_configs
        try:
            await configs.read_to_end()
        except CompactedTopicError as error:
            self.unread = frozenset(new)
            log.error("topics cannot be judged: their settings are not known", reason=str(error))
        else:
            configs.see(new)

    async def _read_producers(self) -> None:
        shared = self._request.gateway.shared_producers
        assert shared is not None
        try:
            await shared.read_to_end()
        except CompactedTopicError:
            unknown = self._unknown_producers(are_modes_known=not self.unread)
            for partition in filter(None, unknown):
                self._request.answer(
                    partition, PartitionResponse(REQUEST_TIMED_OUT, _PRODUCER_STATE_NOT_READ)
                )

    def _unknown_producers(self, *, are_modes_known: bool) -> Iterator[ProducePartition | None]:
        """Return the batches whose producers may have newer state in other gateways.

        Args:
            are_modes_known: Whether the topics' own settings have been read.

        Yields:
            For each topic and batch None, or the batch if it is one of these.
        """
        for topic in self._request.topics:
            yield None
            name = self._request.name_of(topic)
            if name is None or not self._may_lose_records(topic, name, are_modes_known):
                continue
            for partition in self._request.partitions_of(topic):
                yield (partition if self._received.is_unknown_producer(partition) else None)

    def _may_lose_records(self, topic: ProduceTopic, name: str, are_modes_known: bool) -> bool:
        """Return whether not all of a topic's records may be stored, or were in the past."""
        if not self._request.is_intercepted(topic) and not self._may_be_quarantined(
            topic, name, are_modes_known
        ):
            return False
        return not (are_modes_known and self._is_only_observed(topic, name))

    def _may_be_quarantined(self, topic: ProduceTopic, name: str, are_modes_known: bool) -> bool:
        """Return whether bad records of a topic may become dead letters by its own settings."""
        gateway = self._request.gateway
        configs, plan = gateway.topic_configs, gateway.policies.plan
        if not configs.are_stored:
            return False
        if not are_modes_known:
            return plan.allows_key(MODE) or plan.allows_key(POLICIES)
        try:
            own = configs.of(name, topic.known_id)
        except UnreadableTopicConfigsError:
            return False
        topic_plan = plan.for_topic(name, own) if own else None
        return topic_plan is not None and topic_plan.quarantines

    def _is_only_observed(self, topic: ProduceTopic, name: str) -> bool:
        """Return whether a topic's batches are forwarded as they are (`penstock.mode`)."""
        gateway = self._request.gateway
        try:
            own = gateway.topic_configs.of(name, topic.known_id)
        except UnreadableTopicConfigsError:
            return False
        plan = gateway.policies.plan.for_topic(name, own)
        is_observed = plan is not None and plan.waited_for is None
        return is_observed and not self._received.follows_drops(
            name, self._request.partitions_of(topic)
        )
