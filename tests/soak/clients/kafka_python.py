"""kafka-python: plain, idempotent and transactional producers."""

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer
from kafka.errors import (
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    PolicyViolationError,
)

from tests.soak.clients.lines import DELIVERY_S, OVER, TRANSACTION, WINDOW, Sender, run_in_threads
from tests.soak.producer_reports import ABORTED, ACKNOWLEDGED, COMMITTED, REFUSED, UNKNOWN
from tests.soak.producers import KAFKA_PYTHON, PLAIN, TRANSACTIONAL

SETTINGS = {"linger_ms": 5, "batch_size": 400, "reconnect_backoff_max_ms": 500, "acks": "all",
            "retry_backoff_ms": 50, "request_timeout_ms": 20_000,
            "delivery_timeout_ms": DELIVERY_S * 1000}  # fmt: skip
REFUSALS = (InvalidRecordError, PolicyViolationError)
# It also raises other errors than `KafkaError`, if the state of a producer does not allow a call.
FAILURES = (KafkaError, RuntimeError, AssertionError, ValueError, OSError)


def within(call: Callable[[], None]) -> None:
    """Call a function that has no time limit, and was seen to wait permanently.

    Raises:
        KafkaTimeoutError: It does not return; its producer must not be used again.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except FAILURES as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(DELIVERY_S + 10)
    if thread.is_alive():
        raise KafkaTimeoutError("does not return")
    if failures:
        raise failures[0]


class Run:
    """A producer until it cannot continue."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._run = sender.run
        self._kind = sender.producer.kind
        settings: dict[str, Any] = {**SETTINGS, "enable_idempotence": self._kind != PLAIN}
        if self._kind == TRANSACTIONAL:
            settings["transactional_id"] = sender.producer.name
        self._window = threading.Semaphore(WINDOW)
        self._broken: list[BaseException] = []
        self._producer = KafkaProducer(bootstrap_servers=sender.bootstrap, **settings)

    def send(self) -> None:
        """Send until the end of the soak, or until it cannot continue."""
        try:
            if self._kind == TRANSACTIONAL:
                self._producer.init_transactions()
                while not OVER.is_set():
                    self._transact()
            else:
                while not OVER.is_set() and not self._broken:
                    self._send_one()
                self._producer.flush(timeout=DELIVERY_S + 10)
                if self._broken:
                    self._sender.dead(type(self._broken[0]).__name__)
        except FAILURES as error:
            self._sender.dead(type(error).__name__)
        finally:
            with contextlib.suppress(*FAILURES):
                self._producer.close(timeout=10)

    def _send_one(self) -> None:
        self._sender.pace()
        self._window.acquire()
        number, key, value = self._sender.next()
        try:
            future = self._producer.send(self._sender.producer.topic, value, key)
        except FAILURES as error:
            self._failed(number)(error)
            raise
        future.add_callback(self._stored(number))
        future.add_errback(self._failed(number))

    def _stored(self, number: int) -> Callable[[object], None]:
        def note(_: object) -> None:
            self._window.release()
            self._sender.note(ACKNOWLEDGED, number, run=self._run)

        return note

    def _failed(self, number: int) -> Callable[[BaseException], None]:
        def note(error: BaseException) -> None:
            self._window.release()
            event = REFUSED if isinstance(error, REFUSALS) else UNKNOWN
            self._sender.note(event, number, type(error).__name__, self._run)
            if self._kind != PLAIN:
                self._broken.append(error)  # every later batch fails (docs/failures.md)

        return note

    def _transact(self) -> None:
        numbers: list[int] = []
        sent: list[Any] = []
        try:
            self._producer.begin_transaction()
            for _ in range(TRANSACTION):
                self._sender.pace()
                number, key, value = self._sender.next()
                numbers.append(number)
                sent.append(self._producer.send(self._sender.producer.topic, value, key))
            within(self._producer.commit_transaction)
            self._sender.note(COMMITTED, f"{numbers[0]}-{numbers[-1]}")
            for number, future in zip(numbers, sent, strict=True):
                if not future.succeeded():  # it commits the rest of a transaction
                    why = f"committed without: {type(future.exception).__name__}"
                    self._sender.note(UNKNOWN, number, why)
        except FAILURES as error:
            # A commit that failed may still have been made.
            if numbers:
                self._sender.note(UNKNOWN, f"{numbers[0]}-{numbers[-1]}", type(error).__name__)
            if isinstance(error, KafkaTimeoutError):
                raise
            within(self._producer.abort_transaction)
            if numbers and len(numbers) < TRANSACTION:
                self._sender.note(ABORTED, f"{numbers[0]}-{numbers[-1]}")


def run(sender: Sender) -> None:
    """Run a producer, and create it again when it cannot continue."""
    for _ in sender.runs():
        try:
            made = Run(sender)
        except FAILURES as error:
            sender.dead(type(error).__name__)
            continue
        made.send()
    sender.ended()


if __name__ == "__main__":
    logging.disable()
    run_in_threads(KAFKA_PYTHON, run)
