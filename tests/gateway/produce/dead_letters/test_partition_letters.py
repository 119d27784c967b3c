"""The dead letters of a partition."""

import pytest

from penstock.gateway.produce.dead_letters.partition_letters import WaitingLetters
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch

BATCH = encode_batch([Record(1, None, b"a", ())])


def test_letters_know_their_remaining_batches():
    waiting = WaitingLetters(None, BATCH * 2, 10.0)
    assert [bytes(batch) for batch in waiting.batches] == [BATCH, BATCH]
    assert not waiting.is_stored()
    assert waiting.is_stored()


def test_pauses_grow_until_a_batch_is_stored():
    waiting = WaitingLetters(None, BATCH * 2, 10.0)
    pauses = [waiting.pause_s() for _ in range(8)]
    assert pauses[1] == pytest.approx(2 * pauses[0])
    assert pauses[-1] == pauses[-2] == 1.0
    waiting.is_stored()
    assert waiting.pause_s() == pauses[0]
