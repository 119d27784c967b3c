"""A batch that is held on a connection of a native thread, behind one that the broker has retried."""

import asyncio
import math

import pytest
import uvloop

from penstock import _native
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED
from penstock.gateway.lane.lane import Lane
from penstock.kafka.records.native import new_header
from penstock.kafka.wire.requests.produce import read_request
from penstock.policy import ClientContext
from tests.gateway.lying_server import BUDGET, Server
from tests.gateway.produce.retried import NOT_LEADER, responded, sent
from tests.gateway.sessions.talk import answer, other
from tests.raw import parse_response, produced

pytestmark = pytest.mark.skipif(not hasattr(_native, "Lane"), reason="native threads need Linux")
PLAN = TopicPlan(topic="judged", validators=("v",))


class ServerWithLane(Server):
    """A gateway with native threads; the test is the broker."""

    async def __aenter__(self):
        self.requests, self.broker = asyncio.Queue(), None
        self.lane = Lane(
            _native,
            self,
            self.loop,
            connections=self.connections,
            request_max_bytes=self.request_max_bytes,
            budget_bytes=16 * BUDGET,
            threads=1,
        )
        await super().__aenter__()
        self.reader, self.writer = await asyncio.open_connection(
            *self._listening.sockets[0].getsockname()
        )
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        await until(lambda: self.closed)
        self.broker.close()
        await super().__aexit__(*_)
        self.lane.close()

    async def _serve(self, reader, writer):
        self.broker = writer
        while head := await reader.read(4):
            self.requests.put_nowait(head + await reader.readexactly(int.from_bytes(head, "big")))

    async def received(self):
        return await self.requests.get()

    async def response(self):
        size = await self.reader.readexactly(4)
        return size + await self.reader.readexactly(int.from_bytes(size, "big"))

    async def codes(self):
        response = produced(parse_response(await self.response(), 0, 9))
        return {topic: int(result.error_code) for (topic, _), result in response.items()}

    async def exchange(self, request, response):
        self.writer.write(request)
        assert await self.received() == request
        self.broker.write(response)
        assert await self.response() == response

    async def be_native(self):
        """Send until a native thread has the connection."""
        for _ in range(1_000):
            await self.exchange(other(1), answer(1))
            if self.lane.count:
                return
        raise AssertionError("no native thread has the connection")


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_batch_that_python_holds_is_retried():
    """A thread has sent the first batch; the request of the next also has one that is judged."""

    async def test():
        async with asyncio.timeout(60), ServerWithLane(()) as server:
            await server.exchange(sent(2, 0, "free"), responded(2, {"free": 0}))
            await server.be_native()
            first, held = sent(3, 2, "free"), sent(4, 4, "free", "judged")
            server.writer.write(first)
            assert await server.received() == first
            assert server.lane.count, "the thread has sent it"
            server.writer.write(held)
            await until(lambda: server.verdicts)
            server.broker.write(responded(3, {"free": NOT_LEADER}))
            assert await server.codes() == {"free": NOT_LEADER}
            server.decide()
            request = read_request(await server.received())
            assert [topic.name for topic in request.topics] == ["judged"]
            server.broker.write(responded(4, {"judged": 0}))
            assert await server.codes() == {"free": 7, "judged": 0}

    uvloop.run(test())


@pytest.mark.parametrize("code", [0, NOT_LEADER])
def test_a_batch_that_waits_in_a_ring_is_retried(code):
    async def test():
        async with asyncio.timeout(60), ServerWithLane(()) as server:
            ring = _native.Ring(1, 1)
            memory, work, *outcomes = ring.descriptors()
            reader = _native.RingReader(memory, work, outcomes)
            reader.begin(lambda plan, *_: plan, ACCEPTED, new_header, ClientContext, 2**20, 1000)
            pool = _native.RingPool()
            pool.set([ring])
            judging = [], (PLAN.policy_names, PLAN.encoded, False, pool), None
            server.lane._topics.table.know_worked_name(
                "judged", bytes(16), judging, False, math.inf
            )
            await server.exchange(other(1), answer(1))
            await server.be_native()

            async def begin(request):
                server.writer.write(request)
                await until(lambda: reader.judge(server.lane._lane.fileno(), 0.0)[1] is not None)

            first, held = sent(3, 0), sent(4, 2)
            await begin(first)
            reader.answer(True, 1_000_000)
            assert await server.received() == first
            await begin(held)
            server.broker.write(responded(3, {"judged": code}))
            assert await server.codes() == {"judged": code}
            if code:
                await until(lambda: server.verdicts)
                server.decide()
                assert await server.codes() == {"judged": 7}
                assert server.requests.empty()
            else:
                reader.answer(True, 1_000_000)
                assert await server.received() == held
                server.broker.write(responded(4, {"judged": 0}))
                assert await server.codes() == {"judged": 0}

    uvloop.run(test())
