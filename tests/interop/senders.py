"""Producers that send batches of known content, with five requests in flight, and the outcomes."""

import subprocess
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

ATTEMPTS = 3
LINGER_MS = 5_000  # a batch goes when it is full or flushed
_BATCH_OVERHEAD, _RECORD_OVERHEAD = 61, 8


@dataclass(frozen=True)
class Job:
    """The records to send, all to partition 0.

    Attributes:
        first: Acknowledged before the others are sent.
        then: The others, in batches of `batch` records.
        last: Sent when all the others are settled; not in transactions.
    """

    bootstrap: str
    topic: str
    first: list[str]
    then: list[str]
    last: list[str]
    batch: int = 1
    transactional: bool = False


@dataclass
class Outcome:
    """The delivery reports of a producer.

    Attributes:
        acknowledged: Values, of transactions only of the committed attempt.
        failed: Errors by value.
        fatal: The error after which the producer cannot continue.
        aborted: The reasons for which transactions were aborted; they were retried.
    """

    acknowledged: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    fatal: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    committed: bool = False


class Sender(Protocol):
    """Runs jobs in sequence."""

    def __call__(self, job: Job) -> Outcome: ...


class Librdkafka:
    """Runs a job with confluent-kafka."""

    def __call__(self, job: Job) -> Outcome:
        self._outcome = Outcome()
        settings: dict[str, object] = {}
        if job.transactional:
            # When it aborts, it drops waiting batches once; batches that get a retriable error
            # after that wait until they are too old, also without a gateway.
            settings = {"transactional.id": job.topic, "message.timeout.ms": 8_000}
        self._producer = Producer({
            "bootstrap.servers": job.bootstrap, "enable.idempotence": True, "log_level": 0,
            "batch.num.messages": job.batch, "linger.ms": LINGER_MS if job.batch > 1 else 0,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20, "topic.metadata.refresh.fast.interval.ms": 20,
            "message.timeout.ms": 30_000, "error_cb": self._failed, **settings,
        })  # fmt: skip
        if job.transactional:
            self._transact(job)
        else:
            self._produce(job)
        return self._outcome

    def _produce(self, job: Job) -> None:
        try:
            for values in (job.first, job.then, job.last):
                self._send(job.topic, values)
        except (KafkaException, SystemError) as error:  # the latter where two errors meet in a call
            self._outcome.fatal.append(str(error))

    def _transact(self, job: Job) -> None:
        try:
            self._producer.init_transactions(60)
            for _ in range(ATTEMPTS):
                self._outcome.acknowledged.clear()
                self._outcome.failed.clear()
                if self._attempt(job):
                    self._outcome.committed = True
                    return
                self._producer.abort_transaction(60)
        except (KafkaException, SystemError) as error:
            self._outcome.fatal.append(str(error))

    def _attempt(self, job: Job) -> bool:
        """Try a transaction; return whether it is committed, or has to be aborted."""
        self._producer.begin_transaction()
        try:
            self._send(job.topic, job.first)
            self._begin_to_send(job.topic, job.then)
            while self._producer.flush(0.02) and not self._outcome.failed:
                pass  # once a record has failed, those behind it wait for the end of the transaction
            if not self._outcome.failed:
                self._producer.commit_transaction(60)
                return True
            self._outcome.aborted += self._outcome.failed.values()
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            self._outcome.aborted.append(error.args[0].name())
        return False

    def _send(self, topic: str, values: list[str]) -> None:
        self._begin_to_send(topic, values)
        assert self._producer.flush(40) == 0

    def _begin_to_send(self, topic: str, values: list[str]) -> None:
        for value in values:
            self._producer.produce(topic, value.encode(), partition=0, on_delivery=self._report)

    def _report(self, error, message) -> None:
        value = message.value().decode()
        if error is None:
            self._outcome.acknowledged.add(value)
        else:
            self._outcome.failed[value] = error.name()

    def _failed(self, error) -> None:
        if error.code() == KafkaError._FATAL:
            self._outcome.fatal.append(error.str())


class Java:
    """Runs jobs with Batches.java, in a single process."""

    def __init__(self, program: list[str]) -> None:
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait(60)
        self._process.stdin.close()
        self._process.stdout.close()

    def __call__(self, job: Job) -> Outcome:
        size = max(len(value) for value in job.then) + _RECORD_OVERHEAD
        fields = ["transactional" if job.transactional else "idempotent", job.bootstrap, job.topic,
                  str(_BATCH_OVERHEAD + job.batch * size + size // 2),
                  *(",".join(values) for values in (job.first, job.then, job.last))]  # fmt: skip
        self._process.stdin.write("\t".join(fields) + "\n")
        self._process.stdin.flush()
        outcome = Outcome()
        while (line := self._process.stdout.readline().rstrip("\n").split("\t")) != ["done"]:
            self._note(outcome, *line)
        return outcome

    def _note(self, outcome: Outcome, kind: str, value: str = "", error: str = "") -> None:
        match kind:
            case "acknowledged":
                outcome.acknowledged.add(value)
            case "failed":
                outcome.failed[value] = error
            case "aborted":
                outcome.aborted.append(value)
            case "fatal":
                outcome.fatal.append(value)
            case "committed":
                outcome.committed = True
            case _:
                raise AssertionError(f"the Java program ended: {kind!r}")
