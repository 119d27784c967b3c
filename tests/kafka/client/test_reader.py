"""Reading a range, with every way in which a cluster may not simply answer."""

import pytest

from penstock.kafka.client.connections.metadata import PartitionLeader
from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.errors import (
    BrokerUnreachableError,
    DeniedError,
    NotReadableYetError,
    ResponseError,
    TopicRecreatedError,
    TruncatedError,
    UnreadableBatchError,
    UnsupportedVersionError,
)
from penstock.kafka.client.reading.offset_ranges import LostOffsets, WantedRange
from penstock.kafka.client.reading.reader import Follows, RangeReader
from penstock.kafka.records.uncompressed import BatchLimits
from penstock.kafka.wire.errors import WireError
from tests.kafka.client.scripted_partition import (
    EARLIEST,
    EARLIEST_LOCAL,
    ID,
    LATEST,
    ScriptedCluster,
)
from tests.kafka.client.settings import SETTINGS
from tests.kafka.client.stored import batch, damaged, empty, fetched, marker

OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, DENIED = 1, 3, 6, 29
FENCED_EPOCH, UNKNOWN_EPOCH, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID = 74, 75, 100, 103
RETRIED = [
    -1, 2, UNKNOWN_TOPIC, 5, NOT_LEADER, 9, 56, FENCED_EPOCH, UNKNOWN_EPOCH, 78,
    UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID,
]  # fmt: skip
EAST = SETTINGS._replace(rack="east")


class Read:
    """A reader, and its notifications."""

    def __init__(
        self, cluster, first=0, end=10, *,
        committed=True, topic_id=None, strict=False, merged_within=None,
    ):  # fmt: skip
        self.lost = []
        offsets = WantedRange("t", 0, first, end)
        if topic_id is not None:
            offsets = offsets._replace(topic_id=topic_id)
        self.reader = RangeReader(
            cluster,
            offsets,
            on_lost=self.complain if strict else self.lost.append,
            committed=committed,
            merged_within=merged_within,
            clock=cluster.clock,
            sleep=cluster.sleep,
        )

    def complain(self, lost):
        raise RuntimeError(f"{lost.end - lost.first} lost")

    @property
    def ranges(self):
        """Return (first, end) of each batch."""
        return [(batch.first, batch.end) for batch in self.reader]


def offsets_of(cluster):
    return [fetch.offset for fetch in cluster.fetches]


def test_a_response_is_read_ahead():
    cluster = ScriptedCluster(
        fetched(batch(0, 4), batch(4, 2)), fetched(batch(6, 2)), fetched(batch(8, 4))
    )
    batches = iter(Read(cluster).reader)
    found = [next(batches)]
    assert offsets_of(cluster) == [0, 6]
    found.append(next(batches))
    assert offsets_of(cluster) == [0, 6]
    found += batches
    assert [(batch.first, batch.end) for batch in found] == [(0, 4), (4, 6), (6, 8), (8, 10)]
    assert offsets_of(cluster) == [0, 6, 8]
    assert cluster.pauses == []


def test_a_response_that_is_decompressed_in_parts():
    """The next request follows when the last part is returned."""
    log = [batch(at, codec="zstd", payload=bytes(50_000)) for at in range(40)]
    cluster = ScriptedCluster(fetched(*log[:20]), fetched(*log[20:]))
    reader = Read(cluster, 0, 40, merged_within=BatchLimits(1 << 20, 1000)).reader
    sent = {batch.end: offsets_of(cluster) for batch in reader}
    assert len(sent) == 20  # of two batches each
    assert {tuple(sent.pop(end)) for end in range(2, 20, 2)} == {(0,)}
    assert {tuple(offsets) for offsets in sent.values()} == {(0, 20)}


def test_an_empty_range_sends_no_request():
    cluster = ScriptedCluster()
    assert Read(cluster, 5, 5).ranges == []


def test_a_response_that_was_read_ahead_is_abandoned():
    cluster = ScriptedCluster(fetched(batch(0, 4)), fetched(batch(4, 2)))
    batches = iter(Read(cluster).reader)
    next(batches)
    batches.close()
    assert [request.abandoned for request in cluster.pending] == [False, True]


def test_a_batch_above_the_limit_comes_and_nothing_is_read_ahead():
    small = SETTINGS._replace(fetch_max_bytes=100)
    cluster = ScriptedCluster(
        fetched(batch(0, 5, payload=bytes(1000))), fetched(batch(5, 5)), settings=small
    )
    batches = iter(Read(cluster).reader)
    next(batches)
    assert offsets_of(cluster) == [0]
    assert [batch.first for batch in batches] == [5]
    assert [fetch.max_bytes for fetch in cluster.fetches] == [100, 100]


def test_no_more_is_requested_than_the_range_may_need():
    log = [batch(at, 100, payload=bytes(1000)) for at in range(0, 6000, 100)]
    cluster = ScriptedCluster(fetched(*log[:10]), fetched(*log[10:50]), fetched(*log[50:]))
    assert len(Read(cluster, 0, 6000).ranges) == 60
    first, second, third = (fetch.max_bytes for fetch in cluster.fetches)
    assert (first, second) == (2**20, SETTINGS.fetch_max_bytes)
    wanted = 10 * len(log[0])
    assert 1.2 * wanted - 100 < third < 1.2 * wanted + 100


def test_isolation():
    aborted = batch(0, 2, producer=1)
    log = (aborted, batch(2, 2), marker(4, 1, commit=False), batch(5, 5))
    cluster = ScriptedCluster(fetched(*log, aborted=[(1, 0)]))
    assert Read(cluster).ranges == [(2, 4), (5, 10)]
    assert cluster.fetches[0].reads_committed
    cluster = ScriptedCluster(fetched(*log, aborted=None))
    assert Read(cluster, committed=False).ranges == [(0, 2), (2, 4), (5, 10)]
    assert not cluster.fetches[0].reads_committed


def test_aborted_and_empty_batches_are_passed_over():
    cluster = ScriptedCluster(
        fetched(batch(0, 4, producer=1), aborted=[(1, 0)]),
        fetched(marker(4, 1, commit=False), empty(5, 3)),
        fetched(batch(8, 2)),
    )
    assert Read(cluster).ranges == [(8, 10)]
    assert offsets_of(cluster) == [0, 4, 8]


@pytest.mark.parametrize("code", RETRIED)
@pytest.mark.parametrize("outer", [False, True])
def test_an_error_for_now_is_retried_with_new_metadata(code, outer):
    wrong = fetched(outer=code, is_empty=True) if outer else fetched(code=code)
    cluster = ScriptedCluster(fetched(batch(0, 4, epoch=5)), wrong, fetched(batch(4, 6)))
    cluster.leaders.append(PartitionLeader(2, 6))
    cluster.epoch_ends = {5: 4}
    assert Read(cluster).ranges == [(0, 4), (4, 10)]
    assert [(fetch.node, fetch.epoch) for fetch in cluster.fetches] == [(1, 5), (1, 5), (2, 6)]
    assert len(cluster.pauses) == 1


@pytest.mark.parametrize("where", ["connecting", "waiting"])
def test_a_lost_connection_is_retried(where):
    error = BrokerUnreachableError("gone")

    def connecting():
        raise error

    cluster = ScriptedCluster(
        fetched(batch(0, 4)),
        connecting if where == "connecting" else error,
        # The error of a response that was read ahead occurs again when it is needed.
        *([connecting] if where == "connecting" else []),
        fetched(batch(4, 6)),
    )
    assert Read(cluster).ranges == [(0, 4), (4, 10)]
    assert cluster.refreshed == 1


@pytest.mark.parametrize("code", RETRIED)
def test_retries_end(code):
    cluster = ScriptedCluster(*[fetched(code=code)] * 200)
    with pytest.raises(ResponseError, match="topic t, partition 0: ") as caught:
        list(Read(cluster).reader)
    assert caught.value.code == code
    assert 10 <= cluster.now < 12


def test_retries_begin_again_after_progress():
    stuck = [fetched(code=NOT_LEADER)] * 8
    script = []
    for offset in range(0, 10, 2):
        script += [*stuck, fetched(batch(offset, 2))]
    cluster = ScriptedCluster(*script)
    assert len(Read(cluster).ranges) == 5
    assert cluster.now > SETTINGS.api_timeout_s


def test_the_time_of_the_caller_does_not_count():
    cluster = ScriptedCluster(fetched(batch(0, 4)), fetched(code=NOT_LEADER), fetched(batch(4, 6)))
    found = []
    for found_batch in Read(cluster).reader:
        found.append(found_batch.first)
        cluster.now += 1000
    assert found == [0, 4]


def test_no_leader_for_a_while():
    cluster = ScriptedCluster(fetched(batch(0, 10)))
    cluster.leaders.extendleft([PartitionLeader(-1, 4), PartitionLeader(-1, 4)])
    assert Read(cluster).ranges == [(0, 10)]
    assert len(cluster.pauses) == 2


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (fetched(code=DENIED), DeniedError),
        (fetched(code=43), ResponseError),
        (UnsupportedVersionError("old"), UnsupportedVersionError),
        (fetched(batch(0, 2), damaged(batch(2, 2, last_offset_delta=-1))), UnreadableBatchError),
        (fetched(batch(0, 2)[:-1]), UnreadableBatchError),
        (type(fetched())(b"\xff" * 20), WireError),
    ],
)
def test_final_errors(response, error):
    cluster = ScriptedCluster(response)
    with pytest.raises(error):
        list(Read(cluster).reader)
    assert cluster.pauses == []


def test_a_damaged_batch_is_named():
    cluster = ScriptedCluster(fetched(batch(0, 2), batch(2, 1, magic=9)))
    with pytest.raises(UnreadableBatchError, match=r"topic t, partition 0, offset 2: .*magic is 9"):
        list(Read(cluster).reader)


class TestElections:
    """After an election the new leader is queried whether its log has the read records (KIP-320)."""

    def script(self, *more):
        cluster = ScriptedCluster(
            fetched(batch(0, 2, epoch=4), batch(2, 2, epoch=5)), fetched(code=FENCED_EPOCH), *more
        )
        cluster.leaders.append(PartitionLeader(2, 6))
        return cluster

    def test_it_has(self):
        cluster = self.script(fetched(batch(4, 6, epoch=6)))
        cluster.epoch_ends = {5: 4}
        assert Read(cluster).ranges == [(0, 4 - 2), (2, 4), (4, 10)]
        assert cluster.requested_epochs == [5]

    @pytest.mark.parametrize("end", [3, -1])
    def test_it_has_not(self, end):
        cluster = self.script()
        cluster.epoch_ends = {5: end}
        with pytest.raises(TruncatedError, match=rf"truncated to offset {max(end, 0)}, before 4"):
            list(Read(cluster).reader)

    def test_it_cannot_say_at_first(self):
        cluster = self.script(fetched(batch(4, 6, epoch=6)))
        answers = iter([BrokerUnreachableError("gone"), 4])
        cluster.epoch_ends = type("", (), {"get": lambda _, *__: next(answers)})()
        assert len(Read(cluster).ranges) == 3

    def test_nothing_was_read(self):
        cluster = ScriptedCluster(fetched(code=NOT_LEADER), fetched(batch(0, 10)))
        cluster.leaders.append(PartitionLeader(2, 6))
        assert Read(cluster).ranges == [(0, 10)]
        assert cluster.requested_epochs == []


class TestOutOfRange:
    """The log starts later, or ends earlier, than the requested offset."""

    def test_removed_records_are_reported(self):
        cluster = ScriptedCluster(
            fetched(batch(0, 2, epoch=4)), fetched(code=OUT_OF_RANGE), fetched(batch(5, 5))
        )
        cluster.offsets[EARLIEST] = 6
        read = Read(cluster)
        assert read.ranges == [(0, 2), (6, 10)]
        assert read.lost == [LostOffsets("t", 0, 2, 6)]

    def test_an_election_requests_no_epoch_of_removed_records(self):
        cluster = ScriptedCluster(
            fetched(batch(0, 2, epoch=4)),
            fetched(code=OUT_OF_RANGE),
            fetched(code=NOT_LEADER),
            fetched(batch(6, 4, epoch=6)),
        )
        cluster.leaders.extend([PartitionLeader(1, 5), PartitionLeader(2, 6)])
        cluster.offsets[EARLIEST] = 6
        assert Read(cluster).ranges == [(0, 2), (6, 10)]
        assert cluster.requested_epochs == []

    def test_nothing_is_left(self):
        cluster = ScriptedCluster(fetched(code=OUT_OF_RANGE))
        cluster.offsets[EARLIEST] = 50
        read = Read(cluster)
        assert read.ranges == []
        assert read.lost == [LostOffsets("t", 0, 0, 10)]

    def test_a_caller_may_be_strict(self):
        cluster = ScriptedCluster(fetched(code=OUT_OF_RANGE))
        cluster.offsets[EARLIEST] = 5
        with pytest.raises(RuntimeError, match="5 lost"):
            list(Read(cluster, strict=True).reader)

    def test_the_log_is_shorter(self):
        cluster = ScriptedCluster(fetched(code=OUT_OF_RANGE))
        cluster.offsets[LATEST] = 7
        with pytest.raises(TruncatedError, match="truncated to offset 7, before 8"):
            list(Read(cluster, 8, 10).reader)

    def test_it_was_passing(self):
        cluster = ScriptedCluster(fetched(code=OUT_OF_RANGE), fetched(batch(0, 10)))
        read = Read(cluster)
        assert (read.ranges, read.lost) == ([(0, 10)], [])

    def test_the_leader_cannot_say_at_first(self):
        cluster = ScriptedCluster(*[fetched(code=OUT_OF_RANGE)] * 2, fetched(batch(6, 4)))
        cluster.offsets[EARLIEST] = BrokerUnreachableError("gone")
        cluster.sleep = lambda _: cluster.offsets.update({EARLIEST: 6})
        read = Read(cluster)
        assert read.ranges == [(6, 10)]
        assert read.lost == [LostOffsets("t", 0, 0, 6)]


class TestTopicIds:
    """A topic of the same name may be another topic."""

    def test_fetches_name_the_id(self):
        cluster = ScriptedCluster(fetched(batch(0, 10), version=13, topic=ID), topic_id=ID)
        assert Read(cluster).ranges == [(0, 10)]
        assert cluster.fetches[0].version == 13
        assert cluster.refreshed == 0

    def test_another_topic_id_from_the_start(self):
        cluster = ScriptedCluster(topic_id=ID)
        with pytest.raises(TopicRecreatedError, match="topic t was deleted and created again"):
            list(Read(cluster, topic_id=type(ID)(int=5)).reader)

    def test_the_metadata_of_a_recreated_topic_is_requested_again(self):
        """Python workers of a long session read a topic that was recreated since."""
        new = type(ID)(int=5)
        cluster = ScriptedCluster(fetched(batch(0, 10), version=13, topic=new), topic_id=ID)
        cluster.topic_ids.append(new)
        assert Read(cluster, topic_id=new).ranges == [(0, 10)]
        assert cluster.refreshed == 1

    def test_another_topic_id_after_a_while(self):
        cluster = ScriptedCluster(
            fetched(batch(0, 4), version=13, topic=ID),
            fetched(code=UNKNOWN_TOPIC_ID, version=13, topic=ID),
            topic_id=ID,
        )
        cluster.topic_ids.append(type(ID)(int=5))
        with pytest.raises(TopicRecreatedError):
            list(Read(cluster, topic_id=ID).reader)

    def test_the_topic_id_is_requested_at_the_end_from_old_brokers(self):
        cluster = ScriptedCluster(fetched(batch(0, 10)), topic_id=ID)
        cluster.served = range(13)
        assert Read(cluster, topic_id=ID).ranges == [(0, 10)]
        assert (cluster.fetches[0].version, cluster.refreshed) == (12, 1)
        cluster = ScriptedCluster(fetched(batch(0, 10)), topic_id=ID)
        cluster.served = range(13)
        cluster.topic_ids.append(type(ID)(int=5))
        with pytest.raises(TopicRecreatedError):
            list(Read(cluster, topic_id=ID).reader)


class TestQuotas:
    """A broker that throttles answers at once, without records (KIP-219)."""

    def test_the_next_request_waits(self):
        cluster = ScriptedCluster(
            fetched(batch(0, 4), throttle_ms=700),
            fetched(is_empty=True, throttle_ms=2500),
            fetched(batch(4, 6)),
        )
        assert Read(cluster).ranges == [(0, 4), (4, 10)]
        assert [fetch.at for fetch in cluster.fetches] == pytest.approx([0, 0.7, 3.2])

    def test_a_long_throttle_is_no_timeout(self):
        throttled = [fetched(is_empty=True, throttle_ms=9000)] * 5
        cluster = ScriptedCluster(*throttled, fetched(batch(0, 10)))
        assert Read(cluster).ranges == [(0, 10)]

    def test_nothing_is_read_ahead(self):
        cluster = ScriptedCluster(fetched(batch(0, 4), throttle_ms=700), fetched(batch(4, 6)))
        batches = iter(Read(cluster).reader)
        next(batches)
        assert len(cluster.fetches) == 1
        assert len(list(batches)) == 1


class TestFollowers:
    """A leader names a follower in the client's rack (KIP-392)."""

    def script(self, *more):
        cluster = ScriptedCluster(fetched(replica=3), *more, settings=EAST)
        cluster.leaders.append(PartitionLeader(2, 5))
        return cluster

    def test_it_is_fetched_from(self):
        cluster = self.script(fetched(batch(0, 4)), fetched(batch(4, 6)))
        assert Read(cluster).ranges == [(0, 4), (4, 10)]
        assert [(fetch.node, fetch.rack) for fetch in cluster.fetches] == [
            (1, "east"), (3, "east"), (3, "east"),
        ]  # fmt: skip
        assert cluster.pauses == []

    @pytest.mark.parametrize(
        "response",
        [fetched(code=code) for code in (OUT_OF_RANGE, *RETRIED)]
        + [BrokerUnreachableError("gone"), fetched(high_watermark=0), fetched()],
    )
    def test_back_to_the_leader(self, response):
        cluster = self.script(response, fetched(batch(0, 10)))
        read = Read(cluster)
        assert (read.ranges, read.lost) == ([(0, 10)], [])
        assert [(fetch.node, fetch.rack) for fetch in cluster.fetches] == [
            (1, "east"), (3, "east"), (2, ""),
        ]  # fmt: skip
        assert cluster.pauses == []

    def test_a_final_error_is_final(self):
        with pytest.raises(DeniedError):
            list(Read(self.script(fetched(code=DENIED))).reader)

    def test_no_rack_no_follower(self):
        cluster = ScriptedCluster(fetched(replica=3), fetched(batch(0, 10)))
        assert Read(cluster).ranges == [(0, 10)]
        assert {fetch.node for fetch in cluster.fetches} == {1}


class TestNothing:
    """Responses without records."""

    @pytest.mark.parametrize("committed", [True, False])
    def test_the_reader_waits_for_records_that_are_not_readable_yet(self, committed):
        limits = {"high_watermark": 9 if committed else 4, "stable": 4}
        waiting = [fetched(**limits)] * 3
        cluster = ScriptedCluster(fetched(batch(0, 4)), *waiting, fetched(batch(4, 6)))
        assert Read(cluster, committed=committed).ranges == [(0, 4), (4, 10)]
        assert len(cluster.pauses) == 3

    def test_but_not_for_ever(self):
        cluster = ScriptedCluster(
            fetched(batch(0, 4)), *[fetched(high_watermark=10, stable=4)] * 100
        )
        text = "offsets from 4 up to 10 cannot be read yet, the last stable offset is 4"
        with pytest.raises(NotReadableYetError, match=text):
            list(Read(cluster).reader)
        assert 10 <= cluster.now < 12

    def test_a_gap_up_to_the_end_of_the_log(self):
        cluster = ScriptedCluster(fetched(batch(0, 4)), *[fetched(high_watermark=10)] * 2)
        assert Read(cluster).ranges == [(0, 4)]
        assert cluster.pauses == []

    def test_a_gap_up_to_the_last_stable_offset(self):
        cluster = ScriptedCluster(*[fetched(high_watermark=10, stable=6)] * 2, fetched(batch(6, 4)))
        assert Read(cluster).ranges == [(6, 10)]
        assert offsets_of(cluster) == [0, 0, 6]

    def test_a_tier_that_is_slow_is_no_gap(self):
        cluster = ScriptedCluster(*[fetched()] * 3, fetched(batch(0, 10)))
        cluster.offsets[EARLIEST_LOCAL] = 8
        assert Read(cluster).ranges == [(0, 10)]
        cluster = ScriptedCluster(*[fetched()] * 100)
        cluster.offsets[EARLIEST_LOCAL] = 8
        with pytest.raises(NotReadableYetError, match="from 0 on are in a tier"):
            list(Read(cluster).reader)


def following(cluster, position=0):
    """A reader that follows the log, without a retry."""
    retries = Retries(SETTINGS, limit_s=0, clock=cluster.clock, sleep=cluster.sleep)
    return RangeReader(
        cluster,
        WantedRange("t", 0, position, 2**62),
        on_lost=lambda _: None,
        follows=Follows("read t", 7),
        retries=retries,
        clock=cluster.clock,
        sleep=cluster.sleep,
    )


class TestFollowing:
    """A reader that waits for records at the end of the log."""

    def test_the_end_of_the_log_is_no_error(self):
        cluster = ScriptedCluster(
            fetched(batch(0, 2)),
            fetched(high_watermark=2, stable=2),
            fetched(batch(2, 1)),
            fetched(),
        )
        reader = following(cluster)
        ends = []
        for _ in range(3):
            reader.poll()
            ends.append(reader.position)
        assert ends == [2, 2, 3]
        assert cluster.pauses == []

    def test_it_goes_on_at_its_position_after_an_error(self):
        cluster = ScriptedCluster(
            fetched(batch(0, 2)), BrokerUnreachableError("away"), fetched(batch(2, 1)), fetched()
        )
        reader = following(cluster)
        reader.poll()
        with pytest.raises(BrokerUnreachableError):
            reader.poll()
        assert cluster.refreshed
        assert [(b.first, b.end) for b in reader.poll()] == [(2, 3)]

    def test_a_log_that_was_truncated_at_an_election_is_noticed_after_an_error(self):
        cluster = ScriptedCluster(fetched(batch(0, 2)), fetched(code=NOT_LEADER))
        cluster.leaders.append(PartitionLeader(2, 6))
        cluster.epoch_ends = {0: 1}
        reader = following(cluster)
        reader.poll()
        with pytest.raises(ResponseError, match="NOT_LEADER"):
            reader.poll()
        with pytest.raises(TruncatedError):
            reader.poll()

    def test_no_follower_that_lags_is_fetched_from(self):
        cluster = ScriptedCluster(
            fetched(replica=3), *[fetched(high_watermark=0, stable=0)] * 8, settings=EAST
        )
        reader = following(cluster)
        for _ in range(8):
            reader.poll()
        assert {(fetch.node, fetch.rack) for fetch in cluster.fetches} == {(1, "")}

    def test_its_pending_request_is_abandoned_at_the_end(self):
        cluster = ScriptedCluster(fetched(batch(0, 2)), fetched())
        reader = following(cluster)
        reader.poll()
        reader.close()
        reader.close()
        assert cluster.pending[-1].abandoned
