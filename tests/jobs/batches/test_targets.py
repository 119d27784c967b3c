"""Batches are split to fit their target."""

import random

import pytest

from penstock.jobs.batches.targets import Target, fitting
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.client.protocol.write_errors import RefusedBatchError


def source(position):
    return BatchSource("from", 0, 100 + position)


def outgoing(sizes, limit, partition=0):
    """Return the batches of records of these sizes, each batch with 61 bytes more."""

    def cut(start, end):
        return b"%d-%d" % (start, end) + bytes(61 + sum(sizes[start:end]))

    return list(fitting(Target("to", 4, limit), partition, len(sizes), cut, source))


def test_records_that_fit_are_a_single_batch():
    (entry,) = outgoing([10, 10], 100, partition=7)
    assert (entry.topic, entry.partition, entry.source) == ("to", 3, source(0))
    assert outgoing([], 10) == []


def test_batches_have_all_records_in_order_and_fit():
    chance = random.Random(3)
    for _ in range(200):
        limit = chance.randrange(200, 2000)
        sizes = [chance.randrange(limit - 100) for _ in range(chance.randrange(1, 60))]
        at = 0
        for written in outgoing(sizes, limit):
            assert len(written.batch) <= limit
            start, end = written.batch.rstrip(b"\0").decode().split("-")
            # A zero at the end of the number was stripped off with the rest.
            assert int(start) == at == written.source.offset - 100
            at = next(n for n in range(at + 1, len(sizes) + 1) if str(n).encode() == end.encode())
        assert at == len(sizes)


def test_a_record_that_does_not_fit_is_an_error():
    with pytest.raises(RefusedBatchError, match=r"from, partition 0, offset 102 takes \d+ bytes"):
        outgoing([10, 10, 900, 10], 500)
