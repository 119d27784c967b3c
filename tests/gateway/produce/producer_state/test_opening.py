"""The state of producers in a file, which a gateway restores when it starts again."""

import time

import pytest
from structlog.testing import capture_logs

from penstock.configuration import ConfigurationError, read_configuration
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.opening import _take_over, open_producers
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.producers import Producers
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey

KEY = ProducerKey("t", 0, 7)
ARRIVAL = Arrival("t", 0, 7)


async def reopened(tmp_path, cluster="c", *, loses_records=True, **more):
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "upstream.bootstrap.servers": "127.0.0.1:1",
        "produce.request.interceptors.state": "local",
    }
    named = {f"produce.request.interceptors.{key}": value for key, value in more.items()}
    configuration = read_configuration(tmp_path / "gateway.properties", properties | named)
    return await open_producers(configuration, cluster, "g", loses_records=loses_records)


def decide(opened, first, count, dropped):
    return opened.producers.decide(
        KEY, ARRIVAL, 0, Range(first, count), dropped, b"x", connection=1, done=lambda _: None
    ).batch


async def with_dropped_record(tmp_path, **more):
    opened = await reopened(tmp_path, **more)
    batch = decide(opened, 0, 4, (1,))
    assert (batch.first, batch.broker_first, batch.dropped_count) == (0, 0, 1)
    await opened.close()


@pytest.mark.parametrize("loses_records", [True, False])
async def test_a_gateway_that_starts_again_knows_the_dropped_records(tmp_path, loses_records):
    await with_dropped_record(tmp_path)
    opened = await reopened(tmp_path, loses_records=loses_records)
    assert opened.producers.has_topic("t")
    assert opened.producers.find(KEY, 0, Range(0, 4)).dropped_count == 1
    assert (opened.presence is not None) == loses_records
    await opened.close()


async def test_each_cluster_has_its_own_file(tmp_path):
    await with_dropped_record(tmp_path)
    opened = await reopened(tmp_path, "other")
    assert not opened.producers.has_topic("t")
    assert opened.local.file.name == "producer-state-other.sqlite"
    await opened.close()


async def test_the_file_is_in_the_folder_that_is_configured(tmp_path):
    opened = await reopened(tmp_path, **{"state.dir": "here"})
    assert opened.local.file == tmp_path / "here" / "producer-state-c.sqlite"
    await opened.close()


async def test_without_a_folder_no_state_is_stored(tmp_path):
    opened = await reopened(tmp_path, **{"state.dir": ""})
    assert (opened.local, opened.writes) == (None, None)
    assert decide(opened, 0, 2, (1,)).dropped_count == 1
    await opened.close()
    assert list(tmp_path.iterdir()) == []


async def test_without_interceptors_no_file_is_created(tmp_path):
    opened = await reopened(tmp_path, loses_records=False)
    assert (opened.local, opened.writes, opened.presence) == (None, None, None)
    assert list(tmp_path.rglob("*.sqlite")) == []


async def test_a_file_of_another_kind_is_an_error_that_names_the_key(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "producer-state-c.sqlite").write_text("no database, but text that is long" * 9)
    with pytest.raises(ConfigurationError, match=r"interceptors\.state\.dir: .*not a database"):
        await reopened(tmp_path, **{"state.dir": "state"})


async def test_a_record_is_read_with_the_time_of_its_writing(tmp_path):
    await with_dropped_record(tmp_path)
    opened = await reopened(tmp_path)
    [(key, record, used)] = opened.local.records()
    assert key == KEY
    assert opened.local.get(KEY) == (record, used)
    assert opened.local.get(KEY._replace(producer_id=8)) is None
    await opened.close()


async def test_a_failed_write_to_the_file_is_retried_until_it_succeeds(tmp_path):
    opened = await reopened(tmp_path)
    opened.local._connection.execute("PRAGMA query_only = ON")
    failures = []
    opened.producers.decide(
        KEY, ARRIVAL, 0, Range(0, 4), (1,), b"x", connection=1, done=failures.append
    )
    (failure,) = failures
    assert "readonly" in failure
    opened.expire()
    assert opened.writes.why_not == failure
    opened.local._connection.execute("PRAGMA query_only = OFF")
    opened.expire()
    assert not opened.writes.why_not
    assert [key for key, _, _ in opened.local.records()] == []
    await opened.close()


async def test_a_record_that_cannot_be_read_counts_as_missing(tmp_path):
    await with_dropped_record(tmp_path)
    opened = await reopened(tmp_path)
    opened.local.close()
    with capture_logs() as lines:
        assert opened.producers._known._look_up(KEY) is None
    assert [line["event"] for line in lines] == ["the state of a producer cannot be read"]


async def test_the_file_of_a_newer_version_is_an_error(tmp_path):
    opened = await reopened(tmp_path, **{"state.dir": "here"})
    opened.local._connection.execute("PRAGMA user_version = 4")
    await opened.close()
    with pytest.raises(ConfigurationError, match="was written by another version"):
        await reopened(tmp_path, **{"state.dir": "here"})


async def test_the_file_of_an_older_version_is_emptied(tmp_path):
    await with_dropped_record(tmp_path, **{"state.dir": "here"})
    opened = await reopened(tmp_path, **{"state.dir": "here"})
    assert [key for key, _, _ in opened.local.records()] == [KEY]
    opened.local._connection.execute("PRAGMA user_version = 2")
    await opened.close()
    opened = await reopened(tmp_path, **{"state.dir": "here"})
    assert list(opened.local.records()) == []
    await opened.close()


class TestSharing:
    """The state that a gateway restores from its file when it begins to share its state."""

    def taken_over(self, file):
        producers = Producers(now=time.time, keep=lambda *_: None, is_shared=True)
        with capture_logs() as lines:
            _take_over(file, producers)
        return producers, [line["event"] for line in lines]

    async def test_records_of_the_file_are_restored(self, tmp_path):
        await with_dropped_record(tmp_path, **{"state.dir": "here"})
        producers, events = self.taken_over(tmp_path / "here" / "producer-state-c.sqlite")
        assert producers.has_topic("t")
        assert events == []

    @pytest.mark.parametrize("name", [None, "missing.sqlite"])
    def test_without_a_file_nothing_is_restored(self, tmp_path, name):
        producers, events = self.taken_over(name and tmp_path / name)
        assert not producers.has_topic("t")
        assert events == []
        assert list(tmp_path.iterdir()) == []

    def test_another_kind_of_file_is_not_restored(self, tmp_path):
        (tmp_path / "text.sqlite").write_text("no database, but text that is long" * 9)
        producers, events = self.taken_over(tmp_path / "text.sqlite")
        assert not producers.has_topic("t")
        assert events == ["the state of producers in a file is ignored"]

    async def test_records_after_an_unreadable_record_are_not_restored(self, tmp_path):
        opened = await reopened(tmp_path, **{"state.dir": "here"})
        opened.local.put(KEY, b"[]")
        await opened.close()
        producers, events = self.taken_over(tmp_path / "here" / "producer-state-c.sqlite")
        assert not producers.has_topic("t")
        assert events == ["the state of producers in a file is ignored"]
        _take_over(tmp_path / "here" / "producer-state-c.sqlite", producers)  # it was closed
