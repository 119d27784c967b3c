"""Answers of a registry, for other workers and after a restart."""

from types import SimpleNamespace

import pytest

from penstock.policies.schema_policy.registered import RegisteredSchema, SchemaReference
from penstock.policies.schema_policy.registry.cache_folder import CacheFolder
from penstock.policies.schema_policy.registry.kept_answers import (
    WRITTEN_AGAIN_S,
    KeptAnswers,
    NothingKept,
)
from penstock.policies.schema_policy.registry.opening import open_registry
from penstock.policies.schema_policy.registry.settings import RegistrySettings
from penstock.policy import share_value, sharing
from tests.policies.schema_policy.clock import Clock

URLS = ("http://a", "http://b")
SCHEMA = RegisteredSchema(
    "PROTOBUF",
    "message Ä {}",
    (SchemaReference("b.proto", ":.lib:b", 2), SchemaReference("c.proto", "c", -1)),
    17,
    "89791762-2336-4186-9674-299b90a802e2",
    {"tags": {"x": ["PII"]}},
    {"domainRules": [{"name": "r"}]},
    ".lib",
)
PAIRS = (("orders-value", 3), (":.b:x", 1))


def restart(monkeypatch):
    monkeypatch.setattr(sharing, "_values", sharing.SharedStore())


@pytest.mark.parametrize("restarted", [False, True])
def test_answers_are_kept_with_their_times(tmp_path, monkeypatch, restarted):
    clock = Clock()
    kept = KeptAnswers(URLS, CacheFolder(tmp_path), clock)
    kept.keep_schema("schemas/17", SCHEMA)
    kept.keep_schema("schemas/18", RegisteredSchema("AVRO", '"int"'))
    clock.passes(1.5)
    kept.keep_versions("subjects/17", PAIRS)
    kept.keep_latest("latest/a", SCHEMA, 3)
    if restarted:
        restart(monkeypatch)
    other = KeptAnswers(URLS[::-1], CacheFolder(tmp_path), clock)
    assert other.schema("schemas/17") == (SCHEMA, 1000.0)
    assert other.schema("schemas/18") == (RegisteredSchema("AVRO", '"int"'), 1000.0)
    assert other.versions("subjects/17") == (PAIRS, 1001.5)
    assert other.latest("latest/a") == ((SCHEMA, 3), 1001.5)
    assert other.schema("schemas/19") is None
    other.forget("latest/a")
    assert kept.latest("latest/a") is None


def test_without_a_folder_a_restart_forgets(monkeypatch):
    kept = KeptAnswers(URLS)
    kept.keep_schema("schemas/17", SCHEMA)
    assert KeptAnswers(URLS).schema("schemas/17") is not None
    restart(monkeypatch)
    assert kept.schema("schemas/17") is None


def test_registries_are_distinguished(tmp_path):
    KeptAnswers(("http://a",), CacheFolder(tmp_path)).keep_schema("schemas/17", SCHEMA)
    assert KeptAnswers(URLS, CacheFolder(tmp_path)).schema("schemas/17") is None
    assert NothingKept().schema("schemas/17") is None


BEARER = "schema.registry.bearer.auth."
OAUTH = {
    BEARER + "credentials.source": "OAUTHBEARER",
    BEARER + "issuer.endpoint.url": "https://issuer.example/token",
    BEARER + "client.id": "dev",
    BEARER + "client.secret": "kept to itself",
}


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (
            {"schema.registry.basic.auth.user.info": "dev:1"},
            {"schema.registry.basic.auth.user.info": "prod:1"},
            False,
        ),
        (
            {"schema.registry.basic.auth.user.info": "dev:1"},
            {"schema.registry.basic.auth.user.info": "dev:2"},
            True,
        ),
        ({}, {"schema.registry.basic.auth.user.info": "dev:1"}, False),
        ({BEARER + "token": "a"}, {BEARER + "token": "b"}, False),
        (
            {BEARER + "token": "a", BEARER + "logical.cluster": "lsrc-1"},
            {BEARER + "token": "a", BEARER + "logical.cluster": "lsrc-2"},
            False,
        ),
        (
            {BEARER + "token": "a", BEARER + "identity.pool.id": "x"},
            {BEARER + "token": "a", BEARER + "logical.cluster": "x"},
            False,
        ),
        (OAUTH, OAUTH | {BEARER + "client.id": "prod"}, False),
        (OAUTH, OAUTH | {BEARER + "issuer.endpoint.url": "https://other.example/token"}, False),
        (OAUTH, OAUTH | {BEARER + "scope": "prod"}, False),
        (OAUTH, OAUTH | {BEARER + "logical.cluster": "lsrc-2"}, False),
        (OAUTH, OAUTH | {BEARER + "client.secret": "renewed"}, True),
        (OAUTH, OAUTH | {"schema.registry.timeout.ms": "7"}, True),
    ],
)
def test_answers_to_different_clients_of_a_url_are_distinguished(tmp_path, first, second, is_same):
    url = {"schema.registry.url": "https://a"}
    settings, other = (RegistrySettings.from_configs(url | given) for given in (first, second))
    KeptAnswers(settings.urls, CacheFolder(tmp_path), caller=settings.caller).keep_schema(
        "x", SCHEMA
    )
    kept = KeptAnswers(other.urls, CacheFolder(tmp_path), caller=other.caller)
    assert (kept.schema("x") is not None) == is_same


def test_opened_registries_keep_answers_separately_for_each_client():
    found = []
    for user in ("dev", "prod"):
        settings = RegistrySettings.from_configs(
            {"schema.registry.url": "http://a", "schema.registry.basic.auth.user.info": f"{user}:1"}
        )
        registry = open_registry(settings)
        registry._client = SimpleNamespace(
            schema_by_id=lambda schema_id, user=user: RegisteredSchema(
                "AVRO", f'"{user}"', schema_id=schema_id
            )
        )
        found.append(registry.schema(7).text)
    assert found == ['"dev"', '"prod"']


def test_the_caller_contains_no_secret():
    for given in (
        {"schema.registry.basic.auth.user.info": "dev:5ecret"},
        {BEARER + "token": "5ecret"},
        OAUTH | {BEARER + "client.secret": "5ecret"},
    ):
        settings = RegistrySettings.from_configs({"schema.registry.url": "https://a"} | given)
        assert "5ecret" not in "".join(settings.caller)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"1000",
        b"x\n{}",
        b"1000\n",
        b"1000\n[]",
        b'1000\n{"schema": 1}',
        b'1000\n{"schema": "x", "id": -1}',
        b'9999\n{"schema": "\\"int\\"", "id": 17}',  # of tomorrow
        b'nan\n{"schema": "\\"int\\"", "id": 17}',
    ],
)
def test_an_unreadable_answer_is_not_used(value):
    clock = Clock()
    kept = KeptAnswers(URLS, clock=clock)
    share_value(kept._prefix + "schemas/17", value)
    assert kept.schema("schemas/17") is None


def test_an_answer_that_has_not_changed_is_seldom_written(tmp_path):
    clock = Clock()
    kept = KeptAnswers(URLS, CacheFolder(tmp_path), clock)
    kept.keep_versions("subjects/17", PAIRS)
    (file,) = tmp_path.iterdir()
    before = file.read_bytes()
    clock.passes(WRITTEN_AGAIN_S - 1)
    kept.keep_versions("subjects/17", PAIRS)
    assert file.read_bytes() == before
    kept.keep_versions("subjects/17", PAIRS[:1])
    changed = file.read_bytes()
    assert changed != before
    clock.passes(WRITTEN_AGAIN_S)
    kept.keep_versions("subjects/17", PAIRS[:1])
    assert file.read_bytes() != changed


def test_answers_with_names_that_are_too_long_are_not_kept(tmp_path):
    kept = KeptAnswers(URLS, CacheFolder(tmp_path))
    kept.keep_latest("latest/" + "ä" * 1000, SCHEMA, 1)
    kept.forget("latest/" + "ä" * 1000)
    assert kept.latest("latest/" + "ä" * 1000) is None
