"""Effects of intercepted batches on their producers, without sockets."""

import time
from types import SimpleNamespace
from uuid import UUID

import pytest

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import (
    ACCEPTED,
    Diverted,
    Outcome,
    PolicyVerdict,
    refused,
    replaced,
)
from penstock.gateway.produce.idempotence import Idempotence
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.leaders import SETTLED_AFTER_S
from penstock.gateway.produce.producer_state.producer.stored_at_leader import REPLICATED_AFTER_S
from penstock.kafka.records.batch import read_batch
from tests.gateway.produce.intercepted import (
    DROPPED,
    HIGH_WATERMARK,
    Intercepted,
    WithLastSequences,
    batch,
    codes,
    frames_of,
    observe_from_now_on,
    offsets,
    pipelined,
    refused_response,
    request,
    two_partitions,
)
from tests.gateway.sessions.talk import produce_response
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame


def sent(talk):
    """The batch that went to the broker."""
    frame = talk.broker.take()
    at = frame.index(b"\x00\x00\x00\x00\x00\x00\x00\x00", 20)
    length = int.from_bytes(frame[at + 8 : at + 12], "big") + 12
    return read_batch(frame[at : at + length], api_version=9, max_decompressed_bytes=10**6)


def code(talk, number=1):
    [answer] = produced(parse_response(talk.client.take(), 0, 9)).values()
    return answer.error_code


@pytest.mark.kips("B28")
@pytest.mark.parametrize(
    ("error_code", "behind"),
    [(0, 0), (6, 7), (7, 7), (19, 7), (10, 45), (87, 45), (-1, 45), (45, 7)],
)
def test_a_dropped_batch_gets_its_response_after_earlier_batches(error_code, behind):
    talk = pipelined(None, None, DROPPED)
    talk.session.upstream_data(produce_response(1, "judged"))
    assert codes(talk) == [0], "later batches have no response yet"
    talk.session.upstream_data(refused_response(2, error_code))
    assert codes(talk) == [error_code, behind]


@pytest.mark.parametrize(("error_code", "behind"), [(6, 7), (19, 7), (10, 45), (87, 45)])
def test_no_batch_is_sent_into_a_gap(error_code, behind):
    talk = pipelined(None, None)
    talk.session.upstream_data(produce_response(1, "judged"))
    talk.session.upstream_data(refused_response(2, error_code))
    codes(talk), talk.broker.take()
    pipelined(None, None, talk=talk, first=2)
    assert codes(talk) == [behind, behind]
    assert talk.broker.take() == b""


def test_delayed_batches_are_sent_after_the_retry_of_earlier_batches():
    talk = pipelined(None, None)
    talk.session.upstream_data(produce_response(1, "judged") + refused_response(2, 6))
    pipelined(None, DROPPED, talk=talk, first=2)
    assert codes(talk) == [0, 6, 7, 7]
    talk.broker.take()
    again = Intercepted(talk.producers)
    again.session.client_data(b"".join(request(n, batch(b"v", first=n - 1)) for n in (2, 3, 4)))
    assert again.verdicts == [], "all batches are known"
    again.session.upstream_data(produce_response(2, "judged") + produce_response(3, "judged"))
    assert codes(again) == [0, 0, 0]


def test_a_batch_of_an_old_epoch_is_an_error():
    talk = pipelined(None)
    talk.session.upstream_data(produce_response(1, "judged"))
    talk.session.client_data(request(2, batch(b"v", epoch=1)) + request(3, batch(b"v", first=1)))
    talk.decide()
    talk.decide(DROPPED)
    talk.session.upstream_data(produce_response(2, "judged"))
    assert codes(talk) == [0, 0, 47]


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (refused(87, "no", "v"), {0: 87, 1: 87}),
        (refused(7, "too late", "v"), {0: 7, 1: 7}),
    ],
)
def test_a_whole_request_fails_permanently_only_if_a_batch_was_refused(verdict, expected):
    talk = Intercepted()
    talk.policies = talk.policies._replace(whole_request=True)
    talk.session.client_data(two_partitions(1, batch(b"a"), batch(b"b")))
    talk.decide(verdict)
    talk.decide()
    found = produced(parse_response(talk.client.take(), 0, 9))
    assert {index: answer.error_code for (_, index), answer in found.items()} == expected
    assert talk.broker.take() == b""


def test_with_rejection_scope_request_no_batch_is_sent_while_another_has_to_wait():
    talk = pipelined(None, None)
    talk.policies = talk.policies._replace(whole_request=True)
    talk.session.upstream_data(produce_response(1, "judged") + refused_response(2, 6))
    codes(talk), talk.broker.take()
    talk.session.client_data(two_partitions(3, batch(b"c", first=2), batch(b"d")))
    talk.decide()
    talk.decide()
    assert codes(talk) == [7, 7]
    assert talk.broker.take() == b""


def test_later_batches_close_the_gap():
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"a", b"b")) + request(2, batch(b"c", first=2)))
    talk.decide(replaced(batch(b"a"), [1]))
    first = sent(talk)
    assert (first.base_sequence, len(first.records)) == (0, 1)
    talk.decide(ACCEPTED)
    second = sent(talk)
    assert (second.base_sequence, second.records.values[0]) == (1, b"c")


def test_a_retry_is_sent_as_before_and_not_judged_again():
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"a", b"b")))
    talk.decide(replaced(batch(b"a"), [1]))
    again = Intercepted(talk.producers)
    again.session.client_data(request(1, batch(b"a", b"b")))
    assert again.verdicts == []
    assert again.broker.data == talk.broker.data
    again.session.upstream_data(produce_response(1, "judged"))
    assert offsets(again) == [(0, 4)]
    last = Intercepted(talk.producers)
    last.session.client_data(request(1, batch(b"a", b"b")))
    assert last.broker.data == b"", "the broker has the batch"
    assert offsets(last) == [(0, 4)]


class TestOffsets:
    """The base offset of the broker is 5."""

    @pytest.mark.parametrize("producer_id", [-1, 5])
    @pytest.mark.parametrize(
        ("left", "dropped", "base_offset"),
        [
            ([b"a", b"b", b"c", b"d"], [], 5),
            ([b"b", b"c", b"d"], [0], 4),
            ([b"a", b"c", b"d"], [1], 4),
            ([b"a", b"b", b"c"], [3], 4),
            ([b"d"], [0, 1, 2], 2),
            ([b"a"], [1, 2, 3], 2),
        ],
    )
    def test_no_record_gets_a_higher_offset_than_its_own(
        self, producer_id, left, dropped, base_offset
    ):
        numbers = {"producer_id": producer_id, "first": 0, "epoch": 0}
        if producer_id < 0:
            numbers = {"producer_id": -1, "first": -1, "epoch": -1}
        sent_by_client = [b"a", b"b", b"c", b"d"]
        talk = Intercepted()
        talk.session.client_data(request(1, batch(*sent_by_client, **numbers)))
        talk.decide(replaced(batch(*left, **numbers), dropped))
        talk.session.upstream_data(produce_response(1, "judged"))
        assert offsets(talk) == [(0, base_offset)]
        for position in range(len(sent_by_client)):
            before = sum(value in left for value in sent_by_client[:position])
            own_or_of_the_next_stored = 5 + min(before, len(left) - 1)
            assert base_offset + position <= own_or_of_the_next_stored
        assert base_offset + len(sent_by_client) == 5 + len(left), "the last one is exact"

    def test_a_batch_that_the_broker_has_already_gets_the_same_offsets(self, retried):
        again = Forgetful(retried.producers)
        again.session.client_data(request(1, batch(b"a", b"b")))
        again.decide(replaced(batch(b"a"), [1]))
        again.session.upstream_data(produce_response(1, "judged"))
        assert offsets(again) == [(0, 4)]

    def test_a_batch_of_which_nothing_is_stored_has_no_offset(self):
        talk = pipelined(DROPPED)
        assert offsets(talk) == [(0, -1)]
        talk.session.client_data(request(2, batch(b"v")))
        assert offsets(talk) == [(0, -1)]

    def test_an_error_has_no_offset(self):
        talk = Intercepted()
        talk.session.client_data(request(1, batch(b"a", b"b")))
        talk.decide(replaced(batch(b"a"), [1]))
        answer = bytearray(refused_response(1, 6))
        at = answer.index(b"judged") + len(b"judged") + 7
        answer[at : at + 8] = b"\xff" * 8
        talk.session.upstream_data(bytes(answer))
        assert offsets(talk) == [(6, -1)]


def test_a_retry_that_is_forgotten_before_its_turn_is_not_sent_unjudged():
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"a", b"b")))
    talk.decide(replaced(batch(b"a"), [1]))
    again = Intercepted(talk.producers)
    again.session.client_data(
        request(1, encode_batch(values(b"other"))) + request(2, batch(b"a", b"b"))
    )
    assert len(again.verdicts) == 1, "the second batch is known"
    refused = produce_response(1, "judged")
    at = refused.index(b"judged") + len(b"judged") + 5
    talk.session.upstream_data(refused[:at] + b"\x00\x57" + refused[at + 2 :])
    assert code(talk) == 87
    again.broker.take()
    again.decide(ACCEPTED)
    assert b"other" in again.broker.data
    assert again.broker.data.count(b"judged") == 1, "only the first batch was sent"
    again.client.take()
    again.session.upstream_data(produce_response(1, "judged"))
    frames = again.client.take()
    length = 4 + int.from_bytes(frames[:4], "big")
    [answer] = produced(parse_response(frames[length:], 0, 9)).values()
    assert answer.error_code == 7


@pytest.mark.parametrize("damaged", [False, True])
def test_topics_without_policies_now_keep_their_lowered_sequence_numbers(damaged):
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"a", b"b")))
    talk.decide(replaced(batch(b"a"), [1]))
    talk.broker.take()
    talk.session.upstream_data(produce_response(1, "judged"))
    later = Intercepted(talk.producers)
    later.judged = frozenset()
    data = bytearray(batch(b"c", first=2))
    if damaged:
        data[-2] ^= 1
    frame = request(1, bytes(data))
    later.session.client_data(frame)
    if damaged:
        assert later.broker.take() == frame, "its checksum is not corrected"
    else:
        assert sent(later).base_sequence == 1


class Forgetful(Intercepted):
    """A session of a gateway that stores no batches for retries, only positions to drop again."""

    def __init__(self, producers=None):
        super().__init__(producers or Producers(now=time.time, held_max_bytes=0))
        self.dropped_before = []

    def _submit(self, batch, done):
        self.dropped_before.append((batch.plan.policies, tuple(batch.dropped_before)))
        super()._submit(batch, done)


@pytest.fixture
def retried():
    """A session with a batch whose second record was dropped, and which has to be retried."""
    talk = Forgetful()
    talk.session.client_data(request(1, batch(b"a", b"b")))
    talk.decide(replaced(batch(b"a"), [1]))
    talk.session.upstream_data(refused_response(1, 6))
    assert codes(talk) == [6]
    return talk


def test_dropped_records_are_dropped_again_without_interceptors(retried):
    again = Forgetful(retried.producers)
    again.judged = frozenset()
    again.session.client_data(request(1, batch(b"a", b"b")))
    assert again.dropped_before == [((), (1,))]
    again.decide(replaced(batch(b"a"), [1]))
    assert [*sent(again).records.values] == [b"a"]
    again.session.upstream_data(produce_response(1, "judged"))
    assert codes(again) == [0]


def test_records_that_another_gateway_dropped_meanwhile_are_dropped_again(retried):
    other = Forgetful()
    other.session.client_data(request(1, batch(b"a", b"b")))
    assert other.dropped_before == [(("i",), ())]
    for key, producer in retried.producers._in_use.items():
        other.producers._in_use.add(key, producer)  # read from another gateway
    other.decide(ACCEPTED)
    assert codes(other) == [7]
    other.session.client_data(request(2, batch(b"a", b"b")))
    assert other.dropped_before[1:] == [(("i",), (1,))]


class Configured(Intercepted):
    """A session with a value of `produce.request.interceptors.idempotence`."""

    def __init__(self, idempotence):
        super().__init__()
        self.policies = self.policies._replace(idempotence=idempotence)


def test_with_refuse_a_batch_of_an_idempotent_producer_may_lose_no_record():
    talk = Configured(Idempotence.REFUSE)
    talk.session.client_data(request(1, batch(b"a", b"b")))
    talk.decide(replaced(batch(b"a"), [1]))
    assert talk.broker.take() == b""
    ((_, response),) = produced(parse_response(talk.client.take(), 0, 9)).items()
    assert response.error_code == 87
    assert "produce.request.interceptors.idempotence is refuse" in response.error_message
    talk.session.client_data(request(2, batch(b"a", b"b")))
    talk.decide(replaced(batch(b"x", b"y"), []))
    assert [*sent(talk).records.values] == [b"x", b"y"]


def test_with_refuse_a_dead_letter_refuses_the_batch_with_the_cause_and_its_policys_message():
    talk = Configured(Idempotence.REFUSE)
    talk.session.client_data(request(1, batch(b"a", b"b")))
    bad = PolicyVerdict(outcome=Outcome.QUARANTINED, code=87, message="not positive", policy="v")
    talk.decide(replaced(batch(b"a"), [1], (Diverted(bad, 1),), quarantined=[1], letters=b"l"))
    ((_, response),) = produced(parse_response(talk.client.take(), 0, 9)).items()
    assert response.error_code == 87
    assert response.error_message == (
        "penstock.mode is quarantine, and its producer is idempotent "
        "(produce.request.interceptors.idempotence is refuse): not positive"
    )
    assert talk.refusals[0].verdict.outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("idempotence", "expected"),
    [(Idempotence.REFUSE, [b"a"]), (Idempotence.TRANSLATE, [b"a"]), (Idempotence.STRIP, [b"a"])],
)
def test_a_producer_without_an_id_may_lose_records(idempotence, expected):
    talk = Configured(idempotence)
    talk.session.client_data(request(1, encode_batch(values(b"a", b"b"))))
    talk.decide(replaced(encode_batch(values(b"a")), [1]))
    assert [*sent(talk).records.values] == expected


@pytest.mark.parametrize(
    ("idempotence", "numbers"),
    [(Idempotence.STRIP, (-1, -1, -1)), (Idempotence.TRANSLATE, (5, 0, 2))],
)
def test_with_strip_batches_lose_their_producer_id_and_sequence_numbers(idempotence, numbers):
    talk = Configured(idempotence)
    talk.session.client_data(request(1, batch(b"a", b"b", b"c")) + request(2, batch(b"d", first=3)))
    talk.decide(replaced(batch(b"a", b"b"), [2]))
    talk.decide(ACCEPTED)
    first, second = (read_batch(data, api_version=9, max_decompressed_bytes=10**6)
                     for data in batches_of(talk.broker.take()))  # fmt: skip
    assert [*first.records.values] == [b"a", b"b"]
    assert (second.producer_id, second.producer_epoch, second.base_sequence) == numbers


def batches_of(data):
    """The batches of requests with a single batch each."""
    for frame in frames_of(data):
        at = frame.index(b"\x00\x00\x00\x00\x00\x00\x00\x00", 20)
        yield frame[at : at + int.from_bytes(frame[at + 8 : at + 12], "big") + 12]


def losing(talk, number=1, first=4):
    """A batch of two records that loses the first record, of an unknown producer."""
    talk.session.client_data(request(number, batch(b"a", b"b", first=first)))
    talk.decide(replaced(batch(b"b", first=first), [0]))


def test_before_a_record_of_an_unknown_producer_is_dropped_its_last_sequence_is_requested():
    talk = WithLastSequences()
    losing(talk)
    talk.respond_with_last_sequence(last_sequence=3)
    assert (sent(talk).base_sequence, talk.client.data) == (4, b"")


def test_a_batch_that_was_stored_unchanged_is_sent_again_unchanged():
    talk = WithLastSequences()
    losing(talk)
    talk.respond_with_last_sequence(last_sequence=5)
    again = sent(talk)
    assert (again.base_sequence, len(again.records)) == (4, 2), (
        "the leader may still lose the batch"
    )
    talk.session.upstream_data(produce_response(1, "judged"))
    assert code(talk) == 0


@pytest.mark.parametrize("first", ["is forgotten", "is stored, as the leader says"])
def test_a_batch_that_interceptors_changed_is_never_sent_unchanged(first):
    clock = SimpleNamespace(now=1000.0)
    talk = WithLastSequences(Producers(now=lambda: clock.now, held_max_bytes=0))
    talk.session.client_data(request(1, batch(b"secret", b"old")))
    talk.decide(replaced(batch(b"******", b"old"), []))
    sent(talk)
    talk.session.upstream_data(refused_response(1, 6))
    assert codes(talk) == [6]

    def retry(**answer):
        again = WithLastSequences(talk.producers)
        again.session.client_data(request(1, batch(b"secret", b"old")))
        again.decide(replaced(batch(b"******"), [1]))
        again.respond_with_last_sequence(**answer)
        return again

    if first == "is forgotten":
        assert [*sent(retry()).records.values] == [b"******"]
        return
    again = retry(last_sequence=1)
    assert (again.broker.take(), codes(again)) == (b"", [7]), "its leader may still lose the batch"
    clock.now += REPLICATED_AFTER_S
    again = retry(last_sequence=1)
    assert (again.broker.take(), codes(again)) == (b"", [0])


class TestAfterAChangeOfInterceptors:
    """A former leader may have a batch that another gateway sent as a whole, and lead again."""

    @pytest.fixture
    def talk(self):
        clock = SimpleNamespace(now=1000.0)
        talk = WithLastSequences(Producers(now=lambda: clock.now, is_shared=True))
        talk.time = clock
        talk.producers.interceptors_changed(lambda _: True)
        losing(talk)
        talk.respond_with_last_sequence(last_sequence=3, epoch=7)
        return talk

    def test_a_batch_loses_records_once_its_leader_has_committed_something(self, talk):
        talk.respond_with_epoch(begins=HIGH_WATERMARK - 1)
        assert (sent(talk).base_sequence, talk.client.data) == (4, b"")

    def test_before_a_commit_of_its_leader_a_batch_has_to_be_retried(self, talk):
        talk.respond_with_epoch(begins=HIGH_WATERMARK)
        talk.respond_with_replicas()
        assert (talk.broker.take(), codes(talk)) == (b"", [7])
        losing(talk, number=2)
        talk.respond_with_last_sequence(last_sequence=3, epoch=7)
        talk.respond_with_epoch(begins=HIGH_WATERMARK - 1)
        assert sent(talk).base_sequence == 4

    def test_a_batch_loses_records_at_once_if_no_other_broker_can_lead(self, talk):
        talk.respond_with_epoch(begins=HIGH_WATERMARK)
        talk.respond_with_replicas([1])
        assert (sent(talk).base_sequence, talk.client.data) == (4, b"")

    def test_a_batch_has_to_be_retried_if_replicas_are_of_another_leader_epoch(self, talk):
        talk.respond_with_epoch(begins=HIGH_WATERMARK)
        talk.respond_with_replicas([1], epoch=6)
        assert (talk.broker.take(), codes(talk)) == (b"", [7])

    def test_a_batch_waits_only_for_the_replica_lag_if_a_broker_returns_no_epoch_start(self, talk):
        talk.respond_with_epoch(error_code=29)
        talk.respond_with_replicas()
        assert (talk.broker.take(), codes(talk)) == (b"", [7])
        talk.time.now += SETTLED_AFTER_S
        losing(talk, number=2)
        talk.respond_with_last_sequence(last_sequence=3, epoch=7)
        talk.respond_with_epoch(error_code=29)
        talk.respond_with_replicas()
        assert sent(talk).base_sequence == 4

    def test_a_broker_gets_no_request_that_it_does_not_support(self, talk):
        talk.respond_with_epoch(begins=HIGH_WATERMARK)
        talk.respond_with_replicas()
        assert codes(talk) == [7]
        talk.session._supports_leader_epochs = False
        losing(talk, number=2)
        talk.respond_with_last_sequence(last_sequence=3, epoch=7)
        talk.respond_with_replicas()
        assert (talk.broker.take(), codes(talk)) == (b"", [7])

    def test_a_batch_has_to_be_retried_if_another_broker_leads_now(self, talk):
        talk.respond_with_epoch(error_code=74)
        assert (talk.broker.take(), codes(talk)) == (b"", [7])


@pytest.mark.parametrize(("error_code", "answered"), [(6, 6), (3, 3), (78, 7), (74, 7)])
def test_only_the_last_sequence_of_the_leader_is_used(error_code, answered):
    """The client gets an error after which each client sends the batch again."""
    talk = WithLastSequences()
    losing(talk)
    talk.respond_with_last_sequence(error_code=error_code, last_sequence=3)
    assert talk.broker.take() == b""
    assert code(talk) == answered


def test_without_the_right_to_request_last_sequences_the_broker_decides():
    talk = WithLastSequences()
    losing(talk)
    talk.respond_with_last_sequence(error_code=29)
    assert sent(talk).base_sequence == 4


class TestPrincipals:
    """Batches of another principal never affect a producer, whatever their numbers."""

    @pytest.fixture
    def evil(self):
        talk = Intercepted()
        talk.session.authentication._certificate_principal = "User:evil"
        return talk

    @pytest.fixture
    def victim(self, evil):
        talk = Intercepted(evil.producers)
        talk.session.authentication._certificate_principal = "User:victim"
        return talk

    def test_a_batch_whose_records_another_client_lost_is_judged(self, evil, victim):
        evil.session.client_data(request(1, batch(b"drop me")))
        evil.decide(DROPPED)
        assert codes(evil) == [0]
        victim.session.client_data(request(1, batch(b"important")))
        victim.decide(ACCEPTED)
        assert sent(victim).base_sequence == 0

    def test_a_batch_that_another_client_left_is_not_sent(self, evil, victim):
        evil.session.client_data(request(1, batch(b"forged")))
        evil.decide(ACCEPTED)
        evil.session.closed()
        victim.session.client_data(request(1, batch(b"important")))
        victim.decide(ACCEPTED)
        assert list(sent(victim).records.values) == [b"important"]

    def test_sequence_numbers_that_another_client_used_are_free(self, evil, victim):
        victim.session.client_data(request(1, batch(b"v")))
        victim.decide(ACCEPTED)
        victim.session.upstream_data(produce_response(1, "judged"))
        codes(victim), victim.broker.take()
        evil.session.client_data(request(1, batch(*[b"d"] * 9, first=1)))
        evil.decide(replaced(b"", list(range(9))))
        victim.session.client_data(request(2, batch(b"v", first=1)))
        victim.decide(ACCEPTED)
        assert sent(victim).base_sequence == 1

    def test_the_same_client_continues_on_another_connection(self, victim):
        losing(victim, first=0)
        victim.session.upstream_data(produce_response(1, "judged"))
        again = Intercepted(victim.producers)
        again.session.authentication._certificate_principal = "User:victim"
        again.session.client_data(request(1, batch(b"c", first=2)))
        again.decide(ACCEPTED)
        assert sent(again).base_sequence == 1


def test_other_records_with_reused_sequence_numbers_are_judged():
    """The application got an error for the first records, and uses their numbers again."""
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"given up")))
    talk.decide(ACCEPTED)
    talk.broker.take()
    talk.session.upstream_data(refused_response(1, 19))
    talk.session.client_data(request(2, batch(b"new")))
    talk.decide(ACCEPTED)
    assert list(sent(talk).records.values) == [b"new"]


def test_the_same_records_with_the_same_sequence_numbers_are_not_judged_again():
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"same")))
    talk.decide(replaced(batch(b"else"), []))
    talk.broker.take()
    talk.session.upstream_data(refused_response(1, 19))
    talk.session.client_data(request(2, batch(b"same")))
    assert talk.verdicts == []
    assert list(sent(talk).records.values) == [b"else"]


def test_a_late_retriable_error_delays_no_batch():
    """A slow attempt, whose client continued with the same batch on another connection."""
    slow = Intercepted()
    slow.session.client_data(request(1, batch(b"v")))
    slow.session.client_disconnected()
    talk = Intercepted(slow.producers)
    for first in range(12):
        talk.session.client_data(request(first + 1, batch(b"v", first=first)))
        talk.decide(ACCEPTED)
        talk.session.upstream_data(produce_response(first + 1, "judged"))
    slow.decide(refused(7, "did not decide within 5000 ms", "i"))
    talk.session.client_data(request(13, batch(b"v", first=12)))
    talk.decide(ACCEPTED)
    talk.session.upstream_data(produce_response(13, "judged"))
    assert codes(talk) == [0] * 13


def test_many_batches_without_known_last_sequences_are_decided_one_by_one():
    talk = Intercepted()
    for first in range(200):
        talk.session.client_data(request(first + 1, batch(b"v", first=first)))
    verdicts, talk.verdicts = talk.verdicts, []
    for *_, done in [*verdicts[1:], verdicts[0]]:
        done(ACCEPTED)
    assert len(frames_of(talk.broker.take())) == 32, "so many batches are sent before a response"
    assert not talk.done


@pytest.mark.parametrize("version", [9, 13])
def test_clients_cannot_produce_to_the_state_topic(version):
    talk = Intercepted()
    talk.shared_producers = SimpleNamespace(topic="judged")
    topic = "judged"
    if version == 13:
        topic = UUID(int=3)
        talk.session.topics.put("judged", topic)
    data = encode_batch(values(b"forged"))
    frame = request_frame(produce_request([(topic, [(0, data)])], version=version), 1)
    talk.session.client_data(frame)
    [answer] = produced(parse_response(talk.client.take(), 0, version)).values()
    assert answer.error_code == 17
    assert talk.broker.take() == b""


def without_interceptors_from_now_on(talk):
    talk.judged, talk.has_interceptors = frozenset(), False


def with_validators_from_now_on(talk):
    without_interceptors_from_now_on(talk)
    talk.for_topic = lambda topic, own=None: TopicPlan(topic=topic, validators=("v",))


@pytest.mark.parametrize(
    "change",
    [observe_from_now_on, without_interceptors_from_now_on, with_validators_from_now_on],
)
@pytest.mark.parametrize("is_by_id", [False, True])
def test_batches_received_during_a_decision_are_sent_without_a_gap(change, is_by_id):
    """A reload, or another mode of the topic, between two batches in flight."""
    topic_id = UUID("11" * 16)

    def framed(number, data):
        if not is_by_id:
            return request(number, data)
        return request_frame(produce_request([(topic_id, [(0, data)])], version=13), number)

    talk = Intercepted()
    talk.session.topics.put("judged", topic_id)
    talk.session.client_data(framed(1, batch(b"a", b"b")))
    change(talk)
    talk.session.client_data(framed(2, batch(b"c", first=2)))
    talk.decide(replaced(batch(b"a"), [1]))
    while talk.verdicts:
        talk.decide(ACCEPTED)
    data = talk.broker.take()
    end = 4 + int.from_bytes(data[:4], "big")
    bases = []
    for frame in (data[:end], data[end:]):
        talk.broker.data = frame
        bases.append(sent(talk).base_sequence)
    assert bases == [0, 1]


def test_producers_of_topics_that_are_only_observed_keep_their_numbers_and_no_state():
    talk = Intercepted()
    observe_from_now_on(talk)
    frames = [request(n + 1, batch(b"v", first=n)) for n in range(5)]
    talk.session.client_data(b"".join(frames))
    assert talk.broker.take() == b"".join(frames)
    assert talk.producers.count == 0
    assert not talk.producers
