"""`redrive` from a topic of dead letters to a topic; nothing returns twice.

The command and the function of `penstock.spark` run it::

    job = prepare_redrive(there, letters, target, plan, max_replays=5)
    result = job.write(there, runner)
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.engine.modes.dead_letters import PARKED_SUFFIX
from penstock.jobs.batches.at_cluster import keep_position
from penstock.jobs.batches.letter_outcomes import AGAIN, DOUBLE, DROPPED, REFUSED, RETURNED
from penstock.jobs.batches.refused_letters import BROKER
from penstock.jobs.tasks.letter_scan import LetterScan, scan_letters
from penstock.jobs.tasks.writing_task import ACCEPTED, PARKED, REJECTED
from penstock.jobs.writing_job import (
    WritingJob,
    known_in,
    not_shown,
    write_ranges,
    writing_task,
)
from penstock.kafka.client.errors import TruncatedError
from penstock.kafka.client.positions import PositionTask, redrive_job
from penstock.kafka.client.protocol.write_errors import FencedError
from penstock.kafka.client.writing.place_records import PlaceRecords
from penstock.kafka.cluster.places import find_starts
from penstock.kafka.cluster.ranges import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.jobs.batches.letter_topics import FoundLetters, LetterTopics
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.report.counts import Reason, RecordCounts
    from penstock.jobs.runner import OffsetCounter, Runner
    from penstock.jobs.tasks.writing_task import WritingResult, WritingTask
    from penstock.jobs.topics.stored_topics import StoredTopics
    from penstock.jobs.writing_job import ShowPhase
    from penstock.kafka.cluster.offsets import Topic
    from penstock.kafka.cluster.places import Places

FORMER_GROUP: Final = "penstock-redrive"
"""The prefix of the groups that kept places before there were jobs."""


@dataclass(frozen=True)
class RedriveJob:
    """Dead letters that are to be judged again.

    Attributes:
        ranges: The ranges that have not been processed.
    """

    letters: Topic
    ranges: tuple[OffsetRange, ...]
    work: WritingTask

    @property
    def what(self) -> str:
        """The work, in words."""
        return f"judging {self.letters.name}"

    def scan(self, runner: Runner, counter: OffsetCounter) -> FoundLetters:
        """Return whose letters are there.

        Args:
            runner: Runs tasks.
            counter: Counts the offsets of the tasks that have ended.
        """
        work = self.work
        scan = LetterScan(work.access, work.topic_ids, work.limits, work.letter_topics)
        return scan_letters(runner, self.ranges, scan, counter)

    def write(
        self, there: StoredTopics, runner: Runner, *, shown: ShowPhase = not_shown
    ) -> WritingResult:
        """Judge the letters, and write each to where it belongs.

        The topic where letters are parked is created, if it does not exist.
        """
        topics, parked = (self.letters,), self.work.targets[PARKED].topic
        if not there.cluster.exists(parked):
            _keep_first_place(there, self.letters, self.work, self.ranges[0])
        there.cluster.create_like(parked, self.letters)
        return write_ranges(there, runner, topics, self.ranges, self.work, self.what, shown)


def prepare_redrive(
    there: StoredTopics,
    letters: Topic,
    target: Topic,
    plan: RecordPlan,
    *,
    topics: LetterTopics,
    max_replays: int,
    dry_run: bool = False,
) -> RedriveJob:
    """Find the ranges to process.

    Args:
        letters: The topic of dead letters.
        target: The topic that they return to.
        plan: The policies of the target.
        topics: Whose letters return.
        max_replays: After how many attempts a letter is parked.
        dry_run: Nothing is written: create no topic of positions.

    Raises:
        LostPlaceError: Letters were parked, and the progress of the job is unknown.
        TruncatedError: The log of the letters ends before the job's position.
    """
    parked = letters.name + PARKED_SUFFIX
    name = redrive_job(target.name, target.topic_id, topics.parts or ())
    places = there.places(create=not dry_run)
    former = f"{FORMER_GROUP}-{target.name}" if topics.parts == (target.name,) else ""
    ranges = _not_done(there, letters, name, places, former, parked)
    progress = known_in(there, (letters,), name, places)
    targets = {ACCEPTED: target.name, REJECTED: letters.name}
    job = WritingJob("redrive", letters.name, targets, name=name)
    work = writing_task(there, job, (letters,), ranges, plan, name, progress)
    # Created like the dead letters, and for a dry run not at all.
    sinks = {**work.targets, PARKED: work.targets[REJECTED]._replace(topic=parked)}
    work = dataclasses.replace(work, targets=sinks, replays_max=max_replays, letter_topics=topics)
    return RedriveJob(letters, ranges, work)


def _keep_first_place(
    there: StoredTopics, letters: Topic, work: WritingTask, first: OffsetRange
) -> None:
    """Write a place: the topic of parked letters without any place means that places are lost."""
    # If another run has claimed the task, that run has written a place, and this run's task ends.
    with contextlib.suppress(FencedError):
        keep_position(
            there.access.connect(),
            PositionTask(work.job, letters.name, letters.topic_id, first.partition),
            first.start,
            claim=work.claims[first.of],
            places=PlaceRecords(there.places_topic),
        )


def outcomes_of(counts: RecordCounts) -> Mapping[str, int]:
    """Return the number of letters by what became of them; rare outcomes only if they occurred."""
    outcomes = counts.outcomes
    usual_outcomes = {name: outcomes[name] for name in (RETURNED, AGAIN, PARKED, DROPPED)}
    return usual_outcomes | {name: outcomes[name] for name in (REFUSED, DOUBLE) if outcomes[name]}


def refused_by_broker(counts: RecordCounts) -> Sequence[tuple[Reason, int]]:
    """Return why the target's broker refuses letters that policies accept, and how many."""
    reasons, _ = counts.reasons.most_common(len(counts.reasons))
    return [(reason, count) for reason, count in reasons if reason.policy == BROKER]


def _not_done(
    there: StoredTopics, letters: Topic, job: str, places: Places, former: str, parked: str
) -> tuple[OffsetRange, ...]:
    """Return what of a dead letter topic has not been processed."""
    tasks = [
        PositionTask(job, letters.name, letters.topic_id, number) for number in letters.partitions
    ]
    remedy = (
        f"say where to go on: kafka-consumer-groups --group {tasks[0].group} --topic "
        f"{letters.name} --reset-offsets --to-earliest (or --to-latest, --to-offset N) --execute"
    )
    starts = find_starts(
        there.access.connect(),
        tasks,
        places,
        former_group=former,
        sign=f"topic {parked} is there" if there.cluster.exists(parked) else "",
        remedy=remedy,
    )
    bounds = there.cluster.bounds(letters)
    ranges = []
    for number in letters.partitions:
        first, end = bounds[number]
        position = starts.get(number)
        if position is not None and position.offset > end:
            raise TruncatedError(
                f"{letters.name}-{number}: the log ends at offset {end}, before "
                f"{position.offset}, the position of redrive (an unclean election?); {remedy}"
            )
        start = first if position is None else max(position.offset, first)
        ranges.append(OffsetRange(letters.name, number, start, end))
    return tuple(ranges)
