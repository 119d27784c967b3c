"""The options of `format("penstock")`: names and words are those of Spark's Kafka source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from penstock.configuration import ConfigurationError
from penstock.configuration.globs import is_glob
from penstock.spark.given_options import GivenOptions
from penstock.spark.source.bounds import (
    EARLIEST,
    LATEST,
    STRATEGY,
    OffsetBound,
    parse_offsets,
    parse_timestamp,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUBSCRIBE, _PATTERN = "subscribe", "subscribePattern"
_OPTIONS: Final = (
    "plan",
    _SUBSCRIBE,
    _PATTERN,
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    STRATEGY,
    "failOnDataLoss",
    "failOnDeletedTopic",
    "includeHeaders",
    "minPartitions",
    "maxOffsetsPerTrigger",
    "recordsPolicyBatch",
)
_INSTEAD: Final = {
    "assign": "name topics with subscribe; partitions are not chosen",
    "startingOffsetsByTimestamp": "use startingTimestamp, a time for all partitions",
    "endingOffsetsByTimestamp": "use endingTimestamp, a time for all partitions",
    "includeTimestamp": "timestamp is always a column",
    "minOffsetsPerTrigger": "use a longer trigger, such as processingTime",
    "maxTriggerDelay": "use a longer trigger, such as processingTime",
    "maxRecordsPerPartition": "use minPartitions, the least number of tasks",
    "groupIdPrefix": "no consumer group is used",
    "kafkaConsumer.pollTimeoutMs": "use kafka.request.timeout.ms",
    "fetchOffset.numRetries": "use kafka.default.api.timeout.ms",
    "fetchOffset.retryIntervalMs": "use kafka.retry.backoff.ms",
}
"""What Spark's Kafka source has and this source has not, and why."""
_CLIENT_INSTEAD: Final = {
    "group.id": "no consumer group is used",
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "no offsets are committed",
    "interceptor.classes": "interceptors of the file's plan are used",
    "key.deserializer": "keys are bytes; cast the column",
    "value.deserializer": "values are bytes; cast the column",
}
"""Keys of a consumer that Spark's Kafka source refuses, too."""


@dataclass(frozen=True)
class SourceOptions:
    """What to read, and how. It holds no secret: they are in the plan's file, or in variables.

    Attributes:
        plan: The configuration file whose policies judge; None to judge nothing.
        client: The keys after `kafka.`, as a Java client takes them.
        topics: The names of the topics; empty if there is a pattern.
        pattern: The pattern that is searched for in the names of topics.
        start: Where reading starts; None by default.
        end: Where it ends, not in streams; None by default.
        fails_on_loss: Whether records that were removed before they were read are an error.
        fails_on_deletion: Whether a topic of a stream that was deleted is an error.
        with_headers: Whether there is a column `headers`.
        tasks: The least number of tasks that is aimed at, or None.
        batch_offsets: The most offsets of a micro-batch, or None.
        records_policy_batch: See `load_plan`.
    """

    plan: str | None
    client: Mapping[str, str]
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None
    start: OffsetBound | None
    end: OffsetBound | None
    fails_on_loss: bool
    fails_on_deletion: bool
    with_headers: bool
    tasks: int | None
    batch_offsets: int | None
    records_policy_batch: int

    @classmethod
    def read(cls, spark_options: Mapping[str, str]) -> Self:
        """Read the options that Spark was given; their case does not matter.

        Raises:
            ConfigurationError: One is missing, unknown or not usable, or holds a secret.
        """
        options, client = given_options = GivenOptions.read(
            spark_options,
            _OPTIONS,
            does="has",
            instead=_INSTEAD | {f"kafka.{key}": why for key, why in _CLIENT_INSTEAD.items()},
        )
        plan = given_options.plan()
        topics, pattern = _topics(options)
        fails_on_loss = given_options.boolean("failOnDataLoss")
        return cls(
            plan,
            client,
            topics,
            pattern,
            _place(options, "starting"),
            _place(options, "ending"),
            fails_on_loss,
            given_options.boolean("failOnDeletedTopic") and fails_on_loss,
            given_options.boolean("includeHeaders"),
            given_options.number("minPartitions"),
            given_options.number("maxOffsetsPerTrigger"),
            given_options.number("recordsPolicyBatch") or 1,
        )


def _topics(options: Mapping[str, str]) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    names, pattern = options.get(_SUBSCRIBE), options.get(_PATTERN.lower())
    if (names is None) == (pattern is None):
        raise ConfigurationError(f"name one of the options {_SUBSCRIBE} and {_PATTERN}")
    if pattern is not None:
        try:
            return (), re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"{_PATTERN} {pattern}: {error}") from None
    topics = tuple(dict.fromkeys(part.strip() for part in (names or "").split(",")))
    if not all(topics) or any(map(is_glob, topics)):
        raise ConfigurationError(
            f"{_SUBSCRIBE} {names}: names of topics, separated by commas; {_PATTERN} takes a "
            "regular expression"
        )
    return topics, None


def _place(options: Mapping[str, str], side: str) -> OffsetBound | None:
    offsets, time = options.get(f"{side}offsets"), options.get(f"{side}timestamp")
    if time is not None:  # it wins, as in Spark's Kafka source
        needs_record = side == "starting" and _is_strict(options)
        return parse_timestamp(time, key=f"{side}Timestamp", needs_record=needs_record)
    if offsets is None:
        return None
    return {"earliest": EARLIEST, "latest": LATEST}.get(offsets.strip().lower()) or parse_offsets(
        offsets, key=f"{side}Offsets"
    )


def _is_strict(options: Mapping[str, str]) -> bool:
    """Return whether a start where a partition has no more records is an error, as for Spark."""
    strategy = options.get(STRATEGY.lower(), "error").strip().lower()
    if strategy not in {"error", "latest"}:
        raise ConfigurationError(f"{STRATEGY} {strategy}: error or latest")
    return strategy == "error"
