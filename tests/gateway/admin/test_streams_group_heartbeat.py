"""StreamsGroupHeartbeat: the policy judges the topics that brokers create for a topology."""

import pytest

from tests.gateway.admin.talk import AdminTalk, Policies, versions

API = 88


def topology(*, source="in", partitions=0, replicas=0):
    topic = {"name": "app-changelog", "partitions": partitions, "replication_factor": replicas,
             "topic_configs": [{"key": "cleanup.policy", "value": "compact"}]}  # fmt: skip
    return {
        "epoch": 1,
        "subtopologies": [
            {"subtopology_id": "0", "source_topics": (source,), "source_topic_regex": (),
             "state_changelog_topics": [topic], "repartition_sink_topics": (),
             "repartition_source_topics": [], "copartition_groups": []}
        ],
    }  # fmt: skip


async def joining(talk, version=0, **more):
    return await talk.request(
        API, version, group_id="app", member_id="m-1", member_epoch=4, topology=topology(**more)
    )


def found(name, count):
    partition = {"replica_nodes": (1, 2), "isr_nodes": (), "offline_replicas": ()}
    return {"name": name, "partitions": [partition] * count}


def unknown(name):
    return {"name": name, "error_code": 3}


def test_the_versions_are_those_of_kafka_4_4():
    assert list(versions(API)) == [0, 1]


RESPONSE = {"member_id": "m-1", "member_epoch": 5}


async def test_a_heartbeat_without_a_topology_passes():
    talk = AdminTalk()
    sent = await talk.request(API, 0, group_id="app", member_id="m-1", member_epoch=4)
    await talk.passes_unchanged(API, sent, **RESPONSE)


@pytest.mark.parametrize("version", versions(API))
async def test_an_accepted_topology_passes_after_the_policy_has_seen_its_topics(version):
    talk = AdminTalk()
    sent = await joining(talk, version)
    forwarded = await talk.describe_topics(found("in", 12), unknown("app-changelog"))
    assert {topic.name for topic in forwarded.body.topics} == {"in", "app-changelog"}
    assert not forwarded.body.allow_auto_topic_creation
    await talk.passes_unchanged(API, sent, **RESPONSE)
    (creation,) = talk.topics.judged
    assert creation[:3] == ("app-changelog", 12, 3)
    assert creation.configs == {"cleanup.policy": "compact"}


async def test_counts_of_the_topology_override_the_defaults_of_the_cluster():
    talk = AdminTalk()
    talk.cluster.away = True  # nothing is requested from it
    sent = await joining(talk, partitions=5, replicas=2)
    await talk.describe_topics(found("in", 12), unknown("app-changelog"))
    await talk.passes_unchanged(API, sent, **RESPONSE)
    assert talk.topics.judged[0][:3] == ("app-changelog", 5, 2)


async def test_a_topic_that_exists_is_not_judged():
    talk = AdminTalk()
    sent = await joining(talk)
    await talk.describe_topics(found("in", 12), found("app-changelog", 12))
    await talk.passes_unchanged(API, sent, **RESPONSE)
    assert talk.topics.judged == []


@pytest.mark.parametrize("version", versions(API))
@pytest.mark.parametrize(
    ("away", "code", "text"),
    [(False, 44, "the policy says no"), (True, -1, "The policy cannot be called: no broker")],
)
async def test_a_refused_topology_does_not_join(away, code, text, version):
    talk = AdminTalk(Policies())
    talk.topics.no = {"app-changelog"}
    talk.cluster.away = away
    await joining(talk, version)
    await talk.describe_topics(found("in", 12), unknown("app-changelog"))
    response = await talk.response()
    assert int(response.error_code) == code
    assert response.acceptable_recovery_lag == (-1 if version else 0)
    assert response.error_message.startswith(text)
    assert (response.member_id, response.member_epoch) == ("m-1", 4)
    assert response.active_tasks is None


async def test_a_topology_whose_counts_are_not_known_yet_is_refused():
    talk = AdminTalk()
    await joining(talk)
    await talk.describe_topics(unknown("in"), unknown("app-changelog"))
    response = await talk.response()
    assert int(response.error_code) == 44
    assert "Source topics in are missing" in response.error_message


async def test_an_unreadable_metadata_response_closes_the_connection():
    talk = AdminTalk()
    await joining(talk)
    forwarded = await talk.forwarded(3)
    body = forwarded.correlation_id.to_bytes(4, "big") + b"\x00\x00\x00\x00\x00\xff\xff"
    talk.session.upstream_data(len(body).to_bytes(4, "big") + body)
    await talk.wait_until_closed()
