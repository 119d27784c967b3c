"""A value that a worker's policy shares reaches all the others, even if workers die."""

import asyncio
import os
import signal
import struct

import pytest

from penstock.engine.workers import messages
from penstock.engine.workers.shared_values import SharedValues
from penstock.engine.workers.supervisor import Supervisor
from penstock.policy.sharing import VALUE_MAX
from tests.engine.supervised import Judging

LEARNS = """
import os
from penstock.policy import *

class Learns(RecordValidationPolicy):
    def prepare_batch(self, topic, batch):
        for value in batch.values:
            word, _, name = value.partition(b" ")
            if word in (b"learn", b"die"):
                share_value("test/" + name.decode(), b"x" * 100)

    def validate(self, topic, record):
        word, _, name = record.value.partition(b" ")
        if word == b"die":
            os._exit(1)
        if word == b"know" and shared_value("test/" + name.decode()) != b"x" * 100:
            raise InvalidRecordException("unknown")

class Unused: pass
"""
PROPERTIES = {
    "record.validator.classes": "",
    "record.validation.policy.class.name": "policies.Learns",
    "topics.*.record.validation.policy": "x",
}


def judging(folder, workers, shared=None):
    made = Judging(folder, LEARNS, **PROPERTIES, **{"policy.workers": workers})
    if shared is not None:
        made.supervisor = Supervisor(made.configuration, shared=shared)
    return made


async def answers(pool, value, count=8):
    """Judge batches of so many partitions, which all workers share."""
    found = await asyncio.gather(*(pool.judge(value, partition=number) for number in range(count)))
    return {verdict.code for verdict in found}


@pytest.mark.system
async def test_a_shared_value_reaches_all_workers_also_replacements(tmp_path):
    async with judging(tmp_path, 3) as pool:
        assert await answers(pool, b"know a") == {87}
        await pool.judge(b"learn a")
        assert await answers(pool, b"know a") == {0}
        for _ in range(6):
            os.kill(pool.supervisor.pids[0], signal.SIGKILL)
            assert await answers(pool, b"know a") == {0}
        assert await answers(pool, b"know b") == {87}


@pytest.mark.system
async def test_a_shared_value_outlives_its_worker(tmp_path):
    shared = SharedValues()
    async with judging(tmp_path, 1, shared) as pool:
        assert (await pool.judge(b"die a")).code == -1
        assert await answers(pool, b"know a") == {0}
    async with judging(tmp_path, 1, shared) as pool:  # as after a reload
        assert await answers(pool, b"know a") == {0}
    assert [name for name, _ in shared.all()] == ["test/a"]


@pytest.mark.system
async def test_much_that_is_shared_reaches_a_new_worker_before_its_first_batch(tmp_path):
    shared = SharedValues()
    shared.put([(f"test/{number}", b"x" * 100) for number in range(5000)], None)
    shared.put([("test/large", bytes(12 * 2**20)), ("test/last", b"x" * 100)], None)
    async with judging(tmp_path, 2, shared) as pool:
        for name in (b"0", b"4999", b"last"):
            assert await answers(pool, b"know " + name) == {0}


def test_a_known_value_is_not_sent_again():
    shared = SharedValues()
    heard = []
    shared.listen(lambda values, by: heard.append((values, by)))
    shared.put([("a", b"1"), ("b", b"2")], "first")
    shared.put([("a", b"1"), ("b", b"3")], "second")
    shared.put([("b", b"3")], "third")
    assert heard == [([("a", b"1"), ("b", b"2")], "first"), ([("b", b"3")], "second")]


def test_messages_have_a_bounded_size_and_are_read_as_they_were_written():
    values = [(f"ä{number}", bytes(2**20)) for number in range(10)] + [("", b"")]
    framed = messages.shared(values)
    assert len(framed) == 3
    read = []
    for message in framed:
        length, kind = messages.PREFIX.unpack_from(message)
        assert (kind, length) == (messages.SHARED, len(message) - messages.PREFIX.size + 1)
        read += messages.read_shared(message[messages.PREFIX.size :])
    assert read == values
    assert messages.shared([]) == []


@pytest.mark.parametrize(
    "body",
    [
        b"\0",
        struct.pack(">HI", 1, 1) + b"a",
        struct.pack(">HI", 1, VALUE_MAX + 1) + b"a" + bytes(VALUE_MAX + 1),
        struct.pack(">HI", 1001, 0) + b"a" * 1001,
        struct.pack(">HI", 1, 0) + b"\xff",
    ],
)
def test_an_invalid_shared_value_is_an_error(body):
    with pytest.raises(ValueError, match=r"shared value|utf-8"):
        messages.read_shared(body)
