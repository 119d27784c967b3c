"""Metadata responses, read only for names and ids of topics."""

import dataclasses
import datetime
import io
import sys
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import request as v12q
from kio.schema.metadata.v12 import response as v12
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i32, i32Timedelta

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.names import NO_ID
from penstock.kafka.wire.own_requests import read_response
from penstock.kafka.wire.requests import topics
from penstock.kafka.wire.requests.entities import write_entity
from penstock.kafka.wire.schemas import load_response_schema
from penstock.kafka.wire.slices import finish
from tests.kafka.wire.topic_answers import NODES, partition, response, topic


def names(frame):
    return finish(topics.names_in(frame))


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
def test_names_and_ids_equal_those_of_the_protocol_library(found, cluster):
    frame = response(*(topic(*row) for row in found), cluster=cluster)
    read = [
        (int(topic.error_code), topic.name, topic.topic_id or NO_ID, len(topic.partitions))
        for topic in read_response(frame, v12.MetadataResponse).topics
    ]
    assert finish(topics.names_in(frame)) == [record[:3] for record in read]
    assert [topic[:4] for topic in finish(topics.found_in(frame))] == read


def test_a_truncated_response_is_an_error():
    frame = response(topic("a", uuid.UUID(int=1), 2), topic("b", uuid.UUID(int=2), 2))
    needed = frame.index(uuid.UUID(int=2).bytes) + 16
    for end in range(needed):
        with pytest.raises(WireError):
            names(frame[:end])
    assert len(names(frame[:needed])) == 2


def test_partitions_of_the_requested_topic_are_not_read():
    """1,000 producers to a topic of 1,000 partitions blocked the event loop."""
    head = response(topic("t", uuid.UUID(int=1), 0))
    whole = response(topic("t", uuid.UUID(int=1), 1_000))
    needed = head.index(uuid.UUID(int=1).bytes) + 16
    assert names(whole[:needed]) == names(whole)
    assert names(whole) == [(0, "t", uuid.UUID(int=1))]
    assert names(response(topic(None, None, 0, 3))) == [(3, None, NO_ID)]


def test_the_replication_factor_is_the_smallest_of_all_partitions():
    few = dataclasses.replace(partition(2), replica_nodes=NODES[:2])
    more = dataclasses.replace(topic("t", uuid.UUID(int=1), 2), partitions=(partition(0), few))
    [found] = finish(topics.found_in(response(more)))
    assert (found.partitions, found.replication_factor) == (2, 2)


@pytest.mark.parametrize("version", range(4, 14))
def test_fields_of_any_version_are_read(version):
    kind = load_response_schema(3, version)
    of = sys.modules[kind.__module__]
    found = [("a", 3, 2), ("b", 0, 5), ("c", 3, 0), ("d", 29, 0), ("e", 0, 1), ("f", 3, 1)]

    def entity(_kind, **fields):
        wanted = getattr(of, _kind)
        return wanted(
            **{field: fields[field] for field in fields if field in wanted.__dataclass_fields__}
        )

    parts = entity(
        "MetadataResponsePartition", error_code=ErrorCode(0), partition_index=i32(1),
        leader_id=BrokerId(0), leader_epoch=i32(4), replica_nodes=NODES, isr_nodes=NODES,
        offline_replicas=NODES,
    )  # fmt: skip
    body = entity(
        kind.__name__, throttle_time=i32Timedelta.parse(datetime.timedelta(0)),
        brokers=(entity("MetadataResponseBroker", node_id=BrokerId(1), host="h", port=i32(1),
                        rack="r"),),
        cluster_id="cluster", controller_id=BrokerId(1), error_code=ErrorCode(0),
        cluster_authorized_operations=i32(0),
        topics=tuple(
            entity("MetadataResponseTopic", error_code=ErrorCode(code), name=TopicName(name),
                   topic_id=uuid.UUID(int=7), is_internal=False, partitions=(parts,) * partitions,
                   topic_authorized_operations=i32(0))
            for name, code, partitions in found
        ),
    )  # fmt: skip
    buffer = io.BytesIO()
    buffer.write(bytes(8) + b"\0" * kind.__header_schema__.__flexible__)
    entity_writer(kind)(buffer, body)
    frame = buffer.getvalue()
    unknown = finish(topics.unknown_in(frame, version))
    assert [entry.name for entry in unknown] == ["a", "c", "f"]
    changed = bytearray(frame)
    for missing in unknown:
        changed[missing.code_at : missing.code_at + 2] = b"\0\x2c"
    codes = [int(topic.error_code) for topic in read_response(bytes(changed), kind).topics]
    assert codes == [44, 0, 44, 29, 0, 44]


def counted(slices):
    """Return the number of slices."""
    return sum(1 for _ in slices) + 1


def test_many_topics_and_partitions_are_read_in_slices():
    frame = response(topic("wide", uuid.UUID(int=1), 10_000), topic("t", uuid.UUID(int=2), 1))
    for read in (topics.names_in, topics.found_in):
        assert counted(read(frame)) > 15
    frame = response(*[topic("t", uuid.UUID(int=2), 1)] * 10_000)
    assert counted(topics.unknown_in(frame, 12)) > 15
    assert counted(topics.metadata_body(["t"] * 10_000)) > 15


def test_a_request_equals_that_of_the_protocol_library():
    ids = [uuid.UUID(int=4)]
    request = v12q.MetadataRequest(
        topics=(
            v12q.MetadataRequestTopic(topic_id=ids[0], name=None),
            v12q.MetadataRequestTopic(topic_id=None, name=TopicName("t" * 200)),
        ),
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
    assert finish(topics.metadata_body(["t" * 200], ids, creating=True)) == write_entity(request)


@pytest.mark.parametrize(
    ("code", "operations", "expected"),
    [(0, 1 << 4 | 1 << 8, 0), (0, 1 << 3 | 1 << 8, 29), (0, 0, 29), (0, -(2**31), 7),
     (3, -(2**31), 3)],
)  # fmt: skip
def test_write_rights_are_read_from_the_authorized_operations(code, operations, expected):
    topic = v12.MetadataResponseTopic(
        error_code=ErrorCode(code), name=TopicName("t"), topic_id=uuid.UUID(int=5),
        is_internal=False, partitions=(), topic_authorized_operations=i32(operations),
    )  # fmt: skip
    response = v12.MetadataResponse(
        throttle_time=i32Timedelta.parse(datetime.timedelta(0)), brokers=(), cluster_id="c",
        controller_id=BrokerId(0), topics=(topic,),
    )  # fmt: skip
    buffer = io.BytesIO()
    entity_writer(v12.MetadataResponse)(buffer, response)
    frame = bytes(8) + b"\x00" + buffer.getvalue()
    assert finish(topics.write_codes_in(frame)) == {"t": expected}


def test_the_authorized_operations_are_requested():
    asking = finish(topics.metadata_body(["t"], operations=True))
    plain = finish(topics.metadata_body(["t"]))
    assert asking[:-2] == plain[:-2]
    assert (asking[-2], plain[-2]) == (1, 0)
