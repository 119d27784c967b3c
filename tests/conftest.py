"""A real Kafka for the session, gateways in front of it, new topics."""

import contextlib
import itertools
import os
import random
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AclBinding, AclBindingFilter, AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic
from hypothesis import HealthCheck, settings

from penstock.kafka.artifacts import kafka_artifacts
from penstock.kafka.local import LocalKafka
from penstock.policy import sharing
from tests import class_archives
from tests.gateways import PENSTOCK, RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.reading import read_topic
from tests.java import QUICK
from tests.kafka.records.implementations import IMPLEMENTATIONS, use

pytest_plugins = [
    "tests.unit",
    "tests.order",
    "tests.cases",
    "tests.groups",
    "tests.limits",
    "tests.garbage",
    "tests.guard",
]
_counter = itertools.count()
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join((*QUICK, *class_archives.spark_options())))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Slow suites are the same tests with more records."""
    parser.addoption("--interop-records", type=int, default=15_000, dest="interop_records")
    parser.addoption("--kill-rounds", type=int, default=3, dest="kill_rounds")
    parser.addoption(
        "--chaos-rounds",
        type=int,
        default=0,
        dest="chaos_rounds",
        help="rounds with all that can happen; the default is a milder one",
    )
    parser.addoption("--fuzz-inputs", type=int, default=3_000, dest="fuzz_inputs")
    parser.addoption("--fuzz-seed", type=int, default=None, dest="fuzz_seed")
    parser.addoption("--parity-records", type=int, default=100_000, dest="parity_records")
    parser.addoption("--parity-seed", type=int, default=None, dest="parity_seed")
    parser.addoption("--suites-seed", type=int, default=None, dest="suites_seed")
    parser.addoption("--suites-minutes", type=float, default=1, dest="suites_minutes")
    parser.addoption("--kafka-version", default=None, dest="kafka_version")
    parser.addoption("--chaos-seed", type=int, default=None, dest="chaos_seed")
    parser.addoption("--chaos-gateways", type=int, default=2, dest="chaos_gateways")


def pytest_configure(config: pytest.Config) -> None:
    """End in order on SIGTERM: fixtures end what they started. No example has a deadline.

    `--kafka-version` names the version of all brokers (`make kafka-versions`).
    """
    if version := config.getoption("kafka_version"):
        LocalKafka.kafka = kafka_artifacts(version)
    LocalKafka.java_options = class_archives.kafka_options()
    # On a busy machine any example may take long.
    settings.register_profile(
        "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("untimed")

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs newer brokers than those of `--kafka-version`."""
    version = item.config.getoption("kafka_version")
    for marker in item.iter_markers("since"):
        (first,) = marker.args
        if version and _numbers(version) < _numbers(first):
            pytest.skip(f"needs brokers of Kafka {first}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.fixture(autouse=True)
def _nothing_shared_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove state of policies that other tests of this process have shared."""
    monkeypatch.setattr(sharing, "_values", sharing.SharedStore())


@pytest.fixture(autouse=True)
def _log_ends_with_its_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove the stream of a logger that a test has set up, for example by a command."""
    configure = structlog.configure
    without_cache = {"cache_logger_on_first_use": False}
    monkeypatch.setattr(structlog, "configure", lambda **given: configure(**given | without_cache))
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture
def chance(pytestconfig: pytest.Config) -> random.Random:
    """Return the source of random inputs; it prints the option that repeats them."""
    given = pytestconfig.getoption("fuzz_seed")
    seed = random.randrange(2**32) if given is None else given
    print(f"--fuzz-seed={seed}")
    return random.Random(seed)


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka]:
    """A single broker for all tests that do not stop it. It keeps records with old timestamps."""
    properties = {
        "auto.create.topics.enable": "false",
        # Retention looks for what is old after the first of these, and then again and again.
        "log.initial.task.delay.ms": "86400000",
        "log.retention.check.interval.ms": "86400000",
        # On a busy machine its heartbeats may wait for the processor: it is not dead for that.
        "broker.session.timeout.ms": "120000",
    }
    with LocalKafka(properties=properties) as running:
        yield running


@pytest.fixture(scope="session")
def admin(kafka: LocalKafka) -> AdminClient:
    """An admin client of the broker itself."""
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture(params=IMPLEMENTATIONS)
def record_batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The implementation with which this process reads record batches."""
    use(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture
def topic(admin: AdminClient) -> Callable[..., str]:
    """Creates topics on the broker itself."""

    def make(prefix: str = "t", partitions: int = 1, **config: str) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        create_topic(admin, name, partitions, config)
        return name

    return make


def create_topic(
    admin: AdminClient, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait for its leaders: a broker returns the topic slightly earlier."""
    new = NewTopic(name, partitions, config=dict(config or {}))
    admin.create_topics([new])[name].result(60)
    latest = {
        TopicPartition(name, partition): OffsetSpec.latest() for partition in range(partitions)
    }
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = admin.list_topics(name, timeout=30).topics[name]
        if found.error is None and len(found.partitions) == partitions:
            with contextlib.suppress(KafkaException):
                for offset in admin.list_offsets(latest).values():
                    offset.result(30)
                return
        time.sleep(0.02)
    raise AssertionError(f"topic {name} does not appear")


def delete_topic(admin: AdminClient, name: str) -> None:
    """Delete a topic and wait until the broker does not know it: its response is earlier."""
    admin.delete_topics([name])[name].result(60)
    wait_until(
        lambda: name not in admin.list_topics(timeout=30).topics, 60, what=f"the end of {name}"
    )


def create_acls(admin: AdminClient, *rules: AclBinding) -> None:
    """Create ACLs and wait until the broker has them: the controller's response is earlier."""
    for done in admin.create_acls(list(rules)).values():
        done.result(60)
    for rule in rules:
        same = AclBindingFilter(
            rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host,
            rule.operation, rule.permission_type,
        )  # fmt: skip
        wait_until(lambda same=same: admin.describe_acls(same).result(60), 60, what=f"{rule}")


@contextlib.contextmanager
def started_gateways(kafka: LocalKafka, folder: Path) -> Iterator[Callable[..., RunningGateway]]:
    """Return what starts gateways in front of the broker; end them.

    They share a state topic: other gateways are not notified when their interceptors change.
    """
    running: list[RunningGateway] = []
    state = {"produce.request.interceptors.state.topic": f"state-{uuid.uuid4().hex[:8]}"}

    def start(
        properties: Mapping[str, object] | None = None,
        policies: str = "",
        *,
        upstream: str = "",
        program: Sequence[str] = PENSTOCK,
        tls: bool = False,
    ) -> RunningGateway:
        own = folder / f"gateway-{next(_counter)}"
        own.mkdir()
        upstream = upstream or kafka.bootstrap_servers
        port = gateway_port()
        listener = {"listeners": f"SSL://127.0.0.1:{port}"} if tls else {}
        given = {**state, **listener, **(properties or {})}
        file = write_configuration(own, upstream, port, given, policies)
        started = RunningGateway(file, program)
        running.append(started)
        return started

    yield start
    for gateway in running:
        if gateway.process.poll() is None:
            gateway.stop()


@pytest.fixture
def gateway(kafka: LocalKafka, tmp_path: Path) -> Iterator[Callable[..., RunningGateway]]:
    """Starts gateways for a test."""
    with started_gateways(kafka, tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def shared_gateway(
    kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., RunningGateway]]:
    """Starts a gateway once for all tests of a module with the same properties.

    For tests that neither stop it nor read its log, its memory, or its workers.
    """
    with started_gateways(kafka, tmp_path_factory.mktemp("shared")) as start:
        found: dict[str, RunningGateway] = {}

        def get(properties: Mapping[str, object], policies: str = "") -> RunningGateway:
            key = repr((sorted(properties.items()), policies))
            if key not in found:
                found[key] = start(properties, policies)
            return found[key]

        yield get


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A classic Spark session."""
    from penstock.spark.session import start_session, stop_session
    from tests.spark_connector import connector_jars

    conf = {"spark.sql.shuffle.partitions": "2", "spark.jars": connector_jars()}
    session = start_session("tests", "local[2]", conf)
    yield session
    stop_session(session)


@pytest.fixture
def stored(kafka: LocalKafka) -> Callable[..., list]:
    """Reads the stored records of the broker: (partition, key, value, headers), in order."""
    return lambda topic, **options: read_topic(kafka.bootstrap_servers, topic, **options)
