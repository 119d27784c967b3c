"""Metadata: the policy judges topics that brokers would create because a client names them."""

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
    """Send a request of a client that lets topics be created; the broker knows some of them."""
    await talk.request(API, version, **naming(*[name for name, _ in codes]))
    asked = await talk.asked(API)
    assert asked.version == (version if version >= CHOICE_FROM else 12)
    assert not asked.body.allow_auto_topic_creation
    talk.answer(asked, **known(*codes))


async def validated(talk, name, **result):
    asked = await talk.asked(CREATE)
    assert asked.body.validate_only
    assert [topic.name for topic in asked.body.topics] == [name]
    talk.answer(asked, topics=[{"name": name, "num_partitions": -1, "replication_factor": -1,
                                **result}])  # fmt: skip


@pytest.mark.parametrize("version", versions(API))
async def test_topics_that_exist_are_answered(version):
    talk = AdminTalk()
    await described(talk, version, ("a", 0), ("b", 29))
    assert read(await talk.told()) == {"a": 0, "b": 29}
    assert talk.topics.asked == []


@pytest.mark.parametrize("version", versions(API))
async def test_an_accepted_topic_is_created(version):
    talk = AdminTalk()
    await described(talk, version, ("a", 0), ("new", 3))
    await validated(talk, "new")
    asked = await talk.asked(API)
    assert asked.body.allow_auto_topic_creation
    assert [topic.name for topic in asked.body.topics] == ["new"]
    talk.answer(asked, **known(("new", 5)))
    assert read(await talk.told()) == {"a": 0, "new": 3}
    assert talk.topics.asked[0][:3] == ("new", 6, 3)


@pytest.mark.parametrize("version", versions(API))
@pytest.mark.parametrize("code", [3, 44])
async def test_a_refused_topic_is_not_created(version, code):
    talk = AdminTalk()
    talk.policies = talk.policies._replace(refused_automatic_creation_code=code)
    talk.topics.no = {"new"}
    await described(talk, version, ("a", 0), ("new", 3))
    await validated(talk, "new", num_partitions=8, replication_factor=2)
    assert read(await talk.told()) == {"a": 0, "new": code}
    assert talk.topics.asked[0][:3] == ("new", 8, 2)


@pytest.mark.parametrize(("code", "expected"), [(29, 29), (17, 44)])
async def test_what_the_cluster_would_not_create_is_not_judged(code, expected):
    talk = AdminTalk()
    talk.policies = talk.policies._replace(refused_automatic_creation_code=44)
    await described(talk, 12, ("new", 3))
    await validated(talk, "new", error_code=code)
    assert read(await talk.told()) == {"new": expected}
    assert talk.topics.asked == []


@pytest.mark.parametrize("is_missing", [True, False])
async def test_a_topic_of_kafkas_own(is_missing):
    talk = AdminTalk()
    talk.cluster.missing = {"__consumer_offsets"} if is_missing else set()
    talk.topics.no = {"__consumer_offsets"}
    await described(talk, 12, ("__consumer_offsets", 3))
    if not is_missing:
        talk.answer(await talk.asked(API), **known(("__consumer_offsets", 3)))
    assert read(await talk.told()) == {"__consumer_offsets": 3}
    assert len(talk.topics.asked) == is_missing


async def test_what_cannot_be_judged_is_not_created():
    talk = AdminTalk()
    await described(talk, 12, ("new", 3))
    talk.cluster.away = True
    await validated(talk, "new")
    assert read(await talk.told()) == {"new": 3}


async def test_where_brokers_create_no_topics_nobody_is_asked():
    talk = AdminTalk()
    talk.cluster.creates = False
    await described(talk, 12, ("new", 3))
    assert read(await talk.told()) == {"new": 3}


@pytest.mark.parametrize("version", versions(API))
@pytest.mark.parametrize("topics", [None, [], [{"name": "new"}]])
async def test_a_request_that_creates_nothing_passes(version, topics):
    if version < CHOICE_FROM and (topics or version == 0):
        topics = []  # these versions let topics be created that are named
    talk = AdminTalk(Policies())
    sent = await talk.request(API, version, topics=topics, allow_auto_topic_creation=False)
    asked = await talk.asked(API)
    assert asked.frame == sent
    talk.answer(asked, **known(("new", 3)))
    assert read(await talk.told()) == {"new": 3}


async def test_an_answer_that_cannot_be_read_ends_the_connection():
    talk = AdminTalk()
    await talk.request(API, 12, **naming("a"))
    asked = await talk.asked(API)
    body = asked.correlation_id.to_bytes(4, "big") + b"\x00\x00\x00\x00\x00\xff\xff"
    talk.session.upstream_data(len(body).to_bytes(4, "big") + body)
    await talk.ends()
