"""librdkafka's clients at work through a gateway, while brokers stop and start."""

import threading
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from tests.gateways import wait_until

PLAIN, MIXED, TRANSACTED = "plain", "mixed", "transacted"
BAD_EVERY = 200
LEADERS_MOVE_WITHIN_S = 60.0


class ClientsAtWork(AbstractContextManager["ClientsAtWork"]):
    """Two idempotent producers, a transactional producer, and a consumer of all their records.

    Attributes:
        acknowledged: Values that were acknowledged, by topic.
        committed: Values of the transactions that were committed.
        refused: Values that a policy refused.
        failed: Names of the errors of all other records.
        consumed: Values that the consumer got, of committed transactions only.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,
            "linger.ms": 5,
            "message.timeout.ms": 90_000,
            "reconnect.backoff.max.ms": 500,
        }
        self.acknowledged: dict[str, set[bytes]] = {PLAIN: set(), MIXED: set()}
        self.committed: set[bytes] = set()
        self.refused: set[bytes] = set()
        self.failed: list[str] = []
        self.consumed: set[bytes] = set()
        self._ended = threading.Event()
        self._caught_up = threading.Event()
        self._errors: list[BaseException] = []
        self._producers = [
            self._thread(lambda: self._produce(PLAIN)),
            self._thread(lambda: self._produce(MIXED, bad_every=BAD_EVERY)),
            self._thread(self._transact),
        ]
        self._consumer = self._thread(self._consume)

    def __enter__(self) -> Self:
        for thread in (*self._producers, self._consumer):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._caught_up.set()
        for thread in (*self._producers, self._consumer):
            thread.join(120)

    @property
    def kept(self) -> set[bytes]:
        """The acknowledged values of `PLAIN` that no interceptor has dropped: two thirds."""
        return {value for value in self.acknowledged[PLAIN] if zlib.crc32(value) % 3}

    @property
    def stored(self) -> set[bytes]:
        """All values that have to be stored."""
        return self.kept | self.acknowledged[MIXED] | self.committed

    def wait_for_progress(self) -> None:
        """Wait until each producer has stored more records."""
        written = (*self.acknowledged.values(), self.committed)
        goals = [len(values) + 300 for values in written]

        def are_reached() -> bool:
            self._check()
            return all(len(values) >= goal for values, goal in zip(written, goals, strict=True))

        wait_until(are_reached, LEADERS_MOVE_WITHIN_S, what="each producer to store some more")

    def finish(self) -> None:
        """End the producers, and wait until the consumer has all records."""
        self._ended.set()
        for thread in self._producers:
            thread.join(120)
        self._check()
        wait_until(lambda: self.stored <= self.consumed, 60, what="the consumer to have all")
        self._caught_up.set()
        self._consumer.join(60)
        self._check()

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._errors.append(error)

        return threading.Thread(target=run, daemon=True)

    def _check(self) -> None:
        """Raise the exception that has ended a thread."""
        for error in self._errors:
            raise error

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[message.topic()].add(message.value())
        elif error.code() in {KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD}:
            self.refused.add(message.value())
        else:
            self.failed.append(error.name())

    def _produce(self, topic: str, *, bad_every: int = 0) -> None:
        settings = {**self._settings, "enable.idempotence": True, "batch.num.messages": 50}
        producer = Producer(settings)
        number = 0
        while not self._ended.is_set():
            kind = b"bad" if bad_every and number % bad_every == 5 else b"good"
            producer.produce(topic, b"%s-%d" % (kind, number), on_delivery=self._report)
            producer.poll(0.004)
            number += 1
        assert producer.flush(90) == 0

    def _transact(self) -> None:
        transactional = {"transactional.id": "t", "transaction.timeout.ms": 90000}
        producer = Producer({**self._settings, **transactional})
        producer.init_transactions(60)
        number = 0
        while not self._ended.is_set():
            values = {b"%d-%d" % (number, i) for i in range(10)}
            try:
                producer.begin_transaction()
                for value in values:
                    producer.produce(TRANSACTED, value)
                producer.commit_transaction(60)
                self.committed |= values
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(60)
            number += 1
            time.sleep(0.02)  # a steady load, not the most that goes

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._settings["bootstrap.servers"],
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        consumer.subscribe([PLAIN, MIXED, TRANSACTED])
        while not self._caught_up.is_set():
            for message in consumer.consume(500, 0.2):
                if not message.error():
                    self.consumed.add(message.value())
        consumer.close()
