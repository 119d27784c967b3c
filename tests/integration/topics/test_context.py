"""Policies with the principal and the existing topics (requested by KIP-170 and KIP-201)."""

import json
import sys
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
)
from confluent_kafka.cimpl import NewTopic

from penstock.configuration.topic_keys import RECORDS_POLICY_ENABLED
from penstock.kafka.wire.schemas import load_request_schema
from tests.conftest import create_acls, create_topic
from tests.gateways import gateway_port, wait_until
from tests.integration.topics.config_changes import TOPIC, Change, incremental, resource_results
from tests.integration.topics.creation import (
    TIMEOUT,
    Topic,
    assigned,
    create_topics,
    errors_by_topic,
    exists,
    start_gateway,
    unique,
)
from tests.integration.topics.more_partitions import create_partitions, results
from tests.raw import RawClient
from tests.secured import (
    acl,
    add_alice,
    as_admin,
    as_alice,
    as_client,
    files,
    secure_kafka,
    upstream_as_admin,
)

__all__ = ["files"]

DELETE_TOPICS = 20
CONTEXT = {
    "create.topic.policy.class.name": "policies.Quota",
    "alter.config.policy.class.name": "policies.Owner",
}
POLICIES = '''
import json, time
from penstock.policy import *

class Quota(CreateTopicPolicyWithContext):
    """No team owns more than ten partitions; a topic's name begins with its team."""

    def validate(self, request, context):
        team = request.topic.partition(".")[0]
        requested = request.num_partitions or len(request.replicas_assignments)
        owned = sum(
            topic.num_partitions for name, topic in context.topics.items()
            if name.startswith(f"{team}.") and name != request.topic
        )
        if team == "tell":
            own = {n: t for n, t in context.topics.items() if n.startswith(request.topic)}
            raise PolicyViolationException(
                json.dumps([context.principal, context.client_id, own, requested])
            )
        if team.startswith("slow"): time.sleep(0.1)
        if team == "clear": context.topics.clear()
        if owned + requested > 10:
            raise PolicyViolationException(f"{owned} and {requested} partitions are more than 10")

class Owner(AlterConfigPolicyWithContext):
    """Refuses a change of flush.ms; the message has the client."""

    def validate(self, request, context):
        if "flush.ms" in request.configs:
            topic = context.topics[request.resource.name]
            raise PolicyViolationException(
                json.dumps([context.principal, context.client_id, topic])
            )
'''


def delete_topics(*names: str, version: int) -> Any:
    """A DeleteTopics request."""
    schema = load_request_schema(DELETE_TOPICS, version)
    if version < 6:
        return schema(topic_names=names, timeout=TIMEOUT)
    types = sys.modules[schema.__module__]
    topics = tuple(types.DeleteTopicState(name=name, topic_id=None) for name in names)
    return schema(topics=topics, timeout=TIMEOUT)


@pytest.fixture(scope="module")
def judging(kafka, tmp_path_factory):
    running = start_gateway(
        tmp_path_factory.mktemp("gateway"), kafka.bootstrap_servers, POLICIES, CONTEXT
    )
    yield running
    running.stop()


@pytest.fixture
def team():
    return unique("team")


def codes(client: RawClient, *topics: Topic, **options: Any) -> list[int]:
    """Create topics; return the error codes in the order of the topics."""
    outcome = errors_by_topic(client.call(create_topics(*topics, **options)))
    return [outcome[topic.name][0] for topic in topics]


# Counts


def test_topics_of_a_request_count_each_other(client, team):
    topics = [Topic(f"{team}.a", 6), Topic(f"{team}.b", 5), Topic(f"{team}.c", 4)]
    assert errors_by_topic(client.call(create_topics(*topics))) == {
        f"{team}.a": (0, None),
        f"{team}.b": (44, "6 and 5 partitions are more than 10"),
        f"{team}.c": (0, None),
    }


def test_a_request_counts_earlier_requests_immediately(client, team):
    counts = [4, 4, 4, 2, 1]
    requests = [create_topics(Topic(f"{team}.{i}", count)) for i, count in enumerate(counts)]
    client.send(b"".join(map(client.frame, requests)))
    found = [errors_by_topic(client.response(type(requests[0]))) for _ in requests]
    assert [code for outcome in found for code, _ in outcome.values()] == [0, 0, 44, 0, 44]


def test_assigned_replicas_count(client, team):
    placed = assigned(f"{team}.placed", {i: [0] for i in range(6)})
    assert codes(client, placed, Topic(f"{team}.b", 5), Topic(f"{team}.c", 4)) == [0, 44, 0]


def test_topics_of_other_clients_count(client, broker, team):
    codes(broker, Topic(f"{team}.there", 8))
    wait_until(lambda: codes(client, Topic(f"{team}.more", 3), validate_only=True) == [44])
    assert codes(client, Topic(f"{team}.more", 2)) == [0]


def test_requests_of_several_clients_count_each_other(judging, broker):
    """All are received before the first is decided."""
    team = unique("slow")
    names = [f"{team}.{i}" for i in range(6)]
    requests = [create_topics(Topic(name, 3)) for name in names]
    with ExitStack() as open_clients:
        clients = [open_clients.enter_context(RawClient(judging.address)) for _ in names]
        for client, request in zip(clients, requests, strict=True):
            client.send(client.frame(request))
        for client in clients:
            client.response(type(requests[0]))
    assert sum(exists(broker, name) for name in names) == 3


def test_validate_only_does_not_count(client, team):
    assert codes(client, Topic(f"{team}.tried", 10), validate_only=True) == [0]
    assert codes(client, Topic(f"{team}.made", 10)) == [0]


def test_refused_topics_do_not_count(client, team):
    assert codes(client, Topic(f"{team}.large", 11)) == [44]
    assert codes(client, Topic(f"{team}.bad", 10, configs={"retention.ms": "x"})) == [40]
    assert codes(client, Topic(f"{team}.good", 10)) == [0]


@pytest.mark.parametrize("version", [1, 5, 6])
def test_deleted_topics_do_not_count(client, team, version):
    assert codes(client, Topic(f"{team}.a", 10)) == [0]
    (deleted,) = client.call(delete_topics(f"{team}.a", version=version)).responses
    assert deleted.error_code == 0
    wait_until(lambda: codes(client, Topic(f"{team}.b", 10)) == [0])


def test_added_partitions_count(client, team):
    name = f"{team}.a"
    grow = partial(create_partitions, [(name, 8)])
    assert codes(client, Topic(name, 2)) == [0]
    wait_until(lambda: results(client.call(grow(validate_only=True)))[name][0] == 0)
    assert codes(client, Topic(f"{team}.tried", 8), validate_only=True) == [0]

    assert results(client.call(grow())) == {name: (0, None)}

    assert errors_by_topic(client.call(create_topics(Topic(f"{team}.b", 3)))) == {
        f"{team}.b": (44, "8 and 3 partitions are more than 10")
    }
    assert results(client.call(create_partitions([(name, 11)]))) == {
        name: (44, "0 and 11 partitions are more than 10")
    }


# The context


def policy_arguments(client: RawClient, topic: Topic, client_id: str | None = "raw") -> list:
    """Return the arguments of the policy: principal, client id, topics, and the request."""
    ((code, message),) = errors_by_topic(client.call(create_topics(topic), client_id)).values()
    assert code == 44
    return json.loads(message)


def test_the_context_has_topics_with_their_counts(client, broker):
    name = unique("tell.of")
    codes(broker, Topic(f"{name}.a", 3))
    expected = [None, "raw", {f"{name}.a": [3, 1]}, 2]
    wait_until(lambda: policy_arguments(client, Topic(name, 2)) == expected)


@pytest.mark.parametrize("client_id", ["billing", "Zürich", "", None])
def test_the_context_has_the_client_id_and_no_principal_without_authentication(client, client_id):
    assert policy_arguments(client, Topic("tell.id"), client_id) == [None, client_id, {}, 1]


def test_the_context_cannot_be_changed(client, broker):
    name = unique("clear.all")
    assert errors_by_topic(client.call(create_topics(Topic(name)))) == {name: (-1, None)}
    assert not exists(broker, name)


def test_a_config_policy_gets_the_same_context(client, team):
    name = f"{team}.a"
    assert codes(client, Topic(name, 3)) == [0]
    request = incremental((TOPIC, name, [Change("flush.ms", "1000")]))

    def outcome() -> list:
        return resource_results(client.call(request, "billing"))

    wait_until(lambda: outcome()[0][1] != 3)  # the broker knows the topic
    assert outcome() == [(name, 44, json.dumps([None, "billing", [3, 1]]))]


# The principal, if clients authenticate


@pytest.fixture(scope="module")
def secured(files):
    with secure_kafka(files) as running:
        admin = AdminClient(as_admin(running.bootstrap_servers, files))
        add_alice(admin)
        create_acls(admin, acl("tell", AclOperation.CREATE, pattern=ResourcePatternType.PREFIXED))
        yield running


@pytest.fixture(scope="module")
def secured_judging(secured, files, tmp_path_factory):
    """A gateway with TLS on both sides, and the same policy."""
    folder = tmp_path_factory.mktemp("secured")
    port = gateway_port()
    properties = {
        "listeners": f"SASL_SSL://127.0.0.1:{port}",
        "ssl.keystore.location": files.key("gateway.pem"),
        **upstream_as_admin(files),
        "topic.settings.topic": "__penstock_topic_settings",
        **CONTEXT,
    }
    running = start_gateway(folder, secured.bootstrap_servers, POLICIES, properties)
    yield running
    running.stop()


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("user", "password", "mechanism"),
    [("admin", "a-secret", "PLAIN"), ("alice", "alice-secret", "SCRAM-SHA-256")],
)
def test_the_context_has_the_principal_as_the_cluster_names_it(
    secured_judging, files, user, password, mechanism
):
    settings = as_client(secured_judging.address, files, user, password, mechanism)
    admin = AdminClient({**settings, "client.id": "billing"})
    assert refusal(admin, NewTopic("tell.who", 2, 1)) == (44, [f"User:{user}", "billing", {}, 2])


def test_defaults_are_filled_in_for_clients_that_may_not_describe_them(secured_judging, files):
    """Brokers return the counts only to clients that may describe the topic's configs."""
    settings = as_alice(secured_judging.address, files)
    code, seen = refusal(AdminClient(settings), NewTopic("tell.counts", -1, -1))
    assert (code, seen[-1]) == (44, 1)


@pytest.mark.slow
def test_a_client_that_may_not_create_a_topic_gets_the_error_of_the_cluster(secured_judging, files):
    settings = as_alice(secured_judging.address, files)
    code, _ = refusal(AdminClient(settings), NewTopic("others.topic", 50, 1))
    assert code == 29


@pytest.mark.kips("B49")
def test_a_client_that_may_not_alter_a_topic_changes_no_key(secured, secured_judging, files):
    admin = AdminClient(as_admin(secured.bootstrap_servers, files))
    create_topic(admin, "others.altered")
    settings = as_alice(secured_judging.address, files)
    alice = AdminClient(settings)
    changes = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in ((RECORDS_POLICY_ENABLED, "true"), ("retention.ms", "1000"))
    ]
    resource = ConfigResource(
        ConfigResource.Type.TOPIC, "others.altered", incremental_configs=changes
    )
    with pytest.raises(KafkaException) as raised:
        alice.incremental_alter_configs([resource])[resource].result(60)
    assert raised.value.args[0].code() == 29

    through = AdminClient(as_admin(secured_judging.address, files))
    altered = ConfigResource(ConfigResource.Type.TOPIC, "others.altered")
    configs = through.describe_configs([altered])[altered].result(60)
    assert configs[RECORDS_POLICY_ENABLED].value == "false"
    assert configs["retention.ms"].value != "1000"


def refusal(admin: AdminClient, topic: NewTopic) -> tuple[int, list | None]:
    """Request a topic that is refused; return the code, and the arguments of the policy."""
    with pytest.raises(KafkaException) as raised:
        admin.create_topics([topic])[topic.topic].result(60)
    error = raised.value.args[0]
    return error.code(), json.loads(error.str()) if error.code() == 44 else None
