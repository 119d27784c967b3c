"""Requests with a repeated kind of entry: their cost grows linearly."""

import asyncio
import datetime
import random
import time
from importlib import import_module
from types import SimpleNamespace

import pytest
from kio.static.primitive import i32, i32Timedelta, i64

from penstock.gateway.admin.alter_configs import APPEND, SUBTRACT, _Change, _value
from penstock.gateway.admin.delete_records import delete_records
from penstock.gateway.admin.delete_topics import delete_topics
from penstock.gateway.admin.streams_group_heartbeat import _listed
from penstock.gateway.context.turns import Turns
from penstock.kafka.wire.client_requests import read_request
from penstock.kafka.wire.schemas import load_request_schema
from penstock.kafka.wire.slices import finish
from tests.raw import request_frame

OURS = "__settings"
MANY = 8_000
IN_TIME_S = 4.0
NO_TIME = i32Timedelta.parse(datetime.timedelta(0))


class Context:
    """The context of a request that is never forwarded."""

    def __init__(self, request):
        self.request = read_request(request_frame(request, 1))
        self._turns = Turns(asyncio.get_running_loop().call_soon)
        topics = SimpleNamespace(
            are_stored=True, topic=OURS, names=lambda _: False, store=self, open_creations=None
        )
        self.gateway = SimpleNamespace(topic_configs=topics, topic_deleted=lambda _: None)
        self.sent = None

    async def body(self):
        return finish(self.request.read_body())

    async def response(self, body):
        return finish(self.request.response(body))

    def steps(self):
        return self._turns.steps(250)

    async def topic_ids(self, _names):
        return {}

    async def forget(self, _ids, over):
        pass

    async def finish(self, coroutine):
        await coroutine

    async def forward_changed(self, body):
        self.sent = body
        return self.request.response_type(
            throttle_time=NO_TIME, **{name: () for name in ("responses", "topics")
                                      if name in self.request.response_type.__dataclass_fields__}
        )  # fmt: skip


def topics_to_delete(names):
    kind = load_request_schema(20, 6)
    of = import_module(kind.__module__)
    named = tuple(of.DeleteTopicState(name=name, topic_id=None) for name in names)
    return kind(topics=named, timeout=NO_TIME)


def records_to_delete(names):
    kind = load_request_schema(21, 2)
    of = import_module(kind.__module__)
    partition = of.DeleteRecordsPartition(partition_index=i32(0), offset=i64(0))
    topics = tuple(of.DeleteRecordsTopic(name=name, partitions=(partition,)) for name in names)
    return kind(topics=topics, timeout=NO_TIME)


@pytest.mark.parametrize(
    ("handler", "made"), [(delete_topics, topics_to_delete), (delete_records, records_to_delete)]
)
async def test_a_refused_batch_is_removed_from_a_long_request(handler, made):
    others = [f"topic-{number}" for number in range(MANY)]
    context = Context(made([OURS] * MANY + others))
    began = time.process_time()
    await handler(context)
    assert time.process_time() - began < IN_TIME_S
    assert [topic.name for topic in context.sent.topics] == others


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_long_lists_are_appended_to_and_subtracted_from(operation):
    parts = [f"{number}:1" for number in range(20_000)]
    current = parts if operation == SUBTRACT else parts[:10_000]
    given = parts[10_000:][::-1]
    began = time.process_time()
    value = _value(_Change("l", operation, ",".join(given)), ",".join(current))
    assert time.process_time() - began < IN_TIME_S / 4
    assert value.split(",") == (parts[:10_000] + (given if operation == APPEND else []))


@pytest.mark.parametrize("seed", range(50))
def test_lists_are_changed_as_a_controller_does(seed):
    chance = random.Random(seed)
    current, given = (chance.choices(["a", "b", "c", ""], k=chance.randrange(6)) for _ in "ab")
    for operation in (APPEND, SUBTRACT):
        parts = [part for part in current if part]
        for part in ",".join(given).split(","):
            if operation == APPEND and part not in parts:
                parts.append(part)
            elif operation == SUBTRACT and part in parts:
                parts.remove(part)
        changed = _value(_Change("l", operation, ",".join(given)), ",".join(current))
        assert changed == ",".join(parts)


def test_a_message_names_some_topics_and_the_number_of_others():
    """A message with 40,000 names was longer than a string of the protocol may be."""
    assert _listed(["a", "b"]) == "a, b"
    text = _listed(["x" * 249] * 40_000)
    assert text.endswith(" and 39980 more")
    assert len(text) < 2**15
