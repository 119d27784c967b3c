"""Permanent positions: in a compacted topic, for jobs that continue after weeks.

The committed offset of a group without members is removed 7 days after the last commit
(`offsets.retention.minutes`), as if it had never existed. So a job that may continue at any
time also writes each position to a compacted topic, in the same transaction.

`find_starts` decides where `redrive` continues, and `penstock.jobs.positions` where other
jobs do. For each partition, the first of these that exists:

1. The committed offset. It is exact, and each task reads it once more after it has fenced all
   others (`Writer.position`). Operators change it with `kafka-consumer-groups --reset-offsets`.
2. The place in the topic. It was written with the last committed offset; nothing was committed
   since, or the offset would be there.
3. The committed offset of the group that versions without places used.
4. The beginning; but if no partition has any of these, and there is a sign of an earlier run, its
   places are lost, and a person has to decide (`LostPlaceError`).

To give each partition a place from then on, a job opens the writers of all of them
with a claim (`penstock.kafka.client.positions.Claim`), also if there is nothing to do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from penstock.errors import UnavailableError
from penstock.kafka.client.positions import Position, read_last_positions, short_id
from penstock.kafka.cluster.compacted_topic import CompactedTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.positions import PositionTask
    from penstock.kafka.cluster.compacted_topic import LogRecord

_TIMEOUT_S: Final = 30.0
_WAIT_MS: Final = 10


class LostPlaceError(UnavailableError):
    """The progress of a job is not known any more. The message explains what to do."""


class Places:
    """The places that were read from the topic."""

    def __init__(self, topic: str, records: Iterable[LogRecord]) -> None:
        """Take the records of the topic, in order."""
        self.topic = topic
        self._values: dict[str, bytes] = {}
        for record in records:
            if record.key is None:
                continue
            name = record.key.decode(errors="replace")
            if record.value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = record.value

    def find(self, task: PositionTask) -> Position | None:
        """Return the place of a task; None if it has none.

        Raises:
            LostPlaceError: There is a place, and it cannot be read.
        """
        value = self._values.get(task.transactional_id)
        if value is None:
            return None
        try:
            place = json.loads(value)
            return Position(int(place["offset"]), str(place["metadata"]), str(place["run"]))
        except (ValueError, KeyError, TypeError):
            raise LostPlaceError(
                f"the position of {task.transactional_id} cannot be read: another version of "
                "Penstock or another program has written it"
            ) from None

    def has_topic(self, topic: str) -> bool:
        """Return whether any job has a place on a topic of this name."""
        return any(_field(value, "topic") == topic for value in self._values.values())

    def topics_of(self, job: str) -> frozenset[str]:
        """Return the names of the topics on which a job has places."""
        values = self._values.values()
        return frozenset(_field(value, "topic") for value in values if _field(value, "job") == job)

    def has_run(self, mark: str) -> bool:
        """Return whether a run whose id ends with a mark has written a place."""
        return any(_field(value, "run").endswith(mark) for value in self._values.values())

    def has_any(self, topic_id: UUID) -> bool:
        """Return whether any job has a place on a topic."""
        mark = f":{short_id(topic_id)}:"
        return any(mark in name for name in self._values)


def _field(value: bytes, name: str) -> str:
    """Return a text of a place; empty if there is none."""
    try:
        place = json.loads(value)
    except ValueError:
        return ""
    text = place.get(name) if isinstance(place, dict) else None
    return text if isinstance(text, str) else ""


def read_places(
    properties: Mapping[str, str], file: Path, topic: str, *, key: str, create: bool = True
) -> Places:
    """Create the topic of places if there is none, and read it.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file; relative locations start at its folder.
        key: The key of the file that names the topic, for errors.
        create: Without, there are no places where there is no topic.

    Raises:
        ConfigurationError: Not authorized, or the topic is not suitable.
        CompactedTopicError: The cluster does not respond.
    """
    log = CompactedTopic(
        properties,
        topic,
        file,
        key=key,
        otherwise="name another topic there",
        wait_ms=_WAIT_MS,
    )
    if not create:
        return Places(topic, log.read(_TIMEOUT_S))
    try:
        return Places(topic, log.open(_TIMEOUT_S))
    finally:
        log.close()


def find_starts(
    connection: Connection,
    tasks: Sequence[PositionTask],
    places: Places,
    *,
    former_group: str = "",
    sign: str = "",
    remedy: str = "",
) -> dict[int, Position]:
    """Return where the tasks of a job on a topic continue, by partition.

    Args:
        connection: To the cluster.
        tasks: One for each partition of the topic.
        places: From `read_places`.
        former_group: The group of an earlier version, without places; empty for none.
        sign: The sign that the job, or a similar job, has run on this topic before, as a part
            of a sentence; empty if nothing does.
        remedy: What to do if it has, and its place is lost; for the error.

    Returns:
        The positions; without partitions that begin at their beginning.

    Raises:
        LostPlaceError: It has run before, and its progress is not known any more.
        ClientError: The cluster does not respond in time, or denies it.
    """
    first = tasks[0]
    positions = _placed(tasks, places) | _committed(connection, tasks, first.group)
    if former_group:
        positions = _committed(connection, tasks, former_group) | positions
    if positions:
        return positions
    if sign and not places.has_any(first.topic_id):
        groups = " and ".join(filter(None, (first.group, former_group)))
        raise LostPlaceError(
            f"{first.topic} was processed before ({sign}), and its position is lost: there are no "
            f"committed offsets of {groups}, and no position in {places.topic}; {remedy}"
        )
    return {}


def _placed(tasks: Sequence[PositionTask], places: Places) -> dict[int, Position]:
    positions = ((task.partition, places.find(task)) for task in tasks)
    return {partition: position for partition, position in positions if position is not None}


def _committed(
    connection: Connection, tasks: Sequence[PositionTask], group: str
) -> dict[int, Position]:
    partitions = {tasks[0].topic: [task.partition for task in tasks]}
    committed = read_last_positions(connection, group, partitions)
    return {partition: position for (_, partition), position in committed.items()}
