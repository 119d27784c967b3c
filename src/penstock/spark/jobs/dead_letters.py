"""The headers of dead letters, in columns: see `penstock.engine.modes.dead_letters`."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from penstock.engine.modes.dead_letters import (
    CODE,
    FORMATS,
    GROUP,
    MESSAGE,
    OFFSET,
    OUTCOME,
    OWN,
    PARTITION,
    POLICY,
    PREFIXES,
    REASON,
    REPLAYS,
    TIMESTAMP,
    TOPIC,
)
from penstock.jobs.rows.far_times import MS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from penstock.engine.modes.letter_formats import LetterFormat

_HEADERS: Final = "array<struct<key:string,value:binary>>"
TIME: Final = "time"
"""The column of `with_times`."""
_BITS: Final = {"int": 32, "bigint": 64}
_TOPIC_NAME: Final = r"^[a-zA-Z0-9._-]{1,249}\z"
LETTER: Final = "letter"
"""The column of `with_letters`: the name of the header that says whose letter it is, the topic, and
the number of its partition, its offset and its timestamp, as far as headers say them."""


def dead_letter(
    verdict: Column,
    *,
    topic: Column,
    partition: Column,
    offset: Column,
    timestamp: Column,
    replays: Column,
) -> Column:
    """Return a record's headers as a dead letter: its own, then where it was and why.

    Args:
        verdict: As from `judge`.
        topic: Where the record was.
        partition: Its partition there.
        offset: Its offset there.
        timestamp: Its timestamp, in ms.
        replays: How often it was redriven.
    """
    return F.concat(
        own_headers(),
        F.array(
            _header(TOPIC, topic),
            _header(PARTITION, partition),
            _header(OFFSET, offset),
            _header(MESSAGE, F.coalesce(verdict["message"], F.lit(""))),
            _header(OUTCOME, verdict["outcome"]),
            _header(POLICY, verdict["policy"]),
            _header(CODE, verdict["code"]),
            _header(REASON, F.coalesce(verdict["message"], F.lit(""))),
            _header(TIMESTAMP, timestamp),
            _header(REPLAYS, replays),
        ),
    )


def number(name: str, kind: str) -> Column:
    """Return the number in a header; null where it holds none.

    Args:
        kind: Spark's type, `int` or `bigint`.
    """
    return _number(header(name), kind)


def with_letters(rows: DataFrame) -> DataFrame:
    """Add the column `LETTER`: whose letter a record is; see `format_of` and `read_origin`."""
    headers = F.coalesce(F.col("headers"), F.array().cast(_HEADERS))

    def names_topic(header: Column) -> Column:
        value = header["value"]
        is_topic = F.coalesce(value.cast("string").rlike(_TOPIC_NAME), F.lit(False))
        is_own = (header["key"] == OWN.topic) & value.isNull()
        return header["key"].isin([form.topic for form in FORMATS]) & (is_topic | is_own)

    topic_headers = F.filter(headers, names_topic)
    last = F.when(F.size(topic_headers) > 0, F.element_at(topic_headers, -1))
    rows = rows.withColumn(LETTER, last)
    form, topic = F.col(LETTER)["key"], F.col(LETTER)["value"].cast("string")
    first = number(TIMESTAMP, "bigint")
    of_form = _of_form(form, lambda each: each.timestamp if each is not OWN else None, "bigint")
    return rows.withColumn(
        LETTER,
        F.struct(
            form.alias("form"),
            topic.alias("topic"),
            _of_form(form, lambda each: each.partition, "int").alias("partition"),
            _of_form(form, lambda each: each.offset, "bigint").alias("offset"),
            F.coalesce(F.when(of_form >= 0, of_form), first).alias("timestamp"),
        ),
    )


def is_without_record() -> Column:
    """Return whether a row of `with_letters` is a share group's letter without a record."""
    is_empty = F.col("key").isNull() & F.col("value").isNull()
    has_group = F.exists(F.col("headers"), lambda header: header["key"] == GROUP)
    return is_empty & (F.col(LETTER)["form"] == OWN.topic) & has_group


def _of_form(form: Column, named: Callable[[LetterFormat], str | None], kind: str) -> Column:
    """Return the number in a header of each row's own form; null where it holds none.

    Args:
        form: The name of the header with the topic.
        named: Returns the name of the header; None for a form without it.
        kind: Spark's type, `int` or `bigint`.
    """
    names = [(each, named(each)) for each in FORMATS]
    cases = [
        F.when(form == each.topic, _read_number(each, name, kind))
        for each, name in names
        if name is not None
    ]
    return F.coalesce(*cases)


def _read_number(form: LetterFormat, name: str, kind: str) -> Column:
    text = number(name, kind)
    if not form.is_binary:
        return text
    value, size = _last_value(name), _BITS[kind] // 8
    # More bytes than a number has would be an error of `conv`.
    unsigned = F.conv(F.hex(value.substr(1, size)), 16, 10).cast("decimal(20,0)")
    # A decimal: PySpark cannot pass an integer of more than 64 bits.
    half = F.lit(Decimal(2 ** (_BITS[kind] - 1)))
    signed = F.when(unsigned >= half, unsigned - half - half).otherwise(unsigned)
    return F.when(F.length(value) == size, signed.cast(kind)).otherwise(text)


def _number(text: Column, kind: str) -> Column:
    is_number = text.rlike(r"^\s*[+-]?[0-9]{1,20}\s*$")
    if hasattr(text, "try_cast") and not isinstance(text.try_cast, type(text)):
        return F.when(is_number, text.try_cast(kind))
    # PySpark 3.5 takes an attribute that a column has not for a field of it.
    exact, limit = F.trim(text).cast("decimal(20,0)"), 2 ** (_BITS[kind] - 1)
    return F.when(is_number, F.when(exact.between(-limit, limit - 1), exact.cast(kind)))


def still_dead_letter(verdict: Column) -> Column:
    """Return the headers of a record that was refused, of a frame with Kafka's columns and `TIME`.

    A record that is a dead letter already keeps the place that it first came from.

    Args:
        verdict: As from `judge`.
    """
    is_letter = header(TOPIC).isNotNull()
    partition = partition_or_null()

    def first(name: str, kind: str, here: Column) -> Column:
        return F.coalesce(F.when(is_letter, number(name, kind)), here)

    return dead_letter(
        verdict,
        topic=F.coalesce(header(TOPIC), F.col("topic")),
        partition=F.coalesce(F.when(is_letter, partition), F.col("partition")),
        offset=first(OFFSET, "bigint", F.col("offset")),
        timestamp=first(TIMESTAMP, "bigint", F.col(TIME)),
        replays=replays(),
    )


def partition_or_null() -> Column:
    """Return the partition in a dead letter's headers; null if they do not say it."""
    partition = number(PARTITION, "int")
    return F.when(partition >= 0, partition)


def replays() -> Column:
    """Return how often a record has been redriven; 0 if its headers do not say it."""
    return F.greatest(F.coalesce(number(REPLAYS, "int"), F.lit(0)), F.lit(0))


def with_header(headers: Column, name: str, value: Column) -> Column:
    """Add a header of a dead letter."""
    return F.concat(headers, F.array(_header(name, value)))


def own_headers() -> Column:
    """Return the record's headers without those of a dead letter; an empty array for none."""
    headers = F.coalesce(F.col("headers"), F.array().cast(_HEADERS))
    return F.filter(headers, lambda header: ~_begins(header, PREFIXES))


def record_headers() -> Column:
    """Return the headers of the record that a row of `with_letters` is about."""

    def is_of_letter(header: Column) -> Column:
        is_of = _begins(header, PREFIXES)
        for form in FORMATS:
            is_form = F.coalesce(F.col(LETTER)["form"] == form.topic, F.lit(False))
            is_of = is_of | (is_form & _begins(header, form.prefixes))
        return is_of

    headers = F.coalesce(F.col("headers"), F.array().cast(_HEADERS))
    return F.filter(headers, lambda header: ~is_of_letter(header))


def _begins(header: Column, prefixes: Sequence[str]) -> Column:
    """Return whether the name of a header begins with one of some texts."""
    first, *others = (header["key"].startswith(prefix) for prefix in prefixes)
    for other in others:
        first = first | other
    return first


def header(name: str) -> Column:
    """Return the text of the last header of a name, or null."""
    return _last_value(name).cast("string")


def _last_value(name: str) -> Column:
    headers = F.coalesce(F.col("headers"), F.array().cast(_HEADERS))
    matches = F.filter(headers, lambda header: header["key"] == F.lit(name))
    return F.when(F.size(matches) > 0, F.element_at(matches, -1)["value"])


def far_time() -> Column:
    """Return a row's timestamp, in ms, if it is far and so in the last header; null otherwise."""
    last = F.when(F.size("headers") > 0, F.element_at("headers", -1))
    timestamp = _number(F.when(last["key"] == TIMESTAMP, last["value"].cast("string")), "bigint")
    return F.when(F.col("timestamp").isNull() & is_far(timestamp), timestamp)


def with_times(rows: DataFrame) -> DataFrame:
    """Add a column with the timestamp in ms, and remove it from headers where it is far."""
    own = F.slice("headers", 1, F.greatest(F.size("headers") - 1, F.lit(0)))
    return rows.withColumns(
        {
            TIME: F.coalesce(in_ms(F.col("timestamp")), far_time()),
            "headers": F.when(far_time().isNotNull(), own).otherwise(F.col("headers")),
        }
    )


def with_far_time(headers: Column, timestamp: Column) -> Column:
    """Return the headers of a row: with its timestamp, in ms, if that is far."""
    return F.when(is_far(timestamp), with_header(headers, TIMESTAMP, timestamp)).otherwise(headers)


def is_far(timestamp: Column) -> Column:
    """Return whether a timestamp in ms does not fit a row."""
    return ~timestamp.between(-MS_MAX, MS_MAX)


def in_ms(timestamp: Column) -> Column:
    """Return a timestamp in ms since the epoch."""
    return F.unix_millis(timestamp)


def _header(name: str, value: Column) -> Column:
    return F.struct(
        F.lit(name).alias("key"), F.encode(value.cast("string"), "UTF-8").alias("value")
    )
