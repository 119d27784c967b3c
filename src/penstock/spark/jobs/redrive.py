"""Judges dead letters again: those that pass now return, the rest waits for the next repair.

The position in a dead letter topic is kept as the committed offsets of a consumer group, one
group for each target. A letter that fails again is appended to the topic again, with its number
of attempts, so it comes after the committed offsets; a letter that failed too often is parked. The
offsets are committed when everything has been written: a crash before that loses nothing, and
the next run returns again what the crashed run had returned already.

A folder of dead letters is replaced by the letters that remain.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.configuration.globs import is_glob
from penstock.engine.modes import dead_letters
from penstock.engine.verdict import Outcome
from penstock.jobs.batches.letter_outcomes import AGAIN, DROPPED, PARKED, RETURNED
from penstock.jobs.batches.letter_topics import MORE, TOPICS_MAX, FoundLetters
from penstock.kafka.cluster.topic_names import expression_of
from penstock.spark.frames.kafka_columns import from_ms, with_all_columns
from penstock.spark.jobs.counting import counted
from penstock.spark.jobs.dead_letters import (
    LETTER,
    TIME,
    dead_letter,
    is_far,
    is_without_record,
    own_headers,
    record_headers,
    replays,
    with_far_time,
    with_header,
    with_letters,
    with_times,
)
from penstock.spark.sink.topic_rows import SINK
from penstock.spark.verdicts import apply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

    from penstock.jobs.batches.letter_topics import LetterTopics
    from penstock.jobs.plan import RecordPlan

_ORIGINALS = ("original_key", "original_value")
_NOT_OTHERS: Final = 2
"""How many groups are not of other topics: letters that return, and records that are no letters."""


def redrive(
    df: DataFrame,
    plan: RecordPlan,
    write: Callable[[DataFrame, Callable[[], int]], None] | None,
    *,
    target: str | None,
    topics: LetterTopics,
    others_to: str | None,
    attempts: dead_letters.Attempts,
) -> Mapping[str, int]:
    """Judge dead letters again and write each to its sink.

    Args:
        df: Dead letters, with Kafka's columns.
        plan: The policies; with the repairing interceptor, if there is any.
        write: Writes records to the sinks `RETURNED`, `AGAIN` and `PARKED`; it is called with them
            and with what returns how many others were dropped. None to count only.
        target: The topic to which accepted letters return, whose policies judge; None if each
            record is judged by the policies of its original topic.
        topics: Whose letters return; the others stay as they are.
        others_to: The sink of the others; None to leave them out.
        attempts: How often a record is judged again before it is parked.

    Returns:
        The number of records written to each sink, and of those that an interceptor dropped.
    """
    all_rows = with_letters(with_all_columns(df))
    letter_of = F.col(LETTER)
    stays = ~_returns(topics)
    came_from = F.coalesce(letter_of["topic"], F.col("topic"))
    first_time = letter_of["timestamp"]
    time = F.coalesce(first_time, F.col(TIME))
    df = with_times(all_rows.where(~stays)).select(
        "key", "value", "offset", "timestampType",
        F.when(~is_far(time), F.coalesce(from_ms(first_time), F.col("timestamp")))
        .alias("timestamp"),
        (F.lit(target) if target else came_from).alias("topic"),
        came_from.alias("from_topic"),
        F.col("topic").alias("letter_topic"),
        F.col("partition").alias("letter_partition"),
        # Without a partition in the letter, the key selects one.
        F.when(letter_of["partition"] >= 0, letter_of["partition"]).alias("partition"),
        letter_of["offset"].alias("from_offset"),
        time.alias("from_timestamp"),
        replays().alias("replays"),
        with_far_time(record_headers(), time).alias("headers"),
        F.col("key").alias(_ORIGINALS[0]),
        F.col("value").alias(_ORIGINALS[1]),
    )  # fmt: skip
    judged_rows = apply(df, plan, topic=target)
    outcome = F.col("verdict.outcome")
    # A target that is dead-lettered again and again carries its count along.
    tried = F.col("replays") + 1
    may_return = F.lit(attempts.is_parked) | (F.col("replays") < attempts.maximum)
    sink = (
        F.when((outcome == Outcome.ACCEPTED.value) & may_return, RETURNED)
        .when(outcome == Outcome.DROPPED.value, DROPPED)
        .when(tried >= attempts.maximum, PARKED)
        .otherwise(AGAIN)
    )
    judged_rows, counts = counted(
        judged_rows.withColumn(SINK, sink), F.col(SINK), (RETURNED, AGAIN, PARKED, DROPPED)
    )
    if write is None:
        judged_rows.write.format("noop").mode("overwrite").save()
        return counts.get
    returned = F.col(SINK) == RETURNED
    letter = dead_letter(
        F.col("verdict"),
        topic=F.col("from_topic"),
        partition=F.col("partition"),
        offset=F.col("from_offset"),
        timestamp=F.col("from_timestamp"),
        replays=tried,
    )
    back = with_header(
        with_header(own_headers(), dead_letters.REPLAYS, tried),
        dead_letters.TIMESTAMP,
        F.col("from_timestamp"),
    )
    outgoing = judged_rows.where(F.col(SINK) != DROPPED).withColumns(
        {
            "headers": with_far_time(
                F.when(returned, back).otherwise(letter), F.col("from_timestamp")
            ),
            "key": F.when(returned, F.col("key")).otherwise(F.col(_ORIGINALS[0])),
            "value": F.when(returned, F.col("value")).otherwise(F.col(_ORIGINALS[1])),
            "topic": F.when(returned, F.col("topic")).otherwise(F.col("letter_topic")),
            "partition": F.when(returned, F.col("partition")).otherwise(F.col("letter_partition")),
        }
    )
    if others_to is not None:
        other_rows = all_rows.where(stays).withColumn(SINK, F.lit(others_to))
        outgoing = outgoing.unionByName(other_rows, allowMissingColumns=True)
    write(outgoing, lambda: int(counts.get[DROPPED]))
    return counts.get


def find_letters(df: DataFrame, topics: LetterTopics) -> FoundLetters:
    """Return whose letters are in a frame with Kafka's columns.

    Args:
        df: The records of a place of dead letters.
        topics: Whose letters return.
    """
    letter, returns = F.col(LETTER), _returns(topics)
    place = F.concat_ws(
        "", F.col("topic"), F.lit("-"), F.col("partition"), F.lit(", offset "), F.col("offset")
    )
    rows = with_letters(with_all_columns(df))
    is_other = letter["form"].isNotNull() & ~returns
    groups = rows.groupBy(
        F.when(is_other, letter["topic"]).alias("topic"), returns.alias("returns")
    )
    group_counts = groups.agg(
        F.count(F.lit(1)).alias("records"),
        F.count(F.when(is_without_record(), True)).alias("empty"),
        F.min(place).alias("place"),
    )
    letters, others, most = FoundLetters(), Counter[str](), TOPICS_MAX + _NOT_OTHERS
    ordered = group_counts.orderBy(F.col("topic").isNotNull(), F.desc("records"))
    for row in (largest := ordered.limit(most).collect()):
        if row["topic"] is not None:
            others[row["topic"]] = row["records"]
        elif row["returns"]:
            letters = letters._replace(returning=row["records"], without_record=row["empty"])
        else:
            letters = letters._replace(strangers=row["records"], stranger=row["place"])
    if len(largest) == most:
        others[MORE] = rows.where(is_other).count() - others.total()
    return letters._replace(others=+others)


def _returns(topics: LetterTopics) -> Column:
    """Return whether a row of `with_letters` is a letter of one of some topics."""
    is_letter, topic = F.col(LETTER)["form"].isNotNull(), F.col(LETTER)["topic"]
    if topics.parts is None:
        return is_letter
    topic_filter = topic.isNull() | topic.isin([part for part in topics.parts if not is_glob(part)])
    for glob in filter(is_glob, topics.parts):
        topic_filter = topic_filter | topic.rlike(expression_of(glob))
    return is_letter & topic_filter
