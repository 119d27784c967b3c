"""Admin clients get the same responses with and without a gateway that has policies of topics.

Each request is sent to a broker, and through a gateway whose policies of topics and configs allow
everything, and whose topics may have their own settings. Both responses, and the effects on the
cluster, must be equal, but for brokers' addresses, throttle times, and the ids and names of topics.
The names of the two worlds end in `worldAa` and `worldBB`: both have the same `String.hashCode()`,
so that a broker that lists names in the order of a hash map lists both in the same order. Only the
order of topics in Metadata (of those it creates) and in DeleteTopics (it depends on their ids) is
not compared.

The last part compares Penstock's own boolean key with a boolean key of Kafka.
"""

import base64
import contextlib
import dataclasses
import datetime
import socket
import socketserver
import struct
import threading
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.schema.api_versions.v0.request import ApiVersionsRequest

from penstock.local import LocalKafka, free_ports
from tests.gateways import RunningGateway, wait_until, write_configuration
from tests.raw import RawClient, parse_response, request_frame

LIST_OFFSETS, METADATA, FIND_COORDINATOR = 2, 3, 10
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, CREATE_PARTITIONS = 19, 20, 21, 37
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
NO_RESOURCE_TYPES = (-1, 0, 1, 3, 64, 99)
SET, DELETE, APPEND, SUBTRACT = range(4)
SET_ON_TOPIC = 1

RETENTION, CLEANUP = "retention.ms", "cleanup.policy"
THROTTLED = "leader.replication.throttled.replicas"
BROKER_KEY = "max.connections.per.ip"
GROUP_KEY = "consumer.session.timeout.ms"
OFFSETS = "__consumer_offsets"
OWN_KEYS = {
    "errors.deadletterqueue.topic.name",
    "penstock.quarantine.max.ratio",
    "penstock.mode",
    "penstock.policies",
    "record.validation.policy",
    "records.policy.class.name",
    "records.policy.enabled",
}
UNKNOWN_ID = UUID(int=7)
SHARE_KEY = f"group:{base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip('=')}:0"
TIMEOUT = datetime.timedelta(seconds=20)

POLICIES = """
from penstock.policy import *

class AllowsTopics(CreateTopicPolicy):
    def validate(self, request): pass

class AllowsConfigs(AlterConfigPolicy):
    def validate(self, request): pass

class AllowsRecords(RecordsPolicy):
    def validate(self, topic, partition, records): pass
"""
PROPERTIES = {
    "create.topic.policy.class.name": "policies.AllowsTopics",
    "alter.config.policy.class.name": "policies.AllowsConfigs",
    "records.policy.class.names.allowed": "policies.AllowsRecords",
}

Cases = dict[str, dict[str, Any]]


class IdOf(NamedTuple):
    """Replaced by the id of an existing topic."""

    name: str


# Requests


def build(api_key: int, version: int, values: Mapping, ids: Mapping[str, UUID] = {}) -> Any:
    """Build a request without the fields that its version lacks."""
    return _entity(load_request_schema(api_key, version), values, ids)


def _entity(schema: Any, values: Mapping, ids: Mapping[str, UUID]) -> Any:
    fields = {}
    for field in dataclasses.fields(schema):
        if field.name in values:
            fields[field.name] = _converted(field.type, values[field.name], ids)
    return schema(**fields)


def _converted(kind: Any, value: Any, ids: Mapping[str, UUID]) -> Any:
    if isinstance(value, IdOf):
        return ids.get(value.name)
    if isinstance(value, Mapping):
        return _entity(kind, value, ids)
    if isinstance(value, list):
        return tuple(_converted(_element_of(kind), item, ids) for item in value)
    return value


def _element_of(kind: Any) -> Any:
    """Return `X` for `tuple[X, ...]`, and for `tuple[X, ...] | None`."""
    arrays = (part for part in (kind, *typing.get_args(kind)) if typing.get_origin(part) is tuple)
    return typing.get_args(next(arrays))[0]


def new(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str | None] | Iterable[tuple[str, str | None]] = (),
) -> dict:
    """A topic to create."""
    pairs = configs.items() if isinstance(configs, Mapping) else configs
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in pairs],
    }


def assigned(
    name: str, *brokers: Sequence[int], numbers: Sequence[int] = (), **counts: int
) -> dict:
    """A topic to create on certain brokers."""
    assignments = [
        {"partition_index": number, "broker_ids": list(ids)}
        for number, ids in zip(numbers or range(len(brokers)), brokers, strict=True)
    ]
    return {**new(name, **{"partitions": -1, "replicas": -1, **counts}), "assignments": assignments}


def creation(*topics: dict, validate_only: bool = False) -> dict:
    return {"topics": list(topics), "timeout": TIMEOUT, "validate_only": validate_only}


def deletion(*names: str | IdOf) -> dict:
    """Topics to delete, by name or id, in both forms of the request."""
    return {
        "topic_names": list(names),
        "topics": [
            {"name": None, "topic_id": name}
            if isinstance(name, IdOf)
            else {"name": name, "topic_id": None}
            for name in names
        ],
        "timeout": TIMEOUT,
    }


def more(name: str, count: int, *brokers: Sequence[int]) -> dict:
    """A topic that is to get more partitions, perhaps on certain brokers."""
    assignments = [{"broker_ids": list(ids)} for ids in brokers] or None
    return {"name": name, "count": count, "assignments": assignments}


def altered(
    kind: int, name: str, configs: Mapping[str, str | None] | Iterable[tuple[str, str | None]] = ()
) -> dict:
    """A resource that is to have these configs and no others."""
    pairs = configs.items() if isinstance(configs, Mapping) else configs
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [{"name": key, "value": value} for key, value in pairs],
    }


def changed(kind: int, name: str, *changes: tuple[str, int, str | None]) -> dict:
    """A resource whose given configs are to be changed."""
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": key, "config_operation": operation, "value": value}
            for key, operation, value in changes
        ],
    }


def alteration(*resources: dict, validate_only: bool = False) -> dict:
    return {"resources": list(resources), "validate_only": validate_only}


def described(kind: int, name: str, keys: Sequence[str] | None = None) -> dict:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configuration_keys": None if keys is None else list(keys),
    }


def description(*resources: dict, synonyms: bool = False, documentation: bool = False) -> dict:
    return {
        "resources": list(resources),
        "include_synonyms": synonyms,
        "include_documentation": documentation,
    }


def metadata_fields(
    *topics: str | IdOf | dict, all_topics: bool = False, creates: bool = True, rights: bool = False
) -> dict:
    """Return the fields of a Metadata request."""
    named = [
        topic
        if isinstance(topic, dict)
        else {"name": None, "topic_id": topic}
        if isinstance(topic, IdOf)
        else {"name": topic, "topic_id": None}
        for topic in topics
    ]
    return {
        "topics": None if all_topics else named,
        "allow_auto_topic_creation": creates,
        "include_cluster_authorized_operations": rights,
        "include_topic_authorized_operations": rights,
    }


def search(kind: int, *keys: str) -> dict:
    return {"key": keys[0] if keys else "", "key_type": kind, "coordinator_keys": list(keys)}


# The two worlds


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


# The cases, by API. A label is given where a topic is named twice.


def create_topics(world: World, _: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    mixed = lambda: (  # noqa: E731
        new(existing()),
        new(fresh(), 2),
        new("a b"),
        new(fresh(), 1, 9),
        new(fresh(), configs={RETENTION: "x"}),
        new(fresh(), configs={RETENTION: "7"}),
        new(fresh(), 0),
    )
    return {
        "one": creation(new(fresh())),
        "three partitions": creation(new(fresh(), 3)),
        "no counts": creation(new(fresh(), -1, -1)),
        "no partitions": creation(new(fresh(), -1, 1)),
        "no replicas": creation(new(fresh(), 2, -1)),
        "assigned": creation(assigned(fresh(), [0], [0])),
        "assigned and counted": creation(assigned(fresh(), [0], partitions=2, replicas=1)),
        "assigned, replicas counted": creation(assigned(fresh(), [0], replicas=1)),
        "assigned to nobody": creation(assigned(fresh(), [])),
        "assigned to an unknown broker": creation(assigned(fresh(), [7])),
        "assigned twice to a broker": creation(assigned(fresh(), [0, 0])),
        "assigned unevenly": creation(assigned(fresh(), [0], [0, 1])),
        "assigned with a gap": creation(assigned(fresh(), [0], [0], numbers=(0, 2))),
        "assigned one partition twice": creation(assigned(fresh(), [0], [0], numbers=(0, 0))),
        "zero partitions": creation(new(fresh(), 0)),
        "negative partitions": creation(new(fresh(), -2)),
        "too many partitions": creation(new(fresh(), 10_001), validate_only=True),
        "zero replicas": creation(new(fresh(), 1, 0)),
        "negative replicas": creation(new(fresh(), 1, -2)),
        "too many replicas": creation(new(fresh(), 1, 3)),
        "there": creation(new(existing("standing"))),
        "there and all wrong": creation(new(existing("standing"), 0, 3, {RETENTION: "x"})),
        "named with nothing": creation(new("")),
        "named with a dot": creation(new(".")),
        "named with dots": creation(new("..")),
        "named with a space": creation(new(fresh("a b"))),
        "named with a slash": creation(new(fresh("a/b"))),
        "named with an umlaut": creation(new(fresh("ä"))),
        "named too long": creation(new(fresh("x" * 250))),
        "named as long as can be": creation(new(fresh("x" * (250 - len(fresh("-")))))),
        "named like another": creation(new(existing("x.y")), new(fresh("x_y"))),
        "named like each other": creation(new(fresh("u.v")), new(fresh("u_v"))),
        "named as the log of metadata": creation(new("__cluster_metadata")),
        "named as the topic of offsets": creation(new(OFFSETS)),
        "twice": creation(new(fresh("twice")), new(fresh("twice"))),
        "twice, differently": creation(new(fresh("2"), 0), new(fresh()), new(fresh("2"), 3)),
        "thrice": creation(new(fresh("3")), new(fresh("3")), new(fresh()), new(fresh("3"))),
        "configs": creation(new(fresh(), configs={RETENTION: "1000", CLEANUP: "compact"})),
        "a list": creation(new(fresh(), configs={CLEANUP: "compact,delete"})),
        "an invalid config": creation(new(fresh(), configs={RETENTION: "x"})),
        "an empty config": creation(new(fresh(), configs={RETENTION: ""})),
        "an unknown config": creation(new(fresh(), configs={"no.such": "1"})),
        "a null config": creation(new(fresh(), configs={RETENTION: None})),
        "null configs": creation(
            new(fresh(), configs={RETENTION: None, "no.such": None, CLEANUP: "compact"})
        ),
        "a config twice": creation(new(fresh(), configs=[(RETENTION, "1"), (RETENTION, "2")])),
        "a config twice, the second invalid": creation(
            new(fresh(), configs=[(RETENTION, "1"), (RETENTION, "x")])
        ),
        "a config twice, the first invalid": creation(
            new(fresh(), configs=[(RETENTION, "x"), (RETENTION, "1")])
        ),
        "an invalid config, too many replicas": creation(new(fresh(), 1, 3, {RETENTION: "x"})),
        "none": creation(),
        "many": creation(*(new(fresh()) for _ in range(4))),
        "all sorts": creation(*mixed()),
        "all sorts, validated only": creation(*mixed(), validate_only=True),
        "validated only": creation(new(fresh()), validate_only=True),
        "no counts, validated only": creation(new(fresh(), -1, -1), validate_only=True),
        "assigned, validated only": creation(assigned(fresh(), [0]), validate_only=True),
        "a config, validated only": creation(
            new(fresh(), configs={RETENTION: "7"}), validate_only=True
        ),
        "an invalid config, validated only": creation(
            new(fresh(), configs={RETENTION: "x"}), validate_only=True
        ),
        "there, validated only": creation(new(existing("standing")), validate_only=True),
    }


def delete_topics(world: World, version: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    cases = {
        "one": deletion(existing()),
        "unknown": deletion(fresh()),
        "several": deletion(existing(), fresh(), existing()),
        "twice": deletion(existing("twice"), existing("twice")),
        "twice, and another": deletion(existing(), existing("2"), existing("2")),
        "unknown, twice": deletion(fresh("unknown"), fresh("unknown")),
        "none": deletion(),
        "named with nothing": deletion(""),
        "named with a space": deletion("a b"),
        "named as the log of metadata": deletion("__cluster_metadata"),
    }
    if version >= 6:
        both = {"name": existing("named"), "topic_id": IdOf(existing("named"))}
        neither = {"name": None, "topic_id": None}
        cases |= {
            "an id": deletion(IdOf(existing())),
            "an unknown id": deletion(IdOf("nothing's"), existing()),
            "an id twice": deletion(IdOf(existing("id")), IdOf(existing("id"))),
            "an id and its name": deletion(existing("both"), IdOf(existing("both"))),
            "an id and another's name": deletion(existing(), IdOf(existing())),
            "an id with its name": {"topics": [both], "timeout": TIMEOUT},
            "neither id nor name": {"topics": [neither], "timeout": TIMEOUT},
            "neither, and another": {
                "topics": [neither, {"name": existing(), "topic_id": None}],
                "timeout": TIMEOUT,
            },
        }
    return cases


def create_partitions(world: World, _: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    standing = existing("standing", partitions=2)

    def mixed() -> tuple[dict, ...]:
        return more(existing(), 3), more(fresh(), 3), more(standing, 1), more(existing(), 2)

    return {
        "one": creation(more(existing(), 3)),
        "of a topic with configs": creation(more(existing(configs={RETENTION: "7"}), 3)),
        "as many": creation(more(standing, 2)),
        "fewer": creation(more(standing, 1)),
        "zero": creation(more(standing, 0)),
        "negative": creation(more(standing, -1)),
        "too many": creation(more(standing, 20_000), validate_only=True),
        "unknown": creation(more(fresh(), 3)),
        "named with nothing": creation(more("", 3)),
        "named with a space": creation(more("a b", 3)),
        "twice": creation(more(standing, 3), more(standing, 3)),
        "twice, and another": creation(more(standing, 3), more(existing(), 2), more(standing, 4)),
        "assigned": creation(more(existing(), 3, [0], [0])),
        "assigned too few": creation(more(standing, 4, [0])),
        "assigned to nobody": creation(more(standing, 3, [])),
        "assigned to an unknown broker": creation(more(standing, 3, [9])),
        "assigned twice to a broker": creation(more(standing, 3, [0, 0])),
        "of the topic of offsets": creation(more(OFFSETS, 4), validate_only=True),
        "none": creation(),
        "all sorts": creation(*mixed()),
        "all sorts, validated only": creation(*mixed(), validate_only=True),
        "validated only": creation(more(standing, 3), validate_only=True),
    }


def delete_records(world: World, _: int) -> Cases:
    standing, unknown = world.existing("standing"), world.fresh()

    def of(*topics: tuple[str, Sequence[tuple[int, int]]]) -> dict:
        named = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": partition, "offset": until}
                    for partition, until in partitions
                ],
            }
            for name, partitions in topics
        ]
        return {"topics": named, "timeout": TIMEOUT}

    return {
        "none": of(),
        "of a topic": of((standing, [(0, 0)])),
        "all of a topic": of((standing, [(0, -1)])),
        "more than there are": of((standing, [(0, 5)])),
        "until a negative offset": of((standing, [(0, -2)])),
        "of no partition": of((standing, [])),
        "of an unknown partition": of((standing, [(7, 0), (0, 0)])),
        "of an unknown topic": of((unknown, [(0, 0)]), (standing, [(0, 0)])),
        "of a partition twice": of((standing, [(0, 0), (0, 0)])),
        "of a topic twice": of((standing, [(0, 0)]), (standing, [(0, 0)])),
        "of the topic of offsets": of((OFFSETS, [(0, 0)])),
    }


def alter_configs(world: World, _: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    standing = existing("standing")
    retention = {RETENTION: "1000"}

    def mixed() -> tuple[dict, ...]:
        return (
            altered(TOPIC, existing(), retention),
            altered(TOPIC, fresh(), retention),
            altered(TOPIC, standing, {RETENTION: "x"}),
            altered(BROKER, "0", {BROKER_KEY: "1000"}),
            altered(99, "0", {BROKER_KEY: "1000"}),
            altered(TOPIC, existing(), retention),
        )

    return {
        "one": alteration(altered(TOPIC, existing(), retention)),
        "another is reset": alteration(
            altered(TOPIC, existing(configs={RETENTION: "7", CLEANUP: "compact"}), retention)
        ),
        "all are reset": alteration(altered(TOPIC, existing(configs=retention))),
        "an unknown config": alteration(altered(TOPIC, standing, {"no.such": "1"})),
        "an invalid config": alteration(altered(TOPIC, standing, {RETENTION: "x"})),
        "a null config": alteration(altered(TOPIC, standing, {RETENTION: None})),
        "null configs": alteration(
            altered(TOPIC, standing, {RETENTION: None, "no.such": None, CLEANUP: "compact"})
        ),
        "a config twice": alteration(
            altered(TOPIC, standing, [(RETENTION, "1"), (RETENTION, "2")])
        ),
        "a null config twice": alteration(
            altered(TOPIC, standing, [(RETENTION, None), (RETENTION, None)])
        ),
        "an unknown topic": alteration(altered(TOPIC, fresh(), retention)),
        "an unknown topic, no configs": alteration(altered(TOPIC, fresh())),
        "named with a space": alteration(altered(TOPIC, "a b", retention)),
        "named with nothing": alteration(altered(TOPIC, "", retention)),
        "a broker": alteration(altered(BROKER, "0", {BROKER_KEY: "1000"})),
        "all brokers": alteration(altered(BROKER, "", {BROKER_KEY: "1000"})),
        "an unknown broker": alteration(altered(BROKER, "99", {BROKER_KEY: "1000"})),
        "no broker's name": alteration(altered(BROKER, "abc", {BROKER_KEY: "1000"})),
        "a broker, read-only": alteration(altered(BROKER, "0", {"node.id": "1"})),
        "a broker, invalid": alteration(altered(BROKER, "0", {BROKER_KEY: "x"})),
        "a broker, unknown": alteration(altered(BROKER, "0", {"no.such": "x"})),
        "a logger": alteration(altered(BROKER_LOGGER, "0", {"root": "INFO"})),
        "metrics": alteration(altered(CLIENT_METRICS, fresh(), {"interval.ms": "1000"})),
        "a group": alteration(altered(GROUP, fresh(), {GROUP_KEY: "50000"})),
        "a group, invalid": alteration(altered(GROUP, fresh(), {GROUP_KEY: "x"})),
        "a group without a name": alteration(altered(GROUP, "", {GROUP_KEY: "50000"})),
        **{
            f"a resource of type {kind}": alteration(altered(kind, "x", retention))
            for kind in NO_RESOURCE_TYPES
        },
        "none": alteration(),
        "all sorts": alteration(*mixed()),
        "all sorts, validated only": alteration(*mixed(), validate_only=True),
        "validated only": alteration(altered(TOPIC, standing, retention), validate_only=True),
        "an invalid config, validated only": alteration(
            altered(TOPIC, standing, {RETENTION: "x"}), validate_only=True
        ),
    }


def incremental_alter_configs(world: World, _: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    standing = existing("standing")
    retention = (RETENTION, SET, "1000")
    broker = (BROKER_KEY, SET, "1000")

    def mixed() -> tuple[dict, ...]:
        return (
            changed(TOPIC, existing(), retention),
            changed(TOPIC, fresh(), retention),
            changed(TOPIC, standing, (RETENTION, SET, "x")),
            changed(BROKER, "0", broker),
            changed(BROKER_LOGGER, "0", ("no.such", SET, "WARN")),
            changed(99, "0", broker),
            changed(TOPIC, existing(), (CLEANUP, APPEND, "compact")),
        )

    def of_standing(*changes: tuple[str, int, str | None]) -> dict:
        return alteration(changed(TOPIC, standing, *changes))

    def of_compacted(change: tuple[str, int, str | None]) -> dict:
        return alteration(changed(TOPIC, existing(configs={CLEANUP: "compact"}), change))

    return {
        "set": alteration(changed(TOPIC, existing(), retention)),
        "set and deleted": alteration(
            changed(
                TOPIC, existing(configs={CLEANUP: "compact"}), retention, (CLEANUP, DELETE, None)
            )
        ),
        "set to null": of_standing((RETENTION, SET, None)),
        "set to nulls": of_standing(
            (RETENTION, SET, None), ("no.such", SET, None), (CLEANUP, APPEND, None)
        ),
        "set invalid": of_standing((RETENTION, SET, "x")),
        "set unknown": of_standing(("no.such", SET, "1")),
        "deleted": of_compacted((CLEANUP, DELETE, None)),
        "deleted with a value": of_compacted((CLEANUP, DELETE, "x")),
        "deleted, not set": of_standing((RETENTION, DELETE, None)),
        "deleted, unknown": of_standing(("no.such", DELETE, None)),
        "appended": alteration(changed(TOPIC, existing(), (CLEANUP, APPEND, "compact"))),
        "appended two": alteration(changed(TOPIC, existing(), (CLEANUP, APPEND, "compact,delete"))),
        "appended what is there": of_compacted((CLEANUP, APPEND, "compact")),
        "appended where nothing is": alteration(
            changed(TOPIC, existing(), (THROTTLED, APPEND, "0:0"))
        ),
        "appended null": of_standing((CLEANUP, APPEND, None)),
        "appended invalid": of_standing((CLEANUP, APPEND, "x")),
        "appended to no list": of_standing((RETENTION, APPEND, "1")),
        "appended to what is unknown": of_standing(("no.such", APPEND, "1")),
        "subtracted": alteration(
            changed(
                TOPIC, existing(configs={CLEANUP: "compact,delete"}), (CLEANUP, SUBTRACT, "compact")
            )
        ),
        "subtracted all": of_compacted((CLEANUP, SUBTRACT, "compact")),
        "subtracted what is not there": of_standing((CLEANUP, SUBTRACT, "compact")),
        "subtracted from no list": of_standing((RETENTION, SUBTRACT, "1")),
        "nothing": of_standing(),
        "a config twice": of_standing((RETENTION, SET, "1"), (RETENTION, SET, "2")),
        "a config set and deleted": of_standing((RETENTION, SET, "1"), (RETENTION, DELETE, None)),
        "a null config twice": of_standing((RETENTION, SET, None), (RETENTION, SET, None)),
        "a resource twice": alteration(
            changed(TOPIC, standing, retention), changed(TOPIC, standing, (CLEANUP, SET, "compact"))
        ),
        "a resource twice, and another": alteration(
            changed(TOPIC, standing, retention),
            changed(TOPIC, existing(), retention),
            changed(TOPIC, standing, (CLEANUP, SET, "compact")),
        ),
        "an unknown topic": alteration(changed(TOPIC, fresh(), retention)),
        "an unknown topic, nothing": alteration(changed(TOPIC, fresh())),
        "named with a space": alteration(changed(TOPIC, "a b", retention)),
        "named with nothing": alteration(changed(TOPIC, "", retention)),
        "a broker": alteration(changed(BROKER, "0", broker)),
        "a broker, deleted": alteration(changed(BROKER, "0", (BROKER_KEY, DELETE, None))),
        "a broker, null": alteration(changed(BROKER, "0", (BROKER_KEY, SET, None))),
        "a broker, invalid": alteration(changed(BROKER, "0", (BROKER_KEY, SET, "x"))),
        "a broker, unknown": alteration(changed(BROKER, "0", ("no.such", SET, "x"))),
        "a broker, read-only": alteration(changed(BROKER, "0", ("node.id", SET, "1"))),
        "a broker, appended": alteration(
            changed(BROKER, "0", ("log.cleanup.policy", APPEND, "compact"))
        ),
        "a broker, the list deleted": alteration(
            changed(BROKER, "0", ("log.cleanup.policy", DELETE, None))
        ),
        "a broker, appended to no list": alteration(
            changed(BROKER, "0", (BROKER_KEY, APPEND, "1"))
        ),
        "all brokers": alteration(changed(BROKER, "", broker)),
        "an unknown broker": alteration(changed(BROKER, "99", broker)),
        "no broker's name": alteration(changed(BROKER, "abc", broker)),
        "a logger": alteration(changed(BROKER_LOGGER, "0", ("root", SET, "WARN"))),
        "a logger, deleted": alteration(changed(BROKER_LOGGER, "0", ("root", DELETE, None))),
        "a logger, invalid": alteration(changed(BROKER_LOGGER, "0", ("root", SET, "LOUD"))),
        "a logger, appended": alteration(changed(BROKER_LOGGER, "0", ("root", APPEND, "INFO"))),
        "a logger, unknown": alteration(changed(BROKER_LOGGER, "0", ("no.such", SET, "INFO"))),
        "a logger of another": alteration(changed(BROKER_LOGGER, "99", ("root", SET, "INFO"))),
        "a logger of nobody": alteration(changed(BROKER_LOGGER, "", ("root", SET, "INFO"))),
        "a logger, validated only": alteration(
            changed(BROKER_LOGGER, "0", ("root", SET, "DEBUG")), validate_only=True
        ),
        "a logger and a topic": alteration(
            changed(BROKER_LOGGER, "0", ("no.such", SET, "WARN")),
            changed(TOPIC, existing(), retention),
        ),
        "metrics": alteration(changed(CLIENT_METRICS, fresh(), ("interval.ms", SET, "1000"))),
        "metrics, invalid": alteration(changed(CLIENT_METRICS, fresh(), ("interval.ms", SET, "1"))),
        "metrics, appended": alteration(
            changed(CLIENT_METRICS, fresh(), ("match", APPEND, "client_id=x"))
        ),
        "a group": alteration(changed(GROUP, fresh(), (GROUP_KEY, SET, "50000"))),
        "a group, invalid": alteration(changed(GROUP, fresh(), (GROUP_KEY, SET, "x"))),
        "a group without a name": alteration(changed(GROUP, "", (GROUP_KEY, SET, "50000"))),
        **{
            f"a resource of type {kind}": alteration(changed(kind, "x", retention))
            for kind in NO_RESOURCE_TYPES
        },
        "none": alteration(),
        "all sorts": alteration(*mixed()),
        "all sorts, validated only": alteration(*mixed(), validate_only=True),
        "validated only": alteration(changed(TOPIC, standing, retention), validate_only=True),
        "appended, validated only": alteration(
            changed(TOPIC, standing, (CLEANUP, APPEND, "compact")), validate_only=True
        ),
        "set invalid, validated only": alteration(
            changed(TOPIC, standing, (RETENTION, SET, "x")), validate_only=True
        ),
    }


def describe_configs(world: World, _: int) -> Cases:
    standing = world.existing("standing", configs={RETENTION: "7"})
    every = described(TOPIC, standing)
    retention = described(TOPIC, standing, [RETENTION])
    unknown = world.fresh()
    return {
        "all": description(every),
        "all with synonyms": description(every, synonyms=True),
        "all with documentation": description(every, documentation=True),
        "all with both": description(every, synonyms=True, documentation=True),
        "no keys": description(described(TOPIC, standing, [])),
        "a key": description(retention),
        "keys": description(described(TOPIC, standing, [RETENTION, "no.such", CLEANUP, RETENTION])),
        "an unknown key": description(described(TOPIC, standing, ["no.such"])),
        "an unknown topic": description(described(TOPIC, unknown)),
        "named with a space": description(described(TOPIC, "a b")),
        "named with nothing": description(described(TOPIC, "")),
        "the topic of offsets": description(described(TOPIC, OFFSETS)),
        "a topic twice": description(every, every),
        "a topic twice, then a key": description(every, retention),
        "a topic twice, first a key": description(retention, every),
        "a broker": description(described(BROKER, "0"), synonyms=True, documentation=True),
        "a broker's key": description(described(BROKER, "0", [BROKER_KEY])),
        "a broker, no keys": description(described(BROKER, "0", [])),
        "all brokers": description(described(BROKER, "")),
        "an unknown broker": description(described(BROKER, "99")),
        "no broker's name": description(described(BROKER, "abc")),
        "loggers": description(described(BROKER_LOGGER, "0")),
        "a logger": description(described(BROKER_LOGGER, "0", ["root"])),
        "loggers of another": description(described(BROKER_LOGGER, "99")),
        "loggers of nobody": description(described(BROKER_LOGGER, "")),
        "metrics": description(described(CLIENT_METRICS, unknown)),
        "a group": description(described(GROUP, unknown), synonyms=True, documentation=True),
        "a group without a name": description(described(GROUP, "")),
        "a group named as a topic": description(described(GROUP, standing), retention),
        **{
            f"a resource of type {kind}": description(described(kind, "x"))
            for kind in NO_RESOURCE_TYPES
        },
        "a resource of no type and a topic": description(described(99, "0"), every),
        "all sorts": description(
            every, described(TOPIC, unknown), described(BROKER, "0"), described(GROUP, unknown)
        ),
        "none": description(),
    }


def metadata(world: World, version: int) -> Cases:
    fresh, existing = world.fresh, world.existing
    standing, other = existing("standing", partitions=3), existing("other")
    cases = {
        "all": metadata_fields(all_topics=version > 0),
        "none": metadata_fields(),
        "one": metadata_fields(standing),
        "one, creating none": metadata_fields(standing, creates=False),
        "one and the rights": metadata_fields(standing, rights=True),
        "one twice": metadata_fields(standing, standing),
        "unknown": metadata_fields(fresh("unknown")),
        "unknown, creating none": metadata_fields(fresh(), creates=version < 4),
        "unknown and the rights": metadata_fields(fresh(), rights=True),
        "unknown twice": metadata_fields(fresh("twice"), fresh("twice")),
        "named with nothing": metadata_fields(""),
        "named with dots": metadata_fields(".."),
        "named with a space": metadata_fields(fresh("a b")),
        "named with a space, creating none": metadata_fields(fresh("a b"), creates=False),
        "named too long": metadata_fields(fresh("x" * 250)),
        "named like another": metadata_fields(existing("x.y"), fresh("x_y")),
        "named like each other": metadata_fields(fresh("u.v"), fresh("u_v")),
        "the topic of offsets": metadata_fields(OFFSETS),
        "the log of metadata": metadata_fields("__cluster_metadata"),
        "all sorts": metadata_fields(other, fresh(), "a b", standing, fresh()),
    }
    if version >= 10:
        by_id, another = IdOf(standing), {"name": other, "topic_id": IdOf(standing)}
        cases |= {
            "an id": metadata_fields(by_id),
            "an id, creating none": metadata_fields(by_id, creates=False),
            "an unknown id": metadata_fields({"name": None, "topic_id": UNKNOWN_ID}),
            "an id with its name": metadata_fields({"name": standing, "topic_id": by_id}),
            "an id with another name": metadata_fields(another),
            "an id and a name": metadata_fields(other, by_id),
            "an id and an unknown name": metadata_fields(fresh(), by_id),
            "neither id nor name": metadata_fields({"name": None, "topic_id": None}),
        }
    return cases


def find_coordinator(_: World, __: int) -> Cases:
    keys = {
        "a key": ["key"],
        "no key": [],
        "an empty key": [""],
        "keys": ["key", "other", "key"],
        "a share group's key": [SHARE_KEY],
        "what looks like one": ["x:y:0"],
    }
    return {
        f"{what} of type {kind}": search(kind, *of)
        for kind in (-1, 0, 1, 2, 3, 99)
        for what, of in keys.items()
    }


CASES: dict[int, Callable[[World, int], Cases]] = {
    METADATA: metadata,
    FIND_COORDINATOR: find_coordinator,
    CREATE_TOPICS: create_topics,
    DELETE_TOPICS: delete_topics,
    DELETE_RECORDS: delete_records,
    DESCRIBE_CONFIGS: describe_configs,
    ALTER_CONFIGS: alter_configs,
    CREATE_PARTITIONS: create_partitions,
    INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
}
VERSIONS = {
    METADATA: range(14),
    FIND_COORDINATOR: range(7),
    CREATE_TOPICS: range(2, 8),
    DELETE_TOPICS: range(1, 7),
    DELETE_RECORDS: range(3),
    DESCRIBE_CONFIGS: range(1, 5),
    ALTER_CONFIGS: range(3),
    CREATE_PARTITIONS: range(4),
    INCREMENTAL_ALTER_CONFIGS: range(2),
}
"""The versions that the protocol library and the broker share; a test checks it."""


def every_version(*api_keys: int) -> Any:
    """Run a test for each version of some APIs."""
    chosen = [
        pytest.param(
            api_key, version, id=f"{load_request_schema(api_key, version).__name__}-v{version}"
        )
        for api_key in api_keys or CASES
        for version in VERSIONS[api_key]
    ]
    return pytest.mark.parametrize(("api_key", "version"), chosen)


# What they are sent to


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalKafka]:
    """A broker that creates topics by itself; its configs are altered here."""
    at_once = {"controller.quorum.append.linger.ms": "0"}  # not 25 ms after each alteration
    with LocalKafka(properties=at_once) as running:
        yield running


@pytest.fixture(scope="module")
def start(cluster, tmp_path_factory):
    """Starts gateways in front of it; ends them."""
    running: list[RunningGateway] = []

    def begin(
        properties: Mapping[str, str], policies: str = "", upstream: str = ""
    ) -> RunningGateway:
        file = write_configuration(
            tmp_path_factory.mktemp("gateway"),
            upstream or cluster.bootstrap_servers,
            free_ports(3)[0],
            properties,
            policies,
        )
        running.append(RunningGateway(file))
        return running[-1]

    yield begin
    for running_gateway in running:
        assert running_gateway.stop() == 0


@pytest.fixture(scope="module")
def through(start) -> RunningGateway:
    """A gateway whose policies allow everything."""
    return start(PROPERTIES, POLICIES)


def two_worlds(cluster: LocalKafka, through: RunningGateway, keys: Sequence[str]) -> list[World]:
    broker, (host, port) = cluster.nodes[0], through.host_port
    direct = cluster.bootstrap_servers
    return [
        World(direct, direct, {(broker.host, broker.port)}, "worldAa", keys[0]),
        World(through.address, direct, {(host, port + 1)}, "worldBB", keys[1]),
    ]


@pytest.fixture(scope="module")
def first_searches(cluster, through) -> list[list[Any]]:
    """Responses to searches for coordinators before Kafka's internal topics exist.

    The first are sent to the broker, the second through the gateway.
    """
    worlds = two_worlds(cluster, through, (RETENTION, RETENTION))
    answers = []
    for kind, world in ((1, worlds[0]), (2, worlds[1]), (0, worlds[0])):
        request = build(FIND_COORDINATOR, 6, search(kind, SHARE_KEY))
        answers.append([world.send(request)])

        def found(answers=answers[-1], request=request, world=world) -> bool:
            answers.append(world.send(request))
            return answers[-1]["coordinators"][0]["error_code"] == 0

        wait_until(found, what="a coordinator")
    for world in worlds:
        world.close()
    return answers


@pytest.fixture(scope="module")
def worlds(cluster, through, first_searches) -> Iterator[list[World]]:
    """The broker itself, and the way through the gateway."""
    made = two_worlds(cluster, through, (RETENTION, RETENTION))
    yield made
    for world in made:
        world.close()


# What must be equal


def test_all_versions_that_the_broker_and_the_protocol_library_share_are_compared(cluster):
    with RawClient(cluster.bootstrap_servers) as client:
        versions = {
            api.api_key: range(api.min_version, api.max_version + 1)
            for api in client.call(ApiVersionsRequest()).api_keys
        }

    assert {key: versions[key] for key in VERSIONS} == VERSIONS


def test_find_coordinator_creates_the_internal_topics_of_kafka(first_searches):
    direct, through, _ = [(answers[0], answers[-1]) for answers in first_searches]

    assert through == direct


@every_version()
def test_responses_and_effects(worlds, api_key, version):
    def responses_of(world: World) -> dict[str, Any]:
        world.begin(f"{api_key}v{version}")
        cases = CASES[api_key](world, version)
        world.create_existing()
        requests = {case: build(api_key, version, of, world.ids) for case, of in cases.items()}
        answers_by_case = {case: world.send(request) for case, request in requests.items()}
        if api_key == DESCRIBE_CONFIGS and world is worlds[1]:
            for case, request in requests.items():
                take_out_own_keys(request, answers_by_case[case])
        return answers_by_case

    with ThreadPoolExecutor() as both:
        answers = both.map(responses_of, worlds)

    assert differences(*answers) == {}
    for world in worlds:
        world.settle()
        if api_key == METADATA:
            wait_until(lambda world=world: world.has("unknown"), 60, what="automatic creation")
    with contextlib.suppress(AssertionError):  # the next assertion shows the missing keys
        wait_until(lambda: worlds[0].effects() == worlds[1].effects())
    assert worlds[1].effects() == worlds[0].effects()


def differences(direct: Mapping[str, Any], through: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cases that differ."""
    return {
        case: {"direct": direct[case], "through": through[case]}
        for case in direct
        if direct[case] != through[case]
    }


def take_out_own_keys(request: Any, answer: Any) -> None:
    """Remove Penstock's keys from the description of all configs of a topic."""
    for resource, result in zip(request.resources, answer["results"], strict=True):
        if resource.resource_type != TOPIC or resource.configuration_keys or result["error_code"]:
            continue
        names = {config["name"] for config in result["configs"]}
        assert names >= OWN_KEYS
        result["configs"] = [
            config for config in result["configs"] if config["name"] not in OWN_KEYS
        ]


def test_responses_to_concurrent_requests_are_in_order(worlds):
    answers = []
    for world in worlds:
        world.begin("at-once")
        existing, fresh = world.existing(), world.fresh()
        world.create_existing()
        requests = [
            ApiVersionsRequest(),
            build(CREATE_TOPICS, 5, creation(new(fresh))),
            build(METADATA, 3, metadata_fields(existing)),
            build(INCREMENTAL_ALTER_CONFIGS, 1, alteration(changed(TOPIC, fresh, (RETENTION, SET, "7")))),
            build(ALTER_CONFIGS, 2, alteration(altered(TOPIC, fresh, {CLEANUP: "compact"}))),
            ApiVersionsRequest(),
            build(CREATE_PARTITIONS, 3, creation(more(fresh, 2), more("a b", 2))),
            build(DESCRIBE_CONFIGS, 4, description(described(TOPIC, existing, [RETENTION]))),
            build(FIND_COORDINATOR, 0, search(0, "key")),
            build(DELETE_TOPICS, 6, deletion(existing, "unknown")),
            ApiVersionsRequest(),
        ]  # fmt: skip
        with RawClient(world.address) as client:
            client.send(b"".join(map(client.frame, requests)))
            frames = [client.receive() for _ in requests]
        numbers = [struct.unpack_from(">i", frame, 4)[0] for frame in frames]
        assert numbers == list(range(1, len(requests) + 1))
        responses = [
            world.comparable(
                parse_response(frame, type(request).__api_key__, type(request).__version__)
            )
            for frame, request in zip(frames, requests, strict=True)
            if not isinstance(request, ApiVersionsRequest)  # narrowed on purpose
        ]
        answers.append({str(number): answer for number, answer in enumerate(responses)})

    assert differences(*answers) == {}


@pytest.mark.parametrize("api_key", CASES)
def test_client_names_and_unknown_tagged_fields(worlds, api_key):
    version = VERSIONS[api_key][-1]
    answers = []
    for world in worlds:
        world.begin(f"tagged-{api_key}")
        cases = CASES[api_key](world, version)
        world.create_existing()
        request = build(api_key, version, next(iter(cases.values())), world.ids)
        received = {}
        with RawClient(world.address) as client:
            for client_id in (None, "", "ü" * 1000):
                client.send(request_frame(request, 5, client_id))
                received[str(client_id)[:1]] = client.receive()
            client.send(with_tagged_field(request_frame(request, 5)))
            received["tagged"] = client.receive()
        answers.append(
            {
                case: world.comparable(parse_response(frame, api_key, version))
                for case, frame in received.items()
            }
        )
    if api_key == DESCRIBE_CONFIGS:
        for answer in answers[1].values():
            take_out_own_keys(request, answer)

    assert differences(*answers) == {}


def with_tagged_field(frame: bytes) -> bytes:
    """Add a tagged field to the end of a flexible request."""
    assert frame[-1] == 0
    body = frame[4:-1] + b"\x01\x63\x02\xca\xfe"
    return struct.pack(">i", len(body)) + body


# A key of Penstock next to a key of Kafka

KAFKAS_KEY, OWN_KEY = "unclean.leader.election.enable", "records.policy.enabled"
"""Both are booleans that are false by default."""


def create_topics_with_key(world: World) -> Cases:
    fresh, key = world.fresh, world.key
    values = ("true", "false", "maybe", "", "1", None)
    return {
        **{
            f"{value!r} {'validated only' * only}": creation(
                new(fresh(), configs={key: value}), validate_only=only
            )
            for value in values
            for only in (False, True)
        },
        "beside another": creation(new(fresh(), configs={key: "true", RETENTION: "1000"})),
        "beside an invalid one": creation(new(fresh(), configs={key: "true", RETENTION: "x"})),
        "beside nulls": creation(new(fresh(), configs={key: None, RETENTION: None})),
        "twice": creation(new(fresh(), configs=[(key, "true"), (key, "false")])),
        "twice, the first invalid": creation(new(fresh(), configs=[(key, "x"), (key, "true")])),
        "twice, the second invalid": creation(new(fresh(), configs=[(key, "true"), (key, "x")])),
        "twice, the first null": creation(new(fresh(), configs=[(key, None), (key, "true")])),
        "twice, the second null": creation(new(fresh(), configs=[(key, "true"), (key, None)])),
        "there": creation(new(world.existing(), configs={key: "maybe"})),
        "named with a space": creation(new("a b", configs={key: "maybe"})),
        "too many replicas": creation(new(fresh(), 1, 9, {key: "true"})),
        "invalid, too many replicas": creation(new(fresh(), 1, 9, {key: "maybe"})),
        "zero partitions": creation(new(fresh(), 0, 1, {key: "true"})),
        "assigned": creation(
            assigned(fresh(), [0]) | {"configs": [{"name": key, "value": "true"}]}
        ),
        "no counts": creation(new(fresh(), -1, -1, {key: "true"})),
        "a topic twice": creation(new(fresh("2"), configs={key: "true"}), new(fresh("2"))),
        "one of several": creation(
            new(fresh()), new(fresh(), configs={key: "maybe"}), new(fresh(), configs={key: "true"})
        ),
    }


def alter_configs_with_key(world: World) -> Cases:
    key, existing = world.key, world.existing
    on = {key: "true"}
    values = ("true", "false", "maybe", "", None)
    return {
        **{
            f"{value!r} {'validated only' * only}": alteration(
                altered(TOPIC, existing(), {key: value}), validate_only=only
            )
            for value in values
            for only in (False, True)
        },
        "beside another": alteration(altered(TOPIC, existing(), {**on, RETENTION: "1000"})),
        "beside an invalid one": alteration(altered(TOPIC, existing(), {**on, RETENTION: "x"})),
        "beside nulls": alteration(altered(TOPIC, existing(), {key: None, RETENTION: None})),
        "reset": alteration(altered(TOPIC, existing(configs=on), {RETENTION: "1000"})),
        "reset, validated only": alteration(
            altered(TOPIC, existing(configs=on), {RETENTION: "1000"}), validate_only=True
        ),
        "not reset, another is invalid": alteration(
            altered(TOPIC, existing(configs=on), {RETENTION: "x"})
        ),
        "all are reset": alteration(altered(TOPIC, existing(configs={**on, RETENTION: "7"}))),
        "set anew": alteration(altered(TOPIC, existing(configs=on), {key: "false"})),
        "twice": alteration(altered(TOPIC, existing(), [(key, "true"), (key, "false")])),
        "twice, one null": alteration(altered(TOPIC, existing(), [(key, "true"), (key, None)])),
        "an unknown topic": alteration(altered(TOPIC, world.fresh(), on)),
        "named with a space": alteration(altered(TOPIC, "a b", on)),
        "named with nothing": alteration(altered(TOPIC, "", on)),
        "a group": alteration(altered(GROUP, world.fresh(), on)),
        "one of several": alteration(
            altered(TOPIC, existing(), {RETENTION: "9"}),
            altered(TOPIC, existing(), {key: "maybe"}),
            altered(TOPIC, existing(), on),
        ),
    }


def incremental_alter_configs_with_key(world: World) -> Cases:
    key, existing = world.key, world.existing
    on, off, deleted = (key, SET, "true"), (key, SET, "false"), (key, DELETE, None)
    retention = (RETENTION, SET, "1000")
    values = ("true", "false", "maybe", "", None)

    def of_set(*changes: tuple[str, int, str | None], validate_only: bool = False) -> dict:
        resource = changed(TOPIC, existing(configs={key: "true"}), *changes)
        return alteration(resource, validate_only=validate_only)

    def of_new(*changes: tuple[str, int, str | None], validate_only: bool = False) -> dict:
        return alteration(changed(TOPIC, existing(), *changes), validate_only=validate_only)

    return {
        **{
            f"{value!r} {'validated only' * only}": of_new((key, SET, value), validate_only=only)
            for value in values
            for only in (False, True)
        },
        "deleted": of_set(deleted),
        "deleted, validated only": of_set(deleted, validate_only=True),
        "deleted with a value": of_set((key, DELETE, "maybe")),
        "deleted, not set": of_new(deleted),
        "deleted, another set": of_set(deleted, retention),
        "set anew": of_set(off),
        "appended": of_new((key, APPEND, "true")),
        "appended null": of_new((key, APPEND, None)),
        "subtracted": of_set((key, SUBTRACT, "true")),
        "beside another": of_new(on, retention),
        "beside an invalid one": of_new(on, (RETENTION, SET, "x")),
        "invalid beside another": of_new((key, SET, "maybe"), retention),
        "beside nulls": of_new((key, SET, None), (RETENTION, SET, None)),
        "set and deleted": of_set(on, deleted),
        "twice": of_new(on, off),
        "twice null": of_new((key, SET, None), (key, SET, None)),
        "twice and another twice": of_new(on, retention, off, retention),
        "a resource twice": alteration(
            changed(TOPIC, existing("2"), on), changed(TOPIC, existing("2"), retention)
        ),
        "an unknown topic": alteration(changed(TOPIC, world.fresh(), on)),
        "an unknown topic, deleted": alteration(changed(TOPIC, world.fresh(), deleted)),
        "named with a space": alteration(changed(TOPIC, "a b", on)),
        "named with nothing": alteration(changed(TOPIC, "", on)),
        "a group": alteration(changed(GROUP, world.fresh(), on)),
        "a logger": alteration(changed(BROKER_LOGGER, "0", on)),
        "one of several": alteration(
            changed(TOPIC, existing(), retention),
            changed(TOPIC, existing(), (key, SET, "maybe")),
            changed(TOPIC, world.fresh(), on),
            changed(TOPIC, existing(), on),
        ),
    }


CASES_WITH_KEY = {
    CREATE_TOPICS: create_topics_with_key,
    ALTER_CONFIGS: alter_configs_with_key,
    INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs_with_key,
}


@pytest.fixture(scope="module")
def worlds_with_key(cluster, through, first_searches) -> Iterator[list[World]]:
    """A key of Kafka in the first world, a key of Penstock in the second."""
    made = two_worlds(cluster, through, (KAFKAS_KEY, OWN_KEY))
    yield made
    for world in made:
        world.close()


@pytest.mark.kips("B49", "B50")
@every_version(*CASES_WITH_KEY)
def test_our_key_behaves_as_a_key_of_kafka(worlds_with_key, api_key, version):
    def responses_and_effects_of(world: World) -> tuple[dict[str, Any], dict[str, Any]]:
        world.begin(f"key-{api_key}v{version}")
        cases = CASES_WITH_KEY[api_key](world)
        world.create_existing()
        answers_by_case = {
            case: without_other_configs(world.send(build(api_key, version, of)))
            for case, of in cases.items()
        }
        world.settle()
        return answers_by_case, configs_of_topics(world)

    with ThreadPoolExecutor() as both:
        answers, effects = zip(*both.map(responses_and_effects_of, worlds_with_key), strict=True)

    assert differences(*answers) == {}
    assert differences(*effects) == {}


@pytest.mark.kips("B50")
def test_our_key_is_read_and_described_as_a_key_of_kafka(worlds_with_key):
    """Brokers read `TRUE` and ` true ` as true, and describe `true`."""
    configs = []
    for world in worlds_with_key:
        world.begin("spelling")
        for value in ("TRUE", " true ", "False"):
            world.existing(configs={world.key: value})
        world.create_existing()
        configs.append(configs_of_topics(world))

    assert differences(*configs) == {}


def test_an_unknown_operation_changes_nothing(worlds_with_key):
    """Brokers respond to it with UNKNOWN_SERVER_ERROR."""
    world = worlds_with_key[1]
    world.begin("operation")
    topic = world.existing(configs={OWN_KEY: "true"})
    world.create_existing()
    request = alteration(changed(TOPIC, topic, (OWN_KEY, 7, "false")))

    (result,) = world.send(build(INCREMENTAL_ALTER_CONFIGS, 1, request))["responses"]

    assert result["error_code"] != 0
    (configs,) = configs_of_topics(world).values()
    assert [config["value"] for config in configs["configs"] if config["name"] == "the key"] == [
        "true"
    ]


def without_other_configs(answer: Any) -> Any:
    """Keep only the configs that were set on new topics: others are not described for our keys."""
    for topic in answer.get("topics", ()):
        if topic.get("configs"):
            topic["configs"] = [
                config
                for config in sorted(topic["configs"], key=str)
                if config["name"] in {"the key", RETENTION}
                and config["config_source"] == SET_ON_TOPIC
            ]
    return answer


def configs_of_topics(world: World) -> dict[str, Any]:
    """Return the described configs of a batch's topics, by topic."""
    resources = [described(TOPIC, name, [RETENTION, world.key]) for name in world.topics()]
    answer = world.send(
        build(DESCRIBE_CONFIGS, 4, description(*resources, synonyms=True, documentation=True))
    )
    for topic in answer["results"]:
        topic["configs"].sort(key=lambda config: config["name"])
        for config in topic["configs"]:
            assert config.pop("documentation")
    return {topic["resource_name"]: topic for topic in answer["results"]}


# Without policies: bytes


class Wiretap(socketserver.ThreadingTCPServer):
    """A relay between a gateway and a broker that keeps the bytes of each connection."""

    daemon_threads = True

    def __init__(self, broker: tuple[str, int]) -> None:
        self.broker = broker
        self.connections: list[tuple[bytearray, bytearray]] = []
        super().__init__(("127.0.0.1", 0), Tapped)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Tapped(socketserver.BaseRequestHandler):
    """One connection."""

    server: Wiretap

    def handle(self) -> None:
        requests, answers = bytearray(), bytearray()
        self.server.connections.append((requests, answers))
        with socket.create_connection(self.server.broker) as broker:
            back = threading.Thread(target=copy, args=(broker, self.request, answers))
            back.start()
            copy(self.request, broker, requests)
            back.join()


def copy(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    """Forward received bytes, and keep them."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            kept += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def wiretap(cluster, worlds) -> Iterator[Wiretap]:
    broker = cluster.nodes[0]
    with Wiretap((broker.host, broker.port)) as tap:
        yield tap


@pytest.fixture(scope="module")
def plain(start, wiretap) -> RunningGateway:
    """A gateway without policies and without settings of topics."""
    address = f"127.0.0.1:{wiretap.server_address[1]}"
    return start({"topic.settings.topic": ""}, upstream=address)


@pytest.mark.parametrize("api_key", CASES)
def test_without_policies_bytes_pass_unchanged_in_both_directions(cluster, plain, wiretap, api_key):
    broker, (host, port) = cluster.nodes[0], plain.host_port
    addresses = {(broker.host, broker.port), (host, port + 1)}
    world = World(plain.address, cluster.bootstrap_servers, addresses, "worldCC")
    sent, received, versions = [], [], []
    with RawClient(plain.address) as client:
        for version in {VERSIONS[api_key][0], VERSIONS[api_key][-1]}:
            world.begin(f"plain-{api_key}v{version}")
            for values in CASES[api_key](world, version).values():
                sent.append(client.frame(build(api_key, version, values)))
                client.send(sent[-1])
                received.append(client.receive())
                versions.append(version)
        # The gateway may have connected for itself since then.
        [answers] = [
            bytes(answers)
            for requests, answers in wiretap.connections
            if requests == b"".join(sent)
        ]

    world.close()

    if api_key not in {METADATA, FIND_COORDINATOR}:
        assert b"".join(received) == answers
        return
    for version, response, expected in zip(versions, received, split(answers), strict=True):
        assert world.comparable(parse_response(response, api_key, version)) == world.comparable(
            parse_response(expected, api_key, version)
        )


def split(stream: bytes) -> list[bytes]:
    """Cut a stream into frames."""
    frames = []
    while stream:
        end = 4 + int.from_bytes(stream[:4], "big")
        frames.append(stream[:end])
        stream = stream[end:]
    return frames
