"""Peers that answer, stop to answer, lie, and are this gateway."""

import asyncio

import pytest
from structlog.testing import capture_logs

from penstock.configuration import Address
from penstock.gateway.observing.console.peer_request import PeerError
from penstock.gateway.observing.console.peers import Peers
from tests.gateway.observing.console.states import RUN, CountingGateway

ADDRESSES = [Address("gateway-2", 9100), Address("gateway-3", 9100)]
AWAY = PeerError("Connection refused")


class World:
    """Peers whose answers are given."""

    def __init__(self, count=2):
        self.at = 1000.0
        self.peers = Peers(
            ADDRESSES[:count], "a-token", RUN.format(1), now=lambda: self.at,
            clock=lambda: self.at, every_s=0.0,
        )  # fmt: skip
        self.answers = {}
        self.read_times = dict.fromkeys(self.peers.all, 0)
        for peer in self.peers.all:
            peer.read = self._reader(peer)

    def _reader(self, peer):
        async def read(token):
            assert token == "a-token"
            self.read_times[peer] += 1
            await asyncio.sleep(0)
            answer = self.answers[peer.name]
            if isinstance(answer, asyncio.Event):
                await answer.wait()
            if isinstance(answer, Exception):
                raise answer
            return CountingGateway(*answer[:1]).state(**answer[1])

        return read

    async def read(self, *answers):
        for peer, answer in zip(self.peers.all, answers, strict=True):
            self.answers[peer.name] = answer
            await self.peers.read(peer)


async def test_a_peer_stops_and_begins_to_answer():
    world = World()
    assert [peer.why_not for peer in world.peers.silent] == ["it has not been read yet"] * 2
    with capture_logs() as lines:
        await world.read((2, {}), AWAY)
        assert [peer.name for peer in world.peers.answering] == ["gateway-2:9100"]
        world.at = 1007.0
        await world.read(AWAY, AWAY)
        await world.read(AWAY, PeerError("status 500"))
        assert [entry["answers"] for entry in map(as_json, world.peers.all)] == [False, False]
        assert [as_json(peer)["answered"] for peer in world.peers.all] == [1000.0, None]
        assert [as_json(peer)["since"] for peer in world.peers.all] == [1007.0, 1000.0]
        assert [as_json(peer)["why_not"] for peer in world.peers.all] == [
            "Connection refused", "status 500",
        ]  # fmt: skip
        assert not world.peers.answering
        assert [peer.name for peer in world.peers.known] == ["gateway-2:9100"]
        await world.read((2, {}), (3, {}))
    assert len(world.peers.answering) == 2
    assert [(line["event"], line["peer"]) for line in lines] == [
        ("a peer does not answer", "gateway-3:9100"),
        ("a peer does not answer", "gateway-2:9100"),
        ("a peer answers again", "gateway-2:9100"),
        ("a peer answers again", "gateway-3:9100"),
    ]
    assert "a-token" not in str(lines)


def as_json(peer):
    return peer.as_json()


async def test_this_gateway_under_another_name_does_not_count():
    world = World()
    with capture_logs() as lines:
        for _ in range(3):
            await world.read((1, {}), (2, {}))
    assert [peer.name for peer in world.peers.answering] == ["gateway-3:9100"]
    assert [as_json(peer)["double"] for peer in world.peers.all] == [True, False]
    assert [line["event"] for line in lines] == ["a peer is this gateway or another peer"]


async def test_a_gateway_with_two_names_counts_once():
    world = World()
    await world.read((2, {}), (2, {}))
    assert [peer.name for peer in world.peers.answering] == ["gateway-2:9100"]
    await world.read((2, {}), (3, {}))
    assert len(world.peers.answering) == 2


async def test_an_unexpected_error_is_logged_and_is_no_answer():
    world = World(1)
    with capture_logs() as lines:
        await world.read(ZeroDivisionError("a secret"))
        await world.read(ZeroDivisionError("a secret"))
    assert as_json(world.peers.all[0])["why_not"] == "an error of this gateway"
    assert [line.get("action") for line in lines] == ["peer", None]  # and that it is silent


async def test_an_error_while_an_answer_is_taken_ends_nothing():
    world = World(1)
    world.peers.answered = lambda _: 1 // 0
    with capture_logs():
        await world.read((2, {}))
    assert not world.peers.answering
    world.peers.answered = lambda _: None
    with capture_logs():
        await world.read((2, {}))
    assert len(world.peers.answering) == 1


async def test_a_peer_that_turns_out_to_be_another_takes_no_counts_back():
    world = World()
    for at, run in ((1000.0, 3), (1003.0, 3), (1006.0, 2)):
        world.at = at
        await world.read((2, {}), (run, {}))
    first, second = world.peers.all
    assert second.is_double
    assert second.counted.at(1006.0) == second.counted.at(1003.0)
    assert first.counted.at(1006.0) == first.counted.at(1003.0)  # nothing was counted


async def test_a_slow_peer_delays_no_other():
    world = World()
    world.answers = {"gateway-2:9100": asyncio.Event(), "gateway-3:9100": (3, {})}
    running = asyncio.create_task(world.peers.run())
    async with asyncio.timeout(60):
        while world.read_times[world.peers.all[1]] < 5:
            await asyncio.sleep(0)
    running.cancel()
    assert world.read_times[world.peers.all[0]] == 1


@pytest.mark.parametrize(("behind", "shift"), [(1.0, 0.0), (3600.0, 3600.0), (-3600.0, -3600.0)])
async def test_times_of_another_clock(behind, shift):
    world = World(1)
    world.at = 1_000_000.0
    theirs = world.at - behind
    reload = {"at": theirs - 5, "worked": True, "why_not": ""}
    await world.read((2, {"at": theirs, "reload": reload}))
    assert world.peers.all[0].state.head["reload"]["at"] == theirs - 5 + shift


async def test_no_time_is_in_the_future():
    world = World(1)
    reload = {"at": 2.0**39, "worked": True, "why_not": ""}
    await world.read((2, {"reload": reload}))
    assert world.peers.all[0].state.head["reload"]["at"] == world.at
