"""The same policy of topics twice: in Java inside a broker, in Python in the gateway (KIP-108).

`Rules.java` and `RULES` below decide the same. For any request, a client must not be able to
distinguish the two.
"""

import importlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.admin import AdminClient
from kio.static.primitive import i16, i32, i32Timedelta

from penstock.kafka.artifacts import java
from penstock.kafka.local import LocalKafka, class_path
from penstock.kafka.wire.schemas import load_request_schema
from tests.gateways import wait_until
from tests.raw import RawClient

pytestmark = pytest.mark.slow

RULES = """
from collections.abc import Mapping

from penstock.policy import CreateTopicPolicy, PolicyViolationException

WEEK_MS = 604_800_000


class Rules(CreateTopicPolicy):
    def configure(self, configs):
        self.prefix = configs["rules.prefix"]

    def validate(self, request):
        if not request.topic.startswith("__"):
            self.check_name(request.topic)
            check_placement(request)
            check_configs(request)

    def check_name(self, topic):
        if not topic.startswith(self.prefix):
            raise PolicyViolationException(f"“{topic}” does not begin with “{self.prefix}”")
        if topic.endswith("-null"):
            raise PolicyViolationException
        if topic.endswith("-empty"):
            raise PolicyViolationException("")
        if topic.endswith("-standard"):
            raise PolicyViolationException(
                "Request parameters do not satisfy the configured policy."
            )


def check_placement(request):
    if partitions(request) < 2:
        raise refusal("fewer than 2 partitions", request)
    if partitions(request) > 10:
        raise refusal("more than 10 partitions", request)
    if "critical" in request.topic and replicas(request) < 2:
        raise refusal("critical, and fewer than 2 replicas", request)


def check_configs(request):
    retention = request.configs.get("retention.ms")
    if retention is not None and partitions(request) > 5 and not 0 <= int(retention) <= WEEK_MS:
        raise refusal("kept for more than a week", request)
    if "compact" in request.topic and "cleanup.policy" not in request.configs:
        raise refusal("cleanup.policy is missing", request)
    if request.topic.endswith("-shown"):
        raise refusal("shown", request)


def partitions(request):
    assignments = request.replicas_assignments
    return request.num_partitions if assignments is None else len(assignments)


def replicas(request):
    assignments = request.replicas_assignments
    return request.replication_factor if assignments is None else min(map(len, assignments.values()))


def refusal(reason, request):
    return PolicyViolationException(
        f"{reason}: topic={request.topic}"
        f", partitions={as_java(request.num_partitions)}"
        f", replicas={as_java(request.replication_factor)}"
        f", assignments={as_java(request.replicas_assignments)}"
        f", configs={as_java(request.configs)}"
    )


def as_java(value):
    if value is None:
        return "null"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, Mapping):
        pairs = (f"{as_java(key)}={as_java(value[key])}" for key in sorted(value))
        return "{" + ", ".join(pairs) + "}"
    return "[" + ", ".join(map(as_java, value)) + "]"
"""

PREFIX = "shop-"
BROKERS = (0, 1)
SHARED = {
    # No request has 4 partitions: a policy gets them instead of -1.
    "num.partitions": "4",
    "default.replication.factor": "2",
    # On a busy machine no broker is taken for dead: topics could not be placed on it.
    "broker.session.timeout.ms": "60000",
    "auto.create.topics.enable": "false",
    "rules.prefix": PREFIX,
}

CREATE_TOPICS = 19
VERSIONS = range(2, 8)
SEED = 108
REQUESTS = 300
REQUESTS_BETWEEN_LISTINGS = 50
LEAST_REFUSALS = 150
LEAST_SUCCESSES = 100
CODES = {0, 17, 36, 37, 38, 39, 40, 42, 44}
# What the messages of the policy begin with, for one of each rule that has one.
REASONS = (
    "“other-",
    "Request parameters do not satisfy the configured policy.",
    "fewer than 2 partitions: ",
    "more than 10 partitions: ",
    "critical, and fewer than 2 replicas: ",
    "kept for more than a week: ",
    "cleanup.policy is missing: ",
    "shown: ",
)

LONGEST_NAME = f"{PREFIX}{'n' * (249 - len(PREFIX))}"
BAD_NAMES = ("", ".", "..", f"{PREFIX}a b", f"{PREFIX}ä", "other/x", f"{LONGEST_NAME}n")
COLLIDING_NAMES = ("shop-a.b", "shop-a_b", "shop-c.d_e", "shop-c_d.e", "other-a.b", "other-a_b")
SPECIAL_NAMES = (LONGEST_NAME, "__skipped", "__cluster_metadata", "other-topic", "other-shown")
WORDS = (*["orders"] * 5, "compact", "compact", "critical", "compact-critical")
ENDINGS = (*[""] * 10, *["-shown"] * 2, "-null", "-empty", "-standard")

PARTITION_COUNTS = (*[-1, 3, 6] * 5, 1, 12, 0, -2)
REPLICATION_FACTORS = (*[-1, 1, 2] * 5, 3, 0, -2)
GOOD_CONFIGS = (
    ("retention.ms", "1000"),
    ("retention.ms", "604800001"),
    ("retention.ms", " 604800000 "),
    ("retention.ms", "-1"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", ""),
    ("max.message.bytes", "2000"),
    ("min.insync.replicas", "1"),
)
BAD_CONFIGS = (
    ("retention.ms", "-2"),
    ("retention.ms", "soon"),
    ("retention.ms", None),
    ("cleanup.policy", "shred"),
    ("cleanup.policy", None),
    ("no.such.config", "1"),
    ("no.such.config", None),
)

Assignments = Sequence[tuple[int, Sequence[int]]]
Configs = Sequence[tuple[str, str | None]]


class CreateTopicsGenerator:
    """Generates CreateTopics requests of a version, with all kinds of valid and invalid topics."""

    def __init__(self, random: Random, version: int) -> None:
        self._random = random
        self._schema = load_request_schema(CREATE_TOPICS, version)
        self._module = importlib.import_module(self._schema.__module__)

    def request(self) -> Any:
        """Return a request for one to four topics, sometimes with a repeated topic."""
        topics = [self._topic(self._name()) for _ in range(self._random.randint(1, 4))]
        if self._happens(0.1):
            topics.append(self._topic(topics[0].name))
        return self._request(topics, validate_only=self._happens(0.6))

    def too_many_partitions(self) -> Any:
        """Return a request for too many partitions: a broker judges none of its topics."""
        names = (f"{PREFIX}many", f"{PREFIX}more", f"{PREFIX}twice", f"{PREFIX}twice", "", "other")
        return self._request(
            [self._creatable_topic(name, 6000) for name in names], validate_only=True
        )

    def nothing(self) -> Any:
        """Return a request for no topics."""
        return self._request([], validate_only=False)

    def _request(self, topics: Sequence[Any], *, validate_only: bool) -> Any:
        timeout = i32Timedelta.parse(timedelta(seconds=15))
        return self._schema(topics=tuple(topics), timeout=timeout, validate_only=validate_only)

    def _name(self) -> str:
        if self._happens(0.25):
            return self._random.choice(BAD_NAMES + COLLIDING_NAMES + SPECIAL_NAMES)
        word, ending = self._random.choice(WORDS), self._random.choice(ENDINGS)
        return f"{PREFIX}{word}-{self._random.randrange(40)}{ending}"

    def _topic(self, name: str) -> Any:
        if self._happens(0.3):
            assignments = self._assignments()
            counts = self._counts() if self._happens(0.2) else (-1, -1)
        else:
            assignments = []
            counts = self._counts()
        return self._creatable_topic(name, *counts, assignments, self._configs())

    def _counts(self) -> tuple[int, int]:
        return self._random.choice(PARTITION_COUNTS), self._random.choice(REPLICATION_FACTORS)

    def _configs(self) -> Configs:
        """Choose a few configs, some of them twice with other values."""
        configs = self._random.sample(GOOD_CONFIGS, self._random.choice((0, 0, 1, 2, 3)))
        if self._happens(0.15):
            configs += self._random.sample(BAD_CONFIGS, self._random.choice((1, 1, 2)))
        self._random.shuffle(configs)
        return configs

    def _assignments(self) -> Assignments:
        count, size = self._random.choice((1, 2, 2, 3, 3, 7, 7, 11)), self._random.randint(1, 2)
        assignments = [(index, self._random.sample(BROKERS, size)) for index in range(count)]
        if self._happens(0.3):
            assignments.append(self._random.choice(bad_assignments(count, size)))
        self._random.shuffle(assignments)
        return assignments

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def _creatable_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        assignments: Assignments = (),
        configs: Configs = (),
    ) -> Any:
        return self._module.CreatableTopic(
            name=name,
            num_partitions=i32(partitions),
            replication_factor=i16(replication_factor),
            assignments=tuple(
                self._module.CreatableReplicaAssignment(
                    partition_index=i32(partition), broker_ids=tuple(brokers)
                )
                for partition, brokers in assignments
            ),
            configs=tuple(
                self._module.CreatableTopicConfig(name=key, value=value) for key, value in configs
            ),
        )


def bad_assignments(count: int, size: int) -> Assignments:
    """Invalid assignments next to partitions 0 to `count`, of `size` replicas each."""
    replicas = BROKERS[:size]
    return [
        (count, [0, 0]),
        (count, [0, 7][-size:]),
        (count, []),
        (count, BROKERS[: 3 - size]),
        (count + 1, replicas),
        (-1, replicas),
        (0, replicas),
    ]


def generated_requests() -> Iterator[Any]:
    """Yield the same requests each time."""
    random = Random(SEED)
    generators = [CreateTopicsGenerator(random, version) for version in VERSIONS]
    for generator in generators:
        yield generator.nothing()
        yield generator.too_many_partitions()
    for _ in range(REQUESTS):
        yield random.choice(generators).request()


def verdicts(response: Any) -> list[Any]:
    """Return the results of topics in any order; of topic ids only whether they are set."""
    return sorted(map(_without_id, response.topics), key=repr)


def _without_id(topic: Any) -> Any:
    if getattr(topic, "topic_id", None) is None:
        return topic
    return replace(topic, topic_id=UUID(int=1))


def created(request: Any, found: Sequence[Any]) -> set[str]:
    """Return the topics that exist now because of a request."""
    return (
        set() if request.validate_only else {topic.name for topic in found if topic.error_code == 0}
    )


def listed(admin: AdminClient, least: set[str]) -> dict[str, list[int]]:
    """Return a cluster's topics with their replica counts, once they include these topics."""
    topics: dict[str, list[int]] = {}

    def complete() -> bool:
        topics.clear()
        for name, topic in admin.list_topics(timeout=60).topics.items():
            topics[name] = [len(partition.replicas) for partition in topic.partitions.values()]
        return topics.keys() >= least

    wait_until(complete, what="topics")
    return topics


def assert_same_topics(expected: set[str], judging: AdminClient, plain: AdminClient) -> None:
    """Assert that both clusters have only these topics, with the same sizes."""
    topics = listed(judging, expected)
    assert topics == listed(plain, expected)
    assert topics.keys() == expected


def assert_everything_occurred(seen: Sequence[Any]) -> None:
    """Assert that requests reached every response of the broker, and every rule of the policy."""
    assert {topic.error_code for topic in seen} == CODES
    assert sum(topic.error_code == 0 for topic in seen) >= LEAST_SUCCESSES
    messages = [topic.error_message for topic in seen if topic.error_code == 44]
    assert len(messages) >= LEAST_REFUSALS
    assert {None, ""} < set(messages)
    for reason in REASONS:
        assert any((message or "").startswith(reason) for message in messages), reason


@pytest.fixture(scope="session")
def rules_classes(tmp_path_factory) -> Path:
    """Rules.java, compiled."""
    classes = tmp_path_factory.mktemp("rules-classes")
    compiler = shutil.which("javac") or str(Path(java()).parent / "javac")
    source = Path(__file__).with_name("Rules.java")
    subprocess.run(
        [compiler, "-encoding", "UTF-8", "-Xlint:all", "-Werror", "-cp", class_path(),
         "-d", str(classes), str(source)],
        check=True,
        timeout=300,
    )  # fmt: skip
    return classes


@pytest.fixture(scope="module")
def judging_kafka(rules_classes) -> Iterator[LocalKafka]:
    """Brokers that have the policy in Java."""
    properties = {**SHARED, "create.topic.policy.class.name": "Rules"}
    with LocalKafka(
        nodes=len(BROKERS), properties=properties, class_path=[rules_classes]
    ) as running:
        yield running


@pytest.fixture(scope="module")
def plain_kafka() -> Iterator[LocalKafka]:
    """The same brokers, without a policy."""
    with LocalKafka(nodes=len(BROKERS), properties=SHARED) as running:
        yield running


def address_of(kafka: LocalKafka) -> str:
    """Return the address of its first broker."""
    return kafka.bootstrap_servers.split(",")[0]


def admin_of(kafka: LocalKafka) -> AdminClient:
    """Return a client of a cluster, once all its brokers may get replicas."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    wait_until(lambda: len(admin.list_topics(timeout=60).brokers) == len(BROKERS), what="brokers")
    return admin


def test_verdicts_of_the_gateway_equal_verdicts_of_brokers(judging_kafka, plain_kafka, gateway):
    properties = {
        "create.topic.policy.class.name": "policies.Rules",
        "rules.prefix": PREFIX,
    }
    running = gateway(properties, RULES, upstream=plain_kafka.bootstrap_servers)
    judging, plain = admin_of(judging_kafka), admin_of(plain_kafka)
    existing: set[str] = set()
    seen: list[Any] = []

    with (
        RawClient(address_of(judging_kafka)) as broker,
        RawClient(running.address) as penstock,
    ):
        for number, request in enumerate(generated_requests(), 1):
            expected = verdicts(broker.call(request))
            assert verdicts(penstock.call(request)) == expected, request
            existing |= created(request, expected)
            seen += expected
            if number % REQUESTS_BETWEEN_LISTINGS == 0:
                assert_same_topics(existing, judging, plain)

    assert_same_topics(existing, judging, plain)
    assert_everything_occurred(seen)
