"""Batches are sent in order, each once, for any response of a broker."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from penstock.kafka.client.connections.metadata import PartitionLeader
from penstock.kafka.client.connections.pipeline import Pipeline
from penstock.kafka.client.errors import (
    BrokerUnreachableError,
    DeniedError,
    ResponseError,
    response_error,
)
from penstock.kafka.client.protocol.produced_batches import (
    BatchSource,
    UnwritableBatch,
)
from penstock.kafka.client.protocol.write_errors import (
    AbortedError,
    BatchRefusal,
    FencedError,
    RefusedBatchError,
)
from penstock.kafka.records.header import read_producer
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from tests.kafka.client.scripted import (
    DUPLICATE,
    LOST,
    OUT_OF_ORDER,
    PRODUCE,
    UNANSWERED,
    Clock,
    ScriptedConnection,
)
from tests.kafka.records.encoding import encode_batch, values

PRODUCER = ProducerIdAndEpoch(7, 1)
RETRIABLE = [
    int(code)
    for code in (
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.coordinator_not_available,
        ErrorCode.concurrent_transactions,
    )
]


def batch(number, records=1):
    return encode_batch(values(*[b"%d" % number] * records))


def source(number):
    return BatchSource("history", 0, number)


class Pipe:
    """A pipeline to a scripted broker."""

    def __init__(self, *, max_bytes=1 << 20, timeout_s=30.0, transactional_id="penstock-j:x:0",
                 sent_from_bytes=0):  # fmt: skip
        self.clock = Clock()
        self.broker = ScriptedConnection()
        self.pipeline = Pipeline(
            self.broker,
            transactional_id=transactional_id,
            max_bytes=max_bytes,
            timeout_s=timeout_s,
            sent_from_bytes=sent_from_bytes,
            clock=self.clock,
            sleep=self.clock.sleep,
        )
        self.pipeline.start(PRODUCER)

    def put(self, *numbers, records=1, to=("t", 0)):
        for number in numbers:
            self.pipeline.put(*to, batch(number, records), source(number))

    def stored(self, to=("t", 0)):
        """Return the base sequences of the batches in the log; check that they are those that were put."""
        log = self.broker.logs[to].batches
        return [read_producer(batch).base_sequence for batch in log]

    def sent(self):
        return [place[2] for api, place in self.broker.sent_requests if api == PRODUCE]


def test_they_arrive_in_order():
    pipe = Pipe()
    pipe.put(*range(12), records=3)
    pipe.pipeline.flush()
    assert pipe.stored() == [3 * number for number in range(12)]
    assert all(
        producer.transactional for producer in map(read_producer, pipe.broker.logs["t", 0].batches)
    )


def test_without_transactions_the_bit_is_not_set():
    pipe = Pipe(transactional_id=None)
    pipe.put(1)
    pipe.pipeline.flush()
    assert not read_producer(pipe.broker.logs["t", 0].batches[0]).transactional


def test_each_partition_has_its_own_sequence_numbers():
    pipe = Pipe()
    for number in range(6):
        pipe.put(number, to=("t", number % 2))
        pipe.put(number, to=("dead", 0))
    pipe.pipeline.flush()
    assert pipe.stored(("t", 0)) == pipe.stored(("t", 1)) == [0, 1, 2]
    assert pipe.stored(("dead", 0)) == list(range(6))


def test_small_batches_of_several_partitions_share_a_request():
    pipe = Pipe(sent_from_bytes=1 << 16)
    for number in range(8):
        pipe.put(number, to=("t", number % 2))
    pipe.put(8, to=("dead", 0))
    assert pipe.broker.requests == []
    pipe.pipeline.flush()
    assert pipe.broker.requests == [[("t", 0), ("t", 1), ("dead", 0)], *[[("t", 0), ("t", 1)]] * 3]
    assert pipe.stored(("t", 0)) == pipe.stored(("t", 1)) == list(range(4))


def test_they_do_not_wait_for_many_bytes():
    size = len(batch(1))
    pipe = Pipe(sent_from_bytes=3 * size)
    for number in range(3):
        pipe.put(number, to=("t", number))
    assert pipe.broker.requests == [[("t", 0), ("t", 1), ("t", 2)]]


def test_a_request_has_the_batches_of_a_single_leader():
    pipe = Pipe(sent_from_bytes=1 << 16)
    pipe.broker.leader = lambda _, partition, **__: PartitionLeader(partition % 2, 0)
    for number in range(4):
        pipe.put(0, to=("t", number))
    pipe.pipeline.flush()
    assert pipe.broker.requests == [[("t", 0), ("t", 2)], [("t", 1), ("t", 3)]]


def test_a_request_is_bounded():
    pipe = Pipe(max_bytes=1 << 23, sent_from_bytes=1 << 22)
    large = encode_batch(values(bytes(400_000)))
    for number in range(4):
        pipe.pipeline.put("t", number, large, source(number))
    pipe.pipeline.flush()
    assert pipe.broker.requests == [[("t", 0), ("t", 1)], [("t", 2), ("t", 3)]]


def test_only_failed_batches_of_a_request_are_sent_again():
    pipe = Pipe(sent_from_bytes=1 << 16)
    pipe.broker.script[PRODUCE] = [None, int(ErrorCode.not_leader_or_follower)]
    for number in range(3):
        pipe.put(0, to=("t", number))
    pipe.pipeline.flush()
    assert pipe.broker.requests == [[("t", 0), ("t", 1), ("t", 2)], [("t", 1)]]
    assert all(pipe.stored(("t", number)) == [0] for number in range(3))


def test_no_more_than_five_are_on_their_way():
    pipe = Pipe()
    pipe.broker.slow = True
    pipe.put(*range(8))
    assert pipe.sent() == [0, 1, 2, 3, 4]
    pipe.broker.pending[0].ready = True
    pipe.put(8)
    assert pipe.sent() == [0, 1, 2, 3, 4, 5]
    pipe.pipeline.flush()
    assert pipe.stored() == list(range(9))


def test_without_transactions_the_first_batch_is_sent_alone():
    """A leader that does not know a producer takes its second batch without the first."""
    pipe = Pipe(transactional_id=None)
    pipe.broker.slow = True
    pipe.broker.script[PRODUCE] = [LOST]
    pipe.put(0, 1, 2)
    assert pipe.sent() == [0]
    pipe.pipeline.flush()
    assert pipe.sent() == [0, 0, 1, 2]
    pipe.put(*range(3, 9))
    assert pipe.sent()[4:] == [3, 4, 5, 6, 7]
    pipe.pipeline.flush()
    assert pipe.stored() == list(range(9))


def test_bytes_on_their_way_are_bounded():
    size = len(batch(1))
    pipe = Pipe(max_bytes=3 * size)
    pipe.broker.slow = True
    pipe.put(0, 1)
    assert not any(request.ready for request in pipe.broker.pending)
    pipe.put(2, 3)
    assert [request.ready for request in pipe.broker.pending].count(False) <= 3
    pipe.pipeline.flush()
    assert pipe.stored() == [0, 1, 2, 3]


def test_a_batch_that_is_larger_goes_alone():
    pipe = Pipe(max_bytes=10)
    pipe.broker.slow = True
    pipe.put(0, 1)
    assert [request.ready for request in pipe.broker.pending] == [True, False]
    pipe.pipeline.flush()
    assert pipe.stored() == [0, 1]


@pytest.mark.parametrize("step", [*RETRIABLE, LOST, UNANSWERED])
@pytest.mark.parametrize("at", [0, 2, 6])
def test_it_is_sent_again(step, at):
    pipe = Pipe()
    pipe.broker.slow = True
    pipe.broker.script[PRODUCE] = [None] * at + [step]
    pipe.put(*range(9))
    pipe.pipeline.flush()
    assert pipe.stored() == list(range(9))
    assert pipe.broker.refreshed == ["t"]


def test_all_that_were_on_their_way_are_lost():
    for step in (LOST, UNANSWERED):
        pipe = Pipe()
        pipe.broker.slow = True
        pipe.broker.script[PRODUCE] = [step] * 5
        pipe.put(*range(7))
        pipe.pipeline.flush()
        assert pipe.stored() == list(range(7))
        assert pipe.sent()[:6] == [0, 1, 2, 3, 4, 0], "they start again with the first batch"


def test_after_a_failure_the_first_batch_is_sent_alone():
    pipe = Pipe()
    pipe.broker.slow = True
    pipe.broker.script[PRODUCE] = [LOST] * 3
    pipe.put(0, 1, 2)
    with pytest.raises(IndexError):
        pipe.broker.pending[3]
    pipe.broker.script[PRODUCE] = []
    for request in pipe.broker.pending:
        request.ready = True
    pipe.put(3)
    pipe.clock.sleep(5)
    pipe.put(4)
    assert pipe.sent() == [0, 1, 2, 0]
    pipe.pipeline.flush()
    assert pipe.stored() == [0, 1, 2, 3, 4]


def test_a_duplicate_is_stored():
    pipe = Pipe()
    pipe.broker.script[PRODUCE] = [DUPLICATE]
    pipe.put(0)
    pipe.pipeline.flush()


def test_pauses_grow_and_end_with_the_time_limit():
    pipe = Pipe(timeout_s=30.0)
    pipe.broker.script[PRODUCE] = [int(ErrorCode.not_leader_or_follower)] * 1000
    began = pipe.clock.now
    pipe.put(0)
    with pytest.raises(
        AbortedError,
        match=r"topic t, partition 0: the batch from history, partition 0, offset 0 could not be "
        r"stored within 30 s: .*NOT_LEADER_OR_FOLLOWER \(6\)",
    ):
        pipe.pipeline.flush()
    assert 30 <= pipe.clock.now - began < 33
    assert len(pipe.sent()) < 40


def test_the_time_of_a_batch_begins_when_it_is_sent():
    pipe = Pipe(timeout_s=30.0, sent_from_bytes=1 << 16)
    pipe.put(0)
    pipe.clock.sleep(60)
    pipe.broker.script[PRODUCE] = [int(ErrorCode.not_leader_or_follower)]
    pipe.pipeline.flush()
    assert pipe.stored() == [0]


def test_no_leader_for_a_while():
    pipe = Pipe()
    no_leader = response_error(int(ErrorCode.leader_not_available), "topic t, partition 0")
    pipe.broker.leaders = [no_leader, BrokerUnreachableError("no broker responds")]
    pipe.put(0, 1)
    pipe.pipeline.flush()
    assert pipe.stored() == [0, 1]
    assert pipe.clock.now > 1000


def test_the_target_may_not_be_described():
    pipe = Pipe()
    pipe.broker.leaders = [response_error(int(ErrorCode.topic_authorization_failed), "topic t")]
    with pytest.raises(DeniedError, match="TOPIC_AUTHORIZATION_FAILED"):
        pipe.put(0)


@pytest.mark.parametrize("code", [ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced])
def test_a_fenced_producer(code):
    pipe = Pipe()
    pipe.broker.script[PRODUCE] = [int(code)]
    with pytest.raises(FencedError, match="another writer of the same task has taken over"):
        pipe.put(0, 1)
    with pytest.raises(FencedError):
        pipe.put(1)
    with pytest.raises(FencedError):
        pipe.pipeline.flush()
    assert pipe.sent() == [0]


@pytest.mark.parametrize(
    "code",
    [
        OUT_OF_ORDER,
        ErrorCode.invalid_txn_state,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.unknown_producer_id,
        ErrorCode.transaction_abortable,
    ],
)
def test_a_lost_transaction(code):
    pipe = Pipe()
    pipe.broker.script[PRODUCE] = [None, int(code)]
    with pytest.raises(AbortedError):
        pipe.put(0, 1, 2)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (ErrorCode.message_too_large, "larger than the target's max.message.bytes: raise it"),
        (ErrorCode.record_list_too_large, "segment.bytes"),
        (ErrorCode.unsupported_compression_type, "codec that the target refuses"),
        (ErrorCode.invalid_timestamp, "message.timestamp.before.max.ms"),
        (ErrorCode.invalid_record, "a record that the target refuses"),
        (ErrorCode.policy_violation, "a policy of the target"),
    ],
)
def test_a_batch_that_the_target_refuses(code, message):
    pipe = Pipe()
    pipe.broker.script[PRODUCE] = [None, (int(code), "the broker's own words")]
    with pytest.raises(RefusedBatchError, match=message) as caught:
        pipe.put(10, 11, 12)
    text = str(caught.value)
    assert "topic t, partition 0: the batch of " in text
    assert "from history, partition 0, offset 11" in text
    assert text.endswith(f"{code.name.upper()} ({int(code)}) (the broker's own words)")
    assert caught.value.refusal == BatchRefusal("t", BatchSource("history", 0, 11), int(code))


def test_unwritable_batches():
    pipe = Pipe()
    pipe.broker.script[PRODUCE] = [int(ErrorCode.topic_authorization_failed)]
    with pytest.raises(DeniedError, match="the principal needs Write on the targets"):
        pipe.put(0, 1)


def test_a_batch_is_not_sent_again_after_an_unknown_error():
    pipe = Pipe()
    pipe.broker.script[PRODUCE] = [int(ErrorCode.unknown_server_error)]
    with pytest.raises(ResponseError, match="topic t, partition 0: UNKNOWN_SERVER_ERROR") as caught:
        pipe.put(0, 1)
    assert not caught.value.retriable
    assert pipe.sent() == [0]


def test_a_batch_that_no_broker_would_accept_is_not_sent():
    pipe = Pipe()
    with pytest.raises(UnwritableBatch, match="history, partition 0, offset 0"):
        pipe.pipeline.put("t", 0, b"nothing", source(0))
    pipe.put(1)
    pipe.pipeline.flush()
    assert pipe.stored() == [0]


def test_a_new_epoch_begins_at_zero():
    pipe = Pipe()
    pipe.broker.slow = True
    pipe.put(0, 1, 2)
    pipe.pipeline.abandon()
    assert all(request.ready for request in pipe.broker.pending), (
        "the pipeline did not wait for the responses"
    )
    pipe.pipeline.start(ProducerIdAndEpoch(7, 2))
    pipe.put(3)
    pipe.pipeline.flush()
    assert pipe.stored() == [0, 1, 2, 0]


def test_it_can_be_abandoned_in_the_middle_of_everything():
    pipe = Pipe()
    pipe.broker.slow = True
    pipe.broker.script[PRODUCE] = [LOST, LOST, int(ErrorCode.invalid_txn_state)]
    pipe.put(*range(8))
    pipe.pipeline.abandon()
    pipe.pipeline.flush()


@pytest.mark.thorough
@settings(max_examples=300)
@given(
    script=st.lists(
        st.sampled_from([None, None, None, LOST, UNANSWERED, *RETRIABLE[:4]]), max_size=40
    ),
    ready=st.lists(st.booleans(), max_size=60),
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=25),
    room=st.sampled_from([200, 800, 1 << 20]),
    sent_from=st.sampled_from([0, 300, 1 << 20]),
)
def test_whatever_happens_each_is_stored_once_and_in_order(script, ready, counts, room, sent_from):
    pipe = Pipe(max_bytes=room, timeout_s=1e6, sent_from_bytes=sent_from)
    pipe.broker.slow = True
    pipe.broker.script[PRODUCE] = script
    expected = {("t", 0): [], ("t", 1): []}
    for number, count in enumerate(counts):
        to = ("t", number % 2)
        pipe.put(number, records=count, to=to)
        expected[to].append(b"".join([b"%d" % number] * count))
        for request, is_ready in zip(pipe.broker.pending, ready, strict=False):
            request.ready |= is_ready
    pipe.pipeline.flush()
    for to, contents in expected.items():
        stored = [read_values(batch) for batch in pipe.broker.logs[to].batches]
        assert stored == contents


def read_values(data):
    from penstock.kafka.records.batch import read_batch

    return b"".join(read_batch(data, api_version=9, max_decompressed_bytes=1 << 20).records.values)


class Noted(Pipe):
    """A pipeline that notes what is stored, and why something is sent again."""

    def __init__(self, **options):
        super().__init__(**options)
        self.stored, self.causes = [], []
        self.pipeline._on_stored = lambda source, offset: self.stored.append((source, offset))
        self.pipeline._on_retry = self.causes.append


def test_a_batch_that_is_stored_is_noted_with_the_offset():
    pipe = Noted()
    pipe.broker.offset = 17
    pipe.broker.script[PRODUCE] = [ErrorCode.not_enough_replicas]
    pipe.pipeline.put("t", 0, batch(1), source(1))
    pipe.pipeline.flush()
    assert pipe.stored == [(source(1), 17)]
    assert [cause.code for cause in pipe.causes] == [ErrorCode.not_enough_replicas]


def test_a_wait_ends_in_time():
    pipe = Noted(timeout_s=1e9)
    pipe.broker.leaders = [BrokerUnreachableError("away")] * 1000
    pipe.pipeline.put("t", 0, batch(1), source(1))
    before = pipe.clock.now
    assert not pipe.pipeline.poll(5.0)
    assert pipe.clock.now - before == pytest.approx(5.0)
    pipe.broker.leaders = []
    assert pipe.pipeline.poll(5.0)
    assert pipe.pipeline.poll(0.0)


def test_a_batch_may_have_less_time_than_others():
    pipe = Pipe(timeout_s=1e9)
    pipe.broker.leaders = [BrokerUnreachableError("k:1 is away")] * 1000
    pipe.pipeline.put("t", 0, batch(1), source(1), pipe.clock.now + 3)
    with pytest.raises(AbortedError, match="k:1 is away"):
        pipe.pipeline.flush()
    assert 3 <= pipe.clock.now - 1000 < 6


def test_a_leader_is_not_looked_up_for_longer_than_a_batch_has():
    """It is not sent either, when its time is over after that."""
    pipe = Pipe(timeout_s=1e9)
    timeouts = []

    def leader(topic, partition, *, timeout_s):
        timeouts.append(timeout_s)
        pipe.clock.sleep(4)
        return PartitionLeader(1, 0)

    pipe.broker.leader = leader
    with pytest.raises(AbortedError, match="leader was not found in time"):
        pipe.pipeline.put("t", 0, batch(1), source(1), pipe.clock.now + 3)
    assert timeouts == [3]
    assert pipe.sent() == []


def test_a_leader_is_looked_up_for_the_request_timeout_at_most():
    pipe = Pipe(timeout_s=1e9)
    timeouts = []

    def leader(topic, partition, *, timeout_s):
        timeouts.append(timeout_s)
        return PartitionLeader(1, 0)

    pipe.broker.leader = leader
    pipe.put(0)
    assert timeouts == [pipe.broker.settings.request_timeout_s]
