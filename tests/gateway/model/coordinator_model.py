"""The coordinator of one transactional id, as a model: TransactionCoordinator.java of Kafka 4."""

import io
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16

from penstock.kafka.wire.client_requests import NO_TIME, read_request
from penstock.kafka.wire.schemas import load_request_schema, load_response_schema
from penstock.kafka.wire.slices import finish

END_TXN, INIT_PRODUCER_ID, DESCRIBE_TRANSACTIONS = 26, 22, 65
EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT = (
    "Empty", "Ongoing", "CompleteCommit", "CompleteAbort",
)  # fmt: skip
PRODUCER_FENCED, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS = 90, 48, 51
NO_EPOCH = -1


class Coordinator:
    """The state of one transactional id.

    Attributes:
        epoch: The producer epoch.
        state: The name of the state; markers are written at once.
    """

    def __init__(
        self, producer_id: int, *, version: int, mark: Callable[[int, bool], None]
    ) -> None:
        """Make a coordinator that knows a producer.

        Args:
            producer_id: Its producer id.
            version: Of transactions: with 2 (KIP-890) each transaction has a separate epoch.
            mark: Called with the epoch of the markers, and whether it is a commit.
        """
        self.producer_id = producer_id
        self.version = version
        self.epoch = 0
        self.state = EMPTY
        self._before = NO_EPOCH
        self._mark = mark

    def begin(self) -> None:
        """Add a partition."""
        self.state = ONGOING

    def abort(self) -> None:
        """Abort a transaction that is open for too long; its producer is fenced."""
        if self.state == ONGOING:
            self._end(committed=False, raises=True)
            self._before = NO_EPOCH

    def begin_producer(self) -> int:
        """Begin a new producer, as InitProducerId without an epoch; return its epoch."""
        self.abort()
        self._raise()
        self._before = NO_EPOCH
        self.state = EMPTY
        return self.epoch

    def next_epoch(self, epoch: int) -> int:
        """Raise the epoch (InitProducerId with an epoch, KIP-360); return an error code."""
        if epoch == self.epoch:
            if self.state == ONGOING:
                self._end(committed=False, raises=True)
                return CONCURRENT_TRANSACTIONS
            self._raise()
            self.state = EMPTY
            return 0
        return 0 if epoch == self._before and self.state == EMPTY else PRODUCER_FENCED

    def end(self, epoch: int, *, committed: bool) -> int:
        """End a transaction; return an error code."""
        comes_again = self.version == 2 and epoch == self._before != NO_EPOCH
        if comes_again and self.state in {COMPLETE_COMMIT, COMPLETE_ABORT}:
            return 0 if (self.state == COMPLETE_COMMIT) == committed else INVALID_TXN_STATE
        if epoch != self.epoch:
            # It is older: that of a completed state is the same.
            is_next = self.version == 2 and epoch == self.epoch - 1 and self.state != EMPTY
            return INVALID_TXN_STATE if is_next and self.state != ONGOING else PRODUCER_FENCED
        if self.state == ONGOING:
            self._end(committed=committed, raises=self.version == 2)
            return 0
        if self.version == 2 and not committed:
            self._raise()
            self.state = COMPLETE_ABORT
            return 0
        done = COMPLETE_COMMIT if committed else COMPLETE_ABORT
        return 0 if self.version == 1 and self.state == done else INVALID_TXN_STATE

    def _end(self, *, committed: bool, raises: bool) -> None:
        if raises:
            self._raise()
        self._mark(self.epoch, committed)
        self.state = COMPLETE_COMMIT if committed else COMPLETE_ABORT

    def _raise(self) -> None:
        self._before, self.epoch = self.epoch, self.epoch + 1

    # As a broker's connection

    def answer(self, frame: bytes) -> bytes:
        """Answer a request, length included; a request other than EndTxn is the gateway's own."""
        api_key = int.from_bytes(frame[4:6], "big")
        if api_key == END_TXN:
            request = finish(read_request(frame).read_body())
            code = self.end(request.producer_epoch, committed=request.committed)
            return self._with_producer(frame, code)
        if api_key == INIT_PRODUCER_ID:
            code = self.next_epoch(finish(read_request(frame).read_body()).producer_epoch)
            return self._with_producer(frame, code)
        assert api_key == DESCRIBE_TRANSACTIONS
        return self._described(frame)

    def _with_producer(self, frame: bytes, code: int) -> bytes:
        kind = load_response_schema(int.from_bytes(frame[4:6], "big"), frame[7])
        body = kind(
            throttle_time=NO_TIME,
            error_code=ErrorCode(code),
            producer_id=ProducerId(-1 if code else self.producer_id),
            producer_epoch=i16(-1 if code else self.epoch),
        )
        buffer = io.BytesIO()
        _writer(kind)(buffer, body)
        return _framed(frame, b"\x00" + buffer.getvalue())

    def _described(self, frame: bytes) -> bytes:
        topics = b"\x01"
        name = self.state.encode()
        state = struct.pack(">h", 0) + b"\x02t" + bytes([len(name) + 1]) + name
        state += struct.pack(">iqqh", 60_000, -1, self.producer_id, self.epoch) + topics + b"\x00"
        return _framed(frame, b"\x00" + bytes(4) + b"\x02" + state + b"\x00")


def end_request(producer_id: int, epoch: int, *, committed: bool) -> bytes:
    """Return an EndTxn request of transactions 2, length included."""
    kind = load_request_schema(END_TXN, 5)
    buffer = io.BytesIO()
    _writer(kind)(
        buffer,
        kind(
            transactional_id="t",
            producer_id=ProducerId(producer_id),
            producer_epoch=i16(epoch),
            committed=committed,
        ),
    )
    head = struct.pack(">hhih", END_TXN, 5, 1, -1) + b"\x00"
    body = head + buffer.getvalue()
    return len(body).to_bytes(4, "big") + body


def end_response(frame: bytes) -> Any:
    """Return the body of a response to it."""
    kind = load_response_schema(END_TXN, 5)
    return _reader(kind)(frame, 9)[0]


def confirmed(response: bytes) -> bytes:
    """Return a response to it with a success instead of its error."""
    return response[:13] + bytes(2) + response[15:]


@cache
def _writer(kind: type[Any]) -> Any:
    return entity_writer(kind)


@cache
def _reader(kind: type[Any]) -> Any:
    return entity_reader(kind)


def _framed(request: bytes, body: bytes) -> bytes:
    return (len(body) + 4).to_bytes(4, "big") + request[8:12] + body
