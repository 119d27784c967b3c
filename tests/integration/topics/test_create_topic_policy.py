"""KIP-108 on the wire: arguments of a policy, responses to clients, topics of the cluster."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient

from penstock.configuration import ConfigurationError, load_configuration
from penstock.gateway.admin.topic_policies import TopicPolicies
from penstock.kafka.local import free_ports
from tests.gateways import (
    RunningGateway,
    run_penstock,
    wait_until,
    wait_until_settled,
    write_configuration,
)
from tests.integration.topics.creation import (
    Topic,
    assigned,
    create_topics,
    errors_by_topic,
    exists,
    start_gateway,
    unique,
)
from tests.raw import RawClient

VERSIONS = range(2, 8)
POLICY_TIMEOUT_MS = 3000

POLICIES = '''
import json, os, sys
from penstock.policy import *

class Unusual(BaseException):
    """Not an Exception, as asyncio.CancelledError is not."""

class ByName(CreateTopicPolicy):
    """Does what the topic's name begins with; otherwise allows ten partitions."""

    def validate(self, request):
        getattr(self, request.topic.partition("-")[0], self.bounded)(request)

    def bounded(self, request):
        if request.num_partitions > 10:
            raise PolicyViolationException(f"{request.num_partitions} partitions are too many")

    def tell(self, request):
        raise PolicyViolationException(json.dumps(
            [request.topic, request.num_partitions, request.replication_factor,
             request.replicas_assignments and dict(request.replicas_assignments),
             dict(request.configs)]
        ))

    def pid(self, request): raise PolicyViolationException(str(os.getpid()))
    def never(self, request): raise PolicyViolationException("never")
    def silent(self, request): raise PolicyViolationException
    def long(self, request): raise PolicyViolationException("ä" * 100_000)
    def error(self, request): raise ValueError("a secret")
    def unusual(self, request): raise Unusual("a secret")
    def quit(self, request): sys.exit("a secret")
    def exit(self, request): os._exit(0)
    def hang(self, request):
        while True: pass
    def configs(self, request): request.configs["retention.ms"] = "1"
    def delete(self, request): del request.configs["retention.ms"]
    def replicas(self, request): request.replicas_assignments[0] = [7]
    def broker(self, request): request.replicas_assignments[0][0] = 7
    def fields(self, request): request.num_partitions = 1
'''
LIFE = """
from penstock.policy import *

class Notes(CreateTopicPolicy):
    def note(self, text):
        with open(self.file, "a") as file: file.write(text + "\\n")
    def configure(self, configs):
        self.file = configs["own.notes"]
        self.note("configure")
    def validate(self, request):
        self.note(f"validate {request.topic} {sorted(request.configs.items())}")
    def close(self): self.note("close")
"""


@pytest.fixture(scope="module")
def judging(kafka, tmp_path_factory):
    """A gateway whose policy acts by the beginning of the topic's name."""
    running = start_gateway(
        tmp_path_factory.mktemp("gateway"),
        kafka.bootstrap_servers,
        POLICIES,
        {
            "create.topic.policy.class.name": "policies.ByName",
            "policy.timeout.ms": POLICY_TIMEOUT_MS,
        },
    )
    yield running
    running.stop()


# Decisions


@pytest.mark.kips("B1")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_refused_topic_fails_no_other_topic(client, broker, version):
    few, many, last = unique("few"), unique("many"), unique("last")
    topics = [Topic(few, 5), Topic(many, 50), Topic(last, 10)]

    response = client.call(create_topics(*topics, version=version))

    refusal = (44, "50 partitions are too many")
    assert errors_by_topic(response) == {few: (0, None), many: refusal, last: (0, None)}
    assert [exists(broker, name) for name in (few, many, last)] == [True, False, True]


@pytest.mark.kips("B2")
@pytest.mark.parametrize("version", VERSIONS)
def test_validate_only_returns_the_same_and_creates_nothing(client, broker, version):
    few, many = unique("few"), unique("many")
    request = create_topics(Topic(few, 5), Topic(many, 50), version=version, validate_only=True)

    assert errors_by_topic(client.call(request)) == {
        few: (0, None),
        many: (44, "50 partitions are too many"),
    }
    assert not exists(broker, few)
    assert not exists(broker, many)


def test_results_of_each_topic_equal_a_brokers(client, broker):
    few, many = unique("few"), unique("many")
    request = create_topics(Topic(few, 5, configs={"retention.ms": "1000"}), Topic(many, 50))

    results = {topic.name: topic for topic in client.call(request).topics}

    created, refused = results[few], results[many]
    assert created.topic_id is not None
    assert (created.num_partitions, created.replication_factor) == (5, 1)
    assert {config.name: config.value for config in created.configs}["retention.ms"] == "1000"
    broker_refused = broker.call(create_topics(Topic(few))).topics[0]
    results_of_refused = [
        (topic.topic_id, topic.num_partitions, topic.replication_factor, topic.configs)
        for topic in (refused, broker_refused)
    ]
    assert results_of_refused[0] == results_of_refused[1]


def test_responses_to_concurrent_requests_are_in_order(client):
    names = [unique("hasty") for _ in range(3)]
    requests = [create_topics(Topic(name, 10 + 10 * i)) for i, name in enumerate(names)]
    client.send(b"".join(client.frame(request) for request in requests))

    answers = [errors_by_topic(client.response(type(requests[0]))) for _ in requests]

    assert answers == [
        {names[0]: (0, None)},
        {names[1]: (44, "20 partitions are too many")},
        {names[2]: (44, "30 partitions are too many")},
    ]


# What a policy is shown


def policy_arguments(client: RawClient, topic: Topic, version: int = 7) -> list:
    """Return the arguments of the policy: name, counts, assignments, configs."""
    ((code, message),) = errors_by_topic(
        client.call(create_topics(topic, version=version))
    ).values()
    assert code == 44
    return json.loads(message)


@pytest.mark.kips("B3")
@pytest.mark.parametrize("version", VERSIONS)
def test_defaults_are_filled_in_before_a_policy_judges(client, version):
    name = unique("tell")
    assert policy_arguments(client, Topic(name, -1, -1), version) == [name, 1, 1, None, {}]
    assert policy_arguments(client, Topic(name, 4, -1), version) == [name, 4, 1, None, {}]
    assert policy_arguments(client, Topic(name, -1, 1), version) == [name, 1, 1, None, {}]


@pytest.mark.kips("B3")
@pytest.mark.parametrize("version", VERSIONS)
def test_assignments_are_shown_instead_of_counts(client, version):
    name = unique("tell")
    topic = assigned(name, {0: [0], 1: [0]})
    assert policy_arguments(client, topic, version) == [name, None, None, {"0": [0], "1": [0]}, {}]


@pytest.mark.kips("B4")
def test_configs_are_only_those_of_the_request(client):
    name, configs = unique("tell"), {"retention.ms": "1000", "cleanup.policy": "compact"}
    assert policy_arguments(client, Topic(name, configs=configs)) == [name, 1, 1, None, configs]


@pytest.mark.kips("B4")
@pytest.mark.parametrize(
    ("attempt", "assignments"),
    [
        ("configs", {}),
        ("delete", {}),
        ("fields", {}),
        ("replicas", {0: [0]}),
        ("broker", {0: [0]}),
    ],
)
def test_a_policy_cannot_change_its_arguments(client, broker, attempt, assignments):
    name, other = unique(attempt), unique("other")
    counts = (-1, -1) if assignments else (1, 1)
    topic = Topic(name, *counts, configs={"retention.ms": "1000"}, assignments=assignments)

    assert errors_by_topic(client.call(create_topics(topic, Topic(other)))) == {
        name: (-1, None),
        other: (0, None),
    }
    assert not exists(broker, name)


# Order

FAULTY = {
    "a bad name": (17, [Topic("never-good enough")]),
    "a reserved name": (42, [Topic("__cluster_metadata")]),
    "a name that another one collides with": (17, [Topic("never-taken_so")]),
    "a name that is taken": (36, [Topic("never-taken.so")]),
    "a name twice": (42, [Topic("never-twice"), Topic("never-twice")]),
    "counts and assignments": (42, [Topic("never-both", 1, 1, assignments={0: [0]})]),
    "more replicas than brokers": (38, [Topic("never-replicated", 1, 5)]),
    "no replicas": (38, [Topic("never-kept", 1, 0)]),
    "no partitions": (37, [Topic("never-parted", 0)]),
    "a config without a value": (40, [Topic("never-null", configs={"retention.ms": None})]),
    "a config of a wrong type": (40, [Topic("never-typed", configs={"retention.ms": "x"})]),
    "an unknown config": (40, [Topic("never-known", configs={"unheard.of": "1"})]),
    "an unknown broker": (39, [assigned("never-placed", {0: [7]})]),
    "partitions with gaps": (39, [assigned("never-dense", {0: [0], 2: [0]})]),
}


@pytest.mark.kips("B5")
@pytest.mark.parametrize("fault", FAULTY)
def test_errors_of_the_cluster_prevail_over_the_policy(client, broker, fault):
    """The policy refuses all of them, if it judges them."""
    broker.call(create_topics(Topic("never-taken.so")))
    code, topics = FAULTY[fault]
    for version in VERSIONS:
        request = create_topics(*topics, version=version)
        answer = errors_by_topic(client.call(request))
        assert answer == errors_by_topic(broker.call(request))
        assert {found for found, _ in answer.values()} == {code}


# Policies that fail


@pytest.mark.kips("B6")
def test_after_an_error_other_topics_are_created_and_the_log_has_the_line(client, broker, judging):
    name, other = unique("error"), unique("other")

    answer = errors_by_topic(client.call(create_topics(Topic(name), Topic(other))))

    assert answer == {name: (-1, None), other: (0, None)}
    assert not exists(broker, name)
    assert exists(broker, other)
    (entry,) = [event for event in judging.wait_for("policy failed") if event["topic"] == name]
    assert entry["level"] == "error"
    assert entry["detail"].startswith("ValueError at ")
    assert "policies.py:" in entry["detail"]
    assert "in error" in entry["detail"]
    assert "a secret" not in json.dumps(judging.log)


@pytest.mark.kips("B6")
@pytest.mark.parametrize("does", ["quit", "unusual"])
def test_an_exception_of_a_policy_fails_only_its_topic(client, broker, judging, does):
    name, other = unique(does), unique("other")

    answer = errors_by_topic(client.call(create_topics(Topic(name), Topic(other))))

    assert answer[name][0] == -1
    assert answer[other] == (0, None)
    assert not exists(broker, name)
    wait_for_failure(judging, name)
    assert "a secret" not in json.dumps(judging.log)


def wait_for_failure(gateway: RunningGateway, topic: str) -> None:
    """Wait until the log has the failure of a topic, and earlier events."""
    wait_until(lambda: any(event["topic"] == topic for event in gateway.events("policy failed")))
    # What a process printed at its end comes through another pipe.
    wait_until_settled(lambda: len(gateway.log))


@pytest.mark.cases(1)
@pytest.mark.parametrize("does", ["hang", "exit"])
def test_a_lost_process_is_replaced_and_fails_a_single_topic(client, broker, does):
    before = judging_process(client)
    name, first, last = unique(does), unique("first"), unique("last")

    answer = errors_by_topic(client.call(create_topics(Topic(first), Topic(name), Topic(last))))

    assert answer.pop(name)[0] == -1
    assert answer == {first: (0, None), last: (0, None)}
    assert not exists(broker, name)
    assert judging_process(client) != before


def judging_process(client: RawClient) -> str | None:
    ((_, message),) = errors_by_topic(client.call(create_topics(Topic(unique("pid"))))).values()
    return message


@pytest.mark.parametrize("version", [2, 5, 7])
def test_a_refusal_without_a_text(client, broker, version):
    name = unique("silent")
    assert errors_by_topic(client.call(create_topics(Topic(name), version=version))) == {
        name: (44, None)
    }
    assert not exists(broker, name)


@pytest.mark.parametrize("version", [2, 5, 7])
def test_a_text_that_is_too_long_is_cut_between_characters(client, version):
    ((code, message),) = errors_by_topic(
        client.call(create_topics(Topic(unique("long")), version=version))
    ).values()
    assert code == 44
    assert message.strip("ä") == "..."
    assert 1000 < len(message.encode()) <= 1024


# The life of a policy


@pytest.mark.kips("B7")
def test_a_policy_is_configured_once_and_closed_once(gateway, broker, tmp_path):
    """Also if topics have their own settings, by which other processes judge records."""
    notes = tmp_path / "notes"
    running = gateway(
        {
            "create.topic.policy.class.name": "policies.Notes",
            "own.notes": notes,
            "records.policy.class.names.allowed": "policies.*",
            "topic.settings.topic": unique("settings"),
        },
        LIFE,
    )
    assert notes.read_text() == "configure\n"
    plain, own = unique("plain"), unique("own")
    configs = {"records.policy.enabled": "true", "retention.ms": "1000"}
    with RawClient(running.address) as client:
        for topic in (Topic(plain), Topic(own, configs=configs)):
            assert errors_by_topic(client.call(create_topics(topic))) == {topic.name: (0, None)}

    assert running.stop() == 0

    assert notes.read_text().splitlines() == [
        "configure",
        f"validate {plain} []",
        f"validate {own} {sorted(configs.items())}",
        "close",
    ]
    assert exists(broker, own)


# Policies that cannot be used

DEFINE = "from penstock.policy import *\nclass P(CreateTopicPolicy):\n "
UNUSABLE = {
    "there is no module": ("no_such_module.P", "", "no_such_module"),
    "there is no class": ("policies.Other", "class P: pass", "no class Other"),
    "it is not a class": ("policies.P", "P = 1", "must be a class"),
    "it has no validate": ("policies.P", "class P: pass", "no method validate()"),
    "it cannot be made": (
        "policies.P",
        f"{DEFINE}def __init__(self): raise OSError('no disk')\n def validate(self, r): pass",
        "OSError: no disk",
    ),
    "it cannot be configured": (
        "policies.P",
        f"{DEFINE}def configure(self, c): raise KeyError('own')\n def validate(self, r): pass",
        "configure() failed: KeyError: 'own'",
    ),
    "it would never be awaited": (
        "policies.P",
        f"{DEFINE}async def validate(self, r): raise PolicyViolationException('no')",
        "validate()",
    ),
    "it would never be iterated": (
        "policies.P",
        f"{DEFINE}def validate(self, r):\n  yield\n  raise PolicyViolationException('no')",
        "validate()",
    ),
    "it is of another kind": (
        "policies.P",
        DEFINE.replace("CreateTopic", "Records") + "def validate(self, topic, n, records): pass",
        "is a policy of another kind, which belongs in records.policy.class.name",
    ),
    "it is a ready-made one of the other kind": ("penstock.policies.{}Rules", "", "another kind"),
}


def unusable(why: str, key: str) -> tuple[str, str, str]:
    """Return the class, its module and the expected error, for one of the two keys."""
    name, policies, telling = UNUSABLE[why]
    alters = key.startswith("alter")
    if alters:
        policies = policies.replace("(CreateTopicPolicy)", "(AlterConfigPolicy)")
    return name.format("Topic" if alters else "Config"), policies, telling


KEYS = ("create.topic.policy.class.name", "alter.config.policy.class.name")


@pytest.mark.cases(6)
@pytest.mark.kips("B9")
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("why", UNUSABLE)
async def test_a_policy_that_cannot_be_used_is_not_loaded(tmp_path, why, key):
    name, policies, telling = unusable(why, key)
    file = write_configuration(tmp_path, "none:1", free_ports(1)[0], {key: name}, policies)
    loading = TopicPolicies(load_configuration(file), tries_classes=False)

    try:
        with pytest.raises(ConfigurationError) as raised:
            await loading.start()
    finally:
        await loading.close()

    assert key in str(raised.value)
    assert telling in str(raised.value)


@pytest.mark.cases(1)
@pytest.mark.kips("B9")
@pytest.mark.parametrize(
    ("why", "key"),
    [
        ("there is no class", KEYS[1]),
        ("it cannot be configured", KEYS[0]),
    ],
)
def test_commands_report_a_policy_that_cannot_be_used(tmp_path, why, key):
    name, policies, telling = unusable(why, key)
    file = write_configuration(tmp_path, "none:1", free_ports(1)[0], {key: name}, policies)

    with ThreadPoolExecutor() as together:
        for ended in together.map(
            lambda command: run_penstock(command, file), ("gateway", "check")
        ):
            assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
            assert key in ended.stderr
            assert telling in ended.stderr


def test_librdkafka_lists_all_topics(judging, kafka):
    """Its request has bytes after its end, which brokers ignore."""
    addresses = (kafka.bootstrap_servers, judging.address)
    admins = [AdminClient({"bootstrap.servers": address}) for address in addresses]

    def are_all_listed() -> bool:  # others make and delete topics meanwhile
        directly, through = (set(admin.list_topics(timeout=60).topics) for admin in admins)
        return directly <= through

    wait_until(are_all_listed, what="all topics")
