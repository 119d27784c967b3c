"""DeleteTopics: the settings of a topic are deleted with it; the topic settings topic stays."""

from uuid import UUID

import pytest

from penstock.engine.topic_configs.index import topic_key
from tests.gateway.admin.talk import OWN, AdminTalk, Policies, versions

API = 20
IDS_FROM = 6
ID, OWN_ID = UUID(int=7), UUID(int=8)


def named(version, *names):
    if version >= IDS_FROM:
        return {"topics": [{"name": name, "topic_id": None} for name in names]}
    return {"topic_names": names}


def deleted(*names, code=0):
    return {"responses": [{"name": name, "topic_id": ID, "error_code": code} for name in names]}


def read(response):
    return {str(found.name): int(found.error_code) for found in response.responses}


async def storing():
    """A gateway that stores a key of the topic `a`."""
    talk = AdminTalk()
    log = await talk.store()
    await talk.topic_configs.put("a", ID, {OWN: "on"})
    return talk, log


@pytest.mark.parametrize("version", versions(API))
async def test_without_settings_a_request_passes_and_the_topic_is_forgotten(version):
    policies = Policies()
    policies.needs_context = True
    talk = AdminTalk(policies)
    sent = await talk.request(API, version, **named(version, "a"))
    await talk.passes_unchanged(API, sent, **deleted("a"))
    assert talk.deleted == ["a"]


@pytest.mark.parametrize("version", versions(API))
@pytest.mark.parametrize(("code", "is_gone"), [(0, True), (29, False)])
async def test_settings_are_deleted_with_their_topic(version, code, is_gone):
    talk, log = await storing()
    sent = await talk.request(API, version, **named(version, "a", "b"))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    await talk.passes_unchanged(API, sent, **deleted("a", "b", code=code))
    gone = "-" + topic_key(ID).encode().decode()
    assert (gone in log._kept.keys) is is_gone
    assert talk.deleted == (["a", "b"] if is_gone else [])


@pytest.mark.parametrize("version", versions(API))
async def test_the_topic_settings_topic_is_not_deleted(version):
    talk, _ = await storing()
    await talk.request(API, version, **named(version, "settings", "b"))
    forwarded = await talk.forwarded(API)
    rest = forwarded.body.topics if version >= IDS_FROM else forwarded.body.topic_names
    assert [getattr(topic, "name", topic) for topic in rest] == ["b"]
    talk.respond(forwarded, **deleted("b"))
    response = await talk.response()
    assert read(response) == {"b": 0, "settings": 73}
    if version >= 5:
        assert response.responses[1].error_message == "This topic keeps the settings of topics"


@pytest.mark.parametrize("version", versions(API))
async def test_the_topic_settings_topic_alone_is_refused_without_the_broker(version):
    talk, _ = await storing()
    await talk.request(API, version, **named(version, "settings"))
    assert read(await talk.response()) == {"settings": 73}


async def test_the_topic_settings_topic_is_refused_by_its_id_too():
    talk, _ = await storing()
    await talk.request(API, 6, topics=[{"name": None, "topic_id": OWN_ID}])
    await talk.describe_topics({"name": "settings", "topic_id": OWN_ID})
    (found,) = (await talk.response()).responses
    assert (found.topic_id, int(found.error_code)) == (OWN_ID, 73)


async def test_settings_that_cannot_be_deleted_now_do_not_delay_the_response():
    talk, log = await storing()
    sent = await talk.request(API, 5, **named(5, "a"))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    log.failure = "away"
    await talk.passes_unchanged(API, sent, **deleted("a"))
