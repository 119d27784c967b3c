"""The topics of a stream whose names the cluster does not list any more."""

from types import SimpleNamespace

import pytest

from penstock.kafka.client.positions import Position
from penstock.kafka.cluster.places import Places
from penstock.spark.streams.source import StreamSource
from tests.kafka.client.log_records import TASKS, log_record

pytestmark = pytest.mark.unit


def source(given="*", *records, written=(), missing=None):
    """A stream of some topics; the cluster is not contacted."""
    return StreamSource(
        SimpleNamespace(missing=missing), None, given, TASKS[0].job, "run", written,
        topic_ids={}, places=Places("places", records),
    )  # fmt: skip


def test_the_cluster_says_of_each_name_whether_it_exists():
    """A list of all topics leaves out those that may not be described."""
    assert source(missing={"gone", "here"}.intersection).deleted({"gone", "closed"}) == {"gone"}


@pytest.mark.parametrize(
    ("given", "written", "read"),
    [("de*", (), {"dead"}), ("dead", (), {"dead"}), ("x*", (), set()), ("de*", ("dead",), set())],
)
def test_topics_of_earlier_runs_are_those_that_are_still_meant(given, written, read):
    place = log_record(TASKS[0], Position(3, run="run"))
    assert source(given, place, written=written).read_earlier() == read
