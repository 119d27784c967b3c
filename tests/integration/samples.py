"""A request of each API and version."""

import dataclasses
import datetime
import typing
import uuid
from typing import Any

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.index import api_key_map
from kio.static.primitive import i32

from penstock.kafka.wire.schemas import known_versions, load_request_schema
from tests.kafka.records.encoding import encode_batch, values
from tests.kafka.wire.generated_schemas import load
from tests.raw import RawClient, produce_request

# Without a transaction in it, the broker answers neither.
WITHOUT_RESPONSE = {(24, 4), (24, 5)}
TOPIC = "free"


def offered(address: str) -> dict[int, tuple[int, int]]:
    """Return the APIs and versions that a peer supports."""
    with RawClient(address) as client:
        response = client.call(ApiVersionsRequest())
    return {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}


def sample(api_key: int, version: int, identity: uuid.UUID) -> Any:
    """Return a request: the smallest that fits the schema, richer for important APIs."""
    if api_key == 0 and version >= 3:
        topic = identity if version >= 13 else TOPIC
        return produce_request([(topic, [(0, encode_batch(values(b"v")))])], version=version)
    schema = request_schema(api_key, version)
    request = smallest(schema)
    richer: dict[str, object] = {}
    if api_key == 3 and version >= 1:
        richer = {"topics": None}
    elif api_key == 9 and version >= 8:  # a broker of Kafka 3 answers nothing about no group
        module = __import__(schema.__module__, fromlist=["x"])
        richer = {"groups": (module.OffsetFetchRequestGroup(group_id="group", topics=None),)}
    elif api_key == 10 and version <= 3:
        richer = {"key": "group"}
    elif api_key == 10:
        richer = {"coordinator_keys": ("group", "other")}
    elif api_key == 55:
        module = __import__(schema.__module__, fromlist=["x"])
        partition = module.PartitionData(partition_index=i32(0))
        richer = {
            "topics": (module.TopicData(topic_name="__cluster_metadata", partitions=(partition,)),)
        }
    elif api_key == 64:
        richer = {"broker_id": i32(9999)}
    return dataclasses.replace(request, **richer)


def request_schema(api_key: int, version: int) -> type:
    """Return the type of a request, also of APIs that are forwarded before the library has them."""
    if api_key in api_key_map:
        return load_request_schema(api_key, version)
    return load(api_key, version, "request")


def has_schema(api_key: int, version: int) -> bool:
    """Return whether a version is described: Kafka 4.0 removed old versions (KIP-896)."""
    return api_key not in api_key_map or version in known_versions(api_key)


def smallest(schema: type) -> Any:
    """Return an entity with empty arrays, zeros and one-letter texts."""
    fields = {}
    for field in dataclasses.fields(schema):
        if field.default is not dataclasses.MISSING:
            continue
        fields[field.name] = _smallest_field(field)
    return schema(**fields)


def _smallest_field(field: dataclasses.Field[Any]) -> Any:
    kind = field.type
    choices = typing.get_args(kind)
    if tuple in {typing.get_origin(kind), *map(typing.get_origin, choices)}:
        return ()
    kafka_type = field.metadata.get("kafka_type")
    if kafka_type is None:
        return None if type(None) in choices else smallest(kind)
    if type(None) in choices and kafka_type != "string":
        return None
    return {
        "string": "x",
        "bytes": b"",
        "records": b"",
        "bool": False,
        "uuid": None,
        "float64": 0.0,
        "timedelta_i32": datetime.timedelta(0),
        "timedelta_i64": datetime.timedelta(0),
        "datetime_i64": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    }.get(kafka_type, 0)
