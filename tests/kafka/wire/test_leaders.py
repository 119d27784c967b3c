"""Responses of partition leaders about themselves: ListOffsets and OffsetForLeaderEpoch."""

import struct

import pytest
from kio.schema.list_offsets.v4.request import ListOffsetsRequest
from kio.schema.metadata.v7.request import MetadataRequest
from kio.schema.offset_for_leader_epoch.v3.request import OffsetForLeaderEpochRequest
from kio.serial import entity_reader

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests import leaders
from penstock.kafka.wire.requests.leaders import Leader, LeaderOffset


def framed(body):
    data = (7).to_bytes(4, "big") + body
    return len(data).to_bytes(4, "big") + data


def offsets(*, code=0, offset=11, epoch=7):
    partition = struct.pack(">iihqqi", 1, 3, code, -1, offset, epoch)
    return framed(bytes(4) + struct.pack(">ih", 1, 1) + b"t" + partition)


def epoch_ends(*, begins=10, code=0):
    partition = struct.pack(">ihiiq", 1, code, 3, 6, begins)
    return framed(bytes(4) + struct.pack(">ih", 1, 1) + b"t" + partition)


def read(frame, kind):
    """Read a request of this gateway, whose header has its client id."""
    client_id = int.from_bytes(frame[12:14], "big")
    at = 14 + client_id + kind.__flexible__
    return entity_reader(kind)(frame, at)[0]


def test_the_high_watermark_is_requested_not_the_last_stable_offset():
    sent = read(leaders.request(1, partitions={"t": {3: 17}}), ListOffsetsRequest)
    assert (sent.isolation_level, sent.replica_id) == (0, -1)
    [partition] = sent.topics[0].partitions
    assert (partition.partition_index, partition.timestamp) == (3, -1)


def test_a_leader_returns_its_epoch_and_high_watermark():
    assert leaders.response(offsets()) == {("t", 3): LeaderOffset(0, 7, 11)}


def test_an_error_affects_only_its_partition():
    assert leaders.response(offsets(code=6))["t", 3].code == 6


def test_an_epoch_begins_at_the_end_of_the_earlier_epoch():
    sent = read(leaders.epochs_request(1, epochs={"t": {3: 7}}), OffsetForLeaderEpochRequest)
    [partition] = sent.topics[0].partitions
    assert (partition.partition, partition.leader_epoch) == (3, 6)
    assert partition.current_leader_epoch == 7, "the end of another leader's log has no meaning"


@pytest.mark.parametrize(
    ("epoch", "begins", "high_watermark", "has_committed"),
    [
        (7, 10, 11, True),
        (7, 10, 10, False),
        (7, -1, 11, False),
        (0, -1, 0, True),
    ],
)
def test_a_leader_has_committed_once_a_record_of_its_epoch_is_committed(
    epoch, begins, high_watermark, has_committed
):
    before = {("t", 3): LeaderOffset(0, epoch, high_watermark)}
    found = leaders.leaders(epoch_ends(begins=begins), offsets=before)
    assert found == {("t", 3): Leader(epoch, has_committed)}


@pytest.mark.parametrize("code", [6, 74, 75])
def test_a_former_leader_has_no_known_epoch(code):
    before = {("t", 3): LeaderOffset(0, 7, 11)}
    assert leaders.leaders(epoch_ends(code=code), offsets=before) == {}


@pytest.mark.parametrize("code", [29, 35, 44])
def test_a_leader_without_a_start_of_its_epoch_has_committed_nothing(code):
    before = {("t", 3): LeaderOffset(0, 7, 11)}
    expected = {("t", 3): Leader(7, has_committed=False)}
    assert leaders.leaders(epoch_ends(code=code), offsets=before) == expected
    assert leaders.unexamined(before) == expected


def test_a_leader_that_is_left_out_of_a_response_has_committed_nothing():
    before = {("t", 4): LeaderOffset(0, 7, 11), ("t", 5): LeaderOffset(6, 7, 11)}
    expected = {("t", 4): Leader(7, has_committed=False)}
    assert leaders.leaders(epoch_ends(), offsets=before) == expected


@pytest.mark.parametrize(
    ("key", "least", "most", "is_supported"),
    [(23, 0, 3, True), (23, 2, 4, True), (23, 0, 2, False), (61, 0, 4, False)],
)
def test_brokers_support_the_versions_of_the_requests(key, least, most, is_supported):
    api_versions = framed(bytes(2) + struct.pack(">ihhh", 1, key, least, most))
    assert leaders.are_epochs_supported(api_versions) is is_supported


def test_partitions_that_were_not_requested_are_ignored():
    assert leaders.leaders(epoch_ends(), offsets={}) == {}


def replicas(*nodes, partition=3, epoch=7, code=0):
    array = len(nodes).to_bytes(4, "big") + b"".join(node.to_bytes(4, "big") for node in nodes)
    of_partition = struct.pack(">hiii", code, partition, nodes[0], epoch) + array * 2 + bytes(4)
    topic = struct.pack(">ih", 1, 0) + b"\0\1t\0" + struct.pack(">i", 1) + of_partition
    return framed(bytes(8) + b"\xff\xff" + bytes(4) + topic)


def test_requests_for_replicas_create_no_topics():
    sent = read(leaders.replicas_request(1, topics=["t", "u"]), MetadataRequest)
    assert [topic.name for topic in sent.topics] == ["t", "u"]
    assert not sent.allow_auto_topic_creation


@pytest.mark.parametrize(
    ("response", "is_final"),
    [
        (replicas(1), True),
        (replicas(1, 2), False),
        (replicas(1, epoch=6), False),
        (replicas(1, epoch=8), False),
        (replicas(1, partition=4), False),
    ],
)
def test_a_leader_without_other_replicas_has_committed(response, is_final):
    before = {("t", 3): Leader(7, has_committed=False), ("u", 0): Leader(7, has_committed=False)}
    expected = before | {("t", 3): Leader(7, has_committed=is_final)}
    assert leaders.with_replicas(response, before) == expected


@pytest.mark.parametrize("size", [8, 12, 20])
def test_a_truncated_response_is_an_error(size):
    with pytest.raises(WireError, match="OffsetForLeaderEpochResponse"):
        leaders.leaders(epoch_ends()[:size], offsets={})
    with pytest.raises(WireError, match="ListOffsetsResponse"):
        leaders.response(offsets()[:size])
    with pytest.raises(WireError, match="MetadataResponse"):
        leaders.with_replicas(replicas(1)[:size], {})
