"""The state of topic settings, as the records of the settings topic determine it."""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.configuration.topic_keys import (
    RECORDS_POLICY,
    RECORDS_POLICY_ENABLED,
    VALIDATION_POLICY,
)
from penstock.engine.topic_configs.index import (
    TopicConfigIndex,
    TopicConfigRecord,
    UnreadableTopicConfigsError,
    creation_key,
    topic_key,
)
from penstock.kafka.wire.requests.topics import NO_ID
from tests.engine.topic_configs.admin_requests import judged_by
from tests.engine.topic_configs.settings_records import WITHOUT_A_NAME, value_of, with_a_name

TOPICS = {UUID(int=1): "orders", UUID(int=2): "payments"}
CREATIONS = {UUID(int=11): "orders", UUID(int=12): "orders", UUID(int=13): "payments"}
ORDERS, PAYMENTS = TOPICS
FIRST, SECOND, _ = CREATIONS
UNREADABLE = "nobody knows"
SETTINGS = [
    judged_by("A"),
    judged_by("B"),
    {RECORDS_POLICY_ENABLED: "false"},
    {VALIDATION_POLICY: "x-schema"},
    {},
]
FOREIGN_KEYS = [
    None,
    b"",
    b"\xff\xfe",
    b"topic",
    b"topic/",
    b"topic/orders",
    b"consumer/" + str(ORDERS).encode(),
    b"topic/" + str(ORDERS).encode() + b"0",
]


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None


def read(records: Iterable[Record]) -> TopicConfigIndex:
    """Apply records, as a gateway does."""
    index = TopicConfigIndex()
    for record in records:
        with suppress(UnreadableTopicConfigsError):
            index.apply(record.key, record.value, 0)
    return index


def compacted(records: list[Record], *, tombstones: bool) -> list[Record]:
    """Return the records that the broker's log cleaner keeps: the last record of each key."""
    last = {record.key: number for number, record in enumerate(records)}
    return [
        record
        for number, record in enumerate(records)
        if last[record.key] == number and (tombstones or record.value is not None)
    ]


def settings_for_batches(index: TopicConfigIndex, topic: str, topic_id: UUID) -> list[object]:
    """Return the settings for batches with the id of a topic, and for batches with its name.

    Batches with the name are not looked up by id unless the index has the name.
    """
    found: list[object] = []
    for known_id in (topic_id, topic_id if index.names(topic) else NO_ID):
        try:
            found.append(dict(index.of(topic, known_id)))
        except UnreadableTopicConfigsError:
            found.append(UNREADABLE)
    return found


def state(index: TopicConfigIndex) -> dict[str, object]:
    """All that decides about batches and about creations."""
    return {
        "batches": {
            name: settings_for_batches(index, topic, name) for name, topic in TOPICS.items()
        },
        "creations": {
            name: (entry.topic, dict(entry.settings), entry.unreadable)
            for name, entry in index.creations(lambda _: True).items()
        },
        "known": {topic: index.has_topic(topic) for topic in TOPICS},
    }


def records_of_a_topic(topic_id: UUID, topic: str) -> st.SearchStrategy[Record]:
    readable = st.sampled_from([value_of(topic, setting) for setting in SETTINGS])
    unreadable = st.sampled_from([*WITHOUT_A_NAME, *with_a_name(topic)])
    return st.builds(
        Record, st.just(topic_key(topic_id).encode()), st.none() | readable | unreadable
    )


def records_of_a_creation(creation: UUID, topic: str) -> st.SearchStrategy[Record]:
    """Draw a record that a gateway writes once and deletes later; it may name no topic."""
    readable = [value_of(topic, setting) for setting in SETTINGS]
    return st.builds(
        Record,
        st.just(creation_key(creation).encode()),
        st.none() | st.sampled_from([*readable, *with_a_name(topic)]),
    )


foreign = st.builds(Record, st.sampled_from(FOREIGN_KEYS), st.none() | st.just(b"{}"))
any_record = st.one_of(
    foreign,
    *(records_of_a_topic(*topic) for topic in TOPICS.items()),
    *(records_of_a_creation(*creation) for creation in CREATIONS.items()),
)


@pytest.mark.thorough
@given(st.lists(any_record, max_size=12), st.integers(0, 12), st.booleans())
@example([Record(topic_key(ORDERS).encode(), b"garbage")], 1, True)
def test_compaction_changes_nothing_for_a_later_reader(records, cleaned_up_to, tombstones):
    cleaned, rest = records[:cleaned_up_to], records[cleaned_up_to:]

    late = read([*compacted(cleaned, tombstones=tombstones), *rest])

    assert state(late) == state(read(records))


@pytest.mark.thorough
@given(st.lists(any_record, max_size=12))
def test_batches_are_judged_by_the_last_record_of_their_topic(records):
    index = read(records)

    for topic_id, topic in TOPICS.items():
        key = topic_key(topic_id).encode()
        last = next((record.value for record in reversed(records) if record.key == key), None)
        if last is not None:
            assert settings_for_batches(index, topic, topic_id) == 2 * [expected(topic, last)]


def expected(topic: str, value: bytes) -> object:
    readable = {value_of(topic, setting): setting for setting in SETTINGS}
    return readable.get(value, UNREADABLE)


any_changes = st.dictionaries(
    st.sampled_from([RECORDS_POLICY, VALIDATION_POLICY]),
    st.sampled_from(["policies.A", "policies.B", None]),
    min_size=1,
)


@pytest.mark.thorough
@given(st.lists(st.tuples(any_changes, st.integers(0, 3)), max_size=8))
def test_alterations_by_several_gateways_change_only_their_keys_in_log_order(altered):
    """A gateway may write before it has read the last records of the others."""
    records: list[Record] = []
    expected: dict[str, str] = {}
    for changes, unread in altered:
        before = read(records[: max(0, len(records) - unread)]).entry(ORDERS)
        seen = dict(before.settings) if before is not None else {}
        base = before.id if before is not None else ""
        entry = TopicConfigRecord("orders", changed(seen, changes), "gateway", changes, base)
        records.append(Record(topic_key(ORDERS).encode(), entry.encode()))
        expected = changed(expected, changes)

    assert settings_for_batches(read(records), "orders", ORDERS) == 2 * [expected]


def changed(settings: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**settings, **changes}.items() if value is not None}


@pytest.mark.parametrize("value", [*WITHOUT_A_NAME, *with_a_name("orders")], ids=lambda v: v[:40])
def test_a_topic_with_only_an_unreadable_record_has_unreadable_settings(value):
    index = TopicConfigIndex()

    with pytest.raises(UnreadableTopicConfigsError):
        index.apply(topic_key(ORDERS).encode(), value, 0)

    assert settings_for_batches(index, "orders", ORDERS) == [UNREADABLE, UNREADABLE]


@pytest.mark.parametrize("value", [*WITHOUT_A_NAME, *with_a_name("orders")], ids=lambda v: v[:40])
def test_an_unreadable_record_does_not_affect_other_topics(value):
    index = read([
        Record(topic_key(PAYMENTS).encode(), value_of("payments", judged_by("A"))),
        Record(topic_key(ORDERS).encode(), value),
    ])  # fmt: skip

    assert settings_for_batches(index, "payments", PAYMENTS) == 2 * [judged_by("A")]
    assert dict(index.of("others", UUID(int=3))) == {}


@pytest.mark.parametrize("value", with_a_name("orders"), ids=lambda v: v[:40])
def test_an_unreadable_creation_makes_the_settings_of_its_topic_unreadable(value):
    index = read([Record(creation_key(FIRST).encode(), value)])

    assert settings_for_batches(index, "orders", ORDERS) == [UNREADABLE, UNREADABLE]


@pytest.mark.parametrize("value", ["yes", "observe", ""])
def test_a_value_that_no_alteration_allows_is_unreadable(value):
    """`enabled` of a later version may have more values: they do not mean that it is off."""
    settings = {**judged_by("A"), RECORDS_POLICY_ENABLED: value}

    index = read([Record(topic_key(ORDERS).encode(), value_of("orders", settings))])

    assert settings_for_batches(index, "orders", ORDERS) == [UNREADABLE, UNREADABLE]


@pytest.mark.parametrize(
    "topic", ["", "\ud800", "a/b", "x" * 250], ids=lambda name: ascii(name[:6])
)
def test_a_name_that_no_topic_can_have_is_unreadable(topic):
    """The gateway requests the metadata of created topics: some clients fail on these names."""
    index = TopicConfigIndex()

    with pytest.raises(UnreadableTopicConfigsError):
        index.apply(creation_key(FIRST).encode(), value_of(topic, judged_by("A")), 0)

    assert topic not in {
        entry.topic for entry in index.creations(lambda _: True).values() if entry.topic
    }


@pytest.mark.parametrize("key", FOREIGN_KEYS)
def test_an_unknown_key_changes_nothing(key):
    index = read([Record(topic_key(ORDERS).encode(), value_of("orders", judged_by("A")))])
    before = state(index)

    with pytest.raises(UnreadableTopicConfigsError):
        index.apply(key, value_of("orders", {}), 0)

    assert state(index) == before


@pytest.mark.parametrize(
    "key",
    [
        f"topic/{{{ORDERS}}}",
        f"topic/urn:uuid:{ORDERS}",
        f"topic/{ORDERS.hex}",
        f"topic/{topic_key(UUID(int=0xABC)).id!s}".upper().replace("TOPIC", "topic"),
    ],
)
def test_a_topics_key_has_one_spelling(key):
    """Compaction compares bytes: a tombstone under another spelling would delete nothing."""
    with pytest.raises(UnreadableTopicConfigsError):
        TopicConfigIndex().apply(key.encode(), value_of("orders", judged_by("A")), 0)


def test_a_creation_applies_until_the_topic_has_settings():
    created = Record(creation_key(FIRST).encode(), value_of("orders", judged_by("A")))
    kept = Record(topic_key(ORDERS).encode(), value_of("orders", judged_by("B")))
    withdrawn = Record(creation_key(FIRST).encode(), None)

    assert settings_for_batches(read([created]), "orders", ORDERS) == 2 * [judged_by("A")]
    assert settings_for_batches(read([created, kept]), "orders", ORDERS) == 2 * [judged_by("B")]
    after = read([created, kept, withdrawn])
    assert settings_for_batches(after, "orders", ORDERS) == 2 * [judged_by("B")]
    assert settings_for_batches(after, "orders", PAYMENTS) == 2 * [{}]
    assert not read([created, withdrawn]).names("orders")


def test_of_several_creations_the_first_in_the_log_counts():
    index = read([
        Record(creation_key(SECOND).encode(), value_of("orders", judged_by("A"))),
        Record(creation_key(FIRST).encode(), value_of("orders", judged_by("B"))),
    ])  # fmt: skip

    assert settings_for_batches(index, "orders", ORDERS) == 2 * [judged_by("A")]


def test_empty_settings_are_settings():
    """A topic with empty settings is not judged by the settings of its creation."""
    index = read([
        Record(creation_key(FIRST).encode(), value_of("orders", judged_by("A"))),
        Record(topic_key(ORDERS).encode(), value_of("orders", {})),
    ])  # fmt: skip

    assert settings_for_batches(index, "orders", ORDERS) == [{}, {}]


def test_apply_returns_the_changed_topics():
    index = TopicConfigIndex()
    key = topic_key(ORDERS).encode()

    assert index.apply(key, value_of("orders", judged_by("A")), 0) == {"orders": []}
    renamed = index.apply(key, value_of("renamed", judged_by("B")), 0)
    assert renamed == {"orders": [judged_by("A")], "renamed": []}
    assert index.apply(key, None, 0) == {"renamed": [judged_by("B")]}
    assert index.apply(key, None, 0) == {}


def test_apply_returns_no_configs_from_before_if_they_could_not_be_decoded():
    index = TopicConfigIndex()
    key = topic_key(ORDERS).encode()
    with pytest.raises(UnreadableTopicConfigsError):
        index.apply(key, with_a_name("orders")[0], 0)
    assert index.apply(key, value_of("orders", judged_by("A")), 0) == {"orders": None}


def test_the_creations_of_a_topic_are_found_without_reading_others():
    index = TopicConfigIndex()
    for creation, topic in CREATIONS.items():
        value = TopicConfigRecord(topic, {}, "gateway").encode()
        index.apply(creation_key(creation).encode(), value, 0)
    looked_at = []
    found = index.creations(lambda entry: looked_at.append(entry.topic) or True, topic="orders")
    assert list(found) == [FIRST, SECOND]
    assert looked_at == ["orders", "orders"]
