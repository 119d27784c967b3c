"""The topics of a stream whose names the cluster does not list any more."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from penstock.client.connections.metadata import TopicLeaders
from penstock.client.errors import DeniedError
from penstock.client.places import Places
from penstock.client.positions import Position
from penstock.spark.streams.stream_source import StreamSource
from tests.client.test_places import TASKS, log_record

pytestmark = pytest.mark.unit


def source(given="*", *records, written=(), **codes):
    """A stream of some topics whose names the cluster describes with codes."""

    def describe(names):
        return {name: TopicLeaders(name, codes[name], UUID(int=1), {}) for name in names}

    return StreamSource(
        None, SimpleNamespace(describe=describe), given, TASKS[0].job, "run", written,
        topic_ids={}, places=Places("places", records),
    )  # fmt: skip


def test_topics_that_do_not_exist_are_deleted():
    assert source(here=0, gone=3, waits=5).deleted({"here", "gone", "waits"}) == {"gone"}
    assert source().deleted(set()) == set()


def test_a_topic_that_may_not_be_described_is_named():
    with pytest.raises(DeniedError, match="topic closed: TOPIC_AUTHORIZATION_FAILED") as denied:
        source(gone=3, closed=29).deleted({"gone", "closed"})
    assert "allow the principal of upstream.* to describe and read it" in str(denied.value)
    assert not denied.value.retriable


@pytest.mark.parametrize(
    ("given", "written", "read"),
    [("de*", (), {"dead"}), ("dead", (), {"dead"}), ("x*", (), set()), ("de*", ("dead",), set())],
)
def test_topics_of_earlier_runs_are_those_that_are_still_meant(given, written, read):
    place = log_record(TASKS[0], Position(3, run="run"))
    assert source(given, place, written=written).read_earlier() == read
