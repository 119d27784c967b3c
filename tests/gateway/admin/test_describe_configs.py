"""DescribeConfigs: keys of Penstock are listed with the keys of the cluster."""

import asyncio
from uuid import UUID

import pytest

from penstock.engine.topic_configs import definitions
from tests.gateway.admin.talk import OWN, AdminTalk, versions

API, TOPIC, BROKER = 32, 2, 4
ID = UUID(int=7)
ALL = set(definitions.config_keys())
LETTERS = "errors.deadletterqueue.topic.name"


def about(*names, keys=None, kind=TOPIC, **more):
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys} for name in names
    ]
    return {"resources": resources, **more}


def described(*names, kind=TOPIC):
    configs = [{"name": "retention.ms", "value": "5", "config_source": 1}]
    return {"results": [{"resource_type": kind, "resource_name": name, "configs": configs}
                        for name in names]}  # fmt: skip


def read(response):
    return [(result.resource_name, {config.name: config for config in result.configs})
            for result in response.results]  # fmt: skip


async def storing(properties=None):
    talk = AdminTalk(properties=properties or {})
    await talk.store()
    await talk.topic_configs.put("a", ID, {OWN: "on"})
    return talk


@pytest.mark.parametrize("version", versions(API))
async def test_every_key_is_added_to_a_topic(version):
    talk = await storing({f"topics.b.{OWN}": "off"})
    sent = await talk.request(API, version, **about("a", "b", include_synonyms=True,
                                                    include_documentation=True))  # fmt: skip
    forwarded = await talk.forwarded(API)
    assert forwarded.frame == sent
    talk.respond(forwarded, **described("a", "b"))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    (_, a), (_, b) = read(await talk.response())
    assert a.keys() == b.keys() == ALL - {LETTERS} | {"retention.ms"}
    assert (a[OWN].value, a[OWN].config_source, a["retention.ms"].value) == ("on", 1, "5")
    assert [(synonym.value, synonym.source) for synonym in a[OWN].synonyms] == [("on", 1)]
    assert (b[OWN].value, b[OWN].config_source) == ("off", 5)
    assert not a[OWN].read_only
    if version >= 3:
        assert a[OWN].documentation
        assert a[OWN].config_type == 2


@pytest.mark.parametrize("version", versions(API))
@pytest.mark.parametrize(
    ("mode", "own", "keys", "is_shown"),
    [
        ("enforce", {}, None, False),
        ("mark", {}, None, False),
        ("quarantine", {}, None, True),
        ("enforce", {"penstock.mode": "quarantine"}, None, True),
        ("quarantine", {"penstock.mode": "enforce"}, None, False),
        ("enforce", {LETTERS: "${topic}.dead"}, None, True),
        ("enforce", {}, (LETTERS,), True),
    ],
)
async def test_the_dead_letter_topic_is_shown_where_records_are_quarantined(
    version, mode, own, keys, is_shown
):
    """Kafka 4.4 describes keys of its own that begin with `errors.deadletterqueue.` (KIP-1191)."""
    talk = await storing({"record.validator.classes": "a.V", "penstock.mode": mode})
    if own:
        await talk.topic_configs.put("b", ID, own)
    await talk.request(API, version, **about("b", keys=keys))
    talk.respond(await talk.forwarded(API), **described("b"))
    if own:
        await talk.describe_topics({"name": "b", "topic_id": ID})
    ((_, found),) = read(await talk.response())
    assert (LETTERS in found) is is_shown
    assert keys or found.keys() | {LETTERS} == ALL | {"retention.ms"}


@pytest.mark.parametrize("version", versions(API))
async def test_requested_keys_are_returned_for_each_mention_of_their_topic(version):
    talk = await storing()
    request = about("a", keys=(OWN, "retention.ms"))
    request["resources"] += about("a", keys=("retention.ms",))["resources"]
    await talk.request(API, version, **request)
    talk.respond(await talk.forwarded(API), **described("a", "a"))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    first, second = (configs for _, configs in read(await talk.response()))
    assert first.keys() == {OWN, "retention.ms"}
    assert second.keys() == {"retention.ms"}
    if version >= 3:
        assert first[OWN].documentation is None


@pytest.mark.parametrize("version", versions(API))
async def test_requests_without_our_keys_pass(version):
    talk = await storing()
    sent = await talk.request(API, version, **about("1", kind=BROKER))
    await talk.passes_unchanged(API, sent, **described("1", kind=BROKER))
    sent = await talk.request(API, version, **about("a", keys=("retention.ms",)))
    await talk.passes_unchanged(API, sent, **described("a"))


async def test_a_key_that_is_not_allowed_is_read_only():
    talk = await storing({"topic.settings.keys.allowed": "records.*"})
    await talk.request(API, 4, **about("b", keys=(OWN,)))
    talk.respond(await talk.forwarded(API), **described("b"))
    ((_, b),) = read(await talk.response())
    assert b[OWN].read_only


@pytest.mark.parametrize(("code", "expected"), [(3, None), (29, "on")])
async def test_the_id_of_a_topic_that_the_client_may_not_describe_is_looked_up(code, expected):
    talk = await storing()
    talk.cluster.ids_by_name = {"a": ID}
    await talk.request(API, 4, **about("a", keys=(OWN,)))
    talk.respond(await talk.forwarded(API), **described("a"))
    await talk.describe_topics({"name": "a", "error_code": code})
    ((_, a),) = read(await talk.response())
    assert a[OWN].value == expected


async def test_a_topic_that_was_not_requested_gets_no_keys():
    talk = await storing()
    await talk.request(API, 4, **about("b", keys=(OWN,)))
    talk.respond(await talk.forwarded(API), **described("other"))
    ((name, configs),) = read(await talk.response())
    assert (name, configs.keys()) == ("other", {"retention.ms"})


async def turns_until(condition):
    """Count the turns of the event loop until a condition holds."""
    turns = 0
    while not condition():
        turns += 1
        await asyncio.sleep(0)
    return turns


async def test_thousands_of_names_are_handled_in_slices():
    talk = await storing()
    names = [f"t{number}" for number in range(5_000)]
    await talk.request(API, 4, **about(*names, keys=(OWN,)))
    assert await turns_until(lambda: talk.broker.data) >= 5, "they are read"
    talk.respond(await talk.forwarded(API), **described(*names))
    assert await turns_until(lambda: talk.client.data) >= 10, "something is added to each"
    assert [name for name, _ in read(await talk.response())] == names


async def test_an_unreadable_response_closes_the_connection():
    talk = await storing()
    await talk.request(API, 4, **about("b", keys=(OWN,)))
    forwarded = await talk.forwarded(API)
    body = forwarded.correlation_id.to_bytes(4, "big") + b"\x00\x00\x00\x00\x00\xff\xff"
    talk.session.upstream_data(len(body).to_bytes(4, "big") + body)
    await talk.wait_until_closed()
