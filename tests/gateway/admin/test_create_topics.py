"""CreateTopics: validated by the cluster, judged, created; keys of Penstock are stored before."""

import asyncio
import itertools
from uuid import UUID

import pytest
import structlog

from penstock.engine.topic_configs import definitions
from penstock.gateway.admin import topic_configs
from penstock.gateway.admin.create_topics import SLICE
from tests.gateway.admin.talk import OWN, AdminTalk, Policies, versions

API = 19
CONFIGS_FROM, IDS_FROM = 5, 7
ID = UUID(int=7)
RETENTION = {"name": "retention.ms", "value": "5"}


def requested(*names, configs=(), validate_only=False, partitions=-1, replicas=-1, assignments=()):
    topics = [
        {"name": name, "num_partitions": partitions, "replication_factor": replicas,
         "assignments": assignments, "configs": list(configs)}
        for name in names
    ]  # fmt: skip
    return {"topics": topics, "validate_only": validate_only}


def result(name, code=0, topic_id=ID):
    configs = [{"name": "retention.ms", "value": "5", "config_source": 1}]
    return {
        "name": name, "topic_id": topic_id, "error_code": code,
        "error_message": "of the cluster" if code else None, "topic_config_error_code": 0,
        "num_partitions": 4, "replication_factor": 2, "configs": configs,
    }  # fmt: skip


def results(*names, **codes):
    return {"topics": [result(name, codes.get(name, 0)) for name in names]}


def read(response):
    return {topic.name: (int(topic.error_code), topic.error_message) for topic in response.topics}


async def validated(talk, version, *names, response=None, **request):
    """Send a request, which the cluster validates. Return its frame, and the validated request."""
    sent = await talk.request(API, version, **requested(*names, **request))
    forwarded = await talk.forwarded(API)
    assert (forwarded.version, forwarded.body.validate_only) == (7, True)
    talk.respond(forwarded, **(response or results(*names)))
    return sent, forwarded.body


async def created(talk, *names, **codes):
    """Let the cluster create topics."""
    forwarded = await talk.forwarded(API)
    assert (forwarded.version, forwarded.body.validate_only) == (7, False)
    assert [topic.name for topic in forwarded.body.topics] == list(names)
    talk.respond(forwarded, **results(*names, **codes))
    return forwarded.body


async def storing(policies=None):
    talk = AdminTalk(policies)
    return talk, await talk.store()


def own(value="on", key=OWN):
    return {"name": key, "value": value}


@pytest.mark.parametrize("version", versions(API))
async def test_an_accepted_request_is_forwarded_unchanged(version):
    talk = AdminTalk()
    sent, body = await validated(talk, version, "a", configs=[RETENTION])
    assert [(config.name, config.value) for config in body.topics[0].configs] == [
        ("retention.ms", "5")
    ]
    await talk.passes_unchanged(API, sent, **results("a"))
    assert talk.changed == ["a"]
    alteration, creation = talk.topics.judged
    assert (alteration.resource_name, alteration.configs) == ("a", {"retention.ms": "5"})
    assert creation == ("a", 4, 2, None, {"retention.ms": "5"})


@pytest.mark.parametrize("version", versions(API))
async def test_a_refused_topic_is_left_out(version):
    talk = AdminTalk()
    talk.topics.no = {"a"}
    await validated(talk, version, "a", "b", "c", response=results("a", "b", "c", c=36),
                 partitions=9, replicas=3)  # fmt: skip
    await created(talk, "b", b=29)
    response = await talk.response()
    assert read(response) == {
        "a": (44, "the policy says no"), "b": (29, "of the cluster"), "c": (36, "of the cluster")
    }  # fmt: skip
    assert [creation.topic for creation in talk.topics.judged] == ["a", "b"]
    assert talk.topics.judged[0][:3] == ("a", 9, 3)
    assert [(refusal.topic, refusal.is_awaited) for refusal in talk.refusals] == [("a", False)]
    assert talk.cluster.disallowed == ["b"]
    if version >= IDS_FROM:
        assert [topic.topic_id for topic in response.topics] == [None, ID, ID]


@pytest.mark.parametrize("version", versions(API))
async def test_keys_of_penstock_are_stored_and_not_sent_to_the_cluster(version):
    talk, _ = await storing()
    _, body = await validated(talk, version, "a", configs=[own(), RETENTION])
    assert [config.name for config in body.topics[0].configs] == ["retention.ms"]
    body = await created(talk, "a")
    assert [config.name for config in body.topics[0].configs] == ["retention.ms"]
    response = await talk.response()
    assert read(response) == {"a": (0, None)}
    assert talk.topic_configs.of("a", ID) == {OWN: "on"}
    if version >= CONFIGS_FROM:
        (topic,) = response.topics
        found = {config.name: (config.value, config.config_source) for config in topic.configs}
        assert found.keys() == {"retention.ms", *definitions.config_keys()}
        assert (found[OWN], found["retention.ms"]) == (("on", 1), ("5", 1))
        assert not any(config.is_sensitive or config.read_only for config in topic.configs)
        assert (topic.num_partitions, topic.replication_factor) == (4, 2)


async def test_keys_of_penstock_are_in_the_log_before_the_topic_is_created():
    talk, log = await storing()
    await validated(talk, 7, "a", configs=[own()])
    forwarded = await talk.forwarded(API)
    assert [key.split("/")[0] for key in log._kept.keys] == ["creation"]
    talk.respond(forwarded, **results("a"))
    await talk.response()
    assert [key.split("/")[0] for key in log._kept.keys] == ["creation", "topic", "-creation"]


@pytest.mark.parametrize(("code", "left_open"), [(36, False), (-1, True), (7, True)])
async def test_keys_of_a_topic_that_is_not_created_are_withdrawn(code, left_open):
    talk, log = await storing()
    await validated(talk, 7, "a", configs=[own()])
    await created(talk, "a", a=code)
    assert read(await talk.response()) == {"a": (code, "of the cluster")}
    assert [key.split("/")[0] for key in log._kept.keys] == [
        "creation", *([] if left_open else ["-creation"])
    ]  # fmt: skip
    assert talk.cluster.disallowed == ["a"]


async def test_a_topic_whose_settings_cannot_be_stored_is_not_created(monkeypatch):
    monkeypatch.setattr(topic_configs, "WRITE_TIMEOUT_S", 0.01)
    talk, log = await storing()
    log.failure = "away"
    await validated(talk, 7, "a", configs=[own()])
    code, message = read(await talk.response())["a"]
    assert code == -1
    assert message.startswith("The topic was not created: its settings could not be kept: ")


async def test_a_topic_that_the_response_of_the_cluster_omits_is_an_error():
    talk, _ = await storing()
    await validated(talk, 7, "a", "b", configs=[own()], response=results("a"))
    forwarded = await talk.forwarded(API)
    talk.respond(forwarded, topics=[])
    assert read(await talk.response()) == {"a": (-1, None), "b": (-1, None)}


@pytest.mark.parametrize("version", versions(API))
async def test_a_request_that_only_validates_changes_nothing(version):
    talk, log = await storing()
    talk.topics.no = {"b"}
    await validated(talk, version, "a", "b", configs=[own()], validate_only=True)
    response = await talk.response()
    assert read(response) == {"a": (0, None), "b": (44, "the policy says no")}
    assert log._kept.records == []
    assert talk.cluster.disallowed == ["a"]
    if version >= CONFIGS_FROM:
        assert OWN in {config.name for config in response.topics[0].configs}


@pytest.mark.parametrize(
    ("code", "is_judged"), [(36, False), (37, True), (38, True), (39, True), (42, True)]
)
async def test_errors_that_a_controller_reports_after_errors_of_configs(code, is_judged):
    talk = AdminTalk()
    talk.topics.no = {"a"}
    await validated(talk, 7, "a", configs=[RETENTION], response=results("a", a=code))
    expected = (44, "the policy says no") if is_judged else (code, "of the cluster")
    assert read(await talk.response()) == {"a": expected}


async def test_a_topic_that_is_named_twice_is_left_to_the_cluster():
    talk = AdminTalk()
    talk.topics.no = {"a"}
    await validated(talk, 7, "a", "a", configs=[RETENTION], response=results("a", a=42))
    assert read(await talk.response()) == {"a": (42, "of the cluster")}
    assert talk.topics.judged == []


async def test_the_policy_sees_replica_assignments():
    talk = AdminTalk()
    assignments = [{"partition_index": 0, "broker_ids": (1, 2)}]
    sent, _ = await validated(talk, 7, "a", assignments=assignments)
    await talk.passes_unchanged(API, sent, **results("a"))
    assert talk.topics.judged == [("a", None, None, {0: (1, 2)}, {})]


async def test_a_topic_that_cannot_be_judged_is_not_created():
    talk = AdminTalk()
    talk.cluster.away = True
    await validated(talk, 7, "a")
    code, message = read(await talk.response())["a"]
    assert (code, message) == (-1, "The policy cannot be called: no broker answers")


async def test_an_invalid_value_of_a_key_is_an_error():
    talk, _ = await storing()
    with structlog.testing.capture_logs() as logs:
        await validated(talk, 7, "a", configs=[own("maybe", "records.policy.enabled")])
        code, message = read(await talk.response())["a"]
    assert code == 40
    assert "records.policy.enabled" in message
    (line,) = (line for line in logs if line["event"] == "topic level keys refused")
    assert (line["topic"], line["client_id"], line["message"]) == ("a", "raw", message)


async def test_a_key_without_a_value_is_left_to_the_cluster():
    talk, _ = await storing()
    _, body = await validated(talk, 7, "a", configs=[own(None)], response=results("a", a=40))
    assert [(config.name, config.value) for config in body.topics[0].configs] == [(OWN, None)]
    assert read(await talk.response())["a"][0] == 40


GROUPS = "errors.deadletterqueue.group.enable"


@pytest.mark.parametrize("version", versions(API))
async def test_brokers_write_no_dead_letters_of_share_groups_past_policies(version):
    talk = AdminTalk(Policies(create=False, alter=False), {"record.validator.classes": "a.V"})
    await validated(talk, version, "a", configs=[own("true", GROUPS)])
    code, message = read(await talk.response())["a"]
    assert code == 40
    assert f"Invalid value true for configuration {GROUPS}: policies judge the records" in message


async def test_a_new_topics_own_policies_count_for_share_groups():
    talk, _ = await storing()
    await validated(talk, 7, "a", configs=[own(), own("true", GROUPS)])
    assert read(await talk.response())["a"][0] == 40
    await validated(talk, 7, "b", configs=[own("true", GROUPS)])
    await created(talk, "b")
    assert read(await talk.response())["b"] == (0, None)


@pytest.mark.parametrize("version", versions(API))
async def test_without_policies_a_request_without_our_keys_passes(version):
    talk, _ = await storing(Policies(create=False, alter=False))
    sent = await talk.request(API, version, **requested("a", configs=[RETENTION]))
    await talk.passes_unchanged(API, sent, **results("a"))


@pytest.mark.parametrize(("create", "alter"), [(True, False), (False, True)])
async def test_a_single_policy_is_enough_to_judge(create, alter):
    talk = AdminTalk(Policies(create=create, alter=alter))
    talk.topics.no = {"a"}
    await validated(talk, 7, "a", configs=[RETENTION])
    assert read(await talk.response()) == {"a": (44, "the policy says no")}
    assert len(talk.topics.judged) == 1


async def test_an_unreadable_response_closes_the_connection():
    talk = AdminTalk()
    await talk.request(API, 7, **requested("a"))
    forwarded = await talk.forwarded(API)
    body = forwarded.correlation_id.to_bytes(4, "big") + b"\x00\x00\x00\x00\x00\xff\xff"
    talk.session.upstream_data(len(body).to_bytes(4, "big") + body)
    await talk.wait_until_closed()


UNKNOWN = "Unknown topic config name: "


def unknown(name, key):
    return {**result(name, 40), "error_message": UNKNOWN + key}


@pytest.mark.parametrize("version", versions(API))
async def test_the_error_about_a_misspelt_key_names_a_similar_key(version):
    talk, _ = await storing(Policies(create=False, alter=False))
    await validated(talk, version, "a", "b", configs=[own("mark", "penstock.mod")],
                 response={"topics": [unknown("a", "penstock.mod"), result("b")]})  # fmt: skip
    await created(talk, "b")
    message = f"{UNKNOWN}penstock.mod; did you mean penstock.mode?"
    assert read(await talk.response()) == {"a": (40, message), "b": (0, None)}


@pytest.mark.parametrize("version", versions(API))
async def test_unknown_keys_without_a_similar_key_get_the_error_of_the_cluster(version):
    talk, _ = await storing(Policies(create=False, alter=False))
    sent = await talk.request(API, version, **requested("a", configs=[own("1", "retention.m")]))
    await talk.passes_unchanged(API, sent, topics=[unknown("a", "retention.m")])


async def test_a_key_that_the_cluster_knows_gets_the_error_of_the_cluster():
    talk, _ = await storing(Policies(create=False, alter=False))
    key = own("true", "confluent.value.schema.validation")
    sent, _ = await validated(talk, 7, "a", configs=[key])
    await talk.passes_unchanged(API, sent, **results("a"))


async def test_a_misspelt_key_is_explained_by_a_gateway_that_stores_no_keys():
    talk = AdminTalk()
    await validated(talk, 7, "a", configs=[own("mark", "penstock.mode")],
                 response={"topics": [unknown("a", "penstock.mode")]})  # fmt: skip
    ((code, message),) = read(await talk.response()).values()
    assert code == 40
    assert message.startswith(f"{UNKNOWN}penstock.mode; the gateway keeps no topic level keys: ")


async def test_a_client_without_the_right_gets_no_suggestion_of_keys():
    talk, _ = await storing(Policies(create=False, alter=False))
    await validated(
        talk, 7, "a", configs=[own("mark", "penstock.mod")], response=results("a", a=29)
    )
    assert read(await talk.response()) == {"a": (29, "of the cluster")}


async def test_a_key_that_topics_may_not_have_is_not_suggested():
    talk = AdminTalk(
        Policies(create=False, alter=False), {"topic.settings.keys.allowed": "record.*"}
    )
    await talk.store()
    await validated(talk, 7, "a", configs=[own("mark", "penstock.mod")],
                 response={"topics": [unknown("a", "penstock.mod")]})  # fmt: skip
    message = (
        f"{UNKNOWN}penstock.mod; did you mean penstock.mode? The gateway's configuration file "
        "does not allow it on topics (topic.settings.keys.allowed)"
    )
    assert read(await talk.response()) == {"a": (40, message)}


@pytest.mark.parametrize("version", versions(API))
async def test_a_message_that_would_become_too_long_stays_unchanged(version):
    talk, _ = await storing(Policies(create=False, alter=False))
    name = "penstock." + "x" * 32_700
    await validated(talk, version, "a", configs=[own("mark", name)],
                 response={"topics": [unknown("a", name)]})  # fmt: skip
    assert read(await talk.response()) == {"a": (40, UNKNOWN + name)}


async def test_without_a_policy_a_topic_next_to_a_misspelt_key_needs_no_counts():
    talk, _ = await storing(Policies(create=False, alter=False))
    talk.cluster.away = True
    undescribed = {**result("b"), "num_partitions": -1, "replication_factor": -1}
    await validated(talk, 7, "a", "b", configs=[own("mark", "penstock.mod")],
                 response={"topics": [unknown("a", "penstock.mod"), undescribed]})  # fmt: skip
    await created(talk, "b")
    message = f"{UNKNOWN}penstock.mod; did you mean penstock.mode?"
    assert read(await talk.response()) == {"a": (40, message), "b": (0, None)}


async def test_thousands_of_topics_are_read_in_slices():
    talk = AdminTalk()
    await talk.request(API, 7, **requested(*(f"t{number}" for number in range(20 * SLICE))))
    changed = [0]
    while not talk.broker.data:
        await asyncio.sleep(0)
        changed.append(len(talk.changed))
    assert changed[-1] == 20 * SLICE
    assert max(after - before for before, after in itertools.pairwise(changed)) <= SLICE
