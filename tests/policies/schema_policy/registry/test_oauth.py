"""Tokens: fetched once, again before they expire, and never shown."""

import pytest

from penstock.policies.schema_policy.registry.client import RegistryClient
from penstock.policies.schema_policy.registry.oauth import FAILURE_S
from penstock.policies.schema_policy.registry.settings import RegistrySettings
from penstock.policy import RetriableException
from tests.jwts import jwt
from tests.policies.schema_policy.clock import Clock
from tests.policies.schema_policy.fake_issuer import CLIENT_SECRET, FakeIssuer
from tests.policies.schema_policy.fake_registry import FakeRegistry

pytestmark = pytest.mark.system


@pytest.fixture
def issuer():
    with FakeIssuer() as started:
        yield started


@pytest.fixture
def registry(issuer):
    with FakeRegistry(token="token-1") as started:
        started.register("a", '"int"')
        yield started


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def client(issuer, registry, clock):
    made = RegistryClient(settings(issuer, registry), clock)
    yield made
    made.close()


def settings(issuer, registry, **more):
    given = issuer.settings | {
        "schema.registry.url": registry.url,
        "schema.registry.timeout.ms": "60000",
        **{f"schema.registry.bearer.auth.{key.replace('_', '.')}": more[key] for key in more},
    }
    return RegistrySettings.from_configs(given)


def test_a_token_is_fetched_once_and_again_before_it_expires(issuer, registry, client, clock):
    for _ in range(3):
        assert client.schema_by_id(1).text == '"int"'
    assert issuer.issued == ["token-1"]
    assert issuer.forms == [{"grant_type": ["client_credentials"]}]
    clock.passes(699)
    client.schema_by_id(1)
    assert issuer.issued == ["token-1"]
    clock.passes(1)  # 300 seconds before its end
    registry.wants("token-2")
    client.schema_by_id(1)
    assert issuer.issued == ["token-1", "token-2"]


def test_of_a_short_lifetime_four_fifths_are_used(issuer, registry, client, clock):
    issuer.lifetime = "100"
    client.schema_by_id(1)
    clock.passes(79)
    client.schema_by_id(1)
    clock.passes(1)
    registry.wants("token-2")
    client.schema_by_id(1)
    assert len(issuer.issued) == 2


def test_scope_and_confluents_headers_are_sent(issuer, registry):
    client = RegistryClient(
        settings(issuer, registry, scope="read write", logical_cluster="lsrc-1")
    )
    client.schema_by_id(1)
    client.close()
    assert issuer.forms[0]["scope"] == ["read write"]
    assert registry.headers["target-sr-cluster"] == "lsrc-1"


def test_without_a_new_token_the_old_token_is_used_until_it_expires(
    issuer, registry, client, clock
):
    client.schema_by_id(1)
    issuer.status = 503
    clock.passes(800)
    for _ in range(3):
        assert client.schema_by_id(1).text == '"int"'
    assert len(issuer.forms) == 2
    clock.passes(FAILURE_S)
    client.schema_by_id(1)
    assert len(issuer.forms) == 3
    clock.passes(200)
    with pytest.raises(RetriableException) as caught:
        client.schema_by_id(1)
    host = issuer.url.split("/")[2]
    assert f"is not queried: the token endpoint at {host} responded with status 503" in str(
        caught.value
    )
    issuer.status = None
    clock.passes(5)
    registry.wants("token-2")
    assert client.schema_by_id(1).text == '"int"'


def test_a_token_that_the_registry_refuses_is_not_used_again(issuer, registry, client, clock):
    client.schema_by_id(1)
    registry.wants("token-2")
    with pytest.raises(RetriableException, match="status 401"):
        client.schema_by_id(1)
    clock.passes(2)
    assert client.schema_by_id(1).text == '"int"'
    assert issuer.issued == ["token-1", "token-2"]


def test_a_wrong_secret_is_named_and_not_shown(issuer, registry, clock):
    client = RegistryClient(settings(issuer, registry, client_secret="wrong-xK9"), clock)
    with pytest.raises(RetriableException) as caught:
        client.schema_by_id(1)
    client.close()
    assert "status 401 (see schema.registry.bearer.auth.client.id" in str(caught.value)
    assert "xK9" not in str(caught.value)
    assert registry.requests == []
    assert "xK9" not in repr(settings(issuer, registry))
    assert CLIENT_SECRET not in repr(settings(issuer, registry).oauth)


@pytest.mark.parametrize(
    "answer",
    ["x", [], {}, {"access_token": 1}, {"access_token": "a\r\nHost: b"}, {"access_token": ""}],
)
def test_an_invalid_token_is_not_sent(issuer, registry, client, answer):
    issuer.answer = answer
    with pytest.raises(RetriableException, match="returned no access_token"):
        client.schema_by_id(1)
    assert registry.requests == []


@pytest.mark.parametrize(
    "lifetime", ["\u00b2", "1" * 5000, 10**400, float("nan"), float("inf"), 0, -1, "x", [], "1e3"]
)
def test_an_invalid_lifetime_is_no_answer(issuer, registry, client, lifetime):
    issuer.lifetime = lifetime
    with pytest.raises(RetriableException, match="expires_in"):
        client.schema_by_id(1)
    assert registry.requests == []


@pytest.mark.parametrize("exp", [10**400, float("inf"), float("-inf"), float("nan")])
def test_a_token_that_expires_at_no_time_is_no_answer(issuer, registry, client, exp):
    issuer.answer = {"access_token": jwt(exp=exp)}
    with pytest.raises(RetriableException, match="exp is not a time"):
        client.schema_by_id(1)
    assert registry.requests == []
