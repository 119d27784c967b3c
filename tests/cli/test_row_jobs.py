"""Sources of records, and the part of a dead letter topic that is still to return."""

from types import SimpleNamespace

import pytest

from penstock.cli.jobs.row_jobs import LetterRanges, Letters, RowSource, only
from penstock.jobs.batches.letter_outcomes import PARKED, RETURNED
from penstock.jobs.batches.letter_topics import LetterTopics
from penstock.jobs.locations import RecordLocation


@pytest.mark.parametrize(("names", "expected"), [(["a"], "a"), ([], None), (["a", "b"], None)])
def test_the_only_topic(names, expected):
    assert only([SimpleNamespace(name=name) for name in names]) == expected


@pytest.mark.parametrize(
    ("source", "appended"),
    [
        (RowSource(folder="dead"), (RETURNED, PARKED)),
        (RowSource(topics=[SimpleNamespace(name="dead")]), (RETURNED,)),
    ],
)
def test_folders_that_are_appended_to(source, appended):
    letters = Letters(source, {}, None, LetterTopics(), None, dry_run=False)
    assert letters.appended == appended


class Cluster:
    """A cluster with a topic of two partitions, and positions of groups."""

    def __init__(self):
        self.committed_groups = {}

    def topic(self, name):
        return SimpleNamespace(name=name, partitions=(0, 1))

    def committed(self, topic, group):
        return self.committed_groups.get((topic.name, group), {0: 0, 1: 0})

    def offsets(self, topic, place, *, key):
        assert (topic.name, place, key) == ("dead", "latest", "--to")
        return {0: 10, 1: 20}

    def commit(self, topic, group, offsets):
        self.committed_groups[topic.name, group] = offsets


def ranges_of(cluster, target="path:/out", topics=None):
    dead, to = RecordLocation.parse("dead"), RecordLocation.parse(target)
    return LetterRanges(cluster, dead, to, LetterTopics(topics))


def places(ranges):
    return [(part.topic, part.partition, part.start, part.end) for part in ranges.ranges]


def test_letters_return_from_where_an_earlier_run_has_ended():
    cluster = Cluster()
    first = ranges_of(cluster)
    assert places(first) == [("dead", 0, 0, 10), ("dead", 1, 0, 20)]
    assert places(ranges_of(cluster))[0] == ("dead", 0, 0, 10), "it is not done"
    first.done()
    assert places(ranges_of(cluster)) == [("dead", 0, 10, 10), ("dead", 1, 20, 20)]


@pytest.mark.parametrize(
    ("target", "topics", "is_same"),
    [
        ("path:/out/../out/", None, True),
        ("path:/other", None, False),
        ("path:/out", ("orders",), False),
    ],
)
def test_each_folder_and_each_choice_of_topics_has_its_position(target, topics, is_same):
    cluster = Cluster()
    ranges_of(cluster).done()
    start = 10 if is_same else 0
    assert places(ranges_of(cluster, target, topics))[0] == ("dead", 0, start, 10)
