"""Admin clients get the same responses with and without a gateway that has policies of topics.

Each request is sent to a broker, and through a gateway whose policies of topics and configs allow
everything, and whose topics may have their own settings. Both responses, and the effects on the
cluster, must be equal, but for brokers' addresses, throttle times, and the ids and names of topics.
The names of the two worlds end in `worldAa` and `worldBB`: both have the same `String.hashCode()`,
so that a broker that lists names in the order of a hash map lists both in the same order. Only the
order of topics in Metadata (of those it creates) and in DeleteTopics (it depends on their ids) is
not compared.

The last part compares Penstock's own boolean key with a boolean key of Kafka.
"""

import contextlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest

from penstock.kafka.local import LocalKafka
from penstock.kafka.wire.schemas import load_request_schema
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.samples import offered
from tests.integration.topics.equality.config_cases import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
)
from tests.integration.topics.equality.key_cases import CASES_WITH_KEY, KAFKAS_KEY, OWN_KEY
from tests.integration.topics.equality.requests import (
    ALTER_CONFIGS,
    CLEANUP,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
    RETENTION,
    SET,
    SET_ON_TOPIC,
    SHARE_KEY,
    TOPIC,
    Cases,
    alteration,
    altered,
    build,
    changed,
    creation,
    deletion,
    described,
    description,
    metadata_fields,
    more,
    new,
    search,
)
from tests.integration.topics.equality.topic_cases import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    find_coordinator,
    metadata,
)
from tests.integration.topics.equality.wiretap import Wiretap, split
from tests.integration.topics.equality.world import World
from tests.raw import RawClient, parse_response, request_frame

OWN_KEYS = {
    "errors.deadletterqueue.topic.name",
    "penstock.quarantine.max.ratio",
    "penstock.mode",
    "penstock.policies",
    "produce.rejection.reasons",
    "record.validation.policy",
    "records.policy.class.name",
    "records.policy.enabled",
}

POLICIES = """
from penstock.policy import *

class AllowsTopics(CreateTopicPolicy):
    def validate(self, request): pass

class AllowsConfigs(AlterConfigPolicy):
    def validate(self, request): pass

class AllowsRecords(RecordsPolicy):
    def validate(self, topic, partition, records): pass
"""
PROPERTIES = {
    "create.topic.policy.class.name": "policies.AllowsTopics",
    "alter.config.policy.class.name": "policies.AllowsConfigs",
    "records.policy.class.names.allowed": "policies.AllowsRecords",
}


CASES: dict[int, Callable[[World, int], Cases]] = {
    METADATA: metadata,
    FIND_COORDINATOR: find_coordinator,
    CREATE_TOPICS: create_topics,
    DELETE_TOPICS: delete_topics,
    DELETE_RECORDS: delete_records,
    DESCRIBE_CONFIGS: describe_configs,
    ALTER_CONFIGS: alter_configs,
    CREATE_PARTITIONS: create_partitions,
    INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
}
VERSIONS = {
    METADATA: range(14),
    FIND_COORDINATOR: range(7),
    CREATE_TOPICS: range(2, 8),
    DELETE_TOPICS: range(1, 7),
    DELETE_RECORDS: range(3),
    DESCRIBE_CONFIGS: range(1, 5),
    ALTER_CONFIGS: range(3),
    CREATE_PARTITIONS: range(4),
    INCREMENTAL_ALTER_CONFIGS: range(2),
}
"""The versions that the protocol library and the broker share; a test checks it."""
SINCE = {(METADATA, 13): "4.0"}
"""The versions of Kafka that have more of them than Kafka 3.9."""
SHARE_GROUP_HEARTBEAT = 76


def every_version(*api_keys: int) -> Any:
    """Run a test for each version of some APIs."""
    chosen = [
        pytest.param(
            api_key,
            version,
            id=f"{load_request_schema(api_key, version).__name__}-v{version}",
            marks=pytest.mark.since(SINCE.get((api_key, version), "3.9")),
        )
        for api_key in api_keys or CASES
        for version in VERSIONS[api_key]
    ]
    return pytest.mark.parametrize(("api_key", "version"), chosen)


def last_version(cluster: LocalKafka, api_key: int) -> int:
    """Return the last version that the protocol library and the broker share."""
    return min(VERSIONS[api_key][-1], offered(cluster.bootstrap_servers)[api_key][1])


# What they are sent to


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalKafka]:
    """A broker that creates topics by itself; its configs are altered here."""
    at_once = {"controller.quorum.append.linger.ms": "0"}  # not 25 ms after each alteration
    with LocalKafka(properties=at_once) as running:
        yield running


@pytest.fixture(scope="module")
def start(cluster, tmp_path_factory):
    """Starts gateways in front of it; ends them."""
    running: list[RunningGateway] = []

    def begin(
        properties: Mapping[str, str], policies: str = "", upstream: str = ""
    ) -> RunningGateway:
        file = write_configuration(
            tmp_path_factory.mktemp("gateway"),
            upstream or cluster.bootstrap_servers,
            gateway_port(),
            properties,
            policies,
        )
        running.append(RunningGateway(file))
        return running[-1]

    yield begin
    for running_gateway in running:
        assert running_gateway.stop() == 0


@pytest.fixture(scope="module")
def through(start) -> RunningGateway:
    """A gateway whose policies allow everything."""
    return start(PROPERTIES, POLICIES)


def two_worlds(cluster: LocalKafka, through: RunningGateway, keys: Sequence[str]) -> list[World]:
    broker, (host, port) = cluster.nodes[0], through.host_port
    direct = cluster.bootstrap_servers
    return [
        World(direct, direct, {(broker.host, broker.port)}, "worldAa", keys[0]),
        World(through.address, direct, {(host, port + 1)}, "worldBB", keys[1]),
    ]


@pytest.fixture(scope="module")
def first_searches(cluster, through) -> list[list[Any]]:
    """Responses to searches for coordinators before Kafka's internal topics exist.

    The first are sent to the broker, the second through the gateway.
    """
    worlds = two_worlds(cluster, through, (RETENTION, RETENTION))
    answers = []
    searches = [(1, worlds[0]), (2, worlds[1]), (0, worlds[0])]
    if SHARE_GROUP_HEARTBEAT not in offered(cluster.bootstrap_servers):
        searches.pop(1)
    for kind, world in searches:
        request = build(FIND_COORDINATOR, 6, search(kind, SHARE_KEY))
        answers.append([world.send(request)])

        def found(answers=answers[-1], request=request, world=world) -> bool:
            answers.append(world.send(request))
            return answers[-1]["coordinators"][0]["error_code"] == 0

        wait_until(found, what="a coordinator")
    for world in worlds:
        world.close()
    return answers


@pytest.fixture(scope="module")
def worlds(cluster, through, first_searches) -> Iterator[list[World]]:
    """The broker itself, and the way through the gateway."""
    made = two_worlds(cluster, through, (RETENTION, RETENTION))
    yield made
    for world in made:
        world.close()


# What must be equal


@pytest.mark.since("4.0")
def test_all_versions_that_the_broker_and_the_protocol_library_share_are_compared(cluster):
    versions = offered(cluster.bootstrap_servers)

    shared = {key: range(versions[key][0], versions[key][1] + 1) for key in VERSIONS}
    assert shared == VERSIONS


@pytest.mark.since("4.2")
def test_find_coordinator_creates_the_internal_topics_of_kafka(first_searches):
    direct, through, _ = [(answers[0], answers[-1]) for answers in first_searches]

    assert through == direct


@pytest.mark.cases(20)
@every_version()
def test_responses_and_effects(worlds, api_key, version):
    def responses_of(world: World) -> dict[str, Any]:
        world.begin(f"{api_key}v{version}")
        cases = CASES[api_key](world, version)
        world.create_existing()
        requests = {case: build(api_key, version, of, world.ids) for case, of in cases.items()}
        answers_by_case = {case: world.send(request) for case, request in requests.items()}
        if api_key == DESCRIBE_CONFIGS and world is worlds[1]:
            for case, request in requests.items():
                take_out_own_keys(request, answers_by_case[case])
        return answers_by_case

    with ThreadPoolExecutor() as both:
        answers = both.map(responses_of, worlds)

    assert differences(*answers) == {}
    for world in worlds:
        world.settle()
        if api_key == METADATA:
            wait_until(lambda world=world: world.has("unknown"), 60, what="automatic creation")
    with contextlib.suppress(AssertionError):  # the next assertion shows the missing keys
        wait_until(lambda: worlds[0].effects() == worlds[1].effects())
    assert worlds[1].effects() == worlds[0].effects()


def differences(direct: Mapping[str, Any], through: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cases that differ."""
    return {
        case: {"direct": direct[case], "through": through[case]}
        for case in direct
        if direct[case] != through[case]
    }


def take_out_own_keys(request: Any, answer: Any) -> None:
    """Remove Penstock's keys from the description of all configs of a topic."""
    for resource, result in zip(request.resources, answer["results"], strict=True):
        if resource.resource_type != TOPIC or resource.configuration_keys or result["error_code"]:
            continue
        names = {config["name"] for config in result["configs"]}
        assert names >= OWN_KEYS - {"errors.deadletterqueue.topic.name"}, "none has dead letters"
        result["configs"] = [
            config for config in result["configs"] if config["name"] not in OWN_KEYS
        ]


def test_responses_to_concurrent_requests_are_in_order(worlds):
    answers = []
    for world in worlds:
        world.begin("at-once")
        existing, fresh = world.existing(), world.fresh()
        world.create_existing()
        requests = [
            ApiVersionsRequest(),
            build(CREATE_TOPICS, 5, creation(new(fresh))),
            build(METADATA, 3, metadata_fields(existing)),
            build(INCREMENTAL_ALTER_CONFIGS, 1, alteration(changed(TOPIC, fresh, (RETENTION, SET, "7")))),
            build(ALTER_CONFIGS, 2, alteration(altered(TOPIC, fresh, {CLEANUP: "compact"}))),
            ApiVersionsRequest(),
            build(CREATE_PARTITIONS, 3, creation(more(fresh, 2), more("a b", 2))),
            build(DESCRIBE_CONFIGS, 4, description(described(TOPIC, existing, [RETENTION]))),
            build(FIND_COORDINATOR, 0, search(0, "key")),
            build(DELETE_TOPICS, 6, deletion(existing, "unknown")),
            ApiVersionsRequest(),
        ]  # fmt: skip
        with RawClient(world.address) as client:
            client.send(b"".join(map(client.frame, requests)))
            frames = [client.receive() for _ in requests]
        numbers = [struct.unpack_from(">i", frame, 4)[0] for frame in frames]
        assert numbers == list(range(1, len(requests) + 1))
        responses = [
            world.comparable(
                parse_response(frame, type(request).__api_key__, type(request).__version__)
            )
            for frame, request in zip(frames, requests, strict=True)
            if not isinstance(request, ApiVersionsRequest)  # narrowed on purpose
        ]
        answers.append({str(number): answer for number, answer in enumerate(responses)})

    assert differences(*answers) == {}


@pytest.mark.parametrize("api_key", CASES)
def test_client_names_and_unknown_tagged_fields(cluster, worlds, api_key):
    version = last_version(cluster, api_key)
    answers = []
    for world in worlds:
        world.begin(f"tagged-{api_key}")
        cases = CASES[api_key](world, version)
        world.create_existing()
        request = build(api_key, version, next(iter(cases.values())), world.ids)
        received = {}
        with RawClient(world.address) as client:
            for client_id in (None, "", "ü" * 1000):
                client.send(request_frame(request, 5, client_id))
                received[str(client_id)[:1]] = client.receive()
            client.send(with_tagged_field(request_frame(request, 5)))
            received["tagged"] = client.receive()
        answers.append(
            {
                case: world.comparable(parse_response(frame, api_key, version))
                for case, frame in received.items()
            }
        )
    if api_key == DESCRIBE_CONFIGS:
        for answer in answers[1].values():
            take_out_own_keys(request, answer)

    assert differences(*answers) == {}


def with_tagged_field(frame: bytes) -> bytes:
    """Add a tagged field to the end of a flexible request."""
    assert frame[-1] == 0
    body = frame[4:-1] + b"\x01\x63\x02\xca\xfe"
    return struct.pack(">i", len(body)) + body


@pytest.fixture(scope="module")
def worlds_with_key(cluster, through, first_searches) -> Iterator[list[World]]:
    """A key of Kafka in the first world, a key of Penstock in the second."""
    made = two_worlds(cluster, through, (KAFKAS_KEY, OWN_KEY))
    yield made
    for world in made:
        world.close()


@pytest.mark.kips("B49", "B50")
@every_version(*CASES_WITH_KEY)
def test_our_key_behaves_as_a_key_of_kafka(worlds_with_key, api_key, version):
    def responses_and_effects_of(world: World) -> tuple[dict[str, Any], dict[str, Any]]:
        world.begin(f"key-{api_key}v{version}")
        cases = CASES_WITH_KEY[api_key](world)
        world.create_existing()
        answers_by_case = {
            case: without_other_configs(world.send(build(api_key, version, of)))
            for case, of in cases.items()
        }
        world.settle()
        return answers_by_case, configs_of_topics(world)

    with ThreadPoolExecutor() as both:
        answers, effects = zip(*both.map(responses_and_effects_of, worlds_with_key), strict=True)

    assert differences(*answers) == {}
    assert differences(*effects) == {}


@pytest.mark.kips("B50")
def test_our_key_is_read_and_described_as_a_key_of_kafka(worlds_with_key):
    """Brokers read `TRUE` and ` true ` as true, and describe `true`."""
    configs = []
    for world in worlds_with_key:
        world.begin("spelling")
        for value in ("TRUE", " true ", "False"):
            world.existing(configs={world.key: value})
        world.create_existing()
        configs.append(configs_of_topics(world))

    assert differences(*configs) == {}


def test_an_unknown_operation_changes_nothing(worlds_with_key):
    """Brokers respond to it with UNKNOWN_SERVER_ERROR."""
    world = worlds_with_key[1]
    world.begin("operation")
    topic = world.existing(configs={OWN_KEY: "true"})
    world.create_existing()
    request = alteration(changed(TOPIC, topic, (OWN_KEY, 7, "false")))

    (result,) = world.send(build(INCREMENTAL_ALTER_CONFIGS, 1, request))["responses"]

    assert result["error_code"] != 0
    (configs,) = configs_of_topics(world).values()
    assert [config["value"] for config in configs["configs"] if config["name"] == "the key"] == [
        "true"
    ]


def without_other_configs(answer: Any) -> Any:
    """Keep only the configs that were set on new topics: others are not described for our keys."""
    for topic in answer.get("topics", ()):
        if topic.get("configs"):
            topic["configs"] = [
                config
                for config in sorted(topic["configs"], key=str)
                if config["name"] in {"the key", RETENTION}
                and config["config_source"] == SET_ON_TOPIC
            ]
    return answer


def configs_of_topics(world: World) -> dict[str, Any]:
    """Return the described configs of a batch's topics, by topic."""
    resources = [described(TOPIC, name, [RETENTION, world.key]) for name in world.topics()]
    answer = world.send(
        build(DESCRIBE_CONFIGS, 4, description(*resources, synonyms=True, documentation=True))
    )
    for topic in answer["results"]:
        topic["configs"].sort(key=lambda config: config["name"])
        for config in topic["configs"]:
            assert config.pop("documentation")
    return {topic["resource_name"]: topic for topic in answer["results"]}


@pytest.fixture(scope="module")
def wiretap(cluster, worlds) -> Iterator[Wiretap]:
    broker = cluster.nodes[0]
    with Wiretap((broker.host, broker.port)) as tap:
        yield tap


@pytest.fixture(scope="module")
def plain(start, wiretap) -> RunningGateway:
    """A gateway without policies and without settings of topics."""
    address = f"127.0.0.1:{wiretap.server_address[1]}"
    return start({"topic.settings.topic": ""}, upstream=address)


@pytest.mark.parametrize("api_key", CASES)
def test_without_policies_bytes_pass_unchanged_in_both_directions(cluster, plain, wiretap, api_key):
    broker, (host, port) = cluster.nodes[0], plain.host_port
    addresses = {(broker.host, broker.port), (host, port + 1)}
    world = World(plain.address, cluster.bootstrap_servers, addresses, "worldCC")
    sent, received, versions = [], [], []
    with RawClient(plain.address) as client:
        for version in {VERSIONS[api_key][0], last_version(cluster, api_key)}:
            world.begin(f"plain-{api_key}v{version}")
            for values in CASES[api_key](world, version).values():
                sent.append(client.frame(build(api_key, version, values)))
                client.send(sent[-1])
                received.append(client.receive())
                versions.append(version)
        # The gateway may have connected for itself since then.
        [answers] = [
            bytes(answers)
            for requests, answers in wiretap.connections
            if requests == b"".join(sent)
        ]

    world.close()

    if api_key not in {METADATA, FIND_COORDINATOR}:
        assert b"".join(received) == answers
        return
    for version, response, expected in zip(versions, received, split(answers), strict=True):
        assert world.comparable(parse_response(response, api_key, version)) == world.comparable(
            parse_response(expected, api_key, version)
        )
