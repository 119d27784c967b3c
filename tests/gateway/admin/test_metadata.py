"""Metadata: the policy judges topics that brokers would create because a client requests them."""

import pytest

from tests.gateway.admin.talk import AdminTalk, Policies, versions

API, CREATE = 3, 19
CHOICE_FROM = 4
BROKERS = [{"node_id": 1, "host": "kafka-1", "port": 9092}]


def naming(*names, creating=True):
    topics = [{"name": name} for name in names]
    return {"topics": topics, "allow_auto_topic_creation": creating}


def known(*codes):
    return {"brokers": BROKERS,
            "topics": [{"name": name, "error_code": code} for name, code in codes]}  # fmt: skip


def read(response):
    assert {(broker.host, broker.port) for broker in response.brokers} == {("gateway", 9192)}
    return {topic.name: int(topic.error_code) for topic in response.topics}


async def described(talk, version, *codes):
    """Send a request that allows auto topic creation; the broker knows some of the topics."""
    await talk.request(API, version, **naming(*[name for name, _ in codes]))
    forwarded = await talk.forwarded(API)
    assert forwarded.version == (version if version >= CHOICE_FROM else 12)
    assert not forwarded.body.allow_auto_topic_creation
    talk.respond(forwarded, **known(*codes))


async def validated(talk, name, **result):
    forwarded = await talk.forwarded(CREATE)
    assert forwarded.body.validate_only
    assert [topic.name for topic in forwarded.body.topics] == [name]
    talk.respond(forwarded, topics=[{"name": name, "num_partitions": -1, "replication_factor": -1,
                                **result}])  # fmt: skip


@pytest.mark.parametrize("version", versions(API))
async def test_existing_topics_are_described(version):
    talk = AdminTalk()
    await described(talk, version, ("a", 0), ("b", 29))
    assert read(await talk.response()) == {"a": 0, "b": 29}
    assert talk.topics.judged == []


@pytest.mark.parametrize("version", versions(API))
async def test_an_accepted_topic_is_created(version):
    talk = AdminTalk()
    await described(talk, version, ("a", 0), ("new", 3))
    await validated(talk, "new")
    forwarded = await talk.forwarded(API)
    assert forwarded.body.allow_auto_topic_creation
    assert [topic.name for topic in forwarded.body.topics] == ["new"]
    talk.respond(forwarded, **known(("new", 5)))
    assert read(await talk.response()) == {"a": 0, "new": 3}
    assert talk.topics.judged[0][:3] == ("new", 6, 3)


@pytest.mark.parametrize("version", versions(API))
@pytest.mark.parametrize("code", [3, 44])
async def test_a_refused_topic_is_not_created(version, code):
    talk = AdminTalk()
    talk.topics.refused_automatic_creation_code = code
    talk.topics.no = {"new"}
    await described(talk, version, ("a", 0), ("new", 3))
    await validated(talk, "new", num_partitions=8, replication_factor=2)
    assert read(await talk.response()) == {"a": 0, "new": code}
    assert talk.topics.judged[0][:3] == ("new", 8, 2)
    assert [(refusal.topic, refusal.is_awaited) for refusal in talk.refusals] == [("new", True)]


@pytest.mark.parametrize(("code", "expected"), [(29, 29), (17, 44)])
async def test_topics_that_the_cluster_would_not_create_are_not_judged(code, expected):
    talk = AdminTalk()
    talk.topics.refused_automatic_creation_code = 44
    await described(talk, 12, ("new", 3))
    await validated(talk, "new", error_code=code)
    assert read(await talk.response()) == {"new": expected}
    assert talk.topics.judged == []


@pytest.mark.parametrize("is_missing", [True, False])
async def test_an_internal_topic_of_kafka_is_not_judged(is_missing):
    talk = AdminTalk()
    talk.cluster.missing = {"__consumer_offsets"} if is_missing else set()
    talk.topics.no = {"__consumer_offsets"}
    await described(talk, 12, ("__consumer_offsets", 3))
    if not is_missing:
        talk.respond(await talk.forwarded(API), **known(("__consumer_offsets", 3)))
    assert read(await talk.response()) == {"__consumer_offsets": 3}
    assert len(talk.topics.judged) == is_missing


async def test_a_topic_that_cannot_be_judged_is_not_created():
    talk = AdminTalk()
    await described(talk, 12, ("new", 3))
    talk.cluster.away = True
    await validated(talk, "new")
    assert read(await talk.response()) == {"new": 3}


async def test_if_brokers_do_not_create_topics_no_policy_judges():
    talk = AdminTalk()
    talk.cluster.creates = False
    await described(talk, 12, ("new", 3))
    assert read(await talk.response()) == {"new": 3}


@pytest.mark.parametrize("version", versions(API))
@pytest.mark.parametrize("topics", [None, [], [{"name": "new"}]])
async def test_a_request_that_creates_nothing_passes(version, topics):
    if version < CHOICE_FROM and (topics or version == 0):
        topics = []  # these versions let topics be created that are named
    talk = AdminTalk(Policies())
    sent = await talk.request(API, version, topics=topics, allow_auto_topic_creation=False)
    forwarded = await talk.forwarded(API)
    assert forwarded.frame == sent
    talk.respond(forwarded, **known(("new", 3)))
    assert read(await talk.response()) == {"new": 3}


async def test_an_unreadable_response_closes_the_connection():
    talk = AdminTalk()
    await talk.request(API, 12, **naming("a"))
    forwarded = await talk.forwarded(API)
    body = forwarded.correlation_id.to_bytes(4, "big") + b"\x00\x00\x00\x00\x00\xff\xff"
    talk.session.upstream_data(len(body).to_bytes(4, "big") + body)
    await talk.wait_until_closed()
