"""Metadata responses, read as far as names and ids are needed."""

import datetime
import io
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import response as v12
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32, i32Timedelta

from penstock.wire import topics
from penstock.wire.errors import WireError
from penstock.wire.names import NO_ID

NODES = tuple(map(BrokerId, range(3)))


def partition(index):
    return v12.MetadataResponsePartition(
        error_code=ErrorCode(0),
        partition_index=i32(index),
        leader_id=BrokerId(0),
        replica_nodes=NODES,
        isr_nodes=NODES[:2],
        offline_replicas=(),
    )


def topic(name, topic_id, partitions, code=0):
    return v12.MetadataResponseTopic(
        error_code=ErrorCode(code),
        name=None if name is None else TopicName(name),
        topic_id=topic_id,
        partitions=tuple(map(partition, range(partitions))),
    )


def response(*found, cluster="cluster"):
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


@given(
    st.lists(
        st.tuples(
            st.none() | st.text(max_size=5),
            st.none() | st.uuids(),
            st.integers(0, 3),
            st.sampled_from([0, 3, 100]),
        ),
        max_size=4,
    ),
    st.none() | st.text(max_size=3),
)
def test_names_and_ids_are_those_that_the_protocol_library_reads(found, cluster):
    frame = response(*(topic(*one) for one in found), cluster=cluster)
    assert topics.names_response(frame) == [one[:3] for one in topics.metadata_response(frame)]


def test_an_answer_that_ends_too_early_is_an_error():
    frame = response(topic("a", uuid.UUID(int=1), 2), topic("b", uuid.UUID(int=2), 2))
    needed = frame.index(uuid.UUID(int=2).bytes) + 16
    for end in range(needed):
        with pytest.raises(WireError):
            topics.names_response(frame[:end])
    assert len(topics.names_response(frame[:needed])) == 2


def test_partitions_of_the_topic_that_was_asked_for_are_not_looked_at():
    """1,000 producers to a topic of 1,000 partitions kept the event loop busy."""
    head = response(topic("t", uuid.UUID(int=1), 0))
    whole = response(topic("t", uuid.UUID(int=1), 1_000))
    needed = head.index(uuid.UUID(int=1).bytes) + 16
    assert topics.names_response(whole[:needed]) == topics.names_response(whole)
    assert topics.names_response(whole) == [(0, "t", uuid.UUID(int=1))]
    assert topics.names_response(response(topic(None, None, 0, 3))) == [(3, None, NO_ID)]
