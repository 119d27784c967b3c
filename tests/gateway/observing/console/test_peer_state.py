"""What gateways read from each other, and what is not read."""

import json

import pytest

from penstock.gateway.observing.console.peer_request import PeerError
from penstock.gateway.observing.console.peer_state import LINE_MAX, TEXTS_MAX, decode
from penstock.gateway.observing.console.recent_refusals import ROWS_MAX
from tests.gateway.observing.console.states import CountingGateway, broker, generated


def counting(seed=1):
    gateway = CountingGateway()
    for event in generated(seed):
        gateway.play(event)
    return gateway


async def test_a_state_is_the_same_when_it_was_read():
    state = counting().state(
        reload={"at": 990.5, "worked": False, "why_not": "a"}, audit_trail={"written": 1, "left_out": 0}
    )  # fmt: skip
    state.brokers.append(broker(2, "refused"))
    read = await decode(await state.encode())
    assert read.head == state.head
    assert read.brokers == state.brokers
    assert {topic.replace("\ufffd", "\u202e"): counts for topic, counts in read.topics.items()} == (
        state.topics
    )
    assert [{**row, "id": own["id"]} for row, own in zip(read.rows, state.rows, strict=True)] == (
        state.rows
    )


async def test_few_of_many_texts_are_read():
    texts = [f"broker {number}" for number in range(100)]
    state = CountingGateway().state(ready={"is_ready": True, "missing": [], "troubles": texts})
    read = await decode(await state.encode())
    assert read.head["ready"]["troubles"] == texts[:TEXTS_MAX]


async def test_fields_of_a_newer_version_are_left_out():
    state = CountingGateway().state(newer={"a": 1})
    assert "newer" not in (await decode(await state.encode())).head


HEAD = CountingGateway().head()


def changed(*path, value):
    head = json.loads(json.dumps(HEAD))
    part = head
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    return json.dumps({"head": head}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"{}",
        b"[]",
        b"null",
        b"<html>",
        b"\xff\xfe",
        b"[" * 10_000,
        b'{"row":{}}',
        b" " * (LINE_MAX + 1),
        changed("connections", "limit", value=-1),
        changed("connections", "limit", value="5"),
        changed("connections", "states", value={f"s{number}": 1 for number in range(100)}),
        changed("connections", "states", value={"s" * 100: 1}),
        changed("totals", "produce", value=[1]),
        changed("totals", "requests", value=2**60),
        changed("totals", "requests", value=True),
        changed("at", value=float("nan")),
        changed("at", value=-1),
        changed("run", value="<script>"),
        changed("gateway", "started", value=1e300),
        changed("gateway", value=None),
        changed("ready", "missing", value=["x"] * (TEXTS_MAX + 1)),
        changed("gateway", "host", value="x" * LINE_MAX),
        changed("at", value=1) + b'\n{"row":null}\n<html>',
        changed("at", value=1) + b"\n" + b"\n" * 5000,
        changed("at", value=1) + b"\n" + b"{}\n" * 5000,
    ],
)
async def test_anything_else_is_an_error(body):
    with pytest.raises(PeerError, match=r"^its answer is not that of a gateway of this version$"):
        await decode(body)


async def test_texts_are_made_safe_and_short():
    read = await decode(changed("gateway", "host", value="\u202e\x1b" + "x" * 400))
    assert read.head["gateway"]["host"] == "\ufffd\ufffd" + "x" * 295 + "..."


async def test_more_rows_than_there_can_be_are_left_out():
    state = counting().state()
    state.rows *= 40
    state.rows = state.rows[: ROWS_MAX + 100]
    assert len((await decode(await state.encode())).rows) == ROWS_MAX
