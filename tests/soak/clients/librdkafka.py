"""confluent-kafka: plain, idempotent and transactional producers."""

import contextlib
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.soak.clients.lines import DELIVERY_S, OVER, TRANSACTION, WINDOW, Sender, run_in_threads
from tests.soak.producer_reports import ABORTED, ACKNOWLEDGED, COMMITTED, REFUSED, UNKNOWN
from tests.soak.producers import LIBRDKAFKA, PLAIN, TRANSACTIONAL

SETTINGS = {"linger.ms": 2, "batch.num.messages": 4, "log_level": 0,
            "retry.backoff.ms": 50, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500,
            "message.timeout.ms": DELIVERY_S * 1000, "socket.timeout.ms": 20_000}  # fmt: skip
# How it numbers its batches, and why it starts new numbers, is evidence.
REPORTED_IN_DETAIL = {"log_level": 7, "debug": "eos,msg"}
REFUSALS = frozenset(
    {
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError._INVALID_DIFFERENT_RECORD,
    }
)
PATIENCE_S = 90
PURGE_S = 10


class Steady:
    """Sends records in sequence, until the end of the soak, or until it cannot continue."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._run = sender.run
        self._unanswered = 0
        self._fatal: list[str] = []
        self._producer = Producer({
            **SETTINGS, **REPORTED_IN_DETAIL, "bootstrap.servers": sender.bootstrap,
            "error_cb": self._remember,
            "enable.idempotence": sender.producer.kind != PLAIN,
        })  # fmt: skip

    def _remember(self, error: KafkaError) -> None:
        if error.code() == KafkaError._FATAL:
            self._fatal.append(error.str())

    def _report(self, number: int) -> Callable[..., None]:
        def report(error: KafkaError | None, _: object) -> None:
            self._unanswered -= 1
            if error is None:
                self._sender.note(ACKNOWLEDGED, number, run=self._run)
            else:
                event = REFUSED if error.code() in REFUSALS else UNKNOWN
                self._sender.note(event, number, error.name(), self._run)

        return report

    def send(self) -> None:
        """Send; a fatal error ends it."""
        try:
            while not OVER.is_set() and not self._fatal:
                self._sender.pace()
                number, key, value = self._sender.next()
                self._produce(number, key, value)
                self._unanswered += 1
                self._producer.poll(0)
                while self._unanswered >= WINDOW:
                    self._producer.poll(0.1)
            self._producer.flush(DELIVERY_S + 10)
        except (KafkaException, SystemError) as error:  # the latter where two errors meet in a call
            self._fatal.append(str(error))
            self._purge()
        if self._fatal:
            self._sender.dead(self._fatal[0])

    def _purge(self) -> None:
        """Have each outstanding record reported; a call may raise the fatal error again."""
        self._producer.purge()
        deadline = time.monotonic() + PURGE_S
        while self._unanswered and time.monotonic() < deadline:
            with contextlib.suppress(KafkaException, SystemError):
                self._producer.flush(0.5)

    def _produce(self, number: int, key: bytes, value: bytes) -> None:
        topic = self._sender.producer.topic
        self._producer.produce(topic, value, key, on_delivery=self._report(number))


def retry(call: Callable[[float], None]) -> None:
    """Call until the error is not retriable."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            call(30)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def transact(sender: Sender) -> None:
    """Send transactions in sequence; a transaction that has to be aborted is not retried."""
    producer = Producer({
        **SETTINGS, "bootstrap.servers": sender.bootstrap, "transactional.id": sender.producer.name,
        "transaction.timeout.ms": 60_000,
    })  # fmt: skip
    retry(producer.init_transactions)
    while not OVER.is_set():
        numbers: list[int] = []
        try:
            try:
                _send_all(sender, producer, numbers)
                retry(producer.commit_transaction)
                sender.note(COMMITTED, _range(numbers))
            except KafkaException as error:
                if error.args[0].fatal() or error.args[0].retriable():
                    raise
                retry(producer.abort_transaction)
                if numbers:
                    sender.note(ABORTED, _range(numbers), error.args[0].name())
        except KafkaException as error:
            if numbers:
                sender.note(UNKNOWN, _range(numbers), error.args[0].name())
            raise


def _send_all(sender: Sender, producer: Producer, numbers: list[int]) -> None:
    producer.begin_transaction()
    for _ in range(TRANSACTION):
        sender.pace()
        number, key, value = sender.next()
        numbers.append(number)
        producer.produce(sender.producer.topic, value, key)
        producer.poll(0)


def _range(numbers: list[int]) -> str:
    return f"{numbers[0]}-{numbers[-1]}"


def run(sender: Sender) -> None:
    """Run a producer, and create it again when it cannot continue."""
    for _ in sender.runs():
        if sender.producer.kind == TRANSACTIONAL:
            try:
                transact(sender)
            except KafkaException as error:
                sender.dead(error.args[0].str())
            except SystemError as error:
                sender.dead(error.__cause__)
        else:
            Steady(sender).send()
    sender.ended()


if __name__ == "__main__":
    run_in_threads(LIBRDKAFKA, run)
