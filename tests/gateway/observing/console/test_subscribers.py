"""Subscribers of events, also those that read too slowly."""

import asyncio

from penstock.gateway.observing.console import subscribers as module
from penstock.gateway.observing.console.subscribers import (
    QUEUE_MAX,
    QUEUE_MAX_BYTES,
    SUBSCRIBERS_MAX,
    Subscriber,
    Subscribers,
)
from tests.gateway.observing.console.event_stream import events


async def snapshot():
    return '{"so":true}'


async def test_the_first_event_is_the_current_state():
    subscribers = Subscribers()
    parts = subscribers.subscribe(snapshot, lambda: True)
    assert not subscribers
    assert events(await anext(parts)) == [("state", {"so": True})]
    assert subscribers

    subscribers.publish("refusals", {"rows": ["\n\n\u2028é"]})
    subscribers.publish("point", {"at": 1})
    assert events(await anext(parts)) == [
        ("refusals", {"rows": ["\n\n\u2028é"]}),
        ("point", {"at": 1}),
    ]

    await parts.aclose()
    assert not subscribers


async def test_events_during_the_snapshot_are_not_lost():
    subscribers = Subscribers()

    async def slow():
        subscribers.publish("refusals", 1)
        return "{}"

    parts = subscribers.subscribe(slow, lambda: True)
    await anext(parts)
    assert events(await anext(parts)) == [("refusals", 1)]


async def test_a_slow_subscriber_loses_the_oldest_events_and_gets_their_count():
    subscribers = Subscribers()
    slow, fast = (subscribers.subscribe(snapshot, lambda: True) for _ in range(2))
    await anext(slow)
    await anext(fast)
    for number in range(QUEUE_MAX + 7):
        subscribers.publish("n", number)
        assert events(await anext(fast)) == [("n", number)]

    found = events(await anext(slow))
    assert found[0] == ("missed", {"count": 7})
    assert [data for _, data in found[1:]] == list(range(7, QUEUE_MAX + 7))
    subscribers.publish("n", 99)
    assert events(await anext(slow)) == [("n", 99)]


async def test_a_heartbeat_is_a_comment(monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.0)
    parts = Subscribers().subscribe(snapshot, lambda: True)
    await anext(parts)
    assert await anext(parts) == b": \n\n"


async def test_the_stream_of_a_subscriber_whose_session_has_ended_is_closed(monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.0)
    subscribers, allowed = Subscribers(), [True, False]
    parts = subscribers.subscribe(snapshot, lambda: allowed.pop(0))
    assert [part async for part in parts][1:] == [b": \n\n"]
    assert not subscribers


async def test_the_number_of_subscribers_is_limited():
    subscribers = Subscribers()
    parts = [subscribers.subscribe(snapshot, lambda: True) for _ in range(SUBSCRIBERS_MAX)]
    await asyncio.gather(*map(anext, parts))
    assert subscribers.is_full
    await parts[3].aclose()
    assert not subscribers.is_full


async def test_events_are_not_encoded_without_subscribers():
    Subscribers().publish("n", object())


async def test_the_queue_of_a_slow_subscriber_is_bounded_in_bytes():
    subscriber = Subscriber()
    for _ in range(QUEUE_MAX):
        subscriber.put(bytes(QUEUE_MAX_BYTES // 4))
    assert subscriber.missed == QUEUE_MAX - 4
    waiting = await subscriber.next()
    assert len(waiting) < QUEUE_MAX_BYTES + 100

    subscriber.put(bytes(2 * QUEUE_MAX_BYTES))  # one alone always has room
    assert len(await subscriber.next()) == 2 * QUEUE_MAX_BYTES
