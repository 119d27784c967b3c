"""Small writes are gathered while several messages are processed; their order stays."""

import random

import pytest

from penstock.engine.workers.gathered_writes import (
    GATHERED_MAX,
    GATHERED_MAX_BYTES,
    GatheredWrites,
)


class Transport:
    """A transport that keeps what each call writes."""

    def __init__(self):
        self.calls = []
        self.closing = self.fails = False

    def is_closing(self):
        return self.closing

    def writelines(self, buffers):
        if self.fails:
            raise MemoryError
        self.calls.append(b"".join(buffers))

    def abort(self):
        self.closing = True


def test_writes_are_sent_as_they_come():
    writes, transport = GatheredWrites(), Transport()
    writes.write(transport, (b"a", b"b"))
    writes.write(transport, [memoryview(b"c")])
    assert transport.calls == [b"ab", b"c"]


def test_writes_to_each_transport_are_sent_together_after_the_work():
    writes, first, second = GatheredWrites(), Transport(), Transport()

    def work():
        writes.write(first, [b"a"])
        writes.write(second, [b"b"])
        writes.write(first, [b"c", b"d"])
        assert (first.calls, second.calls) == ([], [])

    writes.during(work)
    assert (first.calls, second.calls) == ([b"acd"], [b"b"])
    writes.write(first, [b"e"])
    assert first.calls == [b"acd", b"e"]


def test_receivers_get_the_first_writes_before_the_last():
    writes, transport = GatheredWrites(), Transport()

    def work():
        for _ in range(2 * GATHERED_MAX + 1):
            writes.write(transport, [b"x"])

    writes.during(work)
    assert list(map(len, transport.calls)) == [GATHERED_MAX, GATHERED_MAX, 1]


def test_no_more_than_few_bytes_are_kept():
    writes, transport = GatheredWrites(), Transport()

    def work():
        writes.write(transport, [b"a"])
        writes.write(transport, [bytes(GATHERED_MAX_BYTES)])
        assert len(transport.calls) == 1
        writes.write(transport, [b"b"])

    writes.during(work)
    assert list(map(len, transport.calls)) == [GATHERED_MAX_BYTES + 1, 1]


def test_gathered_bytes_can_be_sent_before_a_transport_is_closed():
    writes, transport = GatheredWrites(), Transport()

    def work():
        writes.write(transport, [b"a"])
        writes.flush()
        transport.closing = True
        writes.write(transport, [b"b"])

    writes.during(work)
    writes.write(transport, [b"c"])
    assert transport.calls == [b"a"]


def test_writes_before_an_error_are_sent():
    writes, transport = GatheredWrites(), Transport()

    def work():
        writes.write(transport, [b"a"])
        raise ValueError

    with pytest.raises(ValueError):
        writes.during(work)
    assert transport.calls == [b"a"]
    writes.write(transport, [b"b"])
    assert transport.calls == [b"a", b"b"]


def test_work_within_work_is_gathered_with_it():
    writes, transport = GatheredWrites(), Transport()

    def work():
        writes.write(transport, [b"a"])
        writes.during(lambda: writes.write(transport, [b"b"]))
        assert transport.calls == []

    writes.during(work)
    assert transport.calls == [b"ab"]


def test_writes_that_a_full_transport_causes_come_after_the_others():
    """A transport may report that it is full, and its protocol may write to another."""
    writes, other = GatheredWrites(), Transport()

    class Full(Transport):
        def writelines(self, buffers):
            super().writelines(buffers)
            writes.write(other, [b"b"])

    full = Full()
    writes.during(lambda: (writes.write(full, [b"x"]), writes.write(other, [b"a"])))
    assert full.calls == [b"x"]
    assert other.calls == [b"ab"]


@pytest.mark.parametrize("seed", range(20))
def test_every_transport_gets_its_bytes_in_order(seed):
    numbers = random.Random(seed)
    writes, transports = GatheredWrites(), [Transport() for _ in range(3)]
    expected = [b"", b"", b""]

    def write():
        which = numbers.randrange(3)
        data = bytes([numbers.randrange(256)]) * numbers.choice([1, 10, 5000])
        expected[which] += data
        writes.write(transports[which], [data])

    for _ in range(50):
        if numbers.random() < 0.5:
            writes.during(lambda: [write() for _ in range(numbers.randrange(30))] and None)
        else:
            write()
    assert [b"".join(transport.calls) for transport in transports] == expected


def test_a_transport_that_fails_is_aborted_and_affects_no_other():
    writes, first, second = GatheredWrites(), Transport(), Transport()
    first.fails = True

    def work():
        writes.write(first, [b"a"])
        writes.write(second, [b"1"])

    writes.during(work)
    writes.write(second, [b"2"])
    assert first.closing
    assert second.calls == [b"1", b"2"]
