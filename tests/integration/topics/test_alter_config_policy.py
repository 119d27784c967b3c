"""KIP-133 on the wire: AlterConfigs, IncrementalAlterConfigs, and the configs of new topics."""

import contextlib
import json
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from tests.gateways import wait_until
from tests.integration.topics.config_changes import (
    ALTER_CONFIGS,
    APPEND,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    SUBTRACT,
    TOPIC,
    Change,
    Resource,
    _alter,
    incremental,
    resource_results,
)
from tests.integration.topics.creation import (
    Topic,
    create_on_broker,
    create_topics,
    errors_by_topic,
    exists,
    start_gateway,
    unique,
)
from tests.raw import RawClient

POLICIES = '''
import json
from penstock.policy import *

class Configs(AlterConfigPolicy):
    def validate(self, request):
        configs = request.configs
        if request.resource.name.startswith("tell-") or "log.cleaner.threads" in configs:
            raise PolicyViolationException(json.dumps([*request.resource, dict(configs)]))
        if configs.get("retention.ms") == "7":
            raise PolicyViolationException("7 ms are too short")
        if configs.get("retention.ms") == "8": raise PolicyViolationException
        if configs.get("retention.ms") == "9": raise LookupError("a secret")
        if configs.get("retention.ms") == "10": configs["retention.ms"] = "1000"

class Topics(CreateTopicPolicy):
    """Is asked after the other."""
    def validate(self, request):
        if request.topic.startswith(("both-", "tell-")):
            raise PolicyViolationException("not this topic")
'''


def legacy(*resources: Resource, version: int = 2, validate_only: bool = False) -> Any:
    """Return an AlterConfigs request: keys that it does not name are reset."""
    return _alter(ALTER_CONFIGS, resources, version, validate_only)


def policy_arguments(client: RawClient, request: Any) -> list:
    """Return the arguments of the policy: type, name, configs."""
    ((_, code, message),) = resource_results(client.call(request))
    assert code == 44, message
    return json.loads(message)


@pytest.fixture(scope="module")
def judging(kafka, tmp_path_factory):
    running = start_gateway(
        tmp_path_factory.mktemp("gateway"),
        kafka.bootstrap_servers,
        POLICIES,
        {
            "alter.config.policy.class.name": "policies.Configs",
            "create.topic.policy.class.name": "policies.Topics",
        },
    )
    yield running
    running.stop()


@pytest.fixture
def configs(admin):
    """Returns the configs that are set on a topic itself."""

    def of(topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = admin.describe_configs([resource])[resource].result(60)
        return {name: entry.value for name, entry in found.items() if entry.source == 1}

    return of


# What a policy is shown

SHOWN = {
    "a value": ([Change("retention.ms", "1000")], {"retention.ms": "1000"}),
    "the value that is there": ([Change("retention.ms", "5000")], {"retention.ms": "5000"}),
    "a deletion": ([Change("retention.ms", None, DELETE)], {"retention.ms": None}),
    "a deletion with a value": ([Change("retention.ms", "1", DELETE)], {"retention.ms": None}),
    "a deletion of nothing": ([Change("flush.ms", None, DELETE)], {"flush.ms": None}),
    "a longer list": (
        [Change("cleanup.policy", "delete", APPEND)],
        {"cleanup.policy": "compact,delete"},
    ),
    "a list that has it": (
        [Change("cleanup.policy", "compact", APPEND)],
        {"cleanup.policy": "compact"},
    ),
    "a list that was empty": (
        [Change("leader.replication.throttled.replicas", "0:0,1:0", APPEND)],
        {"leader.replication.throttled.replicas": "0:0,1:0"},
    ),
    "a shorter list": (
        [Change("follower.replication.throttled.replicas", "0:0", SUBTRACT)],
        {"follower.replication.throttled.replicas": "1:0"},
    ),
    "several keys": (
        [Change("retention.ms", "1"), Change("flush.ms", "2"), Change("segment.ms", None, DELETE)],
        {"retention.ms": "1", "flush.ms": "2", "segment.ms": None},
    ),
    "no keys": ([], {}),
}


@pytest.fixture
def observed_topic(broker, configs):
    """A topic with configs, whose policy returns the changes that it gets in its message."""
    name = unique("tell")
    own = {
        "retention.ms": "5000",
        "cleanup.policy": "compact",
        "follower.replication.throttled.replicas": "0:0,1:0",
    }
    assert errors_by_topic(broker.call(create_topics(Topic(name, configs=own)))) == {
        name: (0, None)
    }

    def is_described() -> bool:  # a broker learns of a topic after the controller
        with contextlib.suppress(KafkaException):
            return configs(name) == own
        return False

    wait_until(is_described)
    return name


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("what", SHOWN)
def test_a_policy_gets_the_new_values_of_the_named_keys(
    client, configs, observed_topic, what, version
):
    changes, expected = SHOWN[what]
    before = configs(observed_topic)

    assert policy_arguments(
        client, incremental((TOPIC, observed_topic, changes), version=version)
    ) == [
        "TOPIC",
        observed_topic,
        expected,
    ]
    assert configs(observed_topic) == before


def test_values_appended_to_a_default_are_shown_after_the_default(client, broker):
    name = unique("tell")
    create_on_broker(broker, Topic(name))
    request = incremental((TOPIC, name, [Change("cleanup.policy", "compact", APPEND)]))
    assert policy_arguments(client, request) == [
        "TOPIC",
        name,
        {"cleanup.policy": "delete,compact"},
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_keys_that_the_old_api_resets_by_omission_are_deleted(client, observed_topic, version):
    """Brokers do not show them to their policy (KAFKA-14195), which can be passed so."""
    deleted = dict.fromkeys(
        ["cleanup.policy", "follower.replication.throttled.replicas", "retention.ms"]
    )
    request = legacy((TOPIC, observed_topic, [Change("flush.ms", "2")]), version=version)
    assert policy_arguments(client, request) == [
        "TOPIC",
        observed_topic,
        {"flush.ms": "2", **deleted},
    ]
    assert policy_arguments(client, legacy((TOPIC, observed_topic, []), version=version)) == [
        "TOPIC",
        observed_topic,
        deleted,
    ]


RULES = """
from penstock.policies import ConfigRules
class Rules(ConfigRules): pass
"""


@pytest.fixture(scope="module")
def ruled(kafka, tmp_path_factory):
    running = start_gateway(
        tmp_path_factory.mktemp("gateway"),
        kafka.bootstrap_servers,
        RULES,
        {
            "alter.config.policy.class.name": "policies.Rules",
            "topic.rules.configs.required": "retention.ms",
            "topic.rules.configs.allowed": "retention.ms,flush.ms",
            "topic.rules.exempt": "connect-*",
        },
    )
    yield running
    running.stop()


def test_no_request_deletes_a_required_config(ruled, broker, configs):
    name, exempt = unique("ruled"), unique("connect")
    create_on_broker(
        broker, *(Topic(topic, configs={"retention.ms": "5000"}) for topic in (name, exempt))
    )
    flush, deletion = Change("flush.ms", "2"), Change("retention.ms", None, DELETE)
    unset = Change("segment.ms", None, DELETE)
    with RawClient(ruled.address) as client:
        for topic, code in ((name, 44), (exempt, 0)):
            for request in (
                legacy((TOPIC, topic, [flush])),
                incremental((TOPIC, topic, [deletion])),
            ):
                ((_, found, message),) = resource_results(client.call(request))
                assert found == code, message
        assert configs(name) == {"retention.ms": "5000"}
        changed = resource_results(client.call(incremental((TOPIC, name, [flush, unset]))))
        assert changed == [(name, 0, None)]
    wait_until(lambda: configs(name) == {"retention.ms": "5000", "flush.ms": "2"})


@pytest.mark.parametrize(
    ("request_of", "node"), [(incremental, "0"), (incremental, ""), (legacy, "0")]
)
def test_brokers_are_resources_too(client, request_of, node):
    change = Change("log.cleaner.threads", "2")
    assert policy_arguments(client, request_of((BROKER, node, [change]))) == [
        "BROKER",
        node,
        {"log.cleaner.threads": "2"},
    ]


def test_other_resources_have_their_types(client):
    name = unique("tell")
    request = incremental((CLIENT_METRICS, name, [Change("interval.ms", "50000")]))
    assert policy_arguments(client, request) == ["CLIENT_METRICS", name, {"interval.ms": "50000"}]


# Decisions


@pytest.mark.parametrize("request_of", [incremental, legacy])
def test_a_refused_resource_fails_no_other_resource(client, broker, configs, request_of):
    good, bad, invalid = unique("good"), unique("bad"), unique("invalid")
    create_on_broker(broker, *(Topic(name) for name in (good, bad, invalid)))

    def change(name: str, value: str) -> Resource:
        return (TOPIC, name, [Change("flush.ms", "3"), Change("retention.ms", value)])

    answer = resource_results(
        client.call(
            request_of(
                change(bad, "7"), change(good, "1000"), change(invalid, "x"), change("absent", "7")
            )
        )
    )

    assert answer == [
        (bad, 44, "7 ms are too short"),
        (good, 0, None),
        (invalid, 40, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ("absent", 3, "The topic 'absent' does not exist."),
    ]
    wait_until(lambda: configs(good) == {"flush.ms": "3", "retention.ms": "1000"})
    assert configs(bad) == configs(invalid) == {}


@pytest.mark.parametrize("request_of", [incremental, legacy])
def test_validate_only_returns_the_same_and_alters_nothing(client, broker, configs, request_of):
    good, bad = unique("good"), unique("bad")
    create_on_broker(broker, Topic(good), Topic(bad))
    resources = [
        (TOPIC, good, [Change("retention.ms", "1000")]),
        (TOPIC, bad, [Change("retention.ms", "7")]),
    ]

    answer = resource_results(client.call(request_of(*resources, validate_only=True)))

    assert answer == [(good, 0, None), (bad, 44, "7 ms are too short")]
    client.call(incremental((TOPIC, bad, [Change("flush.ms", "3")])))
    wait_until(lambda: configs(bad) == {"flush.ms": "3"})  # earlier changes would be visible, too
    assert configs(good) == {}


def test_allowed_alterations_are_made(client, broker, configs):
    name = unique("t")
    create_on_broker(broker, Topic(name, configs={"cleanup.policy": "compact", "flush.ms": "1000"}))
    changes = [
        Change("cleanup.policy", "delete", APPEND),
        Change("flush.ms", None, DELETE),
        Change("retention.ms", "1000"),
    ]
    assert resource_results(client.call(incremental((TOPIC, name, changes)))) == [(name, 0, None)]
    expected = {"cleanup.policy": "compact,delete", "retention.ms": "1000"}
    wait_until(lambda: configs(name) == expected)

    assert resource_results(client.call(legacy((TOPIC, name, [Change("flush.ms", "5")])))) == [
        (name, 0, None)
    ]
    wait_until(lambda: configs(name) == {"flush.ms": "5"})


RETENTION = Change("retention.ms", "7")
FAULTY = {
    "a key twice": [[RETENTION, RETENTION]],
    "a null value": [[RETENTION, Change("flush.ms", None)]],
    "a wrong type": [[RETENTION, Change("flush.ms", "x")]],
    "an unknown key": [[RETENTION, Change("unheard.of", "x")]],
    "an append to what is no list": [[RETENTION, Change("flush.ms", "1", APPEND)]],
    "a topic twice": [[RETENTION], [Change("flush.ms", "2")]],
}


@pytest.mark.parametrize("fault", FAULTY)
def test_errors_of_the_cluster_prevail_over_the_policy(client, broker, fault):
    """The policy refuses all of them, if it judges them."""
    name = unique("t")
    create_on_broker(broker, Topic(name))
    for version in (0, 1):
        request = incremental(
            *((TOPIC, name, changes) for changes in FAULTY[fault]), version=version
        )
        answer = resource_results(client.call(request))
        assert answer == resource_results(broker.call(request))
        assert not {code for _, code, _ in answer} & {0, 44}


@pytest.mark.parametrize("request_of", [incremental, legacy])
@pytest.mark.parametrize(("value", "code"), [("8", 44), ("9", -1), ("10", -1)])
def test_a_refusal_without_a_text_an_error_and_an_attempt_to_change(
    client, broker, judging, configs, request_of, value, code
):
    good, bad = unique("good"), unique("bad")
    create_on_broker(broker, Topic(good), Topic(bad))
    resources = [
        (TOPIC, bad, [Change("retention.ms", value)]),
        (TOPIC, good, [Change("flush.ms", "2")]),
    ]

    answer = resource_results(client.call(request_of(*resources)))

    assert answer == [(bad, code, None), (good, 0, None)]
    wait_until(lambda: configs(good) == {"flush.ms": "2"})
    assert configs(bad) == {}
    assert "a secret" not in json.dumps(judging.log)


# The configs of new topics


@pytest.mark.parametrize("version", [2, 7])
def test_the_configs_of_a_new_topic_are_judged_before_the_topic(client, broker, version):
    good, bad, both, plain, odd = map(unique, ("good", "bad", "both", "both", "odd"))
    topics = [
        Topic(good, configs={"retention.ms": "1000"}),
        Topic(bad, configs={"retention.ms": "7"}),
        Topic(both, configs={"retention.ms": "7"}),
        Topic(plain),
        Topic(odd, configs={"retention.ms": "9"}),
    ]

    answer = errors_by_topic(client.call(create_topics(*topics, version=version)))

    assert answer == {
        good: (0, None),
        bad: (44, "7 ms are too short"),
        both: (44, "7 ms are too short"),
        plain: (44, "not this topic"),
        odd: (-1, None),
    }
    names = (good, bad, both, plain, odd)
    assert [exists(broker, name) for name in names] == [True, False, False, False, False]


def test_configs_of_a_new_topic_are_shown_as_configs_of_the_topic(client):
    name, own = unique("tell"), {"retention.ms": "1000", "cleanup.policy": "compact"}
    ((code, message),) = errors_by_topic(
        client.call(create_topics(Topic(name, configs=own)))
    ).values()
    assert (code, json.loads(message)) == (44, ["TOPIC", name, own])


def test_a_new_topic_without_configs_is_not_judged_by_this_policy(client):
    name = unique("tell")
    assert errors_by_topic(client.call(create_topics(Topic(name)))) == {
        name: (44, "not this topic")
    }


NEVER = {"retention.ms": "7"}


@pytest.mark.parametrize(
    ("topics", "code"),
    [
        ([Topic("never good", configs=NEVER)], 17),
        ([Topic("never", configs=NEVER), Topic("never", configs=NEVER)], 42),
        ([Topic("__cluster_metadata", configs=NEVER)], 42),
        ([Topic("never", configs={**NEVER, "flush.ms": None})], 40),
        ([Topic("never", configs={**NEVER, "flush.ms": "x"})], 40),
        # As in a controller, which looks at the configs before it looks at these:
        ([Topic("never", 0, configs=NEVER)], 44),
        ([Topic("never", 1, 5, configs=NEVER)], 44),
        ([Topic("never", 1, 1, configs=NEVER, assignments={0: [0]})], 44),
    ],
)
def test_checks_before_the_configs_of_a_new_topic(client, topics, code):
    ((found, _),) = errors_by_topic(client.call(create_topics(*topics))).values()
    assert found == code
