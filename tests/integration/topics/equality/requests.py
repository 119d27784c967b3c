"""Requests of admin clients about topics and configs, for every version of their APIs."""

import base64
import dataclasses
import datetime
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from penstock.kafka.wire.schemas import load_request_schema

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
UNKNOWN_ID = UUID(int=7)
SHARE_KEY = f"group:{base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip('=')}:0"
TIMEOUT = datetime.timedelta(seconds=20)

Cases = dict[str, dict[str, Any]]


class IdOf(NamedTuple):
    """Replaced by the id of an existing topic."""

    name: str


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
