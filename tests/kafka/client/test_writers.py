"""Writers and a scripted broker: the requests, in order, and every error that it has."""

import uuid

import pytest
from kio.schema.errors import ErrorCode

from penstock.kafka.client.errors import DeniedError, ResponseError
from penstock.kafka.client.positions import Claim, Position, PositionTask
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.client.protocol.write_errors import (
    AbortedError,
    FencedError,
    UnknownOutcomeError,
    WriteError,
)
from penstock.kafka.client.writing.idempotent_pipeline import idempotent_pipeline, new_producer
from penstock.kafka.client.writing.limits import WriterLimits
from penstock.kafka.client.writing.place_records import PlaceRecords
from penstock.kafka.client.writing.transactional_writer import TransactionalWriter
from penstock.kafka.records.header import read_producer
from tests.kafka.client.scripted import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    END,
    GROUP_FETCH,
    INIT,
    LOST,
    OFFSET_COMMIT,
    PRODUCE,
    UNANSWERED,
    Clock,
    ScriptedConnection,
)
from tests.kafka.records.encoding import encode_batch, values

TASK = PositionTask("copy", "history", uuid.UUID(int=5), 3)
SOURCE = BatchSource("history", 3, 70)
BATCH = encode_batch(values(b"one", b"two"))
LARGE = encode_batch(values(bytes(70_000)))
"""It is sent at once."""
WAITING = [
    int(code)
    for code in (
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
        ErrorCode.request_timed_out,
    )
]
MOVED = {int(ErrorCode.coordinator_not_available), int(ErrorCode.not_coordinator), LOST, UNANSWERED}
REQUESTS = [INIT, ADD_PARTITIONS, ADD_OFFSETS, OFFSET_COMMIT, END]


@pytest.fixture
def broker(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("penstock.kafka.client.connections.coordinators.Retries", patient(clock))
    return ScriptedConnection()


def patient(clock):
    """Retries that do not wait."""
    from penstock.kafka.client.connections.retries import Retries

    return lambda settings: Retries(settings, clock=clock, sleep=clock.sleep)


def apis(broker):
    return [api for api, _ in broker.sent_requests]


def work(broker, **options):
    """Write a chunk of one batch, and commit it."""
    with TransactionalWriter(broker, TASK, **options) as writer:
        writer.write("t", 3, BATCH, SOURCE)
        writer.commit(Position(72, "counts"))
    return writer


def test_the_order_of_a_transaction(broker):
    writer = work(broker)
    assert apis(broker) == [
        INIT, GROUP_FETCH, ADD_PARTITIONS, PRODUCE, ADD_OFFSETS, OFFSET_COMMIT, END,
    ]  # fmt: skip
    assert broker.ended == [True]
    assert broker.committed == {("penstock-copy", "history", 3): (72, "counts")}
    assert writer.position == Position(72, "counts")
    init = broker.sent_requests[0][1]
    assert init.transactional_id == "penstock-copy:AAAAAAAAAAAAAAAAAAAABQ:3"
    assert init.producer_id == init.producer_epoch == -1
    assert init.transaction_timeout.total_seconds() == 120


def test_a_partition_is_added_once_in_each_transaction(broker):
    with TransactionalWriter(broker, TASK) as writer:
        for offset in (70, 72):
            for topic in ("t", "t", "dead", "t"):
                writer.write(topic, 3, BATCH, SOURCE)
            writer.commit(Position(offset))
    assert apis(broker).count(ADD_PARTITIONS) == 4
    assert [read_producer(batch).base_sequence for batch in broker.logs["t", 3].batches] == [
        0, 2, 4, 6, 8, 10,
    ]  # fmt: skip


@pytest.mark.parametrize("step", [*WAITING, LOST, UNANSWERED])
@pytest.mark.parametrize("api", REQUESTS)
def test_every_request_is_repeated(broker, api, step):
    broker.script[api] = [step, step]
    work(broker)
    assert apis(broker).count(api) == 3
    assert broker.committed == {("penstock-copy", "history", 3): (72, "counts")}
    key = ("penstock-copy", False) if api == OFFSET_COMMIT else (TASK.transactional_id, True)
    assert broker.forgotten == ([key] * 2 if step in MOVED else [])
    assert len(broker.logs["t", 3].batches) == 1


@pytest.mark.parametrize("step", [WAITING[0], LOST])
@pytest.mark.parametrize("api", REQUESTS)
def test_retries_end_with_the_time_limit(broker, api, step):
    broker.script[api] = [step] * 10_000
    with pytest.raises(Exception, match=r"COORDINATOR_LOAD|was lost") as caught:
        work(broker)
    assert isinstance(caught.value, UnknownOutcomeError) == (api == END)
    assert apis(broker).count(api) < 60


@pytest.mark.parametrize("code", [ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch])
@pytest.mark.parametrize("api", REQUESTS)
def test_fenced(broker, api, code):
    broker.script[api] = [int(code)]
    with pytest.raises(FencedError, match=r"another writer of the same task has taken over"):
        work(broker)


@pytest.mark.parametrize("api", [ADD_PARTITIONS, ADD_OFFSETS, OFFSET_COMMIT, END])
@pytest.mark.parametrize(
    "code", [ErrorCode.invalid_txn_state, ErrorCode.invalid_producer_id_mapping]
)
def test_a_lost_transaction(broker, api, code):
    broker.script[api] = [int(code)]
    with pytest.raises(AbortedError, match=code.name.upper()):
        work(broker)


@pytest.mark.parametrize(
    ("api", "code", "needed"),
    [
        (INIT, ErrorCode.transactional_id_authorization_failed, "--transactional-id penstock-"),
        (INIT, ErrorCode.cluster_authorization_failed, "IdempotentWrite"),
        (ADD_PARTITIONS, ErrorCode.topic_authorization_failed, "Write on the targets"),
        (ADD_OFFSETS, ErrorCode.group_authorization_failed, "--group penstock-"),
        (OFFSET_COMMIT, ErrorCode.group_authorization_failed, "--group penstock-"),
        (GROUP_FETCH, ErrorCode.group_authorization_failed, "--group penstock-"),
    ],
)
def test_denied(broker, api, code, needed):
    broker.script[api] = [int(code)]
    with pytest.raises(DeniedError, match=needed):
        work(broker)
    assert apis(broker).count(api) == 1


def test_a_timeout_that_brokers_do_not_allow(broker):
    broker.script[INIT] = [int(ErrorCode.invalid_transaction_timeout)]
    with pytest.raises(ResponseError, match=r"larger than the brokers' transaction.max"):
        work(broker, limits=WriterLimits(transaction_timeout_s=7200))


def test_a_group_with_members(broker):
    broker.script[OFFSET_COMMIT] = [int(ErrorCode.unknown_member_id)]
    with pytest.raises(WriteError, match="consumers have joined the group"):
        work(broker)


def test_the_first_error_that_is_a_reason_is_raised(broker):
    """Partitions that were not attempted say nothing."""
    from penstock.kafka.client.connections.coordinators import _decisive

    not_attempted = int(ErrorCode.operation_not_attempted)
    assert _decisive([0, not_attempted, 29, 16]) == 29
    assert _decisive([not_attempted]) == not_attempted
    assert _decisive([0, 0]) == 0
    assert _decisive([]) == 0


def test_an_abort_gets_a_new_epoch(broker):
    """What an aborted transaction left on its way cannot become part of the next."""
    with TransactionalWriter(broker, TASK) as writer:
        writer.write("t", 3, LARGE, SOURCE)
        writer.abort()
        writer.write("t", 3, BATCH, SOURCE)
        writer.commit(Position(72))
    inits = [request for api, request in broker.sent_requests if api == INIT]
    assert [(init.producer_id, init.producer_epoch) for init in inits] == [(-1, -1), (7, 1)]
    assert broker.ended == [False, True]
    found = [read_producer(batch) for batch in broker.logs["t", 3].batches]
    assert [(producer.epoch, producer.base_sequence) for producer in found] == [(1, 0), (2, 0)]


@pytest.mark.parametrize("step", [LOST, UNANSWERED])
@pytest.mark.parametrize("api", [ADD_PARTITIONS, ADD_OFFSETS, OFFSET_COMMIT, END])
def test_a_request_without_response_cannot_act_on_the_next_transaction(broker, api, step):
    """It may be on its way still: the next transaction has another epoch."""
    with TransactionalWriter(broker, TASK) as writer:
        broker.script[api] = [step]
        for offset in (72, 74, 76):
            writer.write("t", 3, BATCH, SOURCE)
            writer.commit(Position(offset))
    inits = [(at, request) for at, (key, request) in enumerate(broker.sent_requests) if key == INIT]
    assert [(init.producer_id, init.producer_epoch) for _, init in inits] == [(-1, -1), (7, 1)]
    first_end = max(at for at, key in enumerate(apis(broker)[: inits[1][0]]) if key == END)
    assert inits[1][0] == first_end + 1
    found = [read_producer(batch) for batch in broker.logs["t", 3].batches]
    assert [(producer.epoch, producer.base_sequence) for producer in found] == [
        (1, 0),
        (2, 0),
        (2, 2),
    ]


def test_an_abort_before_the_first_partition_was_added(broker):
    """The coordinator knows no transaction."""
    with TransactionalWriter(broker, TASK) as writer:
        broker.script[ADD_PARTITIONS] = [int(ErrorCode.topic_authorization_failed)]
        with pytest.raises(DeniedError):
            writer.write("t", 3, BATCH, SOURCE)
        broker.script[END] = [int(ErrorCode.invalid_txn_state)]
        writer.abort()
        writer.write("t", 3, BATCH, SOURCE)
        writer.commit(Position(72))
    assert len(broker.logs["t", 3].batches) == 1


def test_an_abort_without_records_sends_no_request(broker):
    with TransactionalWriter(broker, TASK) as writer:
        writer.abort()
    assert apis(broker) == [INIT, GROUP_FETCH]


def test_a_failure_ends_with_an_abort(broker):
    broker.script[PRODUCE] = [int(ErrorCode.message_too_large)]
    with pytest.raises(WriteError):
        work(broker)
    assert broker.ended == [False]
    assert broker.committed == {}


def test_closing_raises_nothing(broker):
    writer = TransactionalWriter(broker, TASK)
    writer.write("t", 3, BATCH, SOURCE)
    broker.script[END] = [int(ErrorCode.producer_fenced)]
    writer.close()
    writer.close()
    assert apis(broker).count(END) == 1


def test_the_error_of_a_transaction_that_timed_out_explains_it():
    broker, clock = ScriptedConnection(), Clock()
    limits = WriterLimits(transaction_timeout_s=10.0)
    writer = TransactionalWriter(broker, TASK, limits, clock=clock)
    writer.write("t", 3, BATCH, SOURCE)
    clock.sleep(10)
    broker.script[END] = [int(ErrorCode.producer_fenced)]
    with pytest.raises(AbortedError, match="was open for longer than 10 s"):
        writer.commit(Position(72))


def test_a_writer_that_timed_out_is_distinguished_from_a_replaced_writer():
    """Brokers fence a producer when they abort its transaction, such as of a paused machine."""
    broker, clock = ScriptedConnection(), Clock()
    limits = WriterLimits(transaction_timeout_s=10.0)
    writer = TransactionalWriter(broker, TASK, limits, clock=clock)
    writer.write("t", 3, BATCH, SOURCE)
    clock.sleep(9)
    broker.script[END] = [int(ErrorCode.producer_fenced)] * 2
    with pytest.raises(FencedError):
        writer.abort()
    clock.sleep(1)
    with pytest.raises(AbortedError, match="was open for longer than 10 s"):
        writer.abort()


def test_the_position_is_read_after_the_others_are_fenced(broker):
    broker.committed["penstock-copy", "history", 3] = (500, "so far")
    writer = TransactionalWriter(broker, TASK)
    assert writer.position == Position(500, "so far")
    assert apis(broker) == [INIT, GROUP_FETCH]


def test_a_place_is_part_of_the_transaction(broker):
    with TransactionalWriter(broker, TASK, places=PlaceRecords("places")) as writer:
        writer.commit(Position(72))
    assert apis(broker)[2:4] == [ADD_PARTITIONS, PRODUCE]
    (place,) = broker.logs["places", 0].batches
    assert read_producer(place).transactional


def test_partitions_are_added_together_and_their_batches_sent_together(broker):
    with TransactionalWriter(broker, TASK, places=PlaceRecords("places")) as writer:
        writer.add([("t", 3), ("dead", 3)])
        writer.write("t", 3, BATCH, SOURCE)
        writer.write("dead", 3, BATCH, SOURCE)
        writer.commit(Position(72))
    assert apis(broker).count(ADD_PARTITIONS) == 1
    assert broker.requests == [[("t", 3), ("dead", 3), ("places", 0)]]


def test_a_writer_that_was_killed_while_it_committed_is_replaced(broker):
    broker.committed["penstock-copy", "history", 3] = (500, "first\n")
    broker.is_unstable = True
    writer = claimed(broker, "second", seen="first")
    assert writer.position == Position(500, "", "second")
    stable = [request.require_stable for api, request in broker.sent_requests if api == GROUP_FETCH]
    assert all(stable[:-2])
    assert stable[-2:] == [False, True]
    assert apis(broker).count(INIT) == 1


def claimed(broker, run, seen="", start=10):
    claim = Claim(run, frozenset({seen}), start)
    return TransactionalWriter(broker, TASK, claim=claim)


def test_a_run_claims_its_tasks(broker):
    with claimed(broker, "a") as writer:
        assert writer.position == Position(10, "", "a")
        writer.commit(Position(20, "counts"))
    with claimed(broker, "a") as again:
        assert again.position == Position(20, "counts", "a"), "another attempt of the run"
    assert apis(broker).count(END) == 2


def test_a_later_run_continues_and_the_earlier_run_ends(broker):
    with claimed(broker, "a") as writer:
        writer.commit(Position(20, "counts of a"))
    with claimed(broker, "b", seen="a") as later:
        assert later.position == Position(20, "", "b")
        before = len(broker.sent_requests)
        with pytest.raises(FencedError, match="another run of the job works on history, partition"):
            claimed(broker, "a")
        assert apis(broker)[before:] == [GROUP_FETCH], "the later writer was fenced"
        later.commit(Position(30))


def test_a_position_that_an_operator_set_belongs_to_no_run(broker):
    with claimed(broker, "a"):
        broker.committed["penstock-copy", "history", 3] = (5, "")
    with claimed(broker, "b") as writer:
        assert writer.position == Position(5, "", "b")


# Without transactions.


def test_a_producer_id_is_requested_again():
    broker = ScriptedConnection(backoff_s=0.001)
    broker.script[INIT] = [WAITING[0], LOST]
    new_producer(broker)
    assert apis(broker) == [INIT] * 3
    assert broker.sent_requests[0][1].transactional_id is None


def test_a_producer_id_is_denied(broker):
    broker.script[INIT] = [int(ErrorCode.cluster_authorization_failed)]
    with pytest.raises(DeniedError, match="IdempotentWrite"):
        new_producer(broker)


def test_batches_of_a_producer_without_transactions_are_stored_once(broker):
    broker.slow = True
    broker.script[PRODUCE] = [LOST]
    pipeline = idempotent_pipeline(broker, WriterLimits())
    pipeline.put("t", 3, BATCH, SOURCE)
    pipeline.flush()
    assert apis(broker) == [INIT, PRODUCE, PRODUCE]
    (batch,) = broker.logs["t", 3].batches
    assert not read_producer(batch).transactional
