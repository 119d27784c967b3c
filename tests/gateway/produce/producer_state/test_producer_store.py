"""The stored state of producers: in a file, or shared by gateways, and for how long."""

import pytest
from structlog.testing import capture_logs

from penstock.configuration import read_configuration
from penstock.gateway.produce.producer_state import cluster
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.cluster import ClusterStore
from penstock.gateway.produce.producer_state.letters import LettersNotStored, Quarantined
from penstock.gateway.produce.producer_state.opening import open_producers
from penstock.gateway.produce.producer_state.presence import Presence
from penstock.gateway.produce.producer_state.producer.batch import Stored
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.cluster.brokers import UnreachableError
from penstock.kafka.cluster.compacted_topic import CompactedTopicError

KEY = ProducerKey("t", 0, 7)
ARRIVAL = Arrival("t", 0, 7)


def producers(**options):
    """State that is stored in a list, as a restart or another gateway would read it."""
    kept: list[tuple[ProducerKey, bytes]] = []

    def keep(key, record, done):
        kept.append((key, record))
        if options.get("is_shared"):
            made.restore(key, record, 5.0)
        done(None)

    made = Producers(now=lambda: 5.0, keep=keep, **options)
    return made, kept


def decide(state, first, count, dropped=(), data=b"x", *, epoch=0, connection=1):
    decided = state.decide(
        KEY, ARRIVAL, epoch, Range(first, count), dropped, data,
        connection=connection, callback=lambda _: None,
    )  # fmt: skip
    return decided if isinstance(decided, int) else decided.batch


def stored(state, batch, *, epoch=0):
    assert state.send(KEY, epoch, batch) == 0
    assert state.on_response(KEY, epoch, batch, 0, Stored(9)) == 0


def test_sequence_numbers_are_lowered_by_the_records_dropped_before():
    state, kept = producers()
    stored(state, decide(state, 0, 10))
    assert kept == [], "a batch that loses nothing is not written"
    stored(state, decide(state, 10, 10, [1, 2]))
    assert len(kept) == 1
    batch = decide(state, 20, 5)
    assert (batch.broker_first, len(kept)) == (18, 1)


def test_a_gateway_that_follows_another_for_long_can_continue_at_any_time():
    writer, kept = producers(is_shared=True)
    other, _ = producers(is_shared=True)
    stored(other, decide(other, 0, 2))
    stored(writer, decide(writer, 0, 2))
    for first in range(2, 1_000, 2):
        stored(writer, decide(writer, first, 2, [0]))
        other.restore(*kept[-1], 5.0)
    batch = decide(other, 1_000, 2)
    assert batch.broker_first == 1_000 - 499
    stored(other, batch)


def test_state_in_use_is_written_again_before_it_would_be_forgotten():
    clock, kept = [1.0], []
    state = Producers(
        now=lambda: clock[0], keep=lambda *write: (kept.append(write), write[2](None))
    )
    stored(state, decide(state, 0, 4, [0]))
    for number in range(4, 30):
        clock[0] += 4_000.0
        stored(state, decide(state, number, 1))
        state.expire()
    assert len(kept) == 3  # each half day: a record is taken for forgotten after a day


def test_keys_are_read_as_they_were_written():
    for key in (KEY, ProducerKey("a/b.c", 12, 2**60)):
        assert ProducerKey.decode(key.encode()) == key
    with pytest.raises(ValueError):
        ProducerKey.decode(b"x")


async def test_a_cluster_that_does_not_respond_is_not_taken_for_a_cluster_without_state(
    tmp_path, monkeypatch
):
    """Even if interceptors were removed, their state may be in the topic."""
    monkeypatch.setattr("penstock.gateway.produce.producer_state.opening.TIMEOUT_S", 0.5)
    configuration = read_configuration(
        tmp_path / "gateway.properties",
        {"listeners": "PLAINTEXT://127.0.0.1:0", "upstream.bootstrap.servers": "127.0.0.1:1"},
    )
    with pytest.raises(UnreachableError):
        await open_producers(configuration, "c", "g", loses_records=False)


async def test_a_topic_that_cannot_be_read_is_logged_once_a_minute(tmp_path):
    """Each batch of each producer reads it: hundreds of lines a second otherwise."""
    configuration = read_configuration(
        tmp_path / "gateway.properties",
        {"listeners": "PLAINTEXT://127.0.0.1:0", "upstream.bootstrap.servers": "127.0.0.1:1"},
    )
    store = ClusterStore(configuration, configuration.upstream_properties, Presence("g"))

    async def read_to_end(_timeout_s):
        raise CompactedTopicError("it could not be read in time")

    store._follower.read_to_end = read_to_end
    with capture_logs() as logs:
        for _ in range(100):
            with pytest.raises(CompactedTopicError):
                await store.read_to_end()
        store._unread.at -= 60
        with pytest.raises(CompactedTopicError):
            await store.read_to_end()
    assert [(line["log_level"], line["times"]) for line in logs] == [("error", 1), ("error", 100)]


async def test_state_that_cannot_be_written_is_logged_once_a_minute(tmp_path):
    configuration = read_configuration(
        tmp_path / "gateway.properties",
        {"listeners": "PLAINTEXT://127.0.0.1:0", "upstream.bootstrap.servers": "127.0.0.1:1"},
    )
    store = ClusterStore(configuration, configuration.upstream_properties, Presence("g"))
    store._follower.write = lambda _, done: done(0, "no leader")
    failures = []
    with capture_logs() as logs:
        for _ in range(100):
            store.keep(ProducerKey("t", 0, 1), b"", failures.append)
    assert failures == ["no leader"] * 100
    assert [(line["event"], line["reason"], line["times"]) for line in logs] == [
        ("the state of a producer cannot be written", "no leader", 1)
    ]


async def test_a_change_that_was_not_announced_is_announced_before_any_decision_is_written(
    tmp_path,
):
    """Otherwise the gateway, if killed now, would start with its earlier announcement."""
    configuration = read_configuration(
        tmp_path / "gateway.properties",
        {"listeners": "PLAINTEXT://127.0.0.1:0", "upstream.bootstrap.servers": "127.0.0.1:1"},
    )
    presence = Presence("g")
    store = ClusterStore(configuration, configuration.upstream_properties, presence)
    written, failure = [], "no leader"

    def write(records, done):
        written.append([key for key, _ in records])
        done(0, failure)

    async def append(records, _timeout_s):
        if failure is not None:
            raise CompactedTopicError(failure)

    store._follower.write, store._follower.append = write, append
    decision = KEY.encode()
    assert await store.announce_change([""]) == "no leader"
    store.keep(KEY, b"", lambda _: None)
    failure = None
    for _ in range(2):
        store.keep(KEY, b"", lambda _: None)
    assert written == [[presence.key, decision], [presence.key, decision], [decision]]
    assert await store.announce_change([""]) is None
    store.keep(KEY, b"", lambda _: None)
    assert written[-1] == [decision]


@pytest.mark.parametrize("fails", [0, 3, None])
async def test_a_failed_announcement_of_a_change_is_retried_until_a_deadline(
    tmp_path, monkeypatch, fails
):
    """If a broker restarts, the topic has a leader again after seconds."""
    monkeypatch.setattr(cluster, "_RETRY_AFTER_S", 0.0)
    configuration = read_configuration(
        tmp_path / "gateway.properties",
        {"listeners": "PLAINTEXT://127.0.0.1:0", "upstream.bootstrap.servers": "127.0.0.1:1"},
    )
    presence = Presence("g")
    store = ClusterStore(configuration, configuration.upstream_properties, presence)
    values = []

    async def append(records, _timeout_s):
        [(_, value)] = records
        values.append(value)
        if fails is None or len(values) <= fails:
            raise CompactedTopicError("no leader")

    store._follower.append = append
    with capture_logs() as logs:
        failure = await store.announce_change([""], timeout_s=0.05 if fails is None else 60.0)
    events = [line["event"] for line in logs]
    waits = "waiting until other gateways know that interceptors change"
    if fails is None:
        assert (failure, len(values) > 1) == ("no leader", True)
        assert events == [waits, "other gateways do not know yet that interceptors have changed"]
    else:
        assert (failure, len(values)) == (None, fails + 1)
        assert events == [waits] * bool(fails)
    assert len(set(values)) == 1, "it is one change"


class Letters:
    """Stores dead letters when the test says so."""

    def __init__(self):
        self.waiting = []

    def store(self, letters, positions, done):
        self.waiting.append((letters, done))

    def end(self, failure=None):
        letters, done = self.waiting.pop(0)
        done(failure)
        return letters


def quarantine(state, first, count, positions, to, *, letters=b"letters", dropped=None):
    """Decide a batch with bad records; return the batch, and the failures of its writes."""
    failures = []
    made = positions if letters is not None else ()
    lost = positions if dropped is None else dropped
    decided = state.decide(
        KEY, ARRIVAL, 0, Range(first, count), lost, b"rest", connection=1,
        quarantined=Quarantined(made, letters, to.store), callback=failures.append,
    )  # fmt: skip
    return decided.batch, failures


def test_letters_are_stored_after_the_decision_is_written():
    state, kept = producers()
    to = Letters()
    batch, failures = quarantine(state, 0, 4, [1, 2], to)
    assert (len(kept), len(to.waiting), failures) == (1, 1, [])
    assert batch.owes_letters
    assert to.end() == b"letters"
    assert failures == [None]
    assert not batch.owes_letters
    stored(state, batch)
    assert decide(state, 4, 1).broker_first == 2


def test_a_batch_that_loses_all_records_is_dropped_once_its_letters_are_stored():
    state, _ = producers()
    to = Letters()
    batch, failures = quarantine(state, 0, 2, [0, 1], to)
    assert state.acknowledge(KEY, 0, batch) == 7
    to.end()
    assert failures == [None]
    assert state.acknowledge(KEY, 0, batch) == 0


def test_letters_that_could_not_be_stored_are_stored_with_the_retry():
    state, _ = producers()
    for positions in ([1], [0, 1]):
        to = Letters()
        first = 2 * len(positions)
        batch, failures = quarantine(state, first, 2, positions, to)
        to.end("no broker")
        assert failures == ["no broker"]
        assert isinstance(failures[0], LettersNotStored)
        state.not_kept(KEY, 0, batch)
        assert batch.is_decided, "a retry need not be judged"
        again, failures = quarantine(state, first, 2, positions, to, letters=None)
        assert again is batch
        assert to.end() == b"letters"
        assert failures == [None]
    assert state.held.bytes == len(b"rest") + 4


@pytest.mark.parametrize("positions", [[1, 3], [0, 1, 2, 3]])
def test_another_gateway_knows_which_records_were_quarantined(positions):
    first, kept = producers()
    quarantine(first, 0, 4, positions, Letters())
    other, _ = producers()
    other.restore(*kept[-1], 5.0)
    found = other.find(KEY, 0, Range(0, 4))
    assert list(found.dropped_again) == list(found.quarantined) == positions
    assert not found.is_decided, "nobody knows whether the letters are stored"
    to = Letters()
    again, failures = quarantine(other, 0, 4, positions, to)
    assert again is found
    assert failures == []
    to.end("no broker")
    other.not_kept(KEY, 0, again)
    assert isinstance(failures[0], LettersNotStored)
    again, failures = quarantine(other, 0, 4, positions, to)
    to.end()
    assert failures == [None]
    assert again.is_decided


def test_a_client_has_no_success_before_other_gateways_know_that_no_letters_remain():
    """A gateway that got the batch first would return 7 for all later batches."""
    failures, kept = [None, "no leader", None], []

    def keep(_, record, done):
        failure = failures.pop(0)
        if failure is None:
            kept.append(record)
            state.restore(KEY, record, 5.0)
        done(failure)

    state = Producers(now=lambda: 5.0, keep=keep, is_shared=True)
    to = Letters()
    batch, results = quarantine(state, 0, 2, [0, 1], to)
    to.end()
    assert results == ["no leader"]
    state.not_kept(KEY, 0, batch)
    other, _ = producers(is_shared=True)
    other.restore(KEY, kept[-1], 5.0)
    assert other.find(KEY, 0, Range(0, 2)).owes_letters

    again, results = quarantine(state, 0, 2, [0, 1], to)
    assert (again, results, failures) == (batch, [None], [])
    other.restore(KEY, kept[-1], 5.0)
    assert not other.find(KEY, 0, Range(0, 2)).owes_letters


def test_an_unwritten_batch_is_missing_even_if_its_producer_was_set_aside():
    """A broker that does not know the producer would accept later batches."""
    before, kept = producers(is_shared=True)
    decide(before, 0, 4, [2])
    state, _ = producers(is_shared=True, producers_max=1)
    state.restore(*kept[-1], 5.0)
    batch = decide(state, 0, 4, [2])
    other = KEY._replace(producer_id=8)
    state.decide(
        other, Arrival(*other), 0, Range(0, 1), (), b"x", connection=2, callback=lambda _: None
    )
    state.not_kept(KEY, 0, batch)
    assert state.send(KEY, 0, decide(state, 4, 4)) == 7


@pytest.mark.parametrize("what", ["not_kept", "send", "acknowledge"])
def test_a_batch_is_missing_even_if_its_producer_was_forgotten(what):
    """A broker that does not know the producer would accept later batches."""
    state, _ = producers(is_shared=True, producers_max=1, kept_max_bytes=0)
    batch = decide(state, 0, 4, [0, 1, 2, 3] if what == "acknowledge" else [2])
    other = KEY._replace(producer_id=8)
    state.decide(
        other, Arrival(*other), 0, Range(0, 1), (), b"x", connection=2, callback=lambda _: None
    )
    assert state.find(KEY, 0, batch.numbers) is None
    assert getattr(state, what)(KEY, 0, batch) in {None, 7}
    behind = decide(state, 4, 4)
    assert 7 in {behind, not isinstance(behind, int) and state.send(KEY, 0, behind)}


def test_a_producer_does_not_continue_while_its_owed_letters_cannot_be_stored():
    """Other policies may have judged a retry while the first attempt was not decided."""
    for positions in ([1], [0, 1]):
        state, _ = producers()
        to = Letters()
        batch, _ = quarantine(state, 0, 2, positions, to)
        to.end("no broker")
        state.not_kept(KEY, 0, batch)
        failures = []
        decided = state.decide(
            KEY, ARRIVAL, 0, Range(0, 2), (), b"all", connection=1, callback=failures.append
        )
        assert decided.batch is batch
        assert isinstance(failures[0], LettersNotStored)
        state.not_kept(KEY, 0, batch)
        _, failures = quarantine(state, 0, 2, positions, to, letters=None)
        to.end()
        assert failures == [None]


def test_only_quarantined_records_become_letters():
    first, kept = producers()
    quarantine(first, 0, 4, [2], Letters(), dropped=[0, 2])
    other, _ = producers()
    other.restore(*kept[-1], 5.0)
    found = other.find(KEY, 0, Range(0, 4))
    assert (list(found.dropped_again), list(found.quarantined)) == ([0, 2], [2])


def test_letters_of_records_that_are_stored_are_not_written():
    """The decision about a batch stays, whatever its verdict is now."""
    state, _ = producers()
    to = Letters()
    batch, _ = quarantine(state, 0, 4, [1], to)
    to.end()
    stored(state, batch)
    _, failures = quarantine(state, 0, 4, [2], to)
    assert (to.waiting, failures) == ([], [None])


def test_without_memory_letters_have_to_be_created_again():
    state, _ = producers(held_max_bytes=1)
    to = Letters()
    batch, failures = quarantine(state, 0, 2, [0], to)
    assert to.waiting[0][0] == b"letters"
    assert not batch.is_decided
    to.end("no broker")
    state.not_kept(KEY, 0, batch)
    _, failures = quarantine(state, 0, 2, [0], to, letters=None)
    assert isinstance(failures[0], LettersNotStored)
    _, failures = quarantine(state, 0, 2, [0], to)
    to.end()
    assert failures == [None]


async def test_settings_of_topics_are_announced_before_any_decision_by_them(tmp_path):
    """A script may set those of thousands of topics: one record is on its way at a time."""
    configuration = read_configuration(
        tmp_path / "gateway.properties",
        {"listeners": "PLAINTEXT://127.0.0.1:0", "upstream.bootstrap.servers": "127.0.0.1:1"},
    )
    presence = Presence("g")
    store = ClusterStore(configuration, configuration.upstream_properties, presence)
    written, waiting = [], []

    def write(records, done):
        written.append([key for key, _ in records])
        waiting.append(done)

    store._follower.write = write
    for topic in ("a", "b", "c"):
        store.announce_topic(topic, loses_records=True)
    assert written == [[presence.key]]
    store.keep(KEY, b"", lambda _: None)
    assert written[1] == [presence.key, KEY.encode()]
    waiting[0](0, "no leader")
    store.keep(KEY, b"", lambda _: None)
    assert written[2] == [presence.key, KEY.encode()], "a failure is made up for"
    waiting[2](0, None)
    store.keep(KEY, b"", lambda _: None)
    assert written[3] == [KEY.encode()]
    store.announce_topic("d", loses_records=True)
    store.announce_topic("e", loses_records=True)
    waiting[4](0, None)
    assert written[4:] == [[presence.key]] * 2
