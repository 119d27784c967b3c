"""Places in topics in the words of Spark's Kafka source."""

from uuid import UUID

import pytest

from penstock.configuration import ConfigurationError
from penstock.kafka.cluster.offsets import Topic
from penstock.kafka.cluster.ranges import Partition
from penstock.spark.source.bounds import (
    EARLIEST,
    LATEST,
    find_offsets,
    parse_offsets,
    parse_timestamp,
)

pytestmark = pytest.mark.unit
TOPICS = (Topic("orders", UUID(int=1), (0, 1)),)
ZERO, ONE = Partition("orders", 0), Partition("orders", 1)


class Log:
    """Two partitions with the offsets 10 to 20 and 0 to 5."""

    def first_offsets(self, _):
        return {ZERO: 10, ONE: 0}

    def end_offsets(self, _):
        return {ZERO: 20, ONE: 5}

    def offsets_since(self, _, timestamp_ms):
        return {ZERO: 15 + timestamp_ms, ONE: -1}


def found(place):
    return find_offsets(Log(), TOPICS, place)


def offsets(text):
    return parse_offsets(text, key="startingOffsets")


def test_words_and_offsets():
    assert found(EARLIEST) == {ZERO: 10, ONE: 0}
    assert found(LATEST) == {ZERO: 20, ONE: 5}
    assert found(offsets('{"orders": {"0": -2, "1": -1}}')) == {ZERO: 10, ONE: 5}
    assert found(offsets('{"orders": {"0": 20, "1": 3}}')) == {ZERO: 20, ONE: 3}


def test_the_reader_reports_removed_records():
    assert found(offsets('{"orders": {"0": 2, "1": 3}}'))[ZERO] == 2


def test_a_time_without_records_after_it_is_the_end():
    place = parse_timestamp("1", key="startingTimestamp")
    assert found(place) == {ZERO: 16, ONE: 5}
    assert found(parse_timestamp("9", key="startingTimestamp"))[ZERO] == 20


def test_a_time_without_records_after_it_where_one_is_needed():
    place = parse_timestamp("1", key="startingTimestamp", needs_record=True)
    text = "startingTimestamp 1: orders-1 has no record since then; with .*Strategy latest, these"
    with pytest.raises(ConfigurationError, match=text):
        found(place)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "5", '"x"', '{"orders": 5}', '{"orders": {"x": 5}}', '{"orders": {"0": 5.5}}',
     '{"orders": {"0": true}}', '{"orders": {"0": "5"}}', '{"orders": {"0": -3}}', "{", "null"],
)  # fmt: skip
def test_invalid_offsets_for_partitions(text):
    with pytest.raises(ConfigurationError, match=r"startingOffsets .*: earliest, latest, or"):
        offsets(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"orders": {"0": 12}}', "startingOffsets: orders-1 is left out"),
        ('{"orders": {"0": 12, "1": 6}}', "orders-1 ends at offset 5, before 6"),
        ('{"orders": {"0": 12, "1": 1, "2": 0}}', "orders-2 is not there, or not subscribed"),
        ('{"orders": {"0": 12, "1": 1}, "other": {"0": 0}}', "other-0 is not there"),
    ],
)
def test_partitions_have_to_fit(text, problem):
    with pytest.raises(ConfigurationError, match=problem):
        found(offsets(text))
