"""What an idempotent producer sent after a batch that has to come again does not overtake it."""

import pytest

from penstock.engine.verdict import postponed, refused
from penstock.gateway.produce.postponed_batches import KEPT_MAX, KEPT_S, PostponedBatches, SentBy
from penstock.policy import RetriableException
from penstock.records.header import BatchProducer
from penstock.wire.errors import REQUEST_TIMED_OUT
from tests.gateway.test_forwarded_at_once import Inline
from tests.gateway.test_session import Talk, answer, produce_answer
from tests.raw import parse_response, produce_request, produced, request_frame
from tests.records.encoding import encode_batch, values

LAST = 2**31 - 1
SENT_BY = SentBy("orders", 3, 17, "User:a")
LATER = postponed("shop.Registry", RetriableException("the registry is away"))


def by(sequence, *, epoch=0, count=2):
    return BatchProducer(17, epoch, sequence, count, False)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def kept(*answers, clock=None):
    batches = PostponedBatches(clock or Clock())
    for batch, comes_again in answers:
        batches.answered(SENT_BY, batch, connection=1, comes_again=comes_again)
    return batches


def test_later_batches_wait_and_others_do_not():
    batches = kept((by(4), True))
    assert batches
    assert batches.overtakes(SENT_BY, by(6), connection=1)
    assert not batches.overtakes(SENT_BY, by(4), connection=1)
    assert not batches.overtakes(SENT_BY, by(2), connection=1)
    assert not batches.overtakes(SENT_BY, by(6, epoch=1), connection=1)
    for other in ({"topic": "o"}, {"partition": 4}, {"producer_id": 18}, {"principal": "User:b"}):
        assert not batches.overtakes(SENT_BY._replace(**other), by(6), connection=1)


def test_the_first_one_counts_until_it_gets_another_answer():
    batches = kept((by(4), True), (by(6), True), (by(4), True))
    assert batches.overtakes(SENT_BY, by(6), connection=1)
    batches.answered(SENT_BY, by(4), connection=1, comes_again=False)
    assert not batches
    assert not batches.overtakes(SENT_BY, by(6), connection=1)


def test_the_answer_to_another_batch_changes_nothing():
    batches = kept((by(4), True), (by(2), False), (by(6), False))
    assert batches.overtakes(SENT_BY, by(6), connection=1)


def test_sequence_numbers_begin_anew_behind_the_largest():
    batches = kept((by(LAST - 1), True))
    assert batches.overtakes(SENT_BY, by(0), connection=1)
    assert batches.overtakes(SENT_BY, by(5), connection=1)
    assert not batches.overtakes(SENT_BY, by(LAST - 3), connection=1)
    batches.answered(SENT_BY, by(LAST - 1), connection=1, comes_again=False)
    assert not batches


def test_a_newer_epoch_is_another_beginning_and_an_older_one_changes_nothing():
    batches = kept((by(4, epoch=1), True), (by(0, epoch=0), True), (by(4, epoch=0), False))
    assert batches.overtakes(SENT_BY, by(6, epoch=1), connection=1)
    batches.answered(SENT_BY, by(0, epoch=2), connection=1, comes_again=False)
    assert not batches


@pytest.mark.parametrize("batch", [BatchProducer(-1, -1, -1, 1, False), by(-1)])
def test_only_idempotent_producers_have_an_order(batch):
    assert not kept((batch, True))


def test_what_does_not_come_again_is_forgotten():
    clock = Clock()
    batches = kept((by(4), True), clock=clock)
    clock.now = KEPT_S - 1
    batches.answered(SENT_BY, by(4), connection=1, comes_again=True)
    clock.now = 2 * KEPT_S - 2
    assert batches.overtakes(SENT_BY, by(6), connection=1)
    clock.now = 2 * KEPT_S
    assert not batches.overtakes(SENT_BY, by(6), connection=1)
    assert not batches


@pytest.mark.thorough
def test_the_number_of_producers_is_bounded():
    batches = PostponedBatches(Clock())
    for number in range(10_001):
        batches.answered(
            SENT_BY._replace(producer_id=number), by(0), connection=1, comes_again=True
        )
    assert not batches.overtakes(SENT_BY._replace(producer_id=0), by(6), connection=1)
    assert batches.overtakes(SENT_BY._replace(producer_id=1), by(6), connection=1)


# The requests of a connection


def sent(number, sequence, *topics, acks=-1, producer_id=17, crc=None):
    """A request with two records of an idempotent producer for partition 0 of each topic."""
    given = {} if crc is None else {"crc": crc}
    data = encode_batch(values(b"a", b"b"), producer_id=producer_id, producer_epoch=0,
                        base_sequence=sequence, **given)  # fmt: skip
    request = produce_request([(topic, [(0, data)]) for topic in topics], acks=acks)
    return request_frame(request, number)


def answers(talk):
    """The error codes and messages of the responses, by correlation id."""
    data, found = talk.client.take(), {}
    while data:
        size = int.from_bytes(data[:4], "big")
        number = int.from_bytes(data[4:8], "big")
        response = produced(parse_response(data[: 4 + size], 0, 9))
        found[number] = {key[0]: (one.error_code, one.error_message)
                         for key, one in response.items()}  # fmt: skip
        data = data[4 + size :]
    return found


def test_batches_in_flight_behind_a_postponed_one_come_again_and_in_order():
    talk = Talk()
    talk.session.client_data(sent(1, 0, "judged") + sent(2, 2, "judged") + sent(3, 4, "judged"))
    talk.decide(LATER)
    talk.decide()
    talk.decide()
    assert talk.broker.take() == b""
    found = answers(talk)
    assert found[1]["judged"] == (7, "the registry is away")
    assert [found[n]["judged"][0] for n in (2, 3)] == [7, 7]
    assert "come again" in found[2]["judged"][1]

    talk.session.client_data(sent(4, 0, "judged") + sent(5, 2, "judged"))
    talk.decide()
    talk.decide()
    assert talk.broker.take() == sent(4, 0, "judged") + sent(5, 2, "judged")
    assert not talk.postponed


def test_what_comes_over_a_later_connection_is_the_first_that_has_no_answer():
    """The batch before it came again through another gateway."""
    before = Talk()
    before.session.client_data(sent(1, 0, "judged"))
    before.decide(LATER)
    before.session.closed()
    talk = Talk(postponed=before.postponed)

    talk.session.client_data(sent(2, 2, "judged"))
    talk.decide()

    assert talk.broker.take() == sent(2, 2, "judged")
    assert not talk.postponed


def test_a_later_connection_has_an_order_of_its_own():
    before = Talk()
    before.session.client_data(sent(1, 0, "judged") + sent(2, 2, "judged"))
    talk = Talk(postponed=before.postponed)
    talk.session.client_data(sent(3, 0, "judged") + sent(4, 2, "judged"))
    talk.decide(LATER)
    talk.decide()
    before.decide()
    before.decide()
    assert [found["judged"][0] for found in answers(talk).values()] == [7, 7]
    assert before.broker.take() == sent(1, 0, "judged") + sent(2, 2, "judged")

    before, talk = Talk(), Talk()
    talk.postponed = before.postponed
    before.session.client_data(sent(1, 0, "judged") + sent(2, 2, "judged"))
    talk.session.client_data(sent(3, 0, "judged"))
    before.decide(which=1)
    talk.decide(LATER)
    before.decide(LATER)
    assert before.broker.take() == b"", "the second batch is held up by the first of either"


def test_what_is_postponed_again_over_a_later_connection_is_the_first_from_then_on():
    before = Talk()
    before.session.client_data(sent(1, 0, "judged"))
    before.decide(LATER)
    talk = Talk(postponed=before.postponed)
    talk.session.client_data(sent(2, 2, "judged") + sent(3, 4, "judged"))
    talk.decide(LATER)
    talk.decide()
    assert talk.broker.take() == b""
    talk.session.client_data(sent(4, 2, "judged") + sent(5, 4, "judged"))
    talk.decide()
    talk.decide()
    assert talk.broker.take() == sent(4, 2, "judged") + sent(5, 4, "judged")
    assert not talk.postponed


def test_only_the_partition_is_held_up():
    talk = Talk(judged=frozenset({"judged", "other"}))
    talk.session.client_data(sent(1, 0, "judged", "other") + sent(2, 2, "judged", "other"))
    for verdict in ((LATER,), (), (), ()):
        talk.decide(*verdict)
    assert talk.broker.take() == sent(1, 0, "other") + sent(2, 2, "other")
    talk.session.upstream_data(produce_answer(1, "other") + produce_answer(2, "other"))
    found = answers(talk)
    assert {number: {t: code for t, (code, _) in of.items()} for number, of in found.items()} == {
        1: {"judged": 7, "other": 0}, 2: {"judged": 7, "other": 0}
    }  # fmt: skip


def test_after_a_final_error_the_broker_decides_about_the_gap():
    talk = Talk()
    talk.session.client_data(sent(1, 0, "judged") + sent(2, 2, "judged"))
    talk.decide(refused(87, "no", "v"))
    talk.decide()
    assert talk.broker.take() == sent(2, 2, "judged")


def test_producers_without_sequence_numbers_are_not_held_up():
    talk = Talk()
    talk.session.client_data(sent(1, -1, "judged", producer_id=-1))
    talk.session.client_data(sent(2, -1, "judged", producer_id=-1))
    talk.decide(LATER)
    talk.decide()
    assert talk.broker.take() == sent(2, -1, "judged", producer_id=-1)


def test_the_number_of_a_damaged_batch_holds_up_nothing():
    talk = Talk()
    talk.session.client_data(sent(1, 0, "judged", crc=1))
    talk.decide(LATER)
    assert not talk.postponed


def test_with_acks_0_the_connection_is_closed():
    talk = Talk()
    talk.session.client_data(sent(1, 0, "judged", acks=0))
    talk.decide(LATER)
    barrier = talk.broker.take()  # all that is sent: what came before is stored when it is answered
    assert sent(1, 0, "judged", acks=0) not in barrier
    talk.session.upstream_data(answer(int.from_bytes(barrier[8:12], "big")))
    assert talk.done
    assert not talk.postponed


def test_a_request_that_is_refused_as_a_whole_comes_again_as_a_whole():
    talk = Talk(judged=frozenset({"judged", "other"}))
    talk.policies = talk.policies._replace(whole_request=True)
    talk.session.client_data(sent(1, 0, "judged", "other") + sent(2, 2, "other"))
    for verdict in ((LATER,), (), ()):
        talk.decide(*verdict)
    assert talk.broker.take() == b""
    found = answers(talk)
    assert found[1]["other"][0] == found[1]["judged"][0] == found[2]["other"][0] == 7


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_small_batch_is_not_forwarded_at_once_while_one_before_it_is_judged(idempotent):
    talk = Talk()
    talk.policies = talk.policies._replace(inline=Inline(_data(0)))
    number = {} if idempotent else {"producer_id": -1}
    talk.session.client_data(sent(1, 0, "judged"))
    talk.session.client_data(sent(2, 2, "judged", **number))
    assert len(talk.verdicts) == (2 if idempotent else 1)
    talk.decide(LATER)
    if idempotent:
        talk.decide()
    assert talk.broker.take() == (b"" if idempotent else sent(2, 2, "judged", producer_id=-1))
    assert answers(talk)[1]["judged"][0] == REQUEST_TIMED_OUT

    talk.session.client_data(sent(3, 2, "judged"))
    assert len(talk.verdicts) == 1, "its producer has to send another batch again"
    talk.decide()
    assert talk.broker.take() == b""
    talk.session.client_data(sent(4, 2, "judged", producer_id=18))
    assert talk.verdicts == []
    assert talk.broker.take() == sent(4, 2, "judged", producer_id=18)


def _data(sequence):
    return encode_batch(
        values(b"a", b"b"), producer_id=17, producer_epoch=0, base_sequence=sequence
    )


def by_principal(batches, principal, count, topic="orders"):
    """Have batches of so many producers of a principal come again."""
    sent = [SentBy(topic, 0, number, principal) for number in range(count)]
    for one in sent:
        batches.answered(one, by(4), connection=1, comes_again=True)
    return sent


@pytest.mark.thorough
@pytest.mark.parametrize("greedy", ["User:greedy", "User:ANONYMOUS", ""])
def test_a_principal_pushes_out_none_but_its_own(greedy):
    batches = PostponedBatches(Clock())
    few = by_principal(batches, "User:few", 100)
    many = by_principal(batches, greedy, KEPT_MAX + 1000)
    later = by_principal(batches, "User:later", 100)
    assert all(one in batches for one in (*few, *later))
    kept = [one in batches for one in many]
    assert kept == [False] * (len(many) - (KEPT_MAX - 200)) + [True] * (KEPT_MAX - 200)
    assert len(batches) == KEPT_MAX


@pytest.mark.thorough
def test_many_principals_share_the_room():
    batches = PostponedBatches(Clock())
    sent = [by_principal(batches, f"User:{number}", 100) for number in range(KEPT_MAX // 100 + 50)]
    assert len(batches) == KEPT_MAX
    counts = [sum(one in batches for one in some) for some in sent]
    assert min(counts) >= KEPT_MAX // len(sent) - 1
    assert counts[-1] == 100 or max(counts) - min(counts) <= 100


@pytest.mark.thorough
def test_what_is_answered_or_too_old_makes_room():
    clock = Clock()
    batches = PostponedBatches(clock)
    first = by_principal(batches, "User:a", KEPT_MAX)
    for one in first:
        batches.answered(one, by(4), connection=1, comes_again=False)
    assert not batches
    by_principal(batches, "User:a", KEPT_MAX)
    clock.now += KEPT_S
    assert len(batches) == 0
    (new,) = by_principal(batches, "User:b", 1)
    assert new in batches
    assert len(batches) == 1
