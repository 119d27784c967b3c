"""Kept responses, their lifetimes, and the number of requests to a registry."""

import threading
import time

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.registered import RegisteredSchema, SchemaReference
from penstock.policies.schema_policy.registry import cache
from penstock.policies.schema_policy.registry.cache import Registry
from penstock.policies.schema_policy.registry.cache_folder import CacheFolder
from penstock.policies.schema_policy.registry.errors import (
    RegistryAwayException,
    UnknownSchemaError,
)
from penstock.policies.schema_policy.registry.kept_answers import KeptAnswers
from penstock.policies.schema_policy.registry.refresher import Refresher
from penstock.policy import RetriableException, sharing
from tests.policies.schema_policy.clock import Clock

GUID = "89791762-2336-4186-9674-299b90a802e2"


class ScriptedClient:
    """Has the schemas of the test, and keeps its requests.

    Attributes:
        schemas: By id, GUID, or subject and version.
        subjects: Of each id.
        failure: The exception that is raised instead, if any.
        requests: Each request.
    """

    def __init__(self):
        self.schemas = {}
        self.subjects = {}
        self.failure = None
        self.requests = []

    def _found(self, question, known, key):
        self.requests.append(question)
        if self.failure is not None:
            raise self.failure
        if key not in known:
            raise UnknownSchemaError(f"{key} is not in the schema registry")
        return known[key]

    def schema_by_id(self, schema_id):
        return self._found(schema_id, self.schemas, schema_id)

    def schema_by_guid(self, guid):
        return self._found(guid, self.schemas, guid)

    def subject_versions(self, schema_id):
        return self._found(("subjects", schema_id), self.subjects, schema_id)

    def schema_of_version(self, subject, version):
        return self._found((subject, version), self.schemas, (subject, version))

    def latest(self, subject):
        self._found(("latest", subject), {subject: 0} if self._versions(subject) else {}, subject)
        version = max(self._versions(subject))
        return self.schemas[subject, version], version

    def allow(self, seconds):
        """Any time is enough."""

    def close(self):
        """Nothing is open."""

    def _versions(self, subject):
        return [key[1] for key in self.schemas if isinstance(key, tuple) and key[0] == subject]


PATIENCE_S = cache.PATIENCE_S


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A thread that answers does so when it gets the processor; nobody gives up before."""
    monkeypatch.setattr(cache, "PATIENCE_S", 60.0)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def client():
    return ScriptedClient()


@pytest.fixture
def registry(client, clock):
    return Registry(client, clock)


def avro(text='"int"', *references, **more):
    return RegisteredSchema(
        "AVRO", text, tuple(SchemaReference(*reference) for reference in references), **more
    )


def unknown(registry, schema):
    with pytest.raises(UnknownSchemaError) as caught:
        registry.schema(schema)
    return str(caught.value)


@pytest.mark.parametrize("key", [17, GUID])
def test_a_schema_is_requested_once(registry, client, clock, key):
    client.schemas[key] = avro()
    assert not registry.is_known(key)
    for _ in range(100):
        assert registry.schema(key) == avro()
        clock.passes(3600)
    assert registry.is_known(key)
    assert client.requests == [key]


def test_known_schemas_are_used_while_the_registry_is_away(registry, client):
    client.schemas[17] = avro()
    registry.schema(17)
    client.failure = RegistryAwayException("away")
    assert registry.schema(17) == avro()
    with pytest.raises(RegistryAwayException):
        registry.schema(18)


def test_a_miss_is_kept_for_two_seconds_and_requested_once_more(registry, client, clock):
    for _ in range(100):
        assert unknown(registry, 17) == "17 is not in the schema registry"
    assert client.requests == [17]
    clock.passes(cache.REREAD_SECONDS)
    for _ in range(100):
        assert unknown(registry, 17) == "17 is not in the schema registry"
    assert client.requests == [17, 17]
    clock.passes(cache.MISS_SECONDS - 0.01)
    unknown(registry, 17)
    assert client.requests == [17, 17]
    clock.passes(0.02)
    unknown(registry, 17)
    assert client.requests == [17, 17, 17]


def test_a_schema_that_is_registered_after_a_miss_is_found_soon(registry, client, clock):
    unknown(registry, 17)
    client.schemas[17] = avro()
    clock.passes(cache.REREAD_SECONDS)
    assert registry.schema(17) == avro()
    assert registry.schema(17) == avro()
    assert len(client.requests) == 2


def test_a_failure_for_a_schema_is_kept_for_a_second(registry, client, clock):
    client.failure = RetriableException("schema 17 cannot be looked up: status 500")
    for _ in range(100):
        with pytest.raises(RetriableException, match="status 500"):
            registry.schema(17)
    assert client.requests == [17]
    client.failure = None
    client.schemas |= {17: avro(), 18: avro()}
    assert registry.schema(18) == avro(), "another schema is requested"
    clock.passes(1.01)
    assert registry.schema(17) == avro()


def test_a_registry_that_returns_is_used_at_once(registry, client):
    """While it is away, the client limits requests to one a second."""
    client.failure = RegistryAwayException("away")
    for schema_id in range(1000):
        with pytest.raises(RegistryAwayException):
            registry.schema(schema_id + 1)
    client.failure = None
    client.schemas[17] = avro()
    assert registry.schema(17) == avro()


def test_invented_ids_remove_no_schema_and_cost_few_look_ups(registry, client, clock):
    known = range(1, 51)
    client.schemas |= {schema_id: avro(f'"{schema_id}"') for schema_id in known}
    for schema_id in known:
        registry.schema(schema_id)
    client.requests.clear()
    answers = {UnknownSchemaError: 0, RetriableException: 0}
    for made_up in range(1_000_000, 1_010_000):
        with pytest.raises((UnknownSchemaError, RetriableException)) as caught:
            registry.schema(made_up)
        answers[caught.type] += 1
        clock.passes(0.001)
    # 100 at first, and 10 a second for 10 seconds.
    assert answers[UnknownSchemaError] == len(client.requests)
    assert 198 <= len(client.requests) <= 201
    client.requests.clear()
    for schema_id in known:
        assert registry.schema(schema_id).text == f'"{schema_id}"'
    assert client.requests == []
    assert len(registry._misses) <= cache.MOST_SCHEMAS


@pytest.mark.thorough
@pytest.mark.parametrize("count", [90, 110, 500])
def test_a_batch_with_many_unknown_ids_is_decided_in_the_end(registry, client, clock, count):
    began = clock()
    while True:
        assert clock() - began < 60
        try:
            for schema_id in range(count):
                with pytest.raises(UnknownSchemaError):
                    registry.schema(schema_id)
        except RetriableException:
            clock.passes(0.1)
            continue
        break
    client.schemas[count - 1] = known = RegisteredSchema("AVRO", '"int"')
    clock.passes(cache.MISS_SECONDS_AT_MOST)
    assert registry.schema(count - 1) == known


def test_10_000_schemas_are_looked_up_without_a_pause_and_kept(registry, client):
    ids = range(1, cache.MOST_SCHEMAS + 1)
    client.schemas |= {schema_id: avro(f'"{schema_id}"') for schema_id in ids}
    for _ in range(2):
        for schema_id in ids:
            assert registry.schema(schema_id).text == f'"{schema_id}"'
    assert len(client.requests) == len(ids)


def test_the_kept_schemas_are_bounded(registry, client):
    size = cache.MOST_CHARACTERS // 8 - 10
    client.schemas |= {schema_id: avro("x" * size) for schema_id in range(1, 21)}
    for schema_id in range(1, 21):
        registry.schema(schema_id)
    assert [schema_id for schema_id in range(1, 21) if registry.is_known(schema_id)] == list(
        range(13, 21)
    )
    client.schemas[99] = avro("", rule_set={"domainRules": ["x" * cache.MOST_CHARACTERS]})
    assert registry.schema(99), "a schema larger than the cache is requested each time"
    assert not registry.is_known(99)
    assert registry.is_known(20)


def test_subjects_are_kept_for_minutes(registry, client, clock):
    client.subjects[17] = (("a", 1), ("b", 2))
    assert registry.subject_versions(17) == (("a", 1), ("b", 2))
    client.subjects[17] = (("b", 2),)
    clock.passes(cache.SUBJECTS_SECONDS - 1)
    assert registry.subject_versions(17, "a") == (("a", 1), ("b", 2))
    assert len(client.requests) == 1
    clock.passes(2)
    assert registry.subject_versions(17, "a") == (("b", 2),)
    assert len(client.requests) == 2


def test_a_missing_subject_is_requested_again(registry, client, clock):
    client.subjects[17] = (("a", 1),)
    registry.subject_versions(17, "a")
    clock.passes(60)
    client.subjects[17] = (("a", 1), ("b", 2))
    assert registry.subject_versions(17) == (("a", 1),)
    assert registry.subject_versions(17, "b") == (("a", 1), ("b", 2))
    assert len(client.requests) == 2
    for _ in range(100):
        assert registry.subject_versions(17, "c") == (("a", 1), ("b", 2))
    assert len(client.requests) == 3, "a fresh response is not requested again"
    clock.passes(cache.MISS_SECONDS)
    registry.subject_versions(17, "c")
    assert len(client.requests) == 4


def test_a_schema_that_is_registered_under_another_subject_is_found_at_once(registry, client):
    """A service registers a schema for one topic and writes, then for another topic and writes."""
    subjects = ()
    for number in range(10):
        subjects = (*subjects, (f"s{number}", 1))
        client.subjects[17] = subjects
        assert registry.subject_versions(17, f"s{number}") == subjects
    client.requests.clear()
    for number in range(10):
        assert registry.subject_versions(17, f"s{number}") == subjects
    assert client.requests == []


def test_ids_of_other_subjects_cost_few_look_ups_and_do_not_delay_other_ids(
    registry, client, clock
):
    client.schemas[9000] = avro()
    client.subjects |= dict.fromkeys(range(1, 1001), (("other", 1),))
    for schema_id in range(1, 1001):
        assert registry.subject_versions(schema_id, "mine") == (("other", 1),)
    client.requests.clear()
    postponed = 0
    for _ in range(10):
        clock.passes(cache.MISS_SECONDS)
        for schema_id in range(1, 1001):
            try:
                registry.subject_versions(schema_id, "mine")
            except RetriableException:
                postponed += 1
    seconds = 10 * cache.MISS_SECONDS
    assert len(client.requests) <= cache.MISSES + seconds * cache.MISSES_PER_SECOND
    assert postponed >= 9000
    assert registry.schema(9000) == avro()
    assert registry.subject_versions(1, "other") == (("other", 1),)


def test_invented_ids_in_a_topic_do_not_delay_other_topics(registry, client):
    client.schemas[17] = avro()
    registry.use_share_of("greedy")
    postponed = 0
    for schema_id in range(1001, 2001):
        try:
            registry.schema(schema_id)
        except UnknownSchemaError:
            pass
        except RetriableException:
            postponed += 1
    assert postponed == 1000 - cache.MISSES
    registry.use_share_of("other")
    assert registry.schema(17) == avro()
    with pytest.raises(UnknownSchemaError):
        registry.schema(3000)
    assert registry.latest("other-value") is None


def test_ids_of_other_subjects_do_not_delay_other_topics(registry, client, clock):
    client.subjects |= dict.fromkeys(range(1000), (("elsewhere", 1),))
    registry.use_share_of("greedy")
    for schema_id in range(1000):
        registry.subject_versions(schema_id, "greedy-value")
    clock.passes(cache.MISS_SECONDS)
    with pytest.raises(RetriableException):
        for schema_id in range(1000):
            registry.subject_versions(schema_id, "greedy-value")
    registry.use_share_of("other")
    client.subjects[999] = (("other-value", 1),)
    assert registry.subject_versions(999, "other-value") == (("other-value", 1),)


def test_an_unknown_schema_has_no_subjects(registry, client):
    for _ in range(10):
        assert registry.subject_versions(17, "a") == ()
    assert len(client.requests) == 1


def test_the_kept_subjects_are_bounded(registry, client):
    many = tuple((f"s{schema_id}", 1) for schema_id in range(50_000))
    client.subjects |= dict.fromkeys(range(1, 8), many)
    for schema_id in range(1, 8):
        assert len(registry.subject_versions(schema_id)) == 50_000
    assert sum(len(kept.value) for kept in registry._versions.values()) <= 200_000


def test_the_latest_version_is_kept_for_half_a_minute(registry, client, clock):
    client.schemas["a", 1] = avro()
    assert registry.latest("a") == (avro(), 1)
    client.schemas["a", 2] = avro('"long"')
    clock.passes(cache.LATEST_SECONDS - 1)
    assert registry.latest("a") == (avro(), 1)
    clock.passes(2)
    assert registry.latest("a") == (avro('"long"'), 2)
    assert len(client.requests) == 2


def test_a_deleted_subject_has_no_latest_version(registry, client, clock):
    client.schemas["a", 1] = avro()
    registry.latest("a")
    del client.schemas["a", 1]
    clock.passes(cache.LATEST_SECONDS + 1)
    assert registry.latest("a") is None
    client.failure = RegistryAwayException("away")
    clock.passes(cache.MISS_SECONDS + 1)
    with pytest.raises(RegistryAwayException):
        registry.latest("a")


def test_expired_responses_are_used_while_the_registry_is_away(registry, client, clock):
    client.schemas |= {17: avro(), ("a", 1): avro()}
    client.subjects[17] = (("a", 1),)
    registry.schema(17)
    registry.subject_versions(17)
    registry.latest("a")
    client.requests.clear()
    client.failure = RegistryAwayException("away")
    for _ in range(100):
        clock.passes(36)
        assert registry.schema(17) == avro()
        assert registry.subject_versions(17) == (("a", 1),)
        assert registry.subject_versions(17, "a") == (("a", 1),)
        assert registry.latest("a") == (avro(), 1)
        with pytest.raises(RegistryAwayException):
            registry.subject_versions(17, "b")
    assert 180 < len(client.requests) <= 300, "it is requested from time to time"
    client.failure = None
    client.subjects[17] = ()
    clock.passes(cache.STALE_SECONDS)
    assert registry.subject_versions(17, "a") == ()


def test_is_known_without_a_request(registry, client, clock):
    client.schemas |= {17: avro(schema_id=17), GUID: avro(schema_id=17), 18: avro()}
    client.subjects[17] = (("a", 1),)
    for schema_id in (17, GUID, 18):
        registry.schema(schema_id)
        assert registry.is_known(schema_id)
        assert not registry.is_known(schema_id, "a")
    registry.subject_versions(17)
    count = len(client.requests)
    for schema_id in (17, GUID):
        assert registry.is_known(schema_id, "a")
        assert not registry.is_known(schema_id, "b")
    assert not registry.is_known(18, "a")
    clock.passes(cache.SUBJECTS_SECONDS)
    assert not registry.is_known(17, "a")
    assert len(client.requests) == count


def test_a_subject_without_versions_has_no_latest_version(registry, client, clock):
    assert registry.latest("a") is None
    assert registry.latest("a") is None
    assert len(client.requests) == 1
    client.schemas["a", 1] = avro()
    clock.passes(cache.MISS_SECONDS + 1)
    assert registry.latest("a") == (avro(), 1)


def test_references_are_resolved_recursively_and_kept(registry, client):
    client.schemas |= {
        ("b", 1): avro("B", ("D", "d", 4)),
        ("c", 2): avro("C", ("D", "d", 4)),
        ("d", 4): avro("D"),
    }
    top = avro("A", ("B", "b", 1), ("C", "c", 2))
    expected = SchemaSource("AVRO", "A", {"B": "B", "C": "C", "D": "D"})
    for _ in range(2):
        assert registry.source(top) == expected
    assert client.requests == [("b", 1), ("d", 4), ("c", 2)]


def test_an_ambiguous_name_is_resolved_as_in_confluents_serializers(registry, client):
    client.schemas |= {
        ("b", 1): avro("B", ("D", "d", 1)),
        ("c", 1): avro("C", ("D", "d", 2)),
        ("d", 1): avro("D of B"),
        ("d", 2): avro("D of C"),
    }
    assert registry.source(avro("A", ("B", "b", 1), ("C", "c", 1))).references["D"] == "D of B"
    assert registry.source(avro("A", ("C", "c", 1), ("B", "b", 1))).references["D"] == "D of C"


def test_circular_references_end(registry, client):
    client.schemas |= {
        ("a", 1): avro("A", ("B", "b", 1)),
        ("b", 1): avro("B", ("A", "a", 1), ("B", "b", 1)),
    }
    found = registry.source(avro("A", ("B", "b", 1)))
    assert found.references == {"A": "A", "B": "B"}


def test_a_reference_may_be_to_the_latest_version(registry, client):
    client.schemas |= {("b", 1): avro("1"), ("b", 2): avro("2")}
    assert registry.source(avro("A", ("B", "b", -1))).references == {"B": "2"}
    with pytest.raises(InvalidSchemaError, match="refers to C, and subject c is not in"):
        registry.source(avro("A", ("C", "c", -1)))


def test_a_missing_reference_makes_a_schema_invalid(registry):
    with pytest.raises(InvalidSchemaError, match=r"refers to B, and .* is not in the schema"):
        registry.source(avro("A", ("B", "b", 1)))


def test_a_failed_look_up_of_a_reference_does_not_make_a_schema_invalid(registry, client, clock):
    client.schemas |= {("b", 1): avro("B", ("C", "c", 1)), ("c", 1): avro("C")}
    registry.source(avro("A", ("B", "b", 1)))
    client.schemas["d", 1] = avro("D")
    client.failure = RegistryAwayException("away")
    with pytest.raises(RegistryAwayException):
        registry.source(avro("A", ("B", "b", 1), ("D", "d", 1)))
    client.failure = None
    found = registry.source(avro("A", ("B", "b", 1), ("D", "d", 1)))
    assert found.references == {"B": "B", "C": "C", "D": "D"}


def test_references_are_bounded_in_number_and_size(registry, client):
    client.schemas |= {
        ("s", schema_id): avro(f"{schema_id}", (f"n{schema_id + 1}", "s", schema_id + 1))
        for schema_id in range(1, 1001)
    } | {("s", 1001): avro("last")}
    with pytest.raises(InvalidSchemaError, match="more than 1000 schemas"):
        registry.source(avro("A", ("n1", "s", 1)))
    assert len(registry.source(avro("A", ("n2", "s", 2))).references) == 1000
    client.schemas["big", 1] = avro("x" * 5_000_000)
    client.schemas["big", 2] = avro("y" * 5_000_000)
    assert registry.source(avro("A", ("b1", "big", 1))).references
    with pytest.raises(InvalidSchemaError, match="more than 8388608 characters"):
        registry.source(avro("A", ("b1", "big", 1), ("b2", "big", 2)))


class Wall(Clock):
    """Seconds since the epoch, which pass with another clock."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock

    def __call__(self):
        return 1e9 + self._clock.now


@pytest.fixture
def started(clock, tmp_path):
    """Starts registries as in workers: with shared answers, and a folder."""
    refreshers = []

    def start(client):
        refreshers.append(Refresher(client))
        kept = KeptAnswers(("http://a",), CacheFolder(tmp_path), Wall(clock))
        return Registry(client, clock, shared_answers=kept, refresher=refreshers[-1])

    yield start
    for refresher in refreshers:
        refresher.close()


def known(client):
    """Add a schema to a client that refers to another schema."""
    client.schemas[17] = avro('"R"', ("R", "r", 1), schema_id=17)
    client.schemas["r", 1] = avro('{"type": "fixed", "name": "R", "size": 2}', schema_id=3)
    client.schemas["orders-value", 4] = client.schemas[17]
    client.subjects[17] = (("orders-value", 4),)


def all_of(registry):
    """Look up everything that the client has."""
    schema = registry.schema(17)
    source = registry.source(schema)
    return (
        schema,
        source,
        registry.subject_versions(17, "orders-value"),
        registry.latest("orders-value"),
    )


def restart(monkeypatch):
    monkeypatch.setattr(sharing, "_values", sharing.SharedStore())


def away():
    client = ScriptedClient()
    client.failure = RegistryAwayException("away")
    return client


def test_a_shared_response_is_not_requested_again(started, client):
    known(client)
    first = all_of(started(client))
    count = len(client.requests)
    assert all_of(started(client)) == first
    assert len(client.requests) == count


@pytest.mark.parametrize("restarted", [False, True])
def test_known_schemas_are_used_while_the_registry_is_away_for_an_hour(
    started, client, clock, monkeypatch, restarted
):
    known(client)
    before = started(client)
    first = all_of(before)
    client.failure = RegistryAwayException("away")
    for _ in range(60):
        clock.passes(60)
        assert all_of(before) == first
        if restarted:
            restart(monkeypatch)
        assert all_of(started(away())) == first
    with pytest.raises(RetriableException):
        before.schema(18)
    with pytest.raises(RetriableException):
        before.subject_versions(17, "other-value")


def test_a_response_is_not_used_after_a_week(started, client, clock, monkeypatch):
    known(client)
    before = started(client)
    all_of(before)
    client.failure = RegistryAwayException("away")
    clock.passes(cache.STALE_AT_MOST + 1)
    for registry in (before, started(away())):
        assert registry.schema(17).schema_id == 17  # which cannot change
        with pytest.raises(RetriableException):
            registry.subject_versions(17, "orders-value")
        with pytest.raises(RetriableException):
            registry.latest("orders-value")
    with pytest.raises(RetriableException):
        all_of(started(away()))


def test_shared_responses_expire_as_others_do(started, client, clock):
    known(client)
    all_of(started(client))
    client.subjects[17] = ()
    other = started(client)
    assert other.subject_versions(17, "orders-value") == (("orders-value", 4),)
    clock.passes(cache.SUBJECTS_SECONDS + 1)
    assert started(client).subject_versions(17, "orders-value") == ()
    count = client.requests.count(("subjects", 17))
    assert other.subject_versions(17, "orders-value") == ()  # as the other registry found
    assert client.requests.count(("subjects", 17)) == count + 1, "requested first"


def test_a_deleted_subject_is_forgotten(started, client, clock):
    known(client)
    registry = started(client)
    assert registry.latest("orders-value") is not None
    del client.schemas["orders-value", 4]
    clock.passes(cache.LATEST_SECONDS + 1)
    assert registry.latest("orders-value") is None
    with pytest.raises(RetriableException):
        started(away()).latest("orders-value")


def test_a_guid_may_get_an_id_later(started, client):
    client.schemas[GUID] = avro(guid=GUID)
    assert started(client).schema(GUID).schema_id is None
    client.schemas[GUID] = avro(guid=GUID, schema_id=5)
    assert started(client).schema(GUID).schema_id == 5
    assert started(away()).schema(GUID).schema_id == 5


def test_a_hanging_registry_delays_known_responses_once(client, clock, monkeypatch):
    monkeypatch.setattr(cache, "PATIENCE_S", PATIENCE_S)
    gate = threading.Event()

    class Hangs(ScriptedClient):
        def subject_versions(self, schema_id):
            assert gate.wait(60)
            return super().subject_versions(schema_id)

    hangs = Hangs()
    refresher = Refresher(hangs)
    registry = Registry(client, clock, refresher=refresher)
    for schema_id in range(1, 21):
        client.subjects[schema_id] = ((f"s{schema_id}", 1),)
        registry.subject_versions(schema_id, f"s{schema_id}")
    hangs.subjects = {schema_id: ((f"s{schema_id}", 2),) for schema_id in range(1, 21)}
    clock.passes(cache.SUBJECTS_SECONDS + 1)
    began = time.monotonic()
    for schema_id in range(1, 21):
        assert registry.subject_versions(schema_id, f"s{schema_id}") == ((f"s{schema_id}", 1),)
    assert time.monotonic() - began < 10 * PATIENCE_S
    gate.set()
    waits_for(lambda: all(request.response.done() for request in refresher._pending.values()))
    clock.passes(cache.STALE_SECONDS + 1)
    for schema_id in range(1, 21):
        assert registry.subject_versions(schema_id, f"s{schema_id}") == ((f"s{schema_id}", 2),)
    refresher.close()


class Late(ScriptedClient):
    """Responds with the state at the time of the request, once its gate is open."""

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()

    def subject_versions(self, schema_id):
        return self._late(lambda: super(Late, self).subject_versions(schema_id))

    def latest(self, subject):
        return self._late(lambda: super(Late, self).latest(subject))

    def _late(self, respond):
        try:
            return respond()
        finally:
            assert self.gate.wait(60)


def waits_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def late(clock, monkeypatch, tmp_path):
    """A registry with known responses, which is slow when they are requested again."""
    monkeypatch.setattr(cache, "PATIENCE_S", 0.05)
    client = Late()
    client.gate.set()
    known(client)
    refresher = Refresher(client, clock)
    kept = KeptAnswers(("http://a",), CacheFolder(tmp_path), Wall(clock))
    made = Registry(client, clock, shared_answers=kept, refresher=refresher)
    all_of(made)
    client.gate.clear()
    clock.passes(cache.SUBJECTS_SECONDS + 1)
    made.allow(60)
    assert made.subject_versions(17, "orders-value") == (("orders-value", 4),)
    made.allow(60)
    assert made.latest("orders-value")[1] == 4
    client.gate.set()
    waits_for(lambda: all(request.response.done() for request in refresher._pending.values()))
    refresher.is_away = False
    monkeypatch.setattr(cache, "PATIENCE_S", 60.0)
    yield made, client, kept
    client.gate.set()
    refresher.close()


def test_a_late_response_is_not_used_hours_later(late, clock):
    registry, client, _ = late
    client.subjects[17] = ()
    client.schemas["orders-value", 5] = client.schemas[17]
    clock.passes(6 * 3600)
    registry.allow(60)
    assert registry.subject_versions(17, "orders-value") == ()
    assert registry.latest("orders-value")[1] == 5


def test_a_late_response_expires_by_the_time_of_its_request(late, clock):
    registry, client, kept = late
    looked_up_at = kept.now()
    clock.passes(cache.STALE_SECONDS + 1)
    client.subjects[17] = ()
    client.schemas["orders-value", 5] = client.schemas[17]
    registry.allow(60)
    assert registry.subject_versions(17, "orders-value") == (("orders-value", 4),)
    assert registry.latest("orders-value")[1] == 4
    assert kept.versions("subjects/17").sent_s == looked_up_at
    assert kept.latest("latest/orders-value").sent_s == looked_up_at
    clock.passes(cache.LATEST_SECONDS - cache.STALE_SECONDS)
    registry.allow(60)
    assert registry.latest("orders-value")[1] == 5
    clock.passes(cache.SUBJECTS_SECONDS - cache.LATEST_SECONDS)
    registry.allow(60)
    assert registry.subject_versions(17, "orders-value") == ()


def test_a_late_miss_expires_by_the_time_of_its_request(late, clock, monkeypatch):
    registry, client, _ = late
    client.gate.clear()
    del client.schemas["orders-value", 4]
    clock.passes(6 * 3600)
    registry._kept_answers.keep_latest("latest/orders-value", client.schemas[17], 4)
    clock.passes(cache.LATEST_SECONDS + 1)
    monkeypatch.setattr(cache, "PATIENCE_S", 0.05)
    registry.allow(60)
    assert registry.latest("orders-value")[1] == 4
    monkeypatch.setattr(cache, "PATIENCE_S", 60.0)
    client.gate.set()
    waits_for(registry._refresher._pending["latest", "orders-value"].response.done)
    registry._refresher.is_away = False
    clock.passes(cache.STALE_SECONDS + 1)
    registry.allow(60)
    assert registry.latest("orders-value") is None
    client.schemas["orders-value", 5] = client.schemas[17]
    assert registry.latest("orders-value")[1] == 5
