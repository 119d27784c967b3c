"""A way to the cluster, direct or through a gateway, and the comparable results of requests."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from tests.gateways import wait_until
from tests.integration.topics.equality.requests import (
    CLEANUP,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    LIST_OFFSETS,
    METADATA,
    RETENTION,
    SET_ON_TOPIC,
    THROTTLED,
    TOPIC,
    UNKNOWN_ID,
    build,
    creation,
    described,
    description,
    metadata_fields,
    new,
)
from tests.raw import RawClient


class World:
    """A way to the cluster (direct or through the gateway), with its own topics."""

    def __init__(
        self,
        address: str,
        broker: str,
        broker_addresses: set[tuple[str, int]],
        suffix: str,
        key: str = RETENTION,
    ) -> None:
        """Connect.

        Args:
            address: The bootstrap address of the way.
            broker: The broker itself, to read the effects of requests.
            broker_addresses: The addresses of brokers in responses of this way.
            suffix: The end of all names of topics.
            key: The name of a config, which differs in the other world.
        """
        self.address = address
        self.key = key
        self._suffix = suffix
        self._broker_addresses = broker_addresses
        self._batch = ""
        self._count = 0
        self._batch_names: set[str] = set()
        self._to_create: dict[str, dict] = {}
        self.ids: dict[str, UUID] = {}
        self._names: dict[UUID, str] = {}
        self._client = RawClient(address)
        self._broker = RawClient(broker)

    def close(self) -> None:
        self._client.socket.close()
        self._broker.socket.close()

    def begin(self, batch: str) -> None:
        """Use other names from here on."""
        self._batch = batch
        self._count = 0
        self._batch_names = set()

    def fresh(self, label: str = "") -> str:
        """Return the name of a topic that does not exist; the same name for the same label."""
        if not label:
            self._count += 1
            label = str(self._count)
        name = f"{self._batch}-{label}-{self._suffix}"
        self._batch_names.add(name)
        return name

    def existing(
        self, label: str = "", partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Return the name of a topic that will exist; the same topic for the same label."""
        name = self.fresh(label)
        self._to_create[name] = new(name, partitions, configs=configs or {})
        return name

    def create_existing(self) -> None:
        """Create the topics that have to exist."""
        topics, self._to_create = self._to_create, {}
        if not topics:
            return
        request = build(CREATE_TOPICS, 4, creation(*topics.values()))
        for topic in self._client.call(request).topics:
            assert not topic.error_code, topic
        wait_until(lambda: len(self._partitions(topics)) == len(topics), 60, what="topics")
        wait_until(lambda: self._are_led(topics), 60, what="leaders")

    def settle(self) -> None:
        """Wait until the broker has all earlier changes from its controller."""
        self.existing("last")
        self.create_existing()

    def send(self, request: Any) -> Any:
        """Send a request; return the comparable parts of the response."""
        try:
            return self.comparable(self._client.call(request))
        except EOFError:
            self._client.socket.close()
            self._client = RawClient(self.address)
            return "closed"

    def comparable(self, value: Any) -> Any:
        """Return a value without differences between the worlds."""
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            fields.pop("throttle_time", None)
            if fields.get("host"):
                assert (fields.pop("host"), fields.pop("port")) in self._broker_addresses
            return {name: self.comparable(field) for name, field in fields.items()}
        if isinstance(value, tuple):
            return self._comparable_elements(value)
        if isinstance(value, UUID) and value != UNKNOWN_ID:
            return "id of " + self.comparable(self._names.get(value, "a new topic"))
        if isinstance(value, str):
            return value.replace(self._suffix, "world").replace(self.key, "the key")
        return value

    def _comparable_elements(self, values: tuple) -> list:
        kind = type(values[0]).__name__ if values else ""
        if kind == "MetadataResponseTopic":
            # Of all topics, those of this world's.
            values = tuple(
                value
                for value in values
                if value.name in self._batch_names or "world" not in (value.name or "")
            )
        elements = [self.comparable(value) for value in values]
        if kind in {"MetadataResponseTopic", "DeletableTopicResult"}:
            elements.sort(key=str)
        return elements

    def topics(self) -> list[str]:
        """Return the existing topics of this batch."""
        return sorted(self._partitions(self._batch_names))

    def has(self, label: str) -> bool:
        """Return whether a topic exists."""
        return bool(self._partitions([self.fresh(label)]))

    def effects(self) -> list:
        """Return partitions and configs of this batch's topics, as the broker has them."""
        partitions = self._partitions(self._batch_names)
        keys = (CLEANUP, RETENTION, THROTTLED)
        resources = [described(TOPIC, name, keys) for name in partitions]
        response = self._broker.call(build(DESCRIBE_CONFIGS, 4, description(*resources)))
        topics = [
            (result.resource_name, partitions[result.resource_name], *set_on_topic(result.configs))
            for result in response.results
        ]
        return sorted(map(self.comparable, topics), key=str)

    def _are_led(self, names: Iterable[str]) -> bool:
        """Return whether the broker leads the partitions; Metadata names it as leader earlier."""
        topics = [
            {"name": name, "partitions": [earliest_offset_of(number) for number in range(count)]}
            for name, count in self._partitions(names).items()
        ]
        request = build(LIST_OFFSETS, 1, {"replica_id": -1, "topics": topics})
        return not any(
            partition.error_code
            for topic in self._broker.call(request).topics
            for partition in topic.partitions
        )

    def _partitions(self, names: Iterable[str]) -> dict[str, int]:
        request = build(METADATA, 12, metadata_fields(*names, creates=False))
        found = [
            topic
            for topic in self._broker.call(request).topics
            if not topic.error_code
            and all(partition.leader_id >= 0 for partition in topic.partitions)
        ]
        self.ids |= {topic.name: topic.topic_id for topic in found}
        self._names |= {topic.topic_id: topic.name for topic in found}
        return {topic.name: len(topic.partitions) for topic in found}


def earliest_offset_of(partition: int) -> dict:
    return {"partition_index": partition, "timestamp": -2}


def set_on_topic(configs: Iterable[Any]) -> list[str]:
    return [
        f"{config.name}={config.value}"
        for config in configs
        if config.config_source == SET_ON_TOPIC
    ]
