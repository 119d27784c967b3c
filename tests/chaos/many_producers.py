"""Producers of librdkafka that run until their input ends: `many_producers.py RATE PRODUCER...`.

A producer is `NAME,KIND,BOOTSTRAP,TOPIC`; those of the kind `crowd` have a topic in common, and
numbers for names; a bootstrap's addresses are separated by `+`. Prints
lines of name, event and value: `acknowledged` (of a transaction: when it is committed), `failed`,
`aborted`, `fatal`, `stuck` (of a partition), and finally `ended`.
"""

import json
import sys
import threading
import time
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Producer

KEYS = 10
BURST = 30  # so that several batches are in flight
WINDOW = 300  # records without an answer: what waits longer in a client's queue times out there
TRANSACTION = 30
DELIVERY_S = 280  # on a busy machine, too, nothing fails but what hangs
OF_A_CROWD = 10_000_000
WINDOW_OF_A_CROWD = 5
"""The maximum requests in flight of a connection: no batch waits.

When a batch is due and its connection is full, the thread of librdkafka polls without a pause until
a response arrives. 200 producers that poll use all processors, also without a gateway.
"""
LOGGED = {"debug": "eos", "log_level": 7}
"""For a producer that is stuck: what it waits for, on standard error."""
ENDED = threading.Event()
SETTINGS = {"linger.ms": 1, "batch.num.messages": 2, "log_level": 0,
            "reconnect.backoff.max.ms": 500, "enable.idempotence": True}  # fmt: skip


STATISTICS = 10
"""How many statistics in a row, one a second, show that a partition is stuck."""


class Assignments:
    """Notes the partitions that librdkafka leaves at a broker which is not their leader.

    If a leader moves away and back before the thread of its broker has heard of the first move,
    librdkafka moves the partition to the other broker, and holds it for a preferred replica from
    then on ("leader 1 unchanged, not migrating away from preferred replica 1"). It gets
    NOT_LEADER_OR_FOLLOWER until a third broker leads (2.16; issues 3230 and 4976 of librdkafka).
    """

    def __init__(self, note) -> None:
        self._note = note
        self._counts: dict[tuple[str, str], int] = {}

    def __call__(self, statistics: str) -> None:
        for topic, of_topic in json.loads(statistics)["topics"].items():
            for partition, state in of_topic["partitions"].items():
                is_elsewhere = 0 <= state["leader"] != state["broker"] >= 0
                count = self._counts.get((topic, partition), 0) + 1 if is_elsewhere else 0
                self._counts[topic, partition] = count
                if count == STATISTICS:
                    where = f"at {state['broker']}, leader {state['leader']}"
                    self._note("stuck", partition, where)


class Numbers:
    """Prints the result of each number, and limits the rate."""

    def __init__(self, name: str, rate: int) -> None:
        self._name = name
        self._rate = rate
        self._began = time.monotonic()
        self._sent = 0
        self.last_error = ""

    def remember(self, error: KafkaError) -> None:
        """Store a fatal error; the call that fails because of it does not have it."""
        if error.fatal():
            self.last_error = error.str()

    def note(self, event: str, value: object = "", text: str = "") -> None:
        at = f"{time.time():.3f}"
        sys.stdout.write("\t".join((self._name, event, str(value), at, text)) + "\n")

    def pace(self) -> None:
        """Wait until the next records are due; after a standstill do not catch up at once."""
        self._sent += 1
        if self._sent % BURST:
            return
        now = time.monotonic()
        due = self._began + self._sent / self._rate
        if due > now:
            time.sleep(due - now)
        self._began = max(self._began, now - self._sent / self._rate - 0.2)


def watched(numbers: Numbers) -> dict[str, object]:
    """Return the settings with which a producer notes that it is stuck."""
    return {"statistics.interval.ms": 1000, "stats_cb": Assignments(numbers.note)}


def idempotent(
    numbers: Numbers,
    bootstrap: str,
    topic: str,
    rate: int,
    *,
    first: int = 0,
    key: bytes = b"k",
    window: int = WINDOW,
) -> None:
    unanswered = 0

    def report(error, message) -> None:
        nonlocal unanswered
        unanswered -= 1
        value = message.value().decode()
        if error is None:
            numbers.note("acknowledged", value)
        else:
            numbers.note("failed", value, error.str())

    logged = {**LOGGED, **watched(numbers)} if window == WINDOW else {}
    producer = Producer({**SETTINGS, **logged, "bootstrap.servers": bootstrap,
                         "error_cb": numbers.remember, "message.timeout.ms": DELIVERY_S * 1000})  # fmt: skip
    number = first
    while not ENDED.is_set():
        numbers.pace()
        producer.produce(
            topic, b"%d" % number, key=b"%s%d" % (key, number % KEYS), on_delivery=report
        )
        unanswered += 1
        producer.poll(0)
        while unanswered >= window:
            producer.poll(0.1)
        number += 1
    producer.flush(DELIVERY_S + 10)


def transactional(numbers: Numbers, bootstrap: str, topic: str, rate: int) -> None:
    producer = Producer({**SETTINGS, **watched(numbers),
                         "bootstrap.servers": bootstrap, "transactional.id": topic,
                         "message.timeout.ms": DELIVERY_S * 1000,
                         "transaction.timeout.ms": DELIVERY_S * 1000})  # fmt: skip
    retry(producer.init_transactions)
    begin = 0
    while not ENDED.is_set():
        values = range(begin, begin + TRANSACTION)
        try:
            producer.begin_transaction()
            for number in values:
                numbers.pace()
                producer.produce(topic, b"%d" % number, key=b"k%d" % (number % KEYS))
                producer.poll(0)
            retry(producer.commit_transaction)
        except KafkaException as failed:
            if failed.args[0].fatal():
                raise
            numbers.note("aborted", begin, failed.args[0].str())
            retry(producer.abort_transaction)
            continue
        for number in values:
            numbers.note("acknowledged", number)
        begin += TRANSACTION


def retry(call) -> None:
    """Call until the error is not retriable."""
    deadline = time.monotonic() + DELIVERY_S
    while True:
        try:
            call(30)
            return
        except KafkaException as failed:
            if not failed.args[0].retriable() or time.monotonic() > deadline:
                raise


def run(rate: int, name: str, kind: str, bootstrap: str, topic: str) -> None:
    numbers = Numbers(name, rate)
    produce = {"idempotent": idempotent, "transactional": transactional}.get(kind)
    if produce is None:  # a producer of a crowd, with its own numbers and keys
        own = {
            "first": int(name) * OF_A_CROWD,
            "key": f"{name}-".encode(),
            "window": WINDOW_OF_A_CROWD,
        }
        produce = partial(idempotent, **own)
    try:
        produce(numbers, bootstrap.replace("+", ","), topic, rate)
    except KafkaException as failed:
        numbers.note("fatal", "", f"{failed.args[0].str()} {numbers.last_error}")
    except SystemError as failed:  # a fatal error and a failed record in the same call
        numbers.note("fatal", "", f"{failed.__cause__} {numbers.last_error}")
    numbers.note("ended")


def main() -> None:
    """Run all producers at once."""
    rate, producers = int(sys.argv[1]), sys.argv[2:]
    sys.stdout.reconfigure(line_buffering=True)
    threads = [
        threading.Thread(target=run, args=(rate, *producer.split(","))) for producer in producers
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ENDED.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
