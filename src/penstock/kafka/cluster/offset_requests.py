"""Offsets of many partitions in few requests, retried if a leader is not known yet.

librdkafka sends one ListOffsets request to each leader, for any number of partitions.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from penstock.kafka.cluster.errors import ClusterError
from penstock.kafka.cluster.futures import result_of
from penstock.kafka.cluster.ranges import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AdminClient,
        ListOffsetsResultInfo,
    )

CHUNK: Final = 5000
"""The number of partitions in a request."""
RETRY_FOR_S: Final = 15.0
_REFRESHED_ALONE: Final = 10
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0
_LEADER_UNKNOWN: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors that end by themselves when a topic has just been created, or a leader has moved."""


class OffsetRefusal(NamedTuple):
    """Why there is no offset of a partition."""

    code: int
    text: str


Answers: TypeAlias = "Mapping[Partition, int | OffsetRefusal]"


def earliest_of(admin: AdminClient) -> Callable[[Sequence[Partition]], Answers]:
    """Return the function that requests the first offsets."""
    return _requests_of(admin, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def latest_of(admin: AdminClient) -> Callable[[Sequence[Partition]], Answers]:
    """Return the function that requests the end offsets, without those of open transactions."""
    return _requests_of(admin, OffsetSpec.latest())  # type: ignore[no-untyped-call]


def since(admin: AdminClient, timestamp_ms: int) -> Callable[[Sequence[Partition]], Answers]:
    """Return the function that requests the first offsets of a time or later; -1 for none."""
    # Negative timestamps are the protocol's names for `latest` and others.
    return _requests_of(admin, OffsetSpec.for_timestamp(max(timestamp_ms, 0)))


def in_chunks(
    partitions: Sequence[Partition],
    request_offsets: Callable[[Sequence[Partition]], Answers],
    *,
    chunk: int = CHUNK,
) -> dict[Partition, int | OffsetRefusal]:
    """Return the results for partitions, each requested once.

    Args:
        request_offsets: Returns the results for some of them.
        chunk: How many partitions a request has.
    """
    answers: dict[Partition, int | OffsetRefusal] = {}
    for start in range(0, len(partitions), chunk):
        answers |= request_offsets(partitions[start : start + chunk])
    return answers


def all_offsets(
    partitions: Iterable[Partition],
    request_offsets: Callable[[Sequence[Partition]], Answers],
    *,
    chunk: int = CHUNK,
    retry_for_s: float = RETRY_FOR_S,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[Partition, int]:
    """Return an offset of each partition.

    Args:
        request_offsets: Returns the results for some of them: an offset, or an error.
        chunk: How many partitions a request has.
        retry_for_s: How long partitions without a leader are retried.
        clock: The monotonic time in seconds.
        pause: Waits for a number of seconds.

    Raises:
        ClusterError: One of them has no offset, by then or for another reason.
    """
    offsets: dict[Partition, int] = {}
    pending = list(partitions)
    deadline = clock() + retry_for_s
    pause_s = _FIRST_PAUSE_S
    while True:
        again = []
        for partition, answer in in_chunks(pending, request_offsets, chunk=chunk).items():
            if isinstance(answer, int):
                offsets[partition] = answer
            elif answer.code in _LEADER_UNKNOWN and clock() < deadline:
                again.append(partition)
            else:
                raise ClusterError(f"the offsets of {partition} cannot be listed: {answer.text}")
        if not again:
            return offsets
        pending = again
        pause(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def list_offsets(
    admin: AdminClient, partitions: Iterable[Partition], spec: OffsetSpec, timeout_s: float
) -> dict[Partition, ListOffsetsResultInfo | OffsetRefusal]:
    """Return the offsets from the leaders of partitions, in one request to each leader.

    Args:
        partitions: At least one.
        spec: Which offset; the latest is before open transactions.
        timeout_s: How long the leaders have.
    """
    futures = admin.list_offsets(
        {TopicPartition(partition.topic, partition.number): spec for partition in partitions},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=timeout_s,
    )
    answers: dict[Partition, ListOffsetsResultInfo | OffsetRefusal] = {}
    for requested, future in futures.items():
        partition = Partition(requested.topic, requested.partition)
        try:
            answers[partition] = result_of(future, timeout_s + 1)
        except KafkaException as error:
            answers[partition] = OffsetRefusal(error.args[0].code(), error.args[0].str())
        except TimeoutError:
            answers[partition] = OffsetRefusal(KafkaError._TIMED_OUT, "no answer")  # noqa: SLF001
    return answers


def _requests_of(admin: AdminClient, spec: OffsetSpec) -> Callable[[Sequence[Partition]], Answers]:
    def request_offsets(partitions: Sequence[Partition]) -> dict[Partition, int | OffsetRefusal]:
        answers = {
            partition: answer if isinstance(answer, OffsetRefusal) else answer.offset
            for partition, answer in list_offsets(admin, partitions, spec, RETRY_FOR_S).items()
        }
        _refresh(
            admin,
            {
                partition.topic
                for partition, answer in answers.items()
                if isinstance(answer, OffsetRefusal) and answer.code in _LEADER_UNKNOWN
            },
        )
        return answers

    return request_offsets


def _refresh(admin: AdminClient, topics: set[str]) -> None:
    """Request the metadata of topics: librdkafka keeps a leader epoch that was refused for the
    next request, from any caller.
    """
    with suppress(KafkaException):
        if len(topics) > _REFRESHED_ALONE:
            admin.list_topics(timeout=RETRY_FOR_S)
        else:
            for topic in topics:
                admin.list_topics(topic, timeout=RETRY_FOR_S)
