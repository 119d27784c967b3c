"""The options of `df.write.format("penstock")` and `writeStream`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from penstock.configuration import ConfigurationError
from penstock.kafka.client.positions import check_job
from penstock.kafka.records.compression import NAMES
from penstock.spark.given_options import GivenOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_ORDER: Final = "failOnOrderLoss"
_OPTIONS: Final = ("plan", "topic", "rejected", DEAD_LETTERS, "job", _ORDER, "recordsPolicyBatch")
_OF_SPARK: Final = ("checkpointlocation", "queryname", "path")
_INSTEAD: Final = {
    "includeHeaders": "headers are written if the frame has the column",
    "kafka.key.serializer": "keys are bytes or text",
    "kafka.value.serializer": "values are bytes or text",
    "kafka.interceptor.classes": "interceptors of the file's plan are used",
    "kafka.transactional.id": "use job, from which it is derived",
    "kafka.enable.idempotence": "each row is written once",
}
"""What Spark's Kafka sink has, or a producer, and this sink has not, and why."""
_CODEC, _TIMEOUT = "compression.type", "transaction.timeout.ms"
_TIMEOUT_MS: Final = 900_000
"""The default of brokers' `transaction.max.timeout.ms`."""
_TIMEOUT_MIN_MS: Final = 10_000


@dataclass(frozen=True)
class SinkOptions:
    """Where to write, and how. It holds no secret: they are in the plan's file, or in variables.

    Attributes:
        plan: The configuration file whose policies judge; None to judge nothing.
        client: The keys after `kafka.`, as a Java client takes them.
        topic: The topic that is written to.
        rejected: The topic for dead letters; None where a refused record fails the job.
        job: What the job is known by in the cluster; None to derive it.
        fails_on_order_loss: Whether rows that are not in the order of their topics are an error.
        records_policy_batch: See `load_plan`.
        codec: Kafka's number of the compression codec.
        transaction_timeout_s: After which time brokers abort a transaction.
    """

    plan: str | None
    client: Mapping[str, str]
    topic: str
    rejected: str | None
    job: str | None
    fails_on_order_loss: bool
    records_policy_batch: int
    codec: int
    transaction_timeout_s: float

    @classmethod
    def read(cls, spark_options: Mapping[str, str]) -> Self:
        """Read the options that Spark was given; their case does not matter.

        Raises:
            ConfigurationError: One is missing, unknown or not usable, or holds a secret.
        """
        options, client = given_options = GivenOptions.read(
            spark_options, _OPTIONS, does="writes with", of_spark=_OF_SPARK, instead=_INSTEAD
        )
        timeout_ms = given_options.number(f"kafka.{_TIMEOUT}", _TIMEOUT_MIN_MS, 9)
        codec, _ = client.pop(_CODEC, "none"), client.pop(_TIMEOUT, None)
        plan, topic = given_options.plan(), options.get("topic", "").strip()
        if not topic:
            raise ConfigurationError('format("penstock"): name the topic to write to: option topic')
        rejected = options.get("rejected", options.get(DEAD_LETTERS))
        if rejected is not None and rejected.strip() in {"", topic}:
            raise ConfigurationError(f"rejected {rejected}: name another topic than {topic}")
        if codec not in NAMES:
            raise ConfigurationError(f"kafka.{_CODEC} {codec}: one of {', '.join(NAMES)}")
        job = options.get("job")
        return cls(
            plan,
            client,
            topic,
            rejected and rejected.strip(),
            None if job is None else check_job(job, "job"),
            given_options.boolean(_ORDER),
            given_options.number("recordsPolicyBatch") or 1,
            NAMES.index(codec),
            (timeout_ms or _TIMEOUT_MS) / 1000,
        )
