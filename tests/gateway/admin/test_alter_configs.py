"""AlterConfigs and IncrementalAlterConfigs: validated by the cluster, judged, altered, kept."""

from uuid import UUID

import pytest

from penstock.gateway.admin import topic_configs
from penstock.gateway.context import handler_context
from tests.gateway.admin.talk import OWN, AdminTalk, Policies, versions

FULL, INCREMENTAL, DESCRIBE = 33, 44, 32
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
ID = UUID(int=7)
EACH = [(api, version) for api in (FULL, INCREMENTAL) for version in versions(api)]
STORES = "This topic keeps the settings of topics"


def altering(*resources, validate_only=False):
    """Make a request: of each resource the name, and its changes."""
    return {
        "resources": [
            {
                "resource_type": BROKER if name.isdigit() else TOPIC,
                "resource_name": name,
                "configs": [
                    {"name": key, "value": value, "config_operation": operation}
                    for key, operation, value in changes
                ],
            }
            for name, changes in resources
        ],
        "validate_only": validate_only,
    }


def answers(*names, **codes):
    return {
        "responses": [
            {"resource_type": BROKER if name.isdigit() else TOPIC, "resource_name": name,
             "error_code": codes.get(name, 0),
             "error_message": "of the cluster" if codes.get(name) else None}
            for name in names
        ]
    }  # fmt: skip


def read(response):
    return {found.resource_name: (int(found.error_code), found.error_message)
            for found in response.responses}  # fmt: skip


def sent_in(forwarded):
    return {resource.resource_name: [(config.name, config.value) for config in resource.configs]
            for resource in forwarded.body.resources}  # fmt: skip


async def probed(talk, api, version, *resources, validate_only=False, **codes):
    """Send a request; the cluster validates it. Return the frame, and what was validated."""
    sent = await talk.request(api, version, **altering(*resources, validate_only=validate_only))
    forwarded = await talk.forwarded(api)
    assert forwarded.body.validate_only
    talk.answer(forwarded, **answers(*[name for name, _ in resources], **codes))
    return sent, sent_in(forwarded)


async def keeping(policies=None, **kept):
    talk = AdminTalk(policies)
    log = await talk.store()
    for topic, value in kept.items():
        await talk.topic_configs.put(topic, ID, {OWN: value})
    return talk, log


RETENTION = ("retention.ms", SET, "5")


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_an_accepted_request_is_sent_as_it_came(api, version):
    talk = AdminTalk()
    sent, probe = await probed(talk, api, version, ("a", [RETENTION]), ("1", [RETENTION]))
    assert probe == {"a": [("retention.ms", "5")], "1": [("retention.ms", "5")]}
    await talk.passes(api, sent, **answers("a", "1"))
    assert [(altered.resource_type, altered.resource_name, altered.configs) for altered in talk.topics.judged] == [
        ("TOPIC", "a", {"retention.ms": "5"}), ("BROKER", "1", {"retention.ms": "5"})
    ]  # fmt: skip


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_refused_resource_is_left_out(api, version):
    talk = AdminTalk()
    talk.topics.no = {"a"}
    await probed(talk, api, version, ("a", [RETENTION]), ("b", [RETENTION]), ("c", [RETENTION]),
                 c=29)  # fmt: skip
    forwarded = await talk.forwarded(api)
    assert (sent_in(forwarded).keys(), forwarded.body.validate_only) == ({"b"}, False)
    talk.answer(forwarded, **answers("b", b=40))
    assert read(await talk.response()) == {
        "a": (44, "the policy says no"), "b": (40, "of the cluster"), "c": (29, "of the cluster")
    }  # fmt: skip
    assert [refusal.resource for refusal in talk.refusals] == [("TOPIC", "a")]


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_request_that_only_validates_changes_nothing(api, version):
    talk, log = await keeping()
    await probed(talk, api, version, ("a", [(OWN, SET, "on")]), validate_only=True)
    await talk.describe_topics({"name": "a", "topic_id": ID})
    assert read(await talk.response()) == {"a": (0, None)}
    assert log._kept.records == []


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_key_of_penstock_is_kept_and_not_sent_to_the_cluster(api, version):
    talk, _ = await keeping()
    _, probe = await probed(talk, api, version, ("a", [(OWN, SET, "on"), RETENTION]))
    assert probe == {"a": [("retention.ms", "5")]}
    await talk.describe_topics({"name": "a", "topic_id": ID})
    forwarded = await talk.forwarded(api)
    assert sent_in(forwarded) == {"a": [("retention.ms", "5")]}
    assert not forwarded.body.validate_only
    talk.answer(forwarded, **answers("a"))
    assert read(await talk.response()) == {"a": (0, None)}
    assert talk.topic_configs.of("a", ID) == {OWN: "on"}
    assert talk.topics.judged[0].configs == {OWN: "on", "retention.ms": "5"}


async def test_alone_it_needs_no_alteration_of_the_cluster():
    talk, _ = await keeping(a="off")
    _, probe = await probed(talk, INCREMENTAL, 1, ("a", [(OWN, SET, "on")]))
    assert probe == {"a": [(OWN, None)]}  # deletes what is not there: validates, changes nothing
    await talk.describe_topics({"name": "a", "topic_id": ID})
    assert read(await talk.response()) == {"a": (0, None)}
    assert talk.topic_configs.of("a", ID) == {OWN: "on"}


async def test_a_key_that_is_deleted():
    talk, _ = await keeping(a="on")
    await probed(talk, INCREMENTAL, 1, ("a", [(OWN, DELETE, None)]))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    assert read(await talk.response()) == {"a": (0, None)}
    assert talk.topic_configs.of("a", ID) == {}
    assert talk.topics.judged[0].configs == {OWN: None}


@pytest.mark.parametrize("version", versions(FULL))
async def test_alter_configs_resets_what_it_leaves_out(version):
    talk, _ = await keeping(a="on")
    await probed(talk, FULL, version, ("a", [RETENTION]))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    forwarded = await talk.forwarded(FULL)
    talk.answer(forwarded, **answers("a"))
    assert read(await talk.response()) == {"a": (0, None)}
    assert talk.topic_configs.of("a", ID) == {}


async def test_configs_that_the_cluster_does_not_alter_are_not_kept():
    talk, _ = await keeping()
    await probed(talk, INCREMENTAL, 1, ("a", [(OWN, SET, "on"), RETENTION]))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    talk.answer(await talk.forwarded(INCREMENTAL), **answers("a", a=41))
    assert read(await talk.response()) == {"a": (41, "of the cluster")}
    assert talk.topic_configs.of("a", ID) == {}


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ((OWN, APPEND, "x"), 40, f"Can't APPEND to key {OWN} because its type is not LIST."),
        ((OWN, SUBTRACT, "x"), 40, f"Can't SUBTRACT to key {OWN} because its type is not LIST."),
        (("records.policy.enabled", SET, "maybe"), 40, "Invalid value maybe for configuration"),
        ((OWN, 9, "x"), -1, None),
    ],
)
async def test_a_change_that_cannot_be(change, code, text):
    talk, log = await keeping()
    await probed(talk, INCREMENTAL, 1, ("a", [change]))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    found, message = read(await talk.response())["a"]
    assert found == code
    assert message is text or message.startswith(text)
    assert log._kept.records == []


async def test_settings_that_cannot_be_kept_are_an_error(monkeypatch):
    monkeypatch.setattr(topic_configs, "READ_TIMEOUT_S", 0.01)
    talk, log = await keeping()
    await probed(talk, INCREMENTAL, 1, ("a", [(OWN, SET, "on")]))
    log.failure = "away"
    await talk.describe_topics({"name": "a", "topic_id": ID})
    code, message = read(await talk.response())["a"]
    assert code == -1
    assert message.startswith("Penstock's settings could not be kept: ")


async def test_the_topic_of_settings_is_not_altered():
    talk, _ = await keeping(Policies(create=False, alter=False))
    await probed(talk, INCREMENTAL, 1, ("settings", [RETENTION]), ("b", [RETENTION]))
    forwarded = await talk.forwarded(INCREMENTAL)
    assert sent_in(forwarded).keys() == {"b"}
    talk.answer(forwarded, **answers("b"))
    assert read(await talk.response()) == {"settings": (44, STORES), "b": (0, None)}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_without_policies_a_request_without_our_keys_passes(api, version):
    talk, _ = await keeping(Policies(create=False, alter=False))
    sent = await talk.request(api, version, **altering(("a", [RETENTION])))
    await talk.passes(api, sent, **answers("a"))


@pytest.mark.parametrize(
    ("operation", "given", "expected"),
    [
        (APPEND, "delete", "compact,delete"),
        (APPEND, "compact", "compact"),
        (SUBTRACT, "compact", ""),
        (SUBTRACT, "delete", "compact"),
    ],
)
async def test_the_policy_sees_what_a_list_becomes(operation, given, expected):
    talk = AdminTalk()
    sent, _ = await probed(talk, INCREMENTAL, 1, ("a", [("cleanup.policy", operation, given)]))
    forwarded = await talk.forwarded(DESCRIBE)
    (resource,) = forwarded.body.resources
    assert resource.configuration_keys == ("cleanup.policy",)
    talk.answer(forwarded, results=[{"resource_type": TOPIC, "resource_name": "a", "configs": [
        {"name": "cleanup.policy", "value": "compact"}]}])  # fmt: skip
    await talk.passes(INCREMENTAL, sent, **answers("a"))
    assert talk.topics.judged[0].configs == {"cleanup.policy": expected}


async def test_the_policy_sees_the_list_of_a_topic_that_the_broker_does_not_know_yet():
    """The controller knows it already; a broker learns of it a little later."""
    talk = AdminTalk()
    sent, _ = await probed(talk, INCREMENTAL, 1, ("a", [("cleanup.policy", APPEND, "delete")]))
    resource = {"resource_type": TOPIC, "resource_name": "a"}
    talk.answer(await talk.forwarded(DESCRIBE), results=[{**resource, "error_code": 3}])
    configs = [{"name": "cleanup.policy", "value": "compact"}]
    talk.answer(await talk.forwarded(DESCRIBE), results=[{**resource, "configs": configs}])
    await talk.passes(INCREMENTAL, sent, **answers("a"))
    assert talk.topics.judged[0].configs == {"cleanup.policy": "compact,delete"}


async def test_a_request_waits_once_for_topics_that_the_broker_does_not_know(monkeypatch):
    """They may have been deleted meanwhile; there may be thousands of them."""
    monkeypatch.setattr(handler_context, "_LAG_RETRIES", 2)
    talk = AdminTalk()
    change = ("cleanup.policy", APPEND, "delete")
    sent, _ = await probed(talk, INCREMENTAL, 1, ("a", [change]), ("b", [change]))
    for name in ("a", "a", "a", "b"):
        forwarded = await talk.forwarded(DESCRIBE)
        (resource,) = forwarded.body.resources
        assert resource.resource_name == name
        unknown = {"resource_type": TOPIC, "resource_name": name, "error_code": 3}
        talk.answer(forwarded, results=[unknown])
    await talk.passes(INCREMENTAL, sent, **answers("a", "b", a=3, b=3))


async def test_a_key_that_is_named_twice_is_left_to_the_cluster():
    talk, _ = await keeping()
    twice = [(OWN, SET, "a"), (OWN, SET, "b")]
    _, probe = await probed(talk, INCREMENTAL, 1, ("a", twice), a=42)
    assert probe == {"a": [(OWN, "a"), (OWN, "b")]}
    assert read(await talk.response()) == {"a": (42, "of the cluster")}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_key_of_penstock_on_a_broker_is_left_to_the_cluster(api, version):
    talk, log = await keeping()
    sent, probe = await probed(talk, api, version, ("1", [(OWN, SET, "on")]))
    assert probe == {"1": [(OWN, "on")]}
    await talk.passes(api, sent, **answers("1"))
    assert log._kept.records == []


async def test_a_resource_without_an_answer():
    talk = AdminTalk()
    await talk.request(INCREMENTAL, 1, **altering(("a", [RETENTION])))
    talk.answer(await talk.forwarded(INCREMENTAL), responses=[])
    assert read(await talk.response()) == {"a": (-1, None)}


async def test_an_answer_that_cannot_be_read_ends_the_connection():
    talk = AdminTalk()
    await talk.request(INCREMENTAL, 1, **altering(("a", [RETENTION])))
    forwarded = await talk.forwarded(INCREMENTAL)
    body = forwarded.correlation_id.to_bytes(4, "big") + b"\x00\x00\x00\x00\x00\xff\xff"
    talk.session.upstream_data(len(body).to_bytes(4, "big") + body)
    await talk.ends()


UNKNOWN = "Unknown topic config name: "


def unknown(name, key):
    return {
        "responses": [
            {"resource_type": TOPIC, "resource_name": name, "error_code": 40,
             "error_message": UNKNOWN + key}
        ]
    }  # fmt: skip


async def misnamed(api, version, key, *, policies=None):
    """Set a key that the cluster does not know."""
    talk, _ = await keeping(policies or Policies(create=False, alter=False))
    sent = await talk.request(api, version, **altering(("a", [(key, SET, "mark")])))
    forwarded = await talk.forwarded(api)
    return talk, sent, forwarded


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_the_error_about_a_misspelt_key_names_a_similar_key(api, version):
    talk, _, forwarded = await misnamed(api, version, "penstock.mod")
    assert forwarded.body.validate_only
    talk.answer(forwarded, **unknown("a", "penstock.mod"))
    message = f"{UNKNOWN}penstock.mod; did you mean penstock.mode?"
    assert read(await talk.response()) == {"a": (40, message)}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_keys_that_kafka_does_not_know_are_its_own_matter(api, version):
    talk, sent, forwarded = await misnamed(api, version, "retention.m")
    assert (forwarded.frame, forwarded.body.validate_only) == (sent, False)
    talk.answer(forwarded, **unknown("a", "retention.m"))
    assert read(await talk.response()) == {"a": (40, f"{UNKNOWN}retention.m")}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_key_that_the_cluster_knows_is_its_own(api, version):
    talk, sent, forwarded = await misnamed(api, version, "confluent.value.schema.validation")
    talk.answer(forwarded, **answers("a"))
    await talk.passes(api, sent, **answers("a"))


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_client_without_the_right_learns_nothing_of_keys(api, version):
    talk, _, forwarded = await misnamed(api, version, "penstock.mod")
    talk.answer(forwarded, **answers("a", a=29))
    assert read(await talk.response()) == {"a": (29, "of the cluster")}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_resource_beside_a_misspelt_key_is_altered(api, version):
    talk, _ = await keeping(Policies(create=False, alter=False))
    resources = ("a", [("penstock.mod", SET, "mark")]), ("b", [RETENTION])
    await talk.request(api, version, **altering(*resources))
    forwarded = await talk.forwarded(api)
    both = unknown("a", "penstock.mod")["responses"] + answers("b")["responses"]
    talk.answer(forwarded, responses=both)
    forwarded = await talk.forwarded(api)
    assert sent_in(forwarded) == {"b": [("retention.ms", "5")]}
    talk.answer(forwarded, **answers("b"))
    message = f"{UNKNOWN}penstock.mod; did you mean penstock.mode?"
    assert read(await talk.response()) == {"a": (40, message), "b": (0, None)}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_message_that_would_be_too_long_stays_as_it_is(api, version):
    key = "penstock." + "x" * 32_700
    talk, _, forwarded = await misnamed(api, version, key)
    talk.answer(forwarded, **unknown("a", key))
    assert read(await talk.response()) == {"a": (40, UNKNOWN + key)}


async def test_a_key_that_topics_may_not_have_is_not_suggested_as_if_they_could():
    talk = AdminTalk(
        Policies(create=False, alter=False), {"topic.settings.keys.allowed": "record.*"}
    )
    await talk.store()
    await talk.request(44, 1, **altering(("a", [("penstock.mod", SET, "mark")])))
    forwarded = await talk.forwarded(44)
    talk.answer(forwarded, **unknown("a", "penstock.mod"))
    message = (
        f"{UNKNOWN}penstock.mod; did you mean penstock.mode? The gateway's configuration file "
        "does not allow it on topics (topic.settings.keys.allowed)"
    )
    assert read(await talk.response()) == {"a": (40, message)}
