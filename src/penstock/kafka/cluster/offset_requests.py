"""Offsets of many partitions in few requests, retried if a leader is not known yet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from penstock.kafka.client.admin.offsets import ListedOffset, list_offsets
from penstock.kafka.client.errors import ClientError, ResponseError
from penstock.kafka.client.protocol.log_offsets import EARLIEST, LATEST
from penstock.kafka.cluster.errors import ClusterError
from penstock.kafka.cluster.ranges import Partition
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.kafka.client.connections.connection import Connection

CHUNK: Final = 5000
"""The number of partitions in a request."""
RETRY_FOR_S: Final = 15.0
NO_ANSWER: Final = -2
"""Instead of an error code, where no broker has answered; Kafka's codes are larger."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0
_LEADER_UNKNOWN: Final = frozenset(
    {
        NO_ANSWER,
        int(ErrorCode.unknown_topic_or_partition),
        int(ErrorCode.leader_not_available),
        int(ErrorCode.not_leader_or_follower),
        int(ErrorCode.replica_not_available),
        int(ErrorCode.kafka_storage_error),
        int(ErrorCode.fenced_leader_epoch),
        int(ErrorCode.unknown_leader_epoch),
        int(ErrorCode.offset_not_available),
    }
)
"""Errors that end by themselves when a topic has just been created, or a leader has moved."""


class OffsetRefusal(NamedTuple):
    """Why there is no offset of a partition.

    Attributes:
        code: Kafka's error code, or `NO_ANSWER`.
    """

    code: int
    text: str


Answers: TypeAlias = "Mapping[Partition, int | OffsetRefusal]"


def earliest_of(connection: Connection) -> Callable[[Sequence[Partition]], Answers]:
    """Return the function that requests the first offsets."""
    return _requests_of(connection, EARLIEST)


def latest_of(connection: Connection) -> Callable[[Sequence[Partition]], Answers]:
    """Return the function that requests the end offsets, without those of open transactions."""
    return _requests_of(connection, LATEST)


def since(connection: Connection, timestamp_ms: int) -> Callable[[Sequence[Partition]], Answers]:
    """Return the function that requests the first offsets of a time or later; -1 for none."""
    # Negative timestamps are the protocol's names for `latest` and others.
    return _requests_of(connection, max(timestamp_ms, 0))


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


def _requests_of(
    connection: Connection, timestamp: int
) -> Callable[[Sequence[Partition]], Answers]:
    def request_offsets(partitions: Sequence[Partition]) -> dict[Partition, int | OffsetRefusal]:
        try:
            answers = list_offsets(connection, partitions, timestamp, RETRY_FOR_S)
        except (ClientError, WireError) as error:
            return dict.fromkeys(partitions, _refusal(error))
        return {
            Partition(*partition): answer.offset
            if isinstance(answer, ListedOffset)
            else _refusal(answer)
            for partition, answer in answers.items()
        }

    return request_offsets


def _refusal(error: ClientError | WireError) -> OffsetRefusal:
    code = error.code if isinstance(error, ResponseError) else NO_ANSWER
    return OffsetRefusal(code, str(error))
