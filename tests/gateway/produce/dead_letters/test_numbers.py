"""The numbers of dead letters in a partition."""

from penstock.gateway.produce.dead_letters.numbers import LetterNumbers
from penstock.kafka.records.header import is_intact, read_producer
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch

BATCH = encode_batch([Record(1, None, b"a", ()), Record(1, None, b"b", ())])


def numbers_of(numbers):
    parts = numbers.number(BATCH)
    assert is_intact(b"".join(parts))
    producer = read_producer(b"".join(parts))
    return producer.producer_id, producer.epoch, producer.base_sequence


def test_numbers_are_those_of_the_next_batch_until_it_is_stored():
    numbers = LetterNumbers()
    assert not numbers.have_begun
    numbers.begin(ProducerIdAndEpoch(7, 0))
    assert numbers_of(numbers) == numbers_of(numbers) == (7, 0, 0)
    numbers.is_stored(numbers.number(BATCH))
    assert numbers_of(numbers) == (7, 0, 2)


def test_a_new_epoch_begins_at_zero():
    numbers = LetterNumbers()
    numbers.begin(ProducerIdAndEpoch(7, 3))
    numbers.is_stored(numbers.number(BATCH))
    assert numbers.renew()
    assert numbers_of(numbers) == (7, 4, 0)


def test_after_the_last_epoch_a_new_producer_id_is_needed():
    numbers = LetterNumbers()
    assert numbers.renew(), "it has none"
    numbers.begin(ProducerIdAndEpoch(7, 2**15 - 1))
    assert not numbers.renew()
    assert not numbers.have_begun
