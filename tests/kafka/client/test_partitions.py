"""Partitions by topic."""

from penstock.kafka.client.partitions import numbers_by_topic


def test_numbers_of_partitions_by_topic():
    partitions = [("b", 2), ("a", 1), ("b", 0)]
    assert numbers_by_topic(iter(partitions)) == {"b": [2, 0], "a": [1]}
    assert numbers_by_topic([]) == {}
