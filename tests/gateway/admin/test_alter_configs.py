"""AlterConfigs and IncrementalAlterConfigs: validated by the cluster, judged, altered, stored."""

import asyncio
from uuid import UUID

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

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
    """Return a request: the name of each resource, and its changes."""
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


async def described(talk, name="a", kind=TOPIC, code=0, **configs):
    """Answer which configs a resource has, and where they come from. Return the keys of the request.

    The gateway requests them before it calls a policy, if the request may delete a config.
    """
    forwarded = await talk.forwarded(DESCRIBE)
    (resource,) = forwarded.body.resources
    assert (resource.resource_type, resource.resource_name) == (kind, name)
    found = [
        {"name": key.replace("_", "."), "value": value, "config_source": source}
        for key, (value, source) in configs.items()
    ]
    result = {"resource_type": kind, "resource_name": name, "error_code": code, "configs": found}
    talk.respond(forwarded, results=[result])
    return resource.configuration_keys


def sent_in(forwarded):
    return {resource.resource_name: [(config.name, config.value) for config in resource.configs]
            for resource in forwarded.body.resources}  # fmt: skip


async def validated(talk, api, version, *resources, validate_only=False, **codes):
    """Send a request, which the cluster validates. Return its frame, and the validated request."""
    sent = await talk.request(api, version, **altering(*resources, validate_only=validate_only))
    forwarded = await talk.forwarded(api)
    assert forwarded.body.validate_only
    talk.respond(forwarded, **answers(*[name for name, _ in resources], **codes))
    return sent, sent_in(forwarded)


async def storing(policies=None, **kept):
    talk = AdminTalk(policies)
    log = await talk.store()
    for topic, value in kept.items():
        await talk.topic_configs.put(topic, ID, {OWN: value})
    return talk, log


RETENTION = ("retention.ms", SET, "5")


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_an_accepted_request_is_forwarded_unchanged(api, version):
    talk = AdminTalk()
    sent, probe = await validated(talk, api, version, ("a", [RETENTION]), ("1", [RETENTION]))
    assert probe == {"a": [("retention.ms", "5")], "1": [("retention.ms", "5")]}
    if api == FULL:
        assert await described(talk) is None
        await described(talk, "1", BROKER)
    await talk.passes_unchanged(api, sent, **answers("a", "1"))
    assert talk.changed == ["a"]
    assert [(altered.resource_type, altered.resource_name, altered.configs) for altered in talk.topics.judged] == [
        ("TOPIC", "a", {"retention.ms": "5"}), ("BROKER", "1", {"retention.ms": "5"})
    ]  # fmt: skip


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_refused_resource_is_left_out(api, version):
    talk = AdminTalk()
    talk.topics.no = {"a"}
    await validated(talk, api, version, ("a", [RETENTION]), ("b", [RETENTION]), ("c", [RETENTION]),
                 c=29)  # fmt: skip
    if api == FULL:
        await described(talk)
        await described(talk, "b")
    forwarded = await talk.forwarded(api)
    assert (sent_in(forwarded).keys(), forwarded.body.validate_only) == ({"b"}, False)
    talk.respond(forwarded, **answers("b", b=40))
    assert read(await talk.response()) == {
        "a": (44, "the policy says no"), "b": (40, "of the cluster"), "c": (29, "of the cluster")
    }  # fmt: skip
    assert [refusal.resource for refusal in talk.refusals] == [("TOPIC", "a")]


JUDGED = {"record.validator.classes": "a.V"}
GROUPS = "errors.deadletterqueue.group.enable"


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_brokers_write_no_dead_letters_of_share_groups_past_policies(api, version):
    talk = AdminTalk(Policies(create=False, alter=False), JUDGED)
    judged, other = ("a", [(GROUPS, SET, " TRUE")]), ("b", [RETENTION])
    await validated(talk, api, version, judged, other)
    forwarded = await talk.forwarded(api)
    assert sent_in(forwarded).keys() == {"b"}
    talk.respond(forwarded, **answers("b"))
    found = read(await talk.response())
    assert found["b"] == (0, None)
    assert found["a"][0] == 40
    assert f"Invalid value  TRUE for configuration {GROUPS}: policies judge" in found["a"][1]


@pytest.mark.parametrize(
    ("properties", "change"),
    [
        ({}, (GROUPS, SET, "true")),
        (JUDGED, (GROUPS, SET, "false")),
        (JUDGED, (GROUPS, DELETE, None)),
        ({**JUDGED, "topic.settings.keys.allowed": f"*,{GROUPS}"}, (GROUPS, SET, "true")),
    ],
)
async def test_other_topics_may_have_dead_letters_of_share_groups(properties, change):
    talk = AdminTalk(Policies(create=False, alter=False), properties)
    sent = await talk.request(INCREMENTAL, 1, **altering(("a", [change])))
    forwarded = await talk.forwarded(INCREMENTAL)
    if forwarded.body.validate_only:
        talk.respond(forwarded, **answers("a"))
        forwarded = await talk.forwarded(INCREMENTAL)
    assert forwarded.frame == sent
    talk.respond(forwarded, **answers("a"))
    assert read(await talk.response()) == {"a": (0, None)}


@pytest.mark.parametrize("is_set_before", [True, False])
async def test_a_topics_own_policies_count_for_share_groups(is_set_before):
    talk, _ = await storing(**({"a": "on"} if is_set_before else {}))
    changes = [(GROUPS, SET, "true"), *([] if is_set_before else [(OWN, SET, "on")])]
    await validated(talk, INCREMENTAL, 1, ("a", changes))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    code, text = read(await talk.response())["a"]
    assert (code, GROUPS in text) == (40, True)


@pytest.mark.parametrize(
    ("changes", "tried"),
    [
        ([(OWN, SET, "x")], [("a.V", "x")]),
        ([(OWN, DELETE, None)], []),
        ([("penstock.mode", SET, "mark")], []),
        ([RETENTION], []),
    ],
)
async def test_a_key_by_which_a_topic_could_not_be_judged_is_an_error(changes, tried):
    talk, _ = await storing(a="on")
    talk.topics.objection = "no such file"
    await validated(talk, INCREMENTAL, 1, ("a", changes))
    if changes != [RETENTION]:
        await talk.describe_topics({"name": "a", "topic_id": ID})
    if changes == [RETENTION]:
        talk.respond(await talk.forwarded(INCREMENTAL), **answers("a"))
    code, text = read(await talk.response())["a"]
    assert [
        (plan.validation_policy, plan.validation_setting) for plan in talk.topics.tried
    ] == tried
    assert code == (40 if tried else 0)
    if tried:
        assert text == f"Invalid value x for configuration {OWN}: no such file"
        assert talk.topic_configs.of("a", ID) == {OWN: "on"}


async def test_the_configs_of_a_group_are_judged():
    talk = AdminTalk(properties=JUDGED)
    talk.topics.no = {"g"}
    key = "errors.deadletterqueue.topic.name"
    configs = [{"name": key, "value": "dlq.orders", "config_operation": SET}]
    resource = {"resource_type": 32, "resource_name": "g", "configs": configs}
    await talk.request(INCREMENTAL, 1, resources=[resource], validate_only=False)
    forwarded = await talk.forwarded(INCREMENTAL)
    result = {"resource_type": 32, "resource_name": "g", "error_code": 0, "error_message": None}
    talk.respond(forwarded, responses=[result])
    assert read(await talk.response()) == {"g": (44, "the policy says no")}
    assert talk.topics.judged[0] == ("GROUP", "g", {key: "dlq.orders"}, ())


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_request_that_only_validates_changes_nothing(api, version):
    talk, log = await storing()
    await validated(talk, api, version, ("a", [(OWN, SET, "on")]), validate_only=True)
    await talk.describe_topics({"name": "a", "topic_id": ID})
    if api == FULL:
        await described(talk)
    assert read(await talk.response()) == {"a": (0, None)}
    assert log._kept.records == []


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_key_of_penstock_is_stored_and_not_sent_to_the_cluster(api, version):
    talk, _ = await storing()
    _, probe = await validated(talk, api, version, ("a", [(OWN, SET, "on"), RETENTION]))
    assert probe == {"a": [("retention.ms", "5")]}
    await talk.describe_topics({"name": "a", "topic_id": ID})
    if api == FULL:
        await described(talk)
    forwarded = await talk.forwarded(api)
    assert sent_in(forwarded) == {"a": [("retention.ms", "5")]}
    assert not forwarded.body.validate_only
    talk.respond(forwarded, **answers("a"))
    assert read(await talk.response()) == {"a": (0, None)}
    assert talk.topic_configs.of("a", ID) == {OWN: "on"}
    assert talk.topics.judged[0].configs == {OWN: "on", "retention.ms": "5"}


async def test_keys_of_penstock_alone_are_not_sent_to_the_cluster():
    talk, _ = await storing(a="off")
    _, probe = await validated(talk, INCREMENTAL, 1, ("a", [(OWN, SET, "on")]))
    assert probe == {"a": [(OWN, None)]}  # deletes what is not there: validates, changes nothing
    await talk.describe_topics({"name": "a", "topic_id": ID})
    assert read(await talk.response()) == {"a": (0, None)}
    assert talk.topic_configs.of("a", ID) == {OWN: "on"}


async def test_a_deleted_key_is_removed_from_the_settings():
    talk, _ = await storing(a="on")
    await validated(talk, INCREMENTAL, 1, ("a", [(OWN, DELETE, None)]))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    assert read(await talk.response()) == {"a": (0, None)}
    assert talk.topic_configs.of("a", ID) == {}
    assert talk.topics.judged[0].configs == {OWN: None}


@pytest.mark.parametrize("version", versions(FULL))
async def test_alter_configs_resets_the_keys_that_it_omits(version):
    talk, _ = await storing(a="on")
    await validated(talk, FULL, version, ("a", [RETENTION]))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    await described(talk)
    forwarded = await talk.forwarded(FULL)
    talk.respond(forwarded, **answers("a"))
    assert read(await talk.response()) == {"a": (0, None)}
    assert talk.topic_configs.of("a", ID) == {}
    assert talk.topics.judged[0].configs == {"retention.ms": "5", OWN: None}


@pytest.mark.parametrize(("name", "source", "other"), [("a", 1, 4), ("1", 2, 3), ("", 3, 2)])
@pytest.mark.parametrize("version", versions(FULL))
async def test_the_policy_sees_the_keys_that_alter_configs_resets(version, name, source, other):
    """A policy that says no to a deletion could be passed by leaving the key out."""
    talk = AdminTalk()
    kind = TOPIC if name == "a" else BROKER
    resource = {"resource_type": kind, "resource_name": name}
    configs = [{"name": "retention.ms", "value": "5"}]
    sent = await talk.request(FULL, version, resources=[{**resource, "configs": configs}])
    accepted = {"responses": [{**resource, "error_code": 0, "error_message": None}]}
    talk.respond(await talk.forwarded(FULL), **accepted)
    keys = await described(
        talk, name, kind, retention_ms=("9", source), cleanup_policy=("compact", source),
        flush_ms=("1", other), segment_ms=("1", 5), secret_key=(None, source),
    )  # fmt: skip
    assert keys is None
    await talk.passes_unchanged(FULL, sent, **accepted)
    assert talk.topics.judged[0].configs == {
        "retention.ms": "5", "cleanup.policy": None, "secret.key": None
    }  # fmt: skip


NAMES = ("cleanup.policy", "flush.ms", "retention.ms", "segment.ms")
CONFIGS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("123"), max_size=4)
CHANGES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["1", "2", None]), max_size=4)


@pytest.mark.thorough
@pytest.mark.parametrize("api", [FULL, INCREMENTAL])
def test_the_policy_sees_each_key_that_a_request_changes(api):
    """Configs are a dictionary: AlterConfigs replaces it, the other request changes keys of it."""

    async def judged(before, changes):
        talk = AdminTalk()
        given = [(name, SET if value else DELETE, value) for name, value in changes.items()]
        sent, _ = await validated(talk, api, 1, ("a", given))
        if api == FULL or None in changes.values():
            await described(
                talk,
                **{name: (before.get(name, "9"), 1 if name in before else 5) for name in NAMES},
            )
        await talk.passes_unchanged(api, sent, **answers("a"))
        return talk.topics.judged[0].configs, talk.topics.not_set[0]

    @settings(max_examples=500, deadline=None)
    @given(CONFIGS, CHANGES)
    def check(before, changes):
        if api == FULL:
            changes = {name: value for name, value in changes.items() if value is not None}
        new = {name: value for name, value in changes.items() if value is not None}
        after = new if api == FULL else {**before, **new}
        for name in changes.keys() - new.keys():
            after.pop(name, None)
        shown, not_set = asyncio.run(judged(before, changes))
        for name in NAMES:
            if before.get(name) != after.get(name):
                assert shown[name] == after.get(name)
        assert {name for name, value in shown.items() if value is None} - set(not_set) == (
            before.keys() - after.keys()
        )

    check()


async def test_alter_configs_is_refused_if_it_is_not_known_what_it_resets():
    talk = AdminTalk()
    await validated(talk, FULL, 1, ("a", [RETENTION]))
    await described(talk, code=29)
    assert read(await talk.response()) == {"a": (29, None)}
    assert talk.topics.judged == []


@pytest.mark.parametrize(("source", "is_set"), [(1, True), (4, False), (5, False)])
async def test_it_is_known_which_deleted_keys_are_not_set(source, is_set):
    talk = AdminTalk()
    changes = [RETENTION, ("cleanup.policy", DELETE, None), ("flush.ms", DELETE, None)]
    sent, _ = await validated(talk, INCREMENTAL, 1, ("a", changes))
    keys = await described(talk, cleanup_policy=("compact", source), flush_ms=("1", 5))
    assert keys == ("cleanup.policy", "flush.ms")
    await talk.passes_unchanged(INCREMENTAL, sent, **answers("a"))
    expected = {"retention.ms": "5", "cleanup.policy": None, "flush.ms": None}
    assert talk.topics.judged[0].configs == expected
    assert talk.topics.not_set == [("flush.ms",) if is_set else ("cleanup.policy", "flush.ms")]


async def test_a_deleted_key_counts_as_set_if_it_is_not_known():
    talk = AdminTalk()
    sent, _ = await validated(talk, INCREMENTAL, 1, ("a", [("flush.ms", DELETE, None)]))
    await described(talk, code=29)
    await talk.passes_unchanged(INCREMENTAL, sent, **answers("a"))
    assert talk.topics.judged[0].configs == {"flush.ms": None}
    assert talk.topics.not_set == [()]


async def test_a_deleted_key_of_penstock_may_not_be_set():
    talk, _ = await storing()
    await validated(talk, INCREMENTAL, 1, ("a", [(OWN, DELETE, None)]))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    assert read(await talk.response()) == {"a": (0, None)}
    assert (talk.topics.judged[0].configs, talk.topics.not_set) == ({OWN: None}, [(OWN,)])


async def test_settings_are_not_stored_if_the_cluster_does_not_alter_the_configs():
    talk, _ = await storing()
    await validated(talk, INCREMENTAL, 1, ("a", [(OWN, SET, "on"), RETENTION]))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    talk.respond(await talk.forwarded(INCREMENTAL), **answers("a", a=41))
    assert read(await talk.response()) == {"a": (41, "of the cluster")}
    assert talk.topic_configs.of("a", ID) == {}


def refused_keys(logs):
    return [
        (line["topic"], line["client_id"], line["code"], line["message"])
        for line in logs
        if line["event"] == "topic level keys refused"
    ]


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_refused_key_is_logged_with_its_client(api, version):
    """MirrorMaker logs a warning itself, and mirrors into a topic that has no policies."""
    talk, _ = await storing(Policies(create=False, alter=False))
    wrong, misspelt = ("records.policy.enabled", SET, "maybe"), ("penstock.mod", SET, "mark")
    with structlog.testing.capture_logs() as logs:
        await talk.request(api, version, **altering(("a", [wrong]), ("b", [misspelt])))
        forwarded = await talk.forwarded(api)
        both = answers("a")["responses"] + unknown("b", "penstock.mod")["responses"]
        talk.respond(forwarded, responses=both)
        await talk.describe_topics({"name": "a", "topic_id": ID})
        found = read(await talk.response())
    assert sorted(refused_keys(logs)) == [
        (topic, "raw", 40, found[topic][1]) for topic in ("a", "b")
    ]


async def test_a_logged_refusal_of_keys_is_short_whatever_the_client_sends():
    talk, _ = await storing(Policies(create=False, alter=False))
    with structlog.testing.capture_logs() as logs:
        wrong = ("records.policy.enabled", SET, "x" * 30_000)
        await validated(talk, INCREMENTAL, 1, ("a", [wrong]))
        await talk.describe_topics({"name": "a", "topic_id": ID})
        await talk.response()
    ((_, _, _, message),) = refused_keys(logs)
    assert len(message) <= 1024


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ((OWN, APPEND, "x"), 40, f"Can't APPEND to key {OWN} because its type is not LIST."),
        ((OWN, SUBTRACT, "x"), 40, f"Can't SUBTRACT to key {OWN} because its type is not LIST."),
        (("records.policy.enabled", SET, "maybe"), 40, "Invalid value maybe for configuration"),
        ((OWN, 9, "x"), -1, None),
    ],
)
async def test_an_invalid_change_is_an_error(change, code, text):
    talk, log = await storing()
    await validated(talk, INCREMENTAL, 1, ("a", [change]))
    await talk.describe_topics({"name": "a", "topic_id": ID})
    found, message = read(await talk.response())["a"]
    assert found == code
    assert message is text or message.startswith(text)
    assert log._kept.records == []


async def test_settings_that_cannot_be_stored_are_an_error(monkeypatch):
    monkeypatch.setattr(topic_configs, "READ_TIMEOUT_S", 0.01)
    talk, log = await storing()
    await validated(talk, INCREMENTAL, 1, ("a", [(OWN, SET, "on")]))
    log.failure = "away"
    await talk.describe_topics({"name": "a", "topic_id": ID})
    code, message = read(await talk.response())["a"]
    assert code == -1
    assert message.startswith("Penstock's settings could not be kept: ")


async def test_the_topic_settings_topic_cannot_be_altered():
    talk, _ = await storing(Policies(create=False, alter=False))
    await validated(talk, INCREMENTAL, 1, ("settings", [RETENTION]), ("b", [RETENTION]))
    forwarded = await talk.forwarded(INCREMENTAL)
    assert sent_in(forwarded).keys() == {"b"}
    talk.respond(forwarded, **answers("b"))
    assert read(await talk.response()) == {"settings": (44, STORES), "b": (0, None)}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_without_policies_a_request_without_our_keys_passes(api, version):
    talk, _ = await storing(Policies(create=False, alter=False))
    sent = await talk.request(api, version, **altering(("a", [RETENTION])))
    await talk.passes_unchanged(api, sent, **answers("a"))


@pytest.mark.parametrize(
    ("operation", "given", "expected"),
    [
        (APPEND, "delete", "compact,delete"),
        (APPEND, "compact", "compact"),
        (SUBTRACT, "compact", ""),
        (SUBTRACT, "delete", "compact"),
    ],
)
async def test_the_policy_sees_the_list_after_the_change(operation, given, expected):
    talk = AdminTalk()
    sent, _ = await validated(talk, INCREMENTAL, 1, ("a", [("cleanup.policy", operation, given)]))
    forwarded = await talk.forwarded(DESCRIBE)
    (resource,) = forwarded.body.resources
    assert resource.configuration_keys == ("cleanup.policy",)
    talk.respond(forwarded, results=[{"resource_type": TOPIC, "resource_name": "a", "configs": [
        {"name": "cleanup.policy", "value": "compact"}]}])  # fmt: skip
    await talk.passes_unchanged(INCREMENTAL, sent, **answers("a"))
    assert talk.topics.judged[0].configs == {"cleanup.policy": expected}


async def test_the_policy_sees_the_changed_list_of_a_topic_that_is_new_to_the_broker():
    """The controller knows the topic already; a broker learns of it a little later."""
    talk = AdminTalk()
    sent, _ = await validated(talk, INCREMENTAL, 1, ("a", [("cleanup.policy", APPEND, "delete")]))
    resource = {"resource_type": TOPIC, "resource_name": "a"}
    talk.respond(await talk.forwarded(DESCRIBE), results=[{**resource, "error_code": 3}])
    configs = [{"name": "cleanup.policy", "value": "compact"}]
    talk.respond(await talk.forwarded(DESCRIBE), results=[{**resource, "configs": configs}])
    await talk.passes_unchanged(INCREMENTAL, sent, **answers("a"))
    assert talk.topics.judged[0].configs == {"cleanup.policy": "compact,delete"}


async def test_a_request_waits_once_for_topics_that_the_broker_does_not_know(monkeypatch):
    """Thousands of topics may have been deleted meanwhile."""
    monkeypatch.setattr(handler_context, "_LAG_RETRIES", 2)
    talk = AdminTalk()
    change = ("cleanup.policy", APPEND, "delete")
    sent, _ = await validated(talk, INCREMENTAL, 1, ("a", [change]), ("b", [change]))
    for name in ("a", "a", "a", "b"):
        forwarded = await talk.forwarded(DESCRIBE)
        (resource,) = forwarded.body.resources
        assert resource.resource_name == name
        unknown = {"resource_type": TOPIC, "resource_name": name, "error_code": 3}
        talk.respond(forwarded, results=[unknown])
    await talk.passes_unchanged(INCREMENTAL, sent, **answers("a", "b", a=3, b=3))


async def test_a_key_that_is_named_twice_is_left_to_the_cluster():
    talk, _ = await storing()
    twice = [(OWN, SET, "a"), (OWN, SET, "b")]
    _, probe = await validated(talk, INCREMENTAL, 1, ("a", twice), a=42)
    assert probe == {"a": [(OWN, "a"), (OWN, "b")]}
    assert read(await talk.response()) == {"a": (42, "of the cluster")}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_key_of_penstock_on_a_broker_is_left_to_the_cluster(api, version):
    talk, log = await storing()
    sent, probe = await validated(talk, api, version, ("1", [(OWN, SET, "on")]))
    if api == FULL:
        await described(talk, "1", BROKER)
    assert probe == {"1": [(OWN, "on")]}
    await talk.passes_unchanged(api, sent, **answers("1"))
    assert log._kept.records == []


async def test_a_resource_that_the_response_omits_is_an_error():
    talk = AdminTalk()
    await talk.request(INCREMENTAL, 1, **altering(("a", [RETENTION])))
    talk.respond(await talk.forwarded(INCREMENTAL), responses=[])
    assert read(await talk.response()) == {"a": (-1, None)}


async def test_an_unreadable_response_closes_the_connection():
    talk = AdminTalk()
    await talk.request(INCREMENTAL, 1, **altering(("a", [RETENTION])))
    forwarded = await talk.forwarded(INCREMENTAL)
    body = forwarded.correlation_id.to_bytes(4, "big") + b"\x00\x00\x00\x00\x00\xff\xff"
    talk.session.upstream_data(len(body).to_bytes(4, "big") + body)
    await talk.wait_until_closed()


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
    talk, _ = await storing(policies or Policies(create=False, alter=False))
    sent = await talk.request(api, version, **altering(("a", [(key, SET, "mark")])))
    forwarded = await talk.forwarded(api)
    return talk, sent, forwarded


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_the_error_about_a_misspelt_key_names_a_similar_key(api, version):
    talk, _, forwarded = await misnamed(api, version, "penstock.mod")
    assert forwarded.body.validate_only
    talk.respond(forwarded, **unknown("a", "penstock.mod"))
    message = f"{UNKNOWN}penstock.mod; did you mean penstock.mode?"
    assert read(await talk.response()) == {"a": (40, message)}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_unknown_keys_without_a_similar_key_get_the_error_of_the_cluster(api, version):
    talk, sent, forwarded = await misnamed(api, version, "retention.m")
    assert (forwarded.frame, forwarded.body.validate_only) == (sent, False)
    talk.respond(forwarded, **unknown("a", "retention.m"))
    assert read(await talk.response()) == {"a": (40, f"{UNKNOWN}retention.m")}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_key_that_the_cluster_knows_gets_the_error_of_the_cluster(api, version):
    talk, sent, forwarded = await misnamed(api, version, "confluent.value.schema.validation")
    talk.respond(forwarded, **answers("a"))
    await talk.passes_unchanged(api, sent, **answers("a"))


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_client_without_the_right_gets_no_suggestion_of_keys(api, version):
    talk, _, forwarded = await misnamed(api, version, "penstock.mod")
    talk.respond(forwarded, **answers("a", a=29))
    assert read(await talk.response()) == {"a": (29, "of the cluster")}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_resource_next_to_a_misspelt_key_is_altered(api, version):
    talk, _ = await storing(Policies(create=False, alter=False))
    resources = ("a", [("penstock.mod", SET, "mark")]), ("b", [RETENTION])
    await talk.request(api, version, **altering(*resources))
    forwarded = await talk.forwarded(api)
    both = unknown("a", "penstock.mod")["responses"] + answers("b")["responses"]
    talk.respond(forwarded, responses=both)
    forwarded = await talk.forwarded(api)
    assert sent_in(forwarded) == {"b": [("retention.ms", "5")]}
    talk.respond(forwarded, **answers("b"))
    message = f"{UNKNOWN}penstock.mod; did you mean penstock.mode?"
    assert read(await talk.response()) == {"a": (40, message), "b": (0, None)}


@pytest.mark.parametrize(("api", "version"), EACH)
async def test_a_message_that_would_become_too_long_stays_unchanged(api, version):
    key = "penstock." + "x" * 32_700
    talk, _, forwarded = await misnamed(api, version, key)
    talk.respond(forwarded, **unknown("a", key))
    assert read(await talk.response()) == {"a": (40, UNKNOWN + key)}


async def test_a_key_that_topics_may_not_have_is_not_suggested():
    talk = AdminTalk(
        Policies(create=False, alter=False), {"topic.settings.keys.allowed": "record.*"}
    )
    await talk.store()
    await talk.request(44, 1, **altering(("a", [("penstock.mod", SET, "mark")])))
    forwarded = await talk.forwarded(44)
    talk.respond(forwarded, **unknown("a", "penstock.mod"))
    message = (
        f"{UNKNOWN}penstock.mod; did you mean penstock.mode? The gateway's configuration file "
        "does not allow it on topics (topic.settings.keys.allowed)"
    )
    assert read(await talk.response()) == {"a": (40, message)}
