"""Requests for new topics, and their results."""

import datetime
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from kio.static.primitive import i16, i32, i32Timedelta

from penstock.kafka.wire.schemas import load_request_schema
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.raw import RawClient

METADATA, CREATE_TOPICS = 3, 19
TIMEOUT = i32Timedelta.parse(datetime.timedelta(seconds=10))


class Topic(NamedTuple):
    """A topic in a client's request."""

    name: str
    partitions: int = 1
    replicas: int = 1
    configs: Mapping[str, str | None] = MappingProxyType({})
    assignments: Mapping[int, Sequence[int]] = MappingProxyType({})


def assigned(name: str, assignments: Mapping[int, Sequence[int]]) -> Topic:
    """A topic whose replicas the client places itself."""
    return Topic(name, -1, -1, assignments=assignments)


def create_topics(*topics: Topic, version: int = 7, validate_only: bool = False) -> Any:
    """A CreateTopics request."""
    schema = load_request_schema(CREATE_TOPICS, version)
    types = sys.modules[schema.__module__]
    return schema(
        topics=tuple(
            types.CreatableTopic(
                name=topic.name,
                num_partitions=i32(topic.partitions),
                replication_factor=i16(topic.replicas),
                assignments=tuple(
                    types.CreatableReplicaAssignment(
                        partition_index=i32(partition), broker_ids=tuple(map(i32, brokers))
                    )
                    for partition, brokers in topic.assignments.items()
                ),
                configs=tuple(
                    types.CreatableTopicConfig(name=name, value=value)
                    for name, value in topic.configs.items()
                ),
            )
            for topic in topics
        ),
        timeout=TIMEOUT,
        validate_only=validate_only,
    )


def errors_by_topic(response: Any) -> dict[str, tuple[int, str | None]]:
    """Return code and message by topic; each topic must be in the response once."""
    results = {
        topic.name: (int(topic.error_code), topic.error_message) for topic in response.topics
    }
    assert len(results) == len(response.topics)
    return results


def metadata(*topics: str, version: int = 12, creating: bool = True) -> Any:
    """Return a Metadata request, which creates topics by default."""
    schema = load_request_schema(METADATA, version)
    types = sys.modules[schema.__module__]
    by_id = {"topic_id": None} if version >= 10 else {}
    fields = {
        "allow_auto_topic_creation": creating,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return schema(
        topics=tuple(types.MetadataRequestTopic(name=topic, **by_id) for topic in topics),
        **{name: value for name, value in fields.items() if name in schema.__dataclass_fields__},
    )


def partitions(broker: RawClient, topic: str) -> int:
    """Return how many partitions of a topic a broker knows; it may be late."""
    (found,) = broker.call(metadata(topic, creating=False)).topics
    return len(found.partitions)


def create_on_broker(broker: RawClient, *topics: Topic) -> None:
    """Create topics on the broker itself, and wait until it knows them: the controller responds."""
    names = {topic.name for topic in topics}
    assert errors_by_topic(broker.call(create_topics(*topics))) == dict.fromkeys(names, (0, None))
    wait_until(lambda: all(partitions(broker, topic.name) == topic.partitions for topic in topics))


def exists(broker: RawClient, topic: str) -> bool:
    """Return whether a topic exists, by the controller, which knows it immediately."""
    ((code, message),) = errors_by_topic(
        broker.call(create_topics(Topic(topic), validate_only=True))
    ).values()
    assert code in {0, 36}, message
    return code == 36


def unique(beginning: str) -> str:
    """Return a name that no topic has."""
    return f"{beginning}-{uuid.uuid4().hex[:8]}"


def start_gateway(
    folder: Path, upstream: str, policies: str, properties: Mapping[str, object]
) -> RunningGateway:
    """Start a gateway that a test module keeps."""
    port = gateway_port()
    return RunningGateway(write_configuration(folder, upstream, port, properties, policies))
