"""The commit of a transaction without stored records; the test responds for the coordinator."""

import asyncio
import struct

import pytest
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.static.primitive import i16, i64

from penstock.gateway.produce.end_txn import is_empty
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from penstock.kafka.wire.requests.transactions import TransactionState
from tests.gateway.sessions.talk import Talk
from tests.kafka.wire.descriptions import description
from tests.raw import parse_response, request_frame

END, DESCRIBE, NEXT_EPOCH = 26, 65, 22
PRODUCER, NEXT = (17, 3), (17, 4)
NONE, FENCED, NO_PRODUCER = (0, NEXT), (90, (-1, -1)), (-1, -1)


class Ending(Talk):
    """A session in which interceptors may drop all of a transaction."""

    has_interceptors = True

    def run(self, coroutine):
        return asyncio.ensure_future(coroutine)

    def end(self, *, committed=True):
        request = EndTxnRequest(
            transactional_id="t",
            producer_id=i64(PRODUCER[0]),
            producer_epoch=i16(PRODUCER[1]),
            committed=committed,
        )
        self.session.client_data(request_frame(request, 1))

    async def forwarded(self) -> int:
        """Return the API key of the request that the broker has received; 0 for no request."""
        for _ in range(10):
            await asyncio.sleep(0)
        self._frame = self.broker.take()
        return int.from_bytes(self._frame[4:6], "big")

    def respond(self, frame: bytes) -> None:
        self.session.upstream_data(frame[:4] + self._frame[8:12] + frame[8:])

    def respond_with(self, code, producer):
        body = b"\x00" + bytes(4) + struct.pack(">hqh", code, *producer) + b"\x00"
        self.respond((len(body) + 4).to_bytes(4, "big") + bytes(4) + body)

    async def response(self):
        """The error code and the producer of the next transaction, for the client."""
        assert await self.forwarded() == 0
        found = parse_response(self.client.take(), 26, 5)
        return int(found.error_code), (found.producer_id, found.producer_epoch)


async def test_a_commit_without_records_succeeds_with_the_next_epoch():
    talk = Ending()
    talk.end()
    assert await talk.forwarded() == END
    talk.respond_with(48, NO_PRODUCER)
    assert await talk.forwarded() == DESCRIBE
    talk.respond(description())
    assert await talk.forwarded() == NEXT_EPOCH
    talk.respond_with(*NONE)
    assert await talk.response() == NONE


async def test_a_commit_that_is_retried_succeeds_again():
    talk = Ending()
    talk.end()
    assert await talk.forwarded() == END
    talk.respond_with(*FENCED)
    assert await talk.forwarded() == DESCRIBE
    talk.respond(description(epoch=4))
    assert await talk.forwarded() == NEXT_EPOCH
    talk.respond_with(*NONE)
    assert await talk.response() == NONE


@pytest.mark.parametrize(
    ("committed", "code"), [(True, 0), (True, 51), (True, 49), (True, 16), (False, 48), (False, 90)]
)
async def test_other_responses_are_those_of_the_coordinator(committed, code):
    talk = Ending()
    talk.end(committed=committed)
    assert await talk.forwarded() == END
    talk.respond_with(code, NEXT if not code else NO_PRODUCER)
    assert await talk.response() == (code, NEXT if not code else NO_PRODUCER)


@pytest.mark.parametrize("first", [48, 90])
@pytest.mark.parametrize(
    "state",
    [
        {"state": "CompleteAbort", "epoch": 4},
        {"state": "CompleteCommit", "epoch": 4},
        {"state": "PrepareAbort", "epoch": 4},
        {"state": "Ongoing"},
        {"state": "Empty", "epoch": 5},
        {"state": "Empty", "producer_id": 18},
        {"state": "Dead"},
        {"code": 53, "state": ""},
        {"code": 105, "state": ""},
    ],
)
async def test_a_transaction_that_may_have_records_fails_as_at_the_coordinator(first, state):
    talk = Ending()
    talk.end()
    assert await talk.forwarded() == END
    talk.respond_with(first, NO_PRODUCER)
    assert await talk.forwarded() == DESCRIBE
    talk.respond(description(**state))
    assert await talk.response() == (first, NO_PRODUCER)


@pytest.mark.parametrize(("later", "code"), [(51, 51), (14, 14), (16, 16), (90, 48), (50, 48)])
async def test_only_success_is_success_and_other_errors_are_retriable(later, code):
    talk = Ending()
    talk.end()
    assert await talk.forwarded() == END
    talk.respond_with(48, NO_PRODUCER)
    assert await talk.forwarded() == DESCRIBE
    talk.respond(description())
    assert await talk.forwarded() == NEXT_EPOCH
    talk.respond_with(later, NO_PRODUCER)
    assert await talk.response() == (code, NO_PRODUCER)


async def test_a_coordinator_that_has_moved_is_looked_up_again():
    talk = Ending()
    talk.end()
    assert await talk.forwarded() == END
    talk.respond_with(48, NO_PRODUCER)
    assert await talk.forwarded() == DESCRIBE
    talk.respond(description(code=16, state=""))
    assert await talk.response() == (16, NO_PRODUCER)


STATES = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("ahead", [-1, 0, 1, 2])
def test_states_of_an_empty_transaction(state, ahead):
    found = TransactionState(0, state, ProducerIdAndEpoch(17, 3 + ahead), 60_000)
    expected = (ahead == 0 and state in {"Empty", "CompleteCommit", "CompleteAbort"}) or (
        ahead == 1 and state == "Empty"
    )
    assert is_empty(found, ProducerIdAndEpoch(17, 3)) is expected
