"""What an intercepted batch may do to its producer, without sockets."""

import time

import pytest

from penstock.engine.plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, replaced
from penstock.gateway.producer_state.producers import Producers
from penstock.records import read_batch
from tests.gateway.test_session import Talk, produce_answer
from tests.raw import parse_response, produce_request, produced, request_frame
from tests.records.encoding import encode_batch, values


class Intercepted(Talk):
    """A session whose topics have an interceptor; several may share their producers."""

    def __init__(self, producers=None):
        super().__init__()
        self.producers = producers or Producers(now=time.time)
        self.session._describes_producers = False  # an older broker

    has_interceptors = True

    def intercepts(self, topic):
        return topic in self.judged

    def for_topic(self, topic, own=None):
        return TopicPlan(topic=topic, interceptors=("i",)) if topic in self.judged else None


def batch(*given, first=0, epoch=0, **options):
    return encode_batch(
        values(*given), producer_id=5, producer_epoch=epoch, base_sequence=first, **options
    )


def request(number, data, topic="judged"):
    return request_frame(produce_request([(topic, [(0, data)])]), number)


def sent(talk):
    """The batch that went to the broker."""
    frame = talk.broker.take()
    at = frame.index(b"\x00\x00\x00\x00\x00\x00\x00\x00", 20)
    length = int.from_bytes(frame[at + 8 : at + 12], "big") + 12
    return read_batch(frame[at : at + length], api_version=9, max_decompressed_bytes=10**6)


def code(talk, number=1):
    [answer] = produced(parse_response(talk.client.take(), 0, 9)).values()
    return answer.error_code


def test_later_batches_close_the_gap():
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"a", b"b")) + request(2, batch(b"c", first=2)))
    talk.decide(replaced(batch(b"a"), [1]))
    first = sent(talk)
    assert (first.base_sequence, len(first.records)) == (0, 1)
    talk.decide(ACCEPTED)
    second = sent(talk)
    assert (second.base_sequence, second.records[0].value) == (1, b"c")


def test_a_retry_goes_as_what_it_was_and_is_not_judged_again():
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"a", b"b")))
    talk.decide(replaced(batch(b"a"), [1]))
    again = Intercepted(talk.producers)
    again.session.client_data(request(1, batch(b"a", b"b")))
    assert again.verdicts == []
    assert again.broker.data == talk.broker.data
    again.session.upstream_data(produce_answer(1, "judged"))
    last = Intercepted(talk.producers)
    last.session.client_data(request(1, batch(b"a", b"b")))
    assert last.broker.data == b"", "the broker has it"
    [answer] = produced(parse_response(last.client.take(), 0, 9)).values()
    assert (answer.error_code, answer.base_offset) == (0, 5)


def test_what_is_no_longer_known_when_its_turn_comes_is_not_let_through_unjudged():
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"a", b"b")))
    talk.decide(replaced(batch(b"a"), [1]))
    again = Intercepted(talk.producers)
    again.session.client_data(
        request(1, encode_batch(values(b"other"))) + request(2, batch(b"a", b"b"))
    )
    assert len(again.verdicts) == 1, "the second one is known"
    refused = produce_answer(1, "judged")
    at = refused.index(b"judged") + len(b"judged") + 5
    talk.session.upstream_data(refused[:at] + b"\x00\x57" + refused[at + 2 :])
    assert code(talk) == 87
    again.broker.take()
    again.decide(ACCEPTED)
    assert b"other" in again.broker.data
    assert again.broker.data.count(b"judged") == 1, "only the first one went"
    again.client.take()
    again.session.upstream_data(produce_answer(1, "judged"))
    frames = again.client.take()
    length = 4 + int.from_bytes(frames[:4], "big")
    [answer] = produced(parse_response(frames[length:], 0, 9)).values()
    assert answer.error_code == 7


@pytest.mark.parametrize("damaged", [False, True])
def test_topics_without_policies_now_keep_their_numbers(damaged):
    talk = Intercepted()
    talk.session.client_data(request(1, batch(b"a", b"b")))
    talk.decide(replaced(batch(b"a"), [1]))
    talk.broker.take()
    later = Intercepted(talk.producers)
    later.judged = frozenset()
    data = bytearray(batch(b"c", first=2))
    if damaged:
        data[-2] ^= 1
    frame = request(1, bytes(data))
    later.session.client_data(frame)
    if damaged:
        assert later.broker.take() == frame, "its checksum is not made right"
    else:
        assert sent(later).base_sequence == 1
