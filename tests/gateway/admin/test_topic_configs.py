"""Stored settings of topics, over a log in memory: crashes, several gateways, time."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest

from penstock.engine.topic_configs.index import (
    TopicConfigRecord,
    UnreadableTopicConfigsError,
    creation_key,
    topic_key,
)
from penstock.gateway.admin import topic_configs as topic_settings
from penstock.gateway.admin.topic_configs import (
    ABANDONED_AFTER_S,
    LEFT_AFTER_S,
    MISSED_TIMES,
    StoredTopicConfigs,
)
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from tests.engine.topic_configs.admin_requests import judged_by
from tests.engine.topic_configs.settings_records import WITHOUT_A_NAME, with_a_name
from tests.gateway.admin.memory_log import Died, MemoryLog, MemoryTopic

OWN = judged_by("A")
OTHERS = judged_by("B")


class Cluster:
    """Topics and their ids."""

    def __init__(self) -> None:
        self.ids: dict[str, UUID] = {}
        self.requested: list[str] = []

    def create(self, topic: str) -> UUID:
        assert topic not in self.ids
        return self.ids.setdefault(topic, uuid4())

    def look_up(self, names: Iterable[str]) -> dict[str, UUID | None]:
        self.requested = list(names)
        return {name: self.ids.get(name) for name in self.requested}


class Gateways:
    """Gateways of one cluster."""

    def __init__(self, clock: SimpleNamespace) -> None:
        self.cluster = Cluster()
        self.kept = MemoryTopic(clock)
        self.clock = clock
        self.changes: list[str] = []

    async def start(self, name: str = "one", *, dies: int = 0) -> StoredTopicConfigs:
        """Start a gateway, as after a crash."""
        log = MemoryLog(self.kept)
        log.dies = dies
        started = StoredTopicConfigs(log, name, lambda topic, _: self.changes.append(topic))
        await started.start(1.0)
        return started

    async def restart(self, name: str = "one") -> StoredTopicConfigs:
        """Start a gateway, and let it settle the creations that it left open."""
        started = await self.start(name)
        await started.sweep(self.cluster.look_up, starting=True)
        return started

    async def create(
        self, gateway: StoredTopicConfigs, topic: str, own: Mapping[str, str], *, dies: str = ""
    ) -> UUID:
        """Create a topic, in the steps of CreateTopics."""
        creation = await gateway.prepare(topic, own)
        if dies == "before":
            raise Died
        topic_id = self.cluster.create(topic)
        if dies == "after":
            raise Died
        if creation is not None:
            await gateway.finish(creation, topic_id)
        return topic_id

    async def delete(self, gateway: StoredTopicConfigs, topic: str) -> None:
        """Delete a topic, in the steps of DeleteTopics."""
        over = gateway.open_creations(topic)
        await gateway.forget([self.cluster.ids.pop(topic)], over=over)

    async def alter(self, gateway: StoredTopicConfigs, topic: str, own: Mapping[str, str]) -> None:
        """Change the settings of a topic, in the steps of AlterConfigs."""
        over = gateway.open_creations(topic)
        await gateway.put(topic, self.cluster.ids[topic], own, over=over)

    def later(self, seconds: float) -> None:
        self.clock.now += seconds

    @property
    def open_creations(self) -> list[str]:
        """Return the creations of which a record remains."""
        left = dict.fromkeys(record.key for record in self.kept.records)
        left |= {record.key: record.value for record in self.kept.records}
        return [
            key.decode() for key, value in left.items() if value and key.startswith(b"creation/")
        ]


@pytest.fixture
def gateways(monkeypatch: pytest.MonkeyPatch) -> Gateways:
    clock = SimpleNamespace(now=1_700_000_000.0)
    clock.time = clock.monotonic = lambda: clock.now
    monkeypatch.setattr(topic_settings, "time", clock)
    monkeypatch.setattr(topic_settings, "READ_TIMEOUT_S", 1.0)
    monkeypatch.setattr(topic_settings, "WRITE_TIMEOUT_S", 0.3)
    return Gateways(clock)


async def settled() -> None:
    """Let the event loop process callbacks from threads."""
    for _ in range(5):
        await asyncio.sleep(0)


# Every step


async def test_a_topic_has_its_settings_before_it_exists(gateways):
    first, two = await gateways.start("one"), await gateways.start("two")

    creation = await first.begin("orders", OWN)
    topic_id = gateways.cluster.create("orders")
    await settled()
    assert [dict(gateway.of("orders", topic_id)) for gateway in (first, two)] == [OWN, OWN]

    await first.finish(creation, topic_id)
    await settled()
    assert [dict(gateway.of("orders", topic_id)) for gateway in (first, two)] == [OWN, OWN]
    assert gateways.kept.keys == [
        f"creation/{creation}", f"topic/{topic_id}", f"-creation/{creation}",
    ]  # fmt: skip


async def test_a_failed_creation_leaves_no_settings(gateways):
    gateway = await gateways.start()

    await gateway.withdraw(await gateway.begin("orders", OWN))

    assert not gateway.names("orders")
    assert dict(gateway.of("orders", gateways.cluster.create("orders"))) == {}


async def test_put_replaces_all_settings_of_a_topic(gateways):
    gateway = await gateways.start()
    topic_id = gateways.cluster.create("orders")

    await gateway.put("orders", topic_id, OWN)
    await gateway.put("orders", topic_id, {"record.validation.policy": "x"})
    assert dict(gateway.of("orders", topic_id)) == {"record.validation.policy": "x"}

    await gateway.put("orders", topic_id, {})
    assert dict(gateway.of("orders", topic_id)) == {}


async def test_only_topics_with_stored_settings_are_forgotten(gateways):
    gateway = await gateways.start()
    topic_id = await gateways.create(gateway, "orders", OWN)
    written = len(gateways.kept.keys)

    await gateway.forget([uuid4()])
    assert len(gateways.kept.keys) == written
    await gateway.forget([uuid4(), topic_id])
    assert gateways.kept.keys[written:] == [f"-topic/{topic_id}"]


async def test_the_principal_of_a_change_is_reported_and_remembered(gateways):
    gateway = await gateways.start()
    assert gateway.changed_at("orders") == 0.0

    gateways.later(5)
    await gateway.put("orders", gateways.cluster.create("orders"), OWN)

    assert gateways.changes == ["orders"]
    assert gateway.changed_at("orders") == gateways.clock.now


async def test_changes_are_forgotten_after_a_minute_when_another_topic_changes(gateways):
    gateway = await gateways.start()
    await gateway.put("orders", gateways.cluster.create("orders"), OWN)
    gateways.later(30)
    await gateway.put("bills", gateways.cluster.create("bills"), OWN)
    gateways.later(31)
    await gateway.put("prices", gateways.cluster.create("prices"), OWN)
    assert gateway.changed_at("orders") == 0.0
    assert gateway.changed_at("bills") == gateways.clock.now - 31
    assert gateway.changed_at("prices") == gateways.clock.now


async def test_topics_are_new_until_they_have_been_seen(gateways):
    first, topic_id = await gateways.start(), uuid4()

    assert first.unknown(["orders", topic_id]) == ["orders", topic_id]
    first.see(["orders"])
    assert first.unknown(["orders", topic_id]) == [topic_id]


async def test_the_topics_that_were_seen_first_are_new_again_after_many_others(
    gateways, monkeypatch
):
    monkeypatch.setattr(topic_settings, "_SEEN_MAX", 3)
    gateway = await gateways.start()
    gateway.see(["a", "b", "c"])
    gateway.see(["a", "d"])
    assert gateway.unknown(["a", "b", "c", "d"]) == ["b"]


# Two who alter a topic at the same moment


async def alter_at_once(gateways: Gateways, *, dies: int = 0) -> UUID:
    """Two gateways alter different keys; the second has not read the first alteration yet."""
    first_gateway, two = await gateways.start("one"), await gateways.start("two", dies=dies)
    topic_id = gateways.cluster.create("orders")
    first, second = ({key: value} for key, value in OWN.items())
    two._follower._log.lags = True
    await first_gateway.put("orders", topic_id, first, changes=first)
    putting = asyncio.ensure_future(two.put("orders", topic_id, second, changes=second))
    await asyncio.sleep(0.02)
    two._follower._log.lags = False
    two._follower._log.deliver()
    with suppress(Died):
        await putting
    await settled()
    assert [dict(gateway.of("orders", topic_id)) for gateway in (first_gateway, two)] == [OWN, OWN]
    return topic_id


async def test_concurrent_alterations_both_survive_compaction(gateways):
    topic_id = await alter_at_once(gateways)

    gateways.kept.compact()

    assert dict((await gateways.start("three")).of("orders", topic_id)) == OWN


async def test_concurrent_alterations_survive_a_crash_and_a_later_compaction(gateways):
    topic_id = await alter_at_once(gateways, dies=-2)
    three = await gateways.start("three")
    assert dict(three.of("orders", topic_id)) == OWN

    gateways.later(ABANDONED_AFTER_S + 1)
    await three.sweep(gateways.cluster.look_up)
    gateways.kept.compact()

    assert dict((await gateways.start("four")).of("orders", topic_id)) == OWN


# Reading and writing that does not work


async def test_read_on_waits_for_the_records_that_were_in_the_log_at_the_call(gateways):
    first, two = await gateways.start("one"), await gateways.start("two")
    two._follower._log.lags = True
    topic_id = gateways.cluster.create("orders")
    await first.put("orders", topic_id, OWN)

    reading = asyncio.ensure_future(two.read_to_end())
    await asyncio.sleep(0.02)
    assert not reading.done()
    two._follower._log.lags = False
    two._follower._log.deliver()
    await reading

    assert dict(two.of("orders", topic_id)) == OWN


async def test_read_on_fails_after_its_timeout(gateways):
    first, two = await gateways.start("one"), await gateways.start("two")
    two._follower._log.lags = True
    await first.put("orders", uuid4(), OWN)

    with pytest.raises(CompactedTopicError):
        await two.read_to_end()
    two._follower._log.failure = "no answer"
    with pytest.raises(CompactedTopicError):
        await two.read_to_end()


async def test_a_change_is_confirmed_after_this_gateway_has_read_it(gateways):
    gateway = await gateways.start()
    gateway._follower._log.lags = True

    putting = asyncio.ensure_future(gateway.put("orders", uuid4(), OWN))
    await asyncio.sleep(0.02)
    assert not putting.done()
    gateway._follower._log.lags = False
    gateway._follower._log.deliver()
    await putting


@pytest.mark.parametrize("why", ["cannot be written", "cannot be read"])
async def test_a_creation_whose_settings_cannot_be_stored_is_settled_later(gateways, why):
    gateway = await gateways.start()
    gateway._follower._log.failure = why if "written" in why else ""
    gateway._follower._log.lags = "read" in why

    with pytest.raises(CompactedTopicError):
        await gateway.begin("orders", OWN)

    gateway._follower._log.failure, gateway._follower._log.lags = "", False
    gateway._follower._log.deliver()
    await settled()
    gateways.later(LEFT_AFTER_S + 1)
    await gateway.sweep(gateways.cluster.look_up)
    assert gateways.open_creations == []


async def test_settings_of_an_unfinished_creation_apply_and_are_finished_later(gateways):
    gateway = await gateways.start()
    creation = await gateway.begin("orders", OWN)
    topic_id = gateways.cluster.create("orders")
    gateway._follower._log.failure = "no leader"
    with pytest.raises(CompactedTopicError):
        await gateway.finish(creation, topic_id)
    gateway.leave(creation)
    assert dict(gateway.of("orders", topic_id)) == OWN

    gateway._follower._log.failure = ""
    gateways.later(LEFT_AFTER_S + 1)
    await gateway.sweep(gateways.cluster.look_up)
    assert dict(gateway.of("orders", topic_id)) == OWN
    assert gateways.open_creations == []


async def test_close_stops_following_the_log(gateways):
    gateway = await gateways.start()
    await gateway.close()
    assert gateway._follower._log.closed


# Crashes between any two steps

CRASHES = {
    "before the settings are kept": {"log": -1},
    "after the settings are kept": {"log": 1},
    "before the cluster is asked": {"cluster": "before"},
    "after the cluster has created it": {"cluster": "after"},
    "before they stand under the id": {"log": -2},
    "after they stand under the id": {"log": 2},
    "before the creation is withdrawn": {"log": -3},
    "after the creation is withdrawn": {"log": 3},
}


async def crash(gateways: Gateways, how: Mapping) -> None:
    """Let a gateway die while it creates a topic."""
    gateway = await gateways.start(dies=how.get("log", 0))
    with suppress(Died):
        await gateways.create(gateway, "orders", OWN, dies=how.get("cluster", ""))
    gateways.kept.logs.remove(gateway._follower._log)


async def check_settings(gateways: Gateways, now: StoredTopicConfigs) -> None:
    """The topic has its settings if it exists; a topic created later without settings has none."""
    topic_id = gateways.cluster.ids.get("orders")
    if topic_id is not None:
        assert dict(now.of("orders", topic_id)) == OWN
        await gateways.delete(now, "orders")
    topic_id = await gateways.create(now, "orders", {})
    assert dict(now.of("orders", topic_id)) == {}

    gateways.later(ABANDONED_AFTER_S + 1)
    await now.sweep(gateways.cluster.look_up)
    assert dict(now.of("orders", topic_id)) == {}
    assert gateways.open_creations == []


@pytest.mark.parametrize("how", CRASHES.values(), ids=CRASHES)
async def test_a_gateway_settles_its_open_creations_when_it_starts_again(gateways, how):
    await crash(gateways, how)

    await check_settings(gateways, await gateways.restart())


@pytest.mark.parametrize("after_s", [0, ABANDONED_AFTER_S + 1])
@pytest.mark.parametrize("how", CRASHES.values(), ids=CRASHES)
async def test_another_gateway_settles_the_open_creations_of_a_gateway_that_died(
    gateways, how, after_s
):
    await crash(gateways, how)
    two = await gateways.start("two")
    gateways.later(after_s)

    await check_settings(gateways, two)


@pytest.mark.parametrize("how", CRASHES.values(), ids=CRASHES)
async def test_a_new_creation_of_the_topic_settles_the_open_creation(gateways, how):
    await crash(gateways, how)
    if "orders" in gateways.cluster.ids:
        return
    two = await gateways.start("two")

    topic_id = await gateways.create(two, "orders", OTHERS)

    assert dict(two.of("orders", topic_id)) == OTHERS


@pytest.mark.parametrize("again", ["one", "two"])
@pytest.mark.parametrize("how", CRASHES.values(), ids=CRASHES)
async def test_an_open_creation_is_settled_after_a_crash_while_settling(gateways, how, again):
    await crash(gateways, how)
    gateways.later(ABANDONED_AFTER_S + 1)
    for dies in (-1, 1, -2, 2):
        unlucky = await gateways.start(again, dies=dies)
        with suppress(Died):
            await unlucky.sweep(gateways.cluster.look_up, starting=again == "one")
        gateways.kept.logs.remove(unlucky._follower._log)

    now = await gateways.start("three")
    await now.sweep(gateways.cluster.look_up)

    assert gateways.open_creations == []
    await check_settings(gateways, now)


async def test_a_topic_that_appears_only_after_the_restart_has_its_settings(gateways):
    """The cluster had the request before the gateway died, and created the topic late."""
    await crash(gateways, CRASHES["before the cluster is asked"])
    again = await gateways.restart()

    topic_id = gateways.cluster.create("orders")

    assert dict(again.of("orders", topic_id)) == OWN


@pytest.mark.parametrize("stalled_s", [LEFT_AFTER_S + 1, ABANDONED_AFTER_S + 1])
async def test_a_slow_creation_is_finished_although_others_settled_it_as_abandoned(
    gateways, stalled_s
):
    """Clocks differ, and processes are paused: the creator still knows its settings."""
    first, two = await gateways.start("one"), await gateways.start("two")
    creation = await first.begin("orders", OWN)
    gateways.later(stalled_s)
    await two.sweep(gateways.cluster.look_up)

    topic_id = gateways.cluster.create("orders")
    await first.finish(creation, topic_id)
    await settled()

    assert [dict(gateway.of("orders", topic_id)) for gateway in (first, two)] == [OWN, OWN]


# What creations that are left open do to topics that have nothing to do with them


async def left_open(gateways: Gateways) -> UUID:
    """A topic whose creator died before it withdrew the creation; another gateway runs."""
    await crash(gateways, CRASHES["after they stand under the id"])
    return gateways.cluster.ids["orders"]


async def test_deleted_settings_do_not_return(gateways):
    topic_id = await left_open(gateways)
    two = await gateways.start("two")

    await gateways.alter(two, "orders", {})
    assert dict(two.of("orders", topic_id)) == {}

    gateways.later(ABANDONED_AFTER_S + 1)
    await two.sweep(gateways.cluster.look_up)
    assert dict(two.of("orders", topic_id)) == {}


@pytest.mark.parametrize("dies", [-1, 1, -2, 2])
@pytest.mark.parametrize("new", [{}, judged_by("C")])
@pytest.mark.parametrize("before", [OWN, OTHERS])
async def test_an_alteration_is_complete_while_a_creation_is_open(gateways, before, new, dies):
    """Other gateways may read only a part of the records that a gateway appends together."""
    topic_id = await left_open(gateways)
    if before == OTHERS:
        await alter_and_die(gateways, OTHERS, 1)

    await alter_and_die(gateways, new, dies)

    three = await gateways.start("three")
    seen = dict(three.of("orders", topic_id))
    gateways.later(ABANDONED_AFTER_S + 1)
    await three.sweep(gateways.cluster.look_up)
    assert seen in (before, new)
    assert dict(three.of("orders", topic_id)) == seen


async def alter_and_die(gateways: Gateways, new: Mapping[str, str], dies: int) -> None:
    two = await gateways.start("two", dies=dies)
    with suppress(Died):
        await gateways.alter(two, "orders", new)
    gateways.kept.logs.remove(two._follower._log)


async def test_an_open_creation_of_a_deleted_topic_does_not_affect_the_next_topic(gateways):
    await left_open(gateways)
    two = await gateways.start("two")

    await gateways.delete(two, "orders")
    again = gateways.cluster.create("orders")

    assert dict(two.of("orders", again)) == {}
    gateways.later(ABANDONED_AFTER_S + 1)
    await two.sweep(gateways.cluster.look_up)
    assert dict(two.of("orders", again)) == {}


async def test_of_two_concurrent_creations_the_settings_of_the_successful_creation_are_stored(
    gateways,
):
    first_gateway, two = await gateways.start("one"), await gateways.start("two")
    first = await first_gateway.begin("orders", OWN)
    second = await two.begin("orders", OTHERS)
    topic_id = gateways.cluster.create("orders")  # by the request of two

    await two.finish(second, topic_id)
    await first_gateway.withdraw(first)
    await settled()

    assert [dict(gateway.of("orders", topic_id)) for gateway in (first_gateway, two)] == [
        OTHERS,
        OTHERS,
    ]
    assert gateways.open_creations == []


# Time


@pytest.mark.parametrize(
    ("who", "after_s", "starting", "is_settled"),
    [
        ("one", 0, False, False),
        ("one", LEFT_AFTER_S - 1, False, False),
        ("one", LEFT_AFTER_S + 1, False, True),
        ("one", 0, True, True),
        ("two", LEFT_AFTER_S + 1, False, False),
        ("two", ABANDONED_AFTER_S - 1, False, False),
        ("two", ABANDONED_AFTER_S - 1, True, False),
        ("two", ABANDONED_AFTER_S + 1, False, True),
        ("two", ABANDONED_AFTER_S + 1, True, True),
    ],
)
async def test_a_creation_counts_as_abandoned_after_a_time(
    gateways, who, after_s, starting, is_settled
):
    await crash(gateways, CRASHES["after the cluster has created it"])
    now = await gateways.start(who)
    gateways.later(after_s)

    await now.sweep(gateways.cluster.look_up, starting=starting)

    assert len(gateways.open_creations) == (0 if is_settled else 1)
    assert dict(now.of("orders", gateways.cluster.ids["orders"])) == OWN


async def test_a_creation_in_progress_is_never_settled(gateways):
    gateway = await gateways.start()
    creation = await gateway.begin("orders", OWN)
    gateways.later(ABANDONED_AFTER_S + LEFT_AFTER_S)

    await gateway.sweep(gateways.cluster.look_up)
    await gateway.prepare("orders", {})
    assert gateway.index.creation(creation) is not None

    gateway.leave(creation)
    await gateway.prepare("others", {})
    assert gateway.index.creation(creation) is not None
    await gateway.prepare("orders", {})
    assert gateway.index.creation(creation) is None


async def test_settings_of_missing_topics_are_deleted_after_a_time(gateways):
    gateway = await gateways.start()
    gone = await gateways.create(gateway, "gone", OWN)
    recreated = await gateways.create(gateway, "anew", OWN)
    stays = await gateways.create(gateway, "stays", OWN)
    del gateways.cluster.ids["gone"], gateways.cluster.ids["anew"]
    gateways.cluster.create("anew")

    await gateway.sweep(gateways.cluster.look_up)
    assert gateway.index.topics().keys() == {gone, recreated, stays}
    gateways.later(ABANDONED_AFTER_S + 1)
    for _ in range(MISSED_TIMES - 1):
        await gateway.sweep(gateways.cluster.look_up)
        assert gateway.index.topics().keys() == {gone, stays}
    await gateway.sweep(gateways.cluster.look_up)
    assert gateway.index.topics().keys() == {stays}


async def test_settings_of_topics_without_a_response_of_the_cluster_stay(gateways):
    await crash(gateways, CRASHES["after the cluster has created it"])
    gateway = await gateways.start()
    gateways.later(ABANDONED_AFTER_S + 1)

    await gateway.sweep(lambda names: {}, starting=True)

    assert len(gateways.open_creations) == 1


# What cannot be understood


@pytest.mark.parametrize("value", with_a_name("orders"), ids=lambda value: value[:40])
async def test_a_creation_record_of_a_later_version_is_not_settled(gateways, value):
    """A gateway of a later version died: an older gateway must not let its topic pass unjudged."""
    gateways.kept.append(creation_key(uuid4()).encode(), value)
    topic_id = gateways.cluster.create("orders")
    gateway = await gateways.start()
    gateways.later(ABANDONED_AFTER_S + 1)

    await gateway.sweep(gateways.cluster.look_up)

    with pytest.raises(UnreadableTopicConfigsError):
        gateway.of("orders", topic_id)


@pytest.mark.parametrize("starting", [True, False])
async def test_no_request_names_a_topic_without_a_name(gateways, starting):
    for value in WITHOUT_A_NAME:
        gateways.kept.append(creation_key(uuid4()).encode(), value)
        gateways.kept.append(topic_key(uuid4()).encode(), value)
    gateway = await gateways.start()
    gateways.later(ABANDONED_AFTER_S + 1)

    await gateway.sweep(gateways.cluster.look_up, starting=starting)

    assert "" not in gateways.cluster.requested


@pytest.mark.parametrize("value", [*WITHOUT_A_NAME, *with_a_name("orders")])
async def test_an_unreadable_record_reports_a_change_of_its_topic(gateways, value):
    first, topic_id = await gateways.start(), gateways.cluster.create("orders")
    await first.put("orders", topic_id, OWN)
    gateways.later(5)

    gateways.kept.append(topic_key(topic_id).encode(), value)
    await first.read_to_end()

    assert gateways.changes == ["orders", "orders"]
    assert first.changed_at("orders") == gateways.clock.now


@pytest.mark.parametrize("value", WITHOUT_A_NAME)
async def test_a_record_without_a_name_reports_a_change_of_an_unknown_topic(gateways, value):
    gateway = await gateways.start()
    gateways.kept.append(topic_key(uuid4()).encode(), value)
    await gateway.read_to_end()
    assert gateways.changes == [""]


async def test_an_unreadable_record_does_not_block_later_records(gateways):
    first, topic_id = await gateways.start(), gateways.cluster.create("orders")

    for value in [*WITHOUT_A_NAME, *with_a_name("orders")]:
        gateways.kept.append(topic_key(topic_id).encode(), value)
        await first.read_to_end()
        with pytest.raises(UnreadableTopicConfigsError):
            first.of("orders", topic_id)
        gateways.kept.append(
            topic_key(topic_id).encode(), TopicConfigRecord("orders", OWN, "two").encode()
        )
        await first.read_to_end()
        assert dict(first.of("orders", topic_id)) == OWN
