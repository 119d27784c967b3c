"""CreatePartitions: the policy judges the new count, after the cluster has validated it."""

from uuid import UUID

import pytest

from tests.gateway.admin.talk import OWN, AdminTalk, versions

API, METADATA, DESCRIBE = 37, 3, 32
ID = UUID(int=7)
VALID = {"results": [{"name": "a"}, {"name": "b"}]}


def requested(*names, validate_only=False):
    topics = [{"name": name, "count": 9, "assignments": None} for name in names]
    return {"topics": topics, "validate_only": validate_only}


def read(response):
    return {
        result.name: (int(result.error_code), result.error_message) for result in response.results
    }


async def validated(talk, version, *names, results=None, validate_only=False):
    """Send a request; the cluster validates it and describes the topics."""
    sent = await talk.request(API, version, **requested(*names, validate_only=validate_only))
    forwarded = await talk.forwarded(API)
    assert forwarded.body.validate_only
    results = results or [{"name": name} for name in names]
    talk.respond(forwarded, results=results)
    valid = [result["name"] for result in results if not result.get("error_code")]
    if valid:
        partition = {"replica_nodes": (1, 2, 3), "isr_nodes": (), "offline_replicas": ()}
        await talk.describe_topics(
            *[{"name": name, "topic_id": ID, "partitions": [partition]} for name in valid]
        )
        forwarded = await talk.forwarded(DESCRIBE)
        configs = [{"name": "retention.ms", "value": "5", "config_source": 1},
                   {"name": "segment.ms", "value": "7", "config_source": 5}]  # fmt: skip
        talk.respond(
            forwarded, results=[{"resource_name": name, "configs": configs} for name in valid]
        )
    return sent


@pytest.mark.parametrize("version", versions(API))
async def test_an_accepted_request_is_forwarded_unchanged(version):
    talk = AdminTalk()
    sent = await validated(talk, version, "a", "b")
    await talk.passes_unchanged(API, sent, **VALID)
    first = talk.topics.judged[0]
    assert (first.topic, first.num_partitions, first.replication_factor) == ("a", 9, 3)
    assert first.configs == {"retention.ms": "5"}


async def test_a_topic_that_is_new_to_the_broker_is_judged_by_its_real_partitions():
    """The controller knows the topic already; a broker learns of it a little later."""
    talk = AdminTalk()
    sent = await talk.request(API, 3, **requested("a"))
    talk.respond(await talk.forwarded(API), results=[{"name": "a"}])
    await talk.describe_topics({"name": "a", "error_code": 3})
    partition = {"replica_nodes": (1, 2, 3), "isr_nodes": (), "offline_replicas": ()}
    await talk.describe_topics({"name": "a", "topic_id": ID, "partitions": [partition]})
    talk.respond(await talk.forwarded(DESCRIBE), results=[{"resource_name": "a"}])
    await talk.passes_unchanged(API, sent, results=[{"name": "a"}])
    assert talk.topics.judged[0].replication_factor == 3


async def test_only_topics_that_the_broker_does_not_know_yet_are_described_again():
    """The descriptions of the others may be large, and are held until the response."""
    talk = AdminTalk()
    sent = await talk.request(API, 3, **requested("a", "b"))
    talk.respond(await talk.forwarded(API), **VALID)
    partition = {"replica_nodes": (1, 2, 3), "isr_nodes": (), "offline_replicas": ()}
    known = {"topic_id": ID, "partitions": [partition]}
    await talk.describe_topics({"name": "a", **known}, {"name": "b", "error_code": 3})
    again = await talk.describe_topics({"name": "b", **known})
    assert [topic.name for topic in again.body.topics] == ["b"]
    talk.respond(await talk.forwarded(DESCRIBE), results=[])
    await talk.passes_unchanged(API, sent, **VALID)
    assert [topic.replication_factor for topic in talk.topics.judged] == [3, 3]


@pytest.mark.parametrize("version", versions(API))
async def test_a_refused_topic_is_left_out(version):
    talk = AdminTalk()
    talk.topics.no = {"a"}
    await validated(talk, version, "a", "b")
    forwarded = await talk.forwarded(API)
    assert not forwarded.body.validate_only
    assert [topic.name for topic in forwarded.body.topics] == ["b"]
    talk.respond(
        forwarded, results=[{"name": "b", "error_code": 42, "error_message": "in between"}]
    )
    assert read(await talk.response()) == {"a": (44, "the policy says no"), "b": (42, "in between")}


@pytest.mark.parametrize("version", versions(API))
async def test_partitions_that_the_cluster_refuses_are_not_judged(version):
    talk = AdminTalk()
    await validated(talk, version, "a", results=[{"name": "a", "error_code": 37,
                                               "error_message": "fewer"}])  # fmt: skip
    assert read(await talk.response()) == {"a": (37, "fewer")}
    assert talk.topics.judged == []


@pytest.mark.parametrize("version", versions(API))
async def test_a_request_that_only_validates_changes_nothing(version):
    talk = AdminTalk()
    talk.topics.no = {"b"}
    await validated(talk, version, "a", "b", validate_only=True)
    assert read(await talk.response()) == {"a": (0, None), "b": (44, "the policy says no")}
    assert talk.cluster.disallowed == ["a"]


async def test_the_topic_settings_topic_keeps_a_single_partition():
    talk = AdminTalk()
    await talk.store()
    await validated(talk, 3, "settings")
    assert read(await talk.response()) == {
        "settings": (44, "This topic keeps the settings of topics")
    }


async def test_the_policy_sees_keys_of_penstock():
    talk = AdminTalk()
    await talk.store()
    await talk.topic_configs.put("a", ID, {OWN: "on"})
    sent = await validated(talk, 3, "a")
    await talk.describe_topics({"name": "a", "topic_id": ID})
    await talk.passes_unchanged(API, sent, results=[{"name": "a"}])
    assert talk.topics.judged[0].configs == {"retention.ms": "5", OWN: "on"}


async def test_without_a_policy_that_judges_partitions_a_request_passes():
    talk = AdminTalk()
    await talk.store()
    talk.topics.judges_partitions = False
    sent = await talk.request(API, 3, **requested("a"))
    await talk.passes_unchanged(API, sent, results=[{"name": "a"}])


async def test_a_topic_that_the_validation_omits_is_left_out():
    talk = AdminTalk()
    await talk.request(API, 3, **requested("a"))
    talk.respond(await talk.forwarded(API), results=[])
    assert read(await talk.response()) == {}
