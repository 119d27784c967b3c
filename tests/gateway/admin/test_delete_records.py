"""DeleteRecords: the topic settings topic keeps its records."""

import pytest

from tests.gateway.admin.talk import AdminTalk, versions

API = 21


def named(*topics):
    return [{"name": name, "partitions": [{"partition_index": 0, "offset": 5}]} for name in topics]


def deleted(*topics):
    return [
        {"name": name, "partitions": [{"partition_index": 0, "low_watermark": 5}]}
        for name in topics
    ]


def read(response):
    return {
        topic.name: [(partition.partition_index, partition.low_watermark, int(partition.error_code))
                     for partition in topic.partitions]
        for topic in response.topics
    }  # fmt: skip


@pytest.mark.parametrize("version", versions(API))
async def test_other_topics_pass_unchanged(version):
    talk = AdminTalk()
    await talk.store()
    sent = await talk.request(API, version, topics=named("a", "b"))
    await talk.passes_unchanged(API, sent, topics=deleted("a", "b"))


@pytest.mark.parametrize("version", versions(API))
async def test_the_topic_settings_topic_is_left_out_and_refused(version):
    talk = AdminTalk()
    await talk.store()
    await talk.request(API, version, topics=named("a", "settings", "b"))
    forwarded = await talk.forwarded(API)
    assert [topic.name for topic in forwarded.body.topics] == ["a", "b"]
    talk.respond(forwarded, topics=deleted("a", "b"))
    assert read(await talk.response()) == {
        "a": [(0, 5, 0)], "b": [(0, 5, 0)], "settings": [(0, -1, 17)]
    }  # fmt: skip


@pytest.mark.parametrize("version", versions(API))
async def test_the_topic_settings_topic_alone_is_refused_without_the_broker(version):
    talk = AdminTalk()
    await talk.store()
    await talk.request(API, version, topics=named("settings"))
    assert read(await talk.response()) == {"settings": [(0, -1, 17)]}


async def test_an_unreadable_response_closes_the_connection():
    talk = AdminTalk()
    await talk.store()
    await talk.request(API, 2, topics=named("settings", "a"))
    forwarded = await talk.forwarded(API)
    body = forwarded.correlation_id.to_bytes(4, "big") + b"\x00\xff\xff\xff"
    talk.session.upstream_data(len(body).to_bytes(4, "big") + body)
    await talk.wait_until_closed()


async def test_a_request_with_bytes_after_its_end_closes_the_connection():
    talk = AdminTalk()
    await talk.store()
    sent = await AdminTalk().request(API, 1, topics=named("a"))
    size = len(sent) - 4 + 1
    talk.session.client_data(size.to_bytes(4, "big") + sent[4:] + b"\x00")
    await talk.wait_until_closed()
