"""aiokafka: plain, idempotent and transactional producers."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, PolicyViolationError

from tests.soak.clients.lines import (
    DELIVERY_S,
    OVER,
    TRANSACTION,
    WINDOW,
    Sender,
    arguments,
)
from tests.soak.producer_reports import ABORTED, ACKNOWLEDGED, COMMITTED, REFUSED, UNKNOWN
from tests.soak.producers import AIOKAFKA, PLAIN, TRANSACTIONAL
from tests.soak.records import REFUSED as BAD_LETTERS

SETTINGS = {"linger_ms": 5, "max_batch_size": 400, "retry_backoff_ms": 50,
            "request_timeout_ms": 20_000, "acks": "all"}  # fmt: skip
FAILURES = (KafkaError, OSError, RuntimeError, AssertionError, TimeoutError)


class Run:
    """A producer until it cannot continue."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._run = sender.run
        self._kind = sender.producer.kind
        self._window = asyncio.Semaphore(WINDOW)
        self._broken: list[BaseException] = []
        self._waiting: set[asyncio.Future[Any]] = set()
        settings: dict[str, Any] = {**SETTINGS, "enable_idempotence": self._kind != PLAIN}
        if self._kind == TRANSACTIONAL:
            settings["transactional_id"] = sender.producer.name
        self._producer = AIOKafkaProducer(bootstrap_servers=sender.bootstrap, **settings)

    async def send(self) -> None:
        """Send until the end of the soak, or until it cannot continue."""
        try:
            await asyncio.wait_for(self._producer.start(), DELIVERY_S)
            while not OVER.is_set() and not self._broken:
                await (self._transact() if self._kind == TRANSACTIONAL else self._send_one())
            if self._waiting:
                await asyncio.wait(set(self._waiting), timeout=DELIVERY_S + 10)
            if self._broken:
                self._sender.dead(type(self._broken[0]).__name__)
        except FAILURES as error:
            self._sender.dead(type(error).__name__)
        finally:
            with contextlib.suppress(*FAILURES):
                await asyncio.wait_for(self._producer.stop(), 10)

    async def _send_one(self) -> None:
        await asyncio.sleep(self._sender.ahead_s())
        await self._window.acquire()
        number, key, value = self._sender.next()
        try:
            future = await asyncio.wait_for(
                self._producer.send(self._sender.producer.topic, value, key), DELIVERY_S
            )
        except FAILURES as error:
            self._sender.note(UNKNOWN, number, type(error).__name__)
            raise
        self._waiting.add(future)
        future.add_done_callback(lambda done: self._note_delivery(number, done))

    def _note_delivery(self, number: int, done: asyncio.Future[Any]) -> None:
        self._window.release()
        self._waiting.discard(done)
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if error is None:
            self._sender.note(ACKNOWLEDGED, number, run=self._run)
            return
        # It does not know 87, and raises the same error as for -1.
        is_bad = self._sender.producer.letter(number) in BAD_LETTERS
        is_refused = isinstance(error, PolicyViolationError) or is_bad
        event = REFUSED if is_refused else UNKNOWN
        self._sender.note(event, number, type(error).__name__, self._run)
        if self._kind != PLAIN:
            self._broken.append(error)  # later batches fail (docs/failures.md)

    async def _transact(self) -> None:
        numbers: list[int] = []
        sent: dict[int, asyncio.Future[Any]] = {}
        is_committing = False
        try:
            await self._producer.begin_transaction()
            for _ in range(TRANSACTION):
                await asyncio.sleep(self._sender.ahead_s())
                number, key, value = self._sender.next()
                numbers.append(number)
                sent[number] = await self._producer.send(self._sender.producer.topic, value, key)
            is_committing = True
            await asyncio.wait_for(self._producer.commit_transaction(), DELIVERY_S)
            self._sender.note(COMMITTED, f"{numbers[0]}-{numbers[-1]}")
            self._note_left_out(sent)
        except FAILURES as error:
            if not numbers:
                raise
            range_of_numbers = f"{numbers[0]}-{numbers[-1]}"
            self._sender.note(UNKNOWN, range_of_numbers, type(error).__name__)
            await asyncio.wait_for(self._producer.abort_transaction(), DELIVERY_S)
            if not is_committing:
                self._sender.note(ABORTED, range_of_numbers)

    def _note_left_out(self, sent: Mapping[int, asyncio.Future[Any]]) -> None:
        """Note the records that a committed transaction lacks: only their futures have the errors.

                After this failure every later batch for the partition fails, too: the client does not reuse the
        sequence numbers. So it has to be created again.
        """
        for number, future in sent.items():
            error = future.exception() if future.done() else TimeoutError()
            if error is not None:
                self._sender.note(UNKNOWN, number, f"committed without: {type(error).__name__}")
                self._broken.append(error)


async def run(sender: Sender) -> None:
    """Run a producer, and create it again when it cannot continue."""
    while not OVER.is_set():
        sender.run += 1
        await Run(sender).send()
        await asyncio.sleep(0.5)
    sender.ended()


async def main() -> None:
    """Run every producer until the input ends."""
    command_line = arguments(AIOKAFKA)
    running = asyncio.gather(
        *(run(Sender(producer, command_line)) for producer in command_line.producers)
    )
    await asyncio.to_thread(sys.stdin.read)
    OVER.set()
    await running


if __name__ == "__main__":
    logging.disable()
    asyncio.run(main())
