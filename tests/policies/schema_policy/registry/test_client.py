"""Requests to a registry, over several URLs, and the handling of failures."""

import pytest

from penstock.policies.schema_policy.registered import RegisteredSchema, SchemaReference
from penstock.policies.schema_policy.registry.client import LOOKUP, PAUSE, RegistryClient
from penstock.policies.schema_policy.registry.errors import (
    RegistryAwayException,
    UnknownSchemaError,
)
from penstock.policies.schema_policy.registry.settings import RegistrySettings
from penstock.policy import RetriableException
from penstock.policy.counting import take_events
from tests.policies.schema_policy.clock import Clock
from tests.policies.schema_policy.fake_registry import FakeRegistry, Fault

pytestmark = pytest.mark.system
PLENTY = "60000"
SECRET = "xK9-secret"


@pytest.fixture
def registry():
    with FakeRegistry() as running:
        yield running


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def connect(clock):
    """Makes clients, and closes them."""
    made = []

    def make(*registries, timeout=PLENTY, **more):
        given = {
            "schema.registry.url": ",".join(registry.url for registry in registries),
            "schema.registry.timeout.ms": timeout,
        } | {f"schema.registry.{key.replace('_', '.')}": value for key, value in more.items()}
        made.append(RegistryClient(RegistrySettings.from_configs(given), clock))
        return made[-1]

    yield make
    for opened in made:
        opened.close()


def test_look_ups_are_counted(registry, connect):
    schema_id = registry.register("orders-value", '"string"')
    client = connect(registry)
    take_events()
    client.schema_by_id(schema_id)
    client.subject_versions(schema_id)
    with pytest.raises(UnknownSchemaError):
        client.schema_by_id(schema_id + 1)
    registry.fault = Fault.GARBAGE
    with pytest.raises(RetriableException):
        client.schema_by_id(schema_id)

    counted = {result: amount for event, result, amount in take_events() if event == LOOKUP}
    assert counted == {"found": 2, "unknown": 1, "failed": 1}


def test_a_schema_is_found_by_its_id(registry, connect):
    rules = {"domainRules": [{"name": "r"}]}
    registry.register("common", "message A {}", "PROTOBUF")
    schema_id = registry.register(
        "orders-value",
        "message B {}",
        "PROTOBUF",
        [("a.proto", "common", 1)],
        {"tags": {"x": ["PII"]}},
        rules,
    )
    assert connect(registry).schema_by_id(schema_id) == RegisteredSchema(
        "PROTOBUF",
        "message B {}",
        (SchemaReference("a.proto", "common", 1),),
        2,
        registry.guid(2),
        {"tags": {"x": ["PII"]}},
        rules,
    )
    assert registry.requests == ["GET /schemas/ids/2"]


def test_a_schema_is_found_by_its_guid_with_its_id(registry, connect):
    registry.register("a", '"int"')
    registry.register("b", '"long"')
    found = connect(registry).schema_by_guid(registry.guid(2))
    assert (found.text, found.schema_id, found.guid) == ('"long"', 2, registry.guid(2))


class _Context:
    """A registry behind the URL of a context."""

    def __init__(self, registry, name):
        self.url = registry.url_of(name)


@pytest.mark.parametrize("written", [".other", "other", ":.other:", "%3A.other%3A"])
def test_a_context_of_the_url_has_its_own_ids_and_subjects(registry, connect, written):
    registry.register("orders-value", '"string"')
    registry.register(":.other:orders-value", '"int"')
    registry.register(":.other:orders-value", '"long"')
    client = connect(_Context(registry, written))
    assert client.schema_by_id(1).text == '"int"'
    assert client.subject_versions(2) == (("orders-value", 2),)
    found, version = client.latest("orders-value")
    assert (found.text, found.schema_id, version) == ('"long"', 2, 2)
    assert client.schema_of_version("orders-value", 1).text == '"int"'
    guid = client.latest("orders-value")[0].guid
    assert client.schema_by_guid(guid).schema_id == 2
    assert client.schema_by_guid(registry.guid(1)).schema_id is None
    with pytest.raises(UnknownSchemaError):
        client.schema_by_id(3)


def test_the_default_context_does_not_use_the_latest_version_of_another_context(registry, connect):
    registry.register("another", '"string"')
    registry.register(":.other:orders-value", '"int"')
    client = connect(registry)
    with pytest.raises(UnknownSchemaError):
        client.latest("orders-value")
    assert client.latest(":.other:orders-value")[1] == 1
    assert client.schema_by_id(1).text == '"string"'
    assert client.subject_versions(1) == (("another", 1),)


def test_the_context_of_a_reference_is_returned(registry, connect):
    registry.register(":.shared:common", '"int"')
    registry.register("here", '"int"')
    client = connect(registry)
    assert client.schema_of_version("common", 1).context == ".shared"
    assert client.schema_of_version(":.shared:common", 1).context == ".shared"
    assert client.schema_of_version("here", 1).context == ""
    other = connect(_Context(registry, ".shared"))
    assert other.schema_of_version("common", 1).context == ""


def test_a_permanently_deleted_schema_is_unknown(registry, connect):
    registry.register("a", '"int"')
    registry.purge("a", 1)
    client = connect(registry)
    for send in (
        lambda: client.schema_by_id(1),
        lambda: client.subject_versions(1),
        lambda: client.latest("a"),
        lambda: client.schema_of_version("a", 1),
    ):
        with pytest.raises(UnknownSchemaError):
            send()


def test_subjects_and_versions_are_found(registry, connect):
    registry.register("a", '"int"')
    registry.register("b", '"string"')
    registry.register("b", '"int"')
    client = connect(registry)
    assert client.subject_versions(1) == (("a", 1), ("b", 2))
    assert client.latest("b")[0].text == '"int"'
    assert client.latest("b")[1] == 2
    assert client.schema_of_version("b", 1).text == '"string"'
    assert client.schema_of_version("b", -1).text == '"int"'


@pytest.mark.parametrize("subject", [":.ctx:a/b value", "ä?#%", "..", "a%2Fb", "-value"])
def test_subjects_may_have_any_name(registry, connect, subject):
    registry.register(subject, '"int"')
    assert connect(registry).latest(subject)[1] == 1
    assert connect(registry).schema_of_version(subject, 1).text == '"int"'


def test_a_softly_deleted_schema_is_found_by_id_and_as_a_reference_but_under_no_subject(
    registry, connect
):
    registry.register("a", '"int"')
    registry.register("a", '"long"')
    registry.delete("a", 2)
    client = connect(registry)
    assert client.schema_by_id(2).text == '"long"'
    assert client.schema_of_version("a", 2).text == '"long"'
    assert client.subject_versions(2) == ()
    assert client.latest("a")[1] == 1
    registry.delete("a", 1)
    with pytest.raises(UnknownSchemaError):
        client.latest("a")


def test_a_missing_schema_is_unknown(registry, connect):
    client = connect(registry)
    guid = "89791762-2336-4186-9674-299b90a802e2"
    for send, text in (
        (lambda: client.schema_by_id(17), "schema 17 is not in the schema registry"),
        (lambda: client.schema_by_guid(guid), f"schema {guid} is not in the schema registry"),
        (lambda: client.subject_versions(17), "schema 17 is not in"),
        (lambda: client.latest("orders"), "subject orders is not in"),
        (lambda: client.schema_of_version("a", 2), "version 2 of subject a is not in"),
    ):
        with pytest.raises(UnknownSchemaError, match=text):
            send()


def test_a_404_that_is_not_a_registrys_word_is_our_trouble(registry, connect):
    registry.register("a", '"int"')
    with pytest.raises(RetriableException, match="status 404, but not as a schema registry does"):
        connect(registry, url=registry.url + "/wrong").schema_by_id(1)
    with FakeRegistry(has_guids=False) as old:
        old.register("a", '"int"')
        with pytest.raises(RetriableException, match="status 404, but not as a schema registry"):
            connect(old).schema_by_guid(old.guid(1))


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (401, r"status 401 \(Unauthorized\): see schema.registry.basic.auth.user.info"),
        (403, r"status 403 \(Forbidden\): these credentials may not read schemas"),
        (429, "status 429"),
        (502, "status 502"),
        (503, "status 503"),
        (504, "status 504"),
    ],
)
def test_a_registry_that_rejects_the_login_is_away(registry, connect, status, text):
    registry.register("a", '"int"')
    registry.status = status
    with pytest.raises(RegistryAwayException, match=f"schema 1 cannot be looked up: .* {text}"):
        connect(registry).schema_by_id(1)


@pytest.mark.parametrize("status", [400, 405, 422, 500, 501])
def test_an_error_of_one_request_is_retriable_and_does_not_stop_others(registry, connect, status):
    registry.register("a", '"int"')
    registry.register("a", '"long"')
    registry.status, registry.only = status, "ids/1"
    client = connect(registry)
    with pytest.raises(RetriableException, match=f"status {status}") as caught:
        client.schema_by_id(1)
    assert not isinstance(caught.value, RegistryAwayException)
    assert client.schema_by_id(2).text == '"long"'


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault.GARBAGE, "sent a response that is not JSON"),
        (Fault.DEEP, "sent a response that is not JSON"),
        (Fault.HUGE, "responded with more than 8388608 bytes"),
        (Fault.REDIRECT, "status 307; redirects are not followed"),
    ],
)
def test_invalid_answers_are_retriable(registry, connect, fault, text):
    registry.register("a", '"int"')
    registry.register("a", '"long"')
    registry.fault, registry.only = fault, "ids/1"
    client = connect(registry)
    with pytest.raises(RetriableException, match=text) as caught:
        client.schema_by_id(1)
    assert "17" not in str(caught.value).replace(registry.url, "")
    assert client.schema_by_id(2).text == '"long"'


def test_a_wrong_login_is_named_without_showing_it(connect):
    with FakeRegistry(user_info=f"me:{SECRET}") as registry:
        registry.register("a", '"int"')
        right = connect(registry, basic_auth_user_info=f"me:{SECRET}")
        assert right.schema_by_id(1).text == '"int"'
        for more in ({}, {"basic_auth_user_info": f"you:{SECRET}"}, {"bearer_auth_token": SECRET}):
            with pytest.raises(RegistryAwayException, match="401") as caught:
                connect(registry, **more).schema_by_id(1)
            assert SECRET not in str(caught.value)
    with FakeRegistry(token=SECRET) as registry:
        registry.register("a", '"int"')
        assert connect(registry, bearer_auth_token=SECRET).schema_by_id(1).text == '"int"'


def test_an_unavailable_registry_gets_a_request_once_a_second(registry, connect, clock):
    registry.register("a", '"int"')
    client = connect(registry)
    registry.status = 503
    for _ in range(100):
        with pytest.raises(RegistryAwayException, match=r"schema 1 .* status 503"):
            client.schema_by_id(1)
    assert len(registry.requests) == 1
    clock.passes(PAUSE / 2)
    with pytest.raises(RegistryAwayException, match=r"subject a cannot be looked up: .* 503"):
        client.latest("a")
    assert len(registry.requests) == 1
    clock.passes(PAUSE / 2)
    registry.status = None
    assert client.schema_by_id(1).text == '"int"'
    assert len(registry.requests) == 2


def test_the_next_url_is_used_and_stays_first(registry, connect, clock):
    registry.register("a", '"int"')
    with FakeRegistry() as first:
        client = connect(first, registry)
        first.goes_away()
        for _ in range(3):
            assert client.schema_by_id(1).text == '"int"'
            clock.passes(10)
        first.comes_back()
        assert client.schema_by_id(1).text == '"int"'
        assert first.requests == []
        first.register("a", '"int"')
        registry.goes_away()
        assert client.schema_by_id(1).text == '"int"'
        assert len(first.requests) == 1


@pytest.mark.parametrize("status", [401, 500, 503])
@pytest.mark.parametrize("fault", [None, Fault.GARBAGE, Fault.HANGS_UP])
def test_the_next_url_is_used_after_any_failure(registry, connect, status, fault):
    registry.register("a", '"int"')
    with FakeRegistry() as first:
        first.status, first.fault = status, fault
        assert connect(first, registry).schema_by_id(1).text == '"int"'
        assert len(first.requests) == 1


def test_look_ups_end_within_a_time_together(registry, connect, clock):
    registry.register("a", '"int"')
    registry.register("a", '"long"')
    client = connect(registry)
    client.allow(3)
    clock.passes(2)
    assert client.schema_by_id(1).text == '"int"'
    clock.passes(1)
    with pytest.raises(RegistryAwayException, match=r"schema 2 cannot be looked up: .* too long"):
        client.schema_by_id(2)
    assert registry.requests == ["GET /schemas/ids/1"]
    client.allow(3)
    assert client.schema_by_id(2).text == '"long"'


def test_a_hanging_registry_is_given_up_after_the_allowed_time(registry, connect):
    registry.fault = Fault.SILENT
    client = connect(registry, timeout="600000")
    client.allow(0.2)
    with pytest.raises(RegistryAwayException, match="schema 1 cannot be looked up"):
        client.schema_by_id(1)


def test_a_request_without_time_left_does_not_make_the_registry_away(registry, connect, clock):
    registry.register("a", '"int"')
    registry.fault = Fault.SILENT
    client = connect(registry)
    client.allow(10)
    clock.passes(9.9)
    with pytest.raises(RegistryAwayException, match=r"schema 1 cannot be looked up: .* too long"):
        client.schema_by_id(1)
    if client._endpoints[0]._given_up is not None:
        client._endpoints[0]._given_up.join(60)
    registry.fault = None
    client.allow(10)
    assert client.schema_by_id(1).text == '"int"'


def test_a_hanging_registry_leaves_time_for_the_next_url(registry, connect):
    registry.register("a", '"int"')
    with FakeRegistry() as first:
        first.fault = Fault.SLOW_BODY
        client = connect(first, registry, timeout="12000")
        assert client.schema_by_id(1).text == '"int"'


@pytest.mark.parametrize("knows", [0, 1])
def test_an_unknown_schema_is_requested_from_the_other_urls(connect, knows):
    with FakeRegistry() as registry, FakeRegistry() as two:
        knowing, other = (registry, two) if knows == 0 else (two, registry)
        knowing.register("a", '"int"')
        client = connect(registry, two)
        assert client.schema_by_id(1).text == '"int"'
        assert client.latest("a")[1] == 1
        assert len(knowing.requests) == 2, "the registry that answered is requested first"
        assert len(other.requests) == knows


def test_a_schema_that_no_url_has_is_unknown(connect):
    with FakeRegistry() as registry, FakeRegistry() as two:
        client = connect(registry, two)
        with pytest.raises(UnknownSchemaError):
            client.schema_by_id(1)
        assert len(registry.requests) == len(two.requests) == 1


@pytest.mark.parametrize("gone", [0, 1])
def test_a_schema_is_unknown_if_the_only_url_that_responds_does_not_have_it(connect, gone):
    with FakeRegistry() as registry, FakeRegistry() as two:
        client = connect(registry, two)
        (registry, two)[gone].goes_away()
        with pytest.raises(UnknownSchemaError):
            client.schema_by_id(1)


def test_all_may_be_away(registry, connect):
    with FakeRegistry() as first:
        client = connect(first, registry)
        first.goes_away()
        registry.goes_away()
        with pytest.raises(RegistryAwayException, match="cannot be reached: Connection refused"):
            client.schema_by_id(1)
        registry.comes_back()
        first.comes_back()


def test_a_schema_of_five_megabytes_is_found(registry, connect):
    text = '{"type": "enum", "name": "e", "symbols": ["' + "x" * 5_000_000 + '"]}'
    registry.register("a", text)
    assert connect(registry).schema_by_id(1).text == text
