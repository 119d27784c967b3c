"""A client repeats an accepted batch with other records, and the same numbers and checksum.

The gateway does not hold the bytes of the first attempt, so that it has to judge the repeated batch.
"""

from types import SimpleNamespace

import pytest

from penstock.engine.verdict import ACCEPTED, replaced
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.leaders import SETTLED_AFTER_S
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.header import checksum
from tests.gateway.produce.forging import forged
from tests.gateway.produce.intercepted import (
    HIGH_WATERMARK,
    WithLastSequences,
    batch,
    codes,
    refused_response,
    request,
)
from tests.gateway.sessions.talk import produce_response

GOOD = batch(b"good", b"good 1234")
BAD = forged(batch(b"good", b"bad 1234"), GOOD)
NOT_LEADER, UNKNOWN_PRODUCER = 6, 59


def read(data):
    return read_batch(data, api_version=9, max_decompressed_bytes=10**6)


def values_sent(talk):
    """The values of the batch that went to the broker; None if none did."""
    frame = talk.broker.take()
    if not frame:
        return None
    at = frame.index(b"\x00\x00\x00\x00\x00\x00\x00\x00", 20)
    length = int.from_bytes(frame[at + 8 : at + 12], "big") + 12
    return [*read(frame[at : at + length]).records.values]


def test_a_batch_is_forged_with_its_checksum():
    assert (checksum(BAD), len(BAD)) != (0, len(GOOD))
    assert checksum(BAD) == checksum(GOOD)


class TestAcceptedBatch:
    """A batch that was sent as a whole, and got a retriable error of the broker."""

    @pytest.fixture(params=[False, True], ids=["same interceptors", "after a change"])
    def talk(self, request):
        return self.refused(changes=request.param)

    def refused(self, *, changes):
        clock = SimpleNamespace(now=1000.0)
        talk = WithLastSequences(Producers(now=lambda: clock.now, held_max_bytes=0))
        talk.clock = clock
        talk.session.client_data(request(1, GOOD))
        talk.decide(ACCEPTED)
        assert values_sent(talk) == [b"good", b"good 1234"]
        talk.session.upstream_data(refused_response(1, NOT_LEADER))
        assert codes(talk) == [NOT_LEADER]
        if changes:
            talk.producers.interceptors_changed(lambda _: True)
        return talk

    def repeat(self, talk, data=BAD):
        """Repeat it on another connection."""
        again = WithLastSequences(talk.producers)
        again.session.client_data(request(2, data))
        again.decide(ACCEPTED if data is GOOD else replaced(batch(b"good"), [1]))
        return again

    def test_it_is_sent_again_if_it_is_the_same(self, talk):
        assert values_sent(self.repeat(talk, GOOD)) == [b"good", b"good 1234"]

    def test_another_batch_in_its_place_loses_records(self, talk):
        again = self.repeat(talk)
        again.respond_with_last_sequence()
        again.respond_with_epoch(begins=HIGH_WATERMARK - 1)
        assert values_sent(again) == [b"good"]

    def test_another_batch_waits_until_no_former_leader_can_have_the_first(self, talk):
        again = self.repeat(talk)
        again.respond_with_last_sequence(epoch=7)
        again.respond_with_epoch(begins=HIGH_WATERMARK)
        again.respond_with_replicas()
        assert (values_sent(again), codes(again)) == (None, [7])
        talk.clock.now += SETTLED_AFTER_S
        again = self.repeat(talk)
        again.respond_with_last_sequence(epoch=7)
        again.respond_with_epoch(begins=HIGH_WATERMARK)
        again.respond_with_replicas()
        assert values_sent(again) == [b"good"]

    def test_another_batch_is_left_to_a_leader_that_has_the_first(self, talk):
        """It stores nothing, and its response has the position."""
        again = self.repeat(talk)
        again.respond_with_last_sequence(last_sequence=1)
        again.respond_with_epoch(begins=HIGH_WATERMARK - 1)
        assert values_sent(again) == [*read(BAD).records.values]
        again.session.upstream_data(produce_response(2, "judged"))
        assert codes(again) == [0]

    def test_another_batch_is_not_sent_to_the_next_leader(self, talk):
        again = self.repeat(talk)
        again.respond_with_last_sequence(last_sequence=1)
        again.respond_with_epoch(begins=HIGH_WATERMARK - 1)
        assert values_sent(again) is not None
        again.session.upstream_data(refused_response(2, NOT_LEADER))
        assert codes(again) == [NOT_LEADER]
        again = self.repeat(talk)
        again.respond_with_last_sequence()
        again.respond_with_epoch(begins=HIGH_WATERMARK - 1)
        assert values_sent(again) == [b"good"]

    def test_the_producer_is_unknown_if_the_broker_does_not_answer(self, talk):
        again = self.repeat(talk)
        again.respond_with_last_sequence(error_code=29)
        assert (values_sent(again), codes(again)) == (None, [UNKNOWN_PRODUCER])

    def test_the_same_batch_is_answered_by_the_broker_if_it_is_stored(self, talk):
        again = self.repeat(talk, GOOD)
        assert values_sent(again) == [b"good", b"good 1234"]
        again.session.upstream_data(produce_response(2, "judged"))
        assert codes(again) == [0]
        third = WithLastSequences(talk.producers)
        third.session.client_data(request(3, BAD))
        assert (values_sent(third), codes(third)) == (None, [0]), "its position is known"


def test_another_batch_is_not_sent_after_a_leader_has_lost_one_that_was_stored_elsewhere():
    clock = SimpleNamespace(now=1000.0)
    producers = Producers(now=lambda: clock.now)

    def repeat():
        talk = WithLastSequences(producers)
        talk.session.client_data(request(1, BAD))
        talk.decide(replaced(batch(b"good"), [1]))
        return talk

    talk = repeat()
    talk.respond_with_last_sequence(last_sequence=1)
    assert values_sent(talk) == [*read(BAD).records.values], "it is stored already"
    talk.session.upstream_data(refused_response(1, NOT_LEADER))
    assert codes(talk) == [NOT_LEADER]
    talk = repeat()
    talk.respond_with_last_sequence()
    talk.respond_with_epoch(begins=HIGH_WATERMARK - 1)
    assert values_sent(talk) == [b"good"]
