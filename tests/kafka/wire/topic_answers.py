"""Responses about topics."""

import datetime
import io
import uuid

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import response as v12
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32, i32Timedelta

NODES = tuple(map(BrokerId, range(3)))


def partition(index: int) -> v12.MetadataResponsePartition:
    return v12.MetadataResponsePartition(
        error_code=ErrorCode(0),
        partition_index=i32(index),
        leader_id=BrokerId(0),
        replica_nodes=NODES,
        isr_nodes=NODES[:2],
        offline_replicas=(),
    )


def topic(
    name: str | None, topic_id: uuid.UUID, partitions: int, code: int = 0
) -> v12.MetadataResponseTopic:
    return v12.MetadataResponseTopic(
        error_code=ErrorCode(code),
        name=None if name is None else TopicName(name),
        topic_id=topic_id,
        partitions=tuple(map(partition, range(partitions))),
    )


def response(*found: v12.MetadataResponseTopic, cluster: str | None = "cluster") -> bytes:
    entity = v12.MetadataResponse(
        throttle_time=i32Timedelta.parse(datetime.timedelta(0)),
        brokers=tuple(
            v12.MetadataResponseBroker(
                node_id=node, host="broker.example", port=i32(9092), rack=rack
            )
            for node, rack in zip(NODES, (None, "", "rack"), strict=True)
        ),
        cluster_id=cluster,
        controller_id=BrokerId(1),
        topics=found,
    )
    buffer = io.BytesIO(b"\0\0\0\0\0\0\0\7\0")
    buffer.seek(0, io.SEEK_END)
    entity_writer(v12.MetadataResponse)(buffer, entity)
    return buffer.getvalue()
