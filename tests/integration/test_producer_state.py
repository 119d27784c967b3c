"""Sequence numbers of producers whose records are dropped, against a real broker."""

import asyncio
import json
import re
import signal
import uuid

import pytest
from confluent_kafka.cimpl import NewTopic

from penstock.configuration import read_configuration
from penstock.configuration.producer_state_keys import FORMER_FOLDER
from penstock.gateway.produce.producer_state.cluster import ClusterStore
from penstock.gateway.produce.producer_state.presence import Presence
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.cluster.compacted_topic_writer import RECORD_MAX_BYTES
from penstock.kafka.local import free_ports
from tests.conftest import create_topic, delete_topic
from tests.engine.topic_configs.admin_requests import TopicClient
from tests.faults import Proxy
from tests.gateway.produce.producer_state.former_file import write_former_file
from tests.gateways import RunningGateway, wait_until
from tests.integration.numbered_batches import INTERCEPTED, POLICIES, Batches
from tests.integration.reading import values_of
from tests.metrics import get, scrape
from tests.raw import RawClient
from tests.refusals import Rule


def test_a_gap_gets_the_error_of_a_broker(gateway, topic, kafka, stored):
    name, direct = topic(), topic()
    running = gateway(INTERCEPTED, POLICIES)
    for address, of in ((kafka.bootstrap_servers, direct), (running.address, name)):
        batches = Batches(of)
        assert batches.send(address, 0, b"a", b"b") == 0
        assert batches.send(address, 10, b"c") == 45
        assert batches.send(address, 2, b"d") == 0
    batches = Batches(name)
    assert batches.send(running.address, 0, b"e", b"drop", b"f") == 0
    assert batches.send(running.address, 10, b"drop") == 45
    assert batches.send(running.address, 3, b"drop") == 0
    assert batches.send(running.address, 4, b"g") == 0
    assert values_of(stored(name)) == [b"a", b"b", b"d", b"e", b"f", b"g"]


def switch_on(running: RunningGateway) -> None:
    """Load interceptors into the gateway while it runs."""
    with running.file.open("a") as file:
        file.write("produce.request.interceptors=policies.NoDrop\n")
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded")


@pytest.mark.cases(1)
@pytest.mark.parametrize("second", [[b"drop", b"b"], [b"drop", b"drop"]])
def test_batches_streamed_before_the_interceptors_may_be_retried(gateway, topic, stored, second):
    name = topic()
    running = gateway({}, POLICIES)
    batches = Batches(name)
    assert batches.send(running.address, 0, b"drop", b"a") == 0
    assert batches.send(running.address, 2, *second) == 0
    switch_on(running)

    assert batches.send(running.address, 0, b"drop", b"a") == 0
    assert batches.send(running.address, 2, *second) == 0
    assert batches.send(running.address, 4, b"drop", b"c") == 0
    assert batches.send(running.address, 6, b"d") == 0
    assert values_of(stored(name)) == [b"drop", b"a", *second, b"c", b"d"]


def test_a_producer_continues_in_a_topic_that_is_created_again(gateway, topic, admin, stored):
    name = topic()
    running = gateway(INTERCEPTED, POLICIES)
    batches = Batches(name)
    assert batches.send(running.address, 0, b"a", b"drop", b"b") == 0
    delete_topic(admin, name)
    create_topic(admin, name)

    assert batches.send(running.address, 3, b"drop", b"c") == 0
    assert batches.send(running.address, 5, b"drop") == 0
    assert batches.send(running.address, 6, b"d") == 0
    assert values_of(stored(name)) == [b"c", b"d"]


@pytest.fixture
def replicas(gateway):
    """Two gateways that share the state of producers."""
    shared = {
        **INTERCEPTED,
        "produce.request.interceptors.state.topic": f"state-{uuid.uuid4().hex[:8]}",
    }
    return [gateway(shared, POLICIES) for _ in range(2)]


@pytest.mark.slow
def test_a_producer_moves_between_replicas_with_every_batch(replicas, topic, stored):
    name = topic()
    batches = Batches(name)
    expected = []
    for number in range(40):
        records = [b"%d" % number, b"drop"] if number % 3 else [b"drop", b"drop"]
        expected += [] if number % 3 == 0 else [records[0]]
        for running in (replicas[number % 2], replicas[number // 2 % 2]):
            # The second time it is a retry of a batch that a gateway has stored.
            assert batches.send(running.address, 2 * number, *records) == 0
    assert values_of(stored(name)) == expected


@pytest.mark.slow
def test_a_producer_continues_at_a_replica_when_the_other_is_killed(replicas, topic, stored):
    name = topic()
    batches = [Batches(name) for _ in range(10)]
    first, other = replicas
    for number, of in enumerate(batches):
        assert of.send(first.address, 0, b"%d-a" % number, b"drop", b"%d-b" % number) == 0
    first.kill()
    for number, of in enumerate(batches):
        assert of.send(other.address, 0, b"%d-a" % number, b"drop", b"%d-b" % number) == 0
        assert of.send(other.address, 3, b"drop", b"%d-c" % number) == 0
        assert of.send(other.address, 5, b"%d-d" % number) == 0
    assert sorted(values_of(stored(name))) == sorted(
        b"%d-%s" % (number, letter) for number in range(10) for letter in (b"a", b"b", b"c", b"d")
    )


@pytest.mark.slow
def test_batches_on_two_replicas_at_once_keep_their_order(replicas, topic, stored):
    """The second batch arrives at the other replica before the first has its response."""
    name = topic()
    batches = Batches(name)
    # A broker that does not know the producer would take the second batch for the first.
    assert batches.send(replicas[0].address, 0, b"0", b"drop", b"drop", b"4", b"drop", b"drop") == 0
    with RawClient(replicas[0].address) as client, RawClient(replicas[1].address) as other:
        for first in range(6, 60, 6):
            client.send(client.frame(batches.request(first, b"%d" % first, b"drop", b"drop")))
            code = batches.send_on(other, first + 3, b"drop", b"%d" % (first + 4), b"drop")
            assert client.receive()
            if code:
                assert code in {7, 45}, (
                    "a broker returns these errors, too: the batch is out of order"
                )
                again = batches.send_on(other, first + 3, b"drop", b"%d" % (first + 4), b"drop")
                assert again == 0
    assert values_of(stored(name)) == [
        b"%d" % number for first in range(0, 60, 6) for number in (first, first + 4)
    ]


@pytest.mark.slow
def test_a_state_topic_that_cannot_be_used_is_reported_at_the_start(gateway, admin, topic):
    name = topic(**{"cleanup.policy": "delete"})
    properties = {
        **INTERCEPTED,
        "produce.request.interceptors.state.topic": name,
    }
    with pytest.raises(AssertionError) as raised:
        gateway(properties, POLICIES)
    assert "produce.request.interceptors.state.topic" in str(raised.value)
    assert "it must be compact,delete" in str(raised.value)
    admin.create_topics([NewTopic(f"{name}-2", 2, config={"cleanup.policy": "compact"})])[
        f"{name}-2"
    ].result(30)
    properties["produce.request.interceptors.state.topic"] = f"{name}-2"
    with pytest.raises(AssertionError, match="it must have one"):
        gateway(properties, POLICIES)


async def test_the_largest_record_of_a_producer_is_kept(kafka, tmp_path, topic):
    """It names each record that batches in flight lost, and may be larger than a batch may be."""
    key, of = "produce.request.interceptors.state.topic", ProducerKey("t", 0, 7)
    upstream = {"bootstrap.servers": kafka.bootstrap_servers}
    configuration = read_configuration(
        tmp_path / "gateway.properties",
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "upstream.bootstrap.servers": kafka.bootstrap_servers,
            key: f"{topic()}-state",
        },
    )
    presence = Presence("g")
    store, kept = ClusterStore(configuration, upstream, presence), asyncio.Queue()
    await store.start(30, lambda key, record, *_: kept.put_nowait((key, record)))
    try:
        future = asyncio.get_running_loop().create_future()
        record = b"x" * (RECORD_MAX_BYTES - 2**16)
        store.keep(of, record, future.set_result)
        assert await asyncio.wait_for(future, 30) is None
        assert await asyncio.wait_for(kept.get(), 30) == (of, record)
    finally:
        await store.close()


@pytest.mark.slow
def test_the_gateway_survives_a_fatal_error_of_the_state_writer(kafka, gateway, topic, stored):
    """A broker refuses a record of the state with 45: its producer continues."""
    name, state = topic(), f"state-{uuid.uuid4().hex[:8]}"
    port = free_ports(1)[0]
    with Proxy(kafka.bootstrap_servers) as proxy:
        running = gateway(
            {
                **INTERCEPTED,
                "metrics.listener": f"127.0.0.1:{port}",
                "produce.request.interceptors.state.topic": state,
            },
            POLICIES,
            upstream=proxy.address,
        )
        batches, code, failed = Batches(name), 0, 0
        with RawClient(running.address) as client:
            for number in range(60):
                if number == 20:
                    proxy.refuse(state.encode(), Rule(45)).open()
                for _ in range(20):
                    code = batches.send_on(client, 2 * number, b"%d" % number, b"drop")
                    failed += code != 0
                    if not code:
                        break
                    assert code == 7, "errors of the gateway are retriable"
                assert code == 0
        assert 1 <= failed <= 3
        assert values_of(stored(name)) == [b"%d" % number for number in range(60)]
        found = scrape(port)
        assert found("penstock_state_writes_total", state="producers", result="written") >= 60
        assert found("penstock_state_writes_total", state="producers", result="failed") >= 1
        assert get(port, "/readyz")[0] == 200


@pytest.mark.cases(1)
@pytest.mark.parametrize("record", [b"drop", b"none is dropped in the minutes after a start"])
def test_a_gateway_that_cannot_write_state_reports_it_until_it_can(kafka, gateway, topic, record):
    """Topics that need no state are served: the gateway stays ready."""
    name, state = topic(), f"state-{uuid.uuid4().hex[:8]}"
    port = free_ports(1)[0]
    with Proxy(kafka.bootstrap_servers) as proxy:
        running = gateway(
            {
                **INTERCEPTED,
                "metrics.listener": f"127.0.0.1:{port}",
                "produce.request.interceptors.state.topic": state,
            },
            POLICIES,
            upstream=proxy.address,
        )
        batches = Batches(name)
        assert batches.send(running.address, 0, b"a", b"drop") == 0
        refusals = [proxy.refuse(state.encode(), Rule(45)) for _ in range(4)]
        for refusal in refusals:
            refusal.open()
        assert batches.send(running.address, 2, b"b", record) == 7
        trouble = f"state cannot be written to {state}"
        wait_until(lambda: trouble in get(port, "/readyz")[1], what="the gateway to say it")
        status, text = get(port, "/readyz")
        assert (status, text.splitlines()[0]) == (200, "ready")
        wait_until(lambda: get(port, "/readyz") == (200, "ready\n"), what="state to be written")
        assert batches.send(running.address, 2, b"b", record) == 0


def own_topic():
    return {"produce.request.interceptors.state.topic": f"state-{uuid.uuid4().hex[:8]}"}


def test_gateways_share_the_state_of_producers_by_default(gateway, topic, stored):
    name, state = topic(), own_topic()
    first, other = (gateway({**INTERCEPTED, **state}, POLICIES) for _ in range(2))
    batches = Batches(name)
    for number in range(6):
        running = (first, other)[number % 2]
        assert batches.send(running.address, 2 * number, b"%d" % number, b"drop") == 0
    assert values_of(stored(name)) == [b"%d" % number for number in range(6)]


KEEPS_ALL = """
from penstock.policies import RedactJsonFields
class Redact(RedactJsonFields):
    topics = "."
    fields = ["card"]
    pass_invalid_json = True
"""


def test_interceptors_that_never_drop_need_no_state_topic(gateway, admin):
    state = own_topic()
    gateway({"produce.request.interceptors": "policies.Redact", **state}, KEEPS_ALL)
    assert set(state.values()).isdisjoint(admin.list_topics(timeout=30).topics)


def test_an_interceptor_that_drops_although_it_declares_that_it_never_does_fails(
    gateway, topic, stored
):
    name = topic()
    lying = POLICIES.replace(
        "class NoDrop(ProduceRequestInterceptor):",
        "class NoDrop(ProduceRequestInterceptor):\n    drops_records = False",
    )
    running = gateway(INTERCEPTED, lying)
    batches = Batches(name)
    assert batches.send(running.address, 0, b"a") == 0
    assert batches.send(running.address, 1, b"drop") == -1
    assert values_of(stored(name)) == [b"a"]


@pytest.mark.slow
def test_while_interceptors_change_every_batch_is_written(gateway, topic, stored):
    """Another gateway may have other interceptors, and be deciding about the same batch."""
    name, state = topic(), own_topic()
    running = gateway({**INTERCEPTED, **state}, POLICIES)
    switched = gateway(state, POLICIES)
    batches = Batches(name)
    for first, through in ((0, running), (2, switched), (4, running)):
        with RawClient(through.address) as client:
            assert batches.send_on(client, first, b"%d" % first) == 0
            assert batches.send_on(client, first + 1, b"%d" % (first + 1)) == 0
    [of_state] = state.values()
    written = [record for record in values_of(stored(of_state)) if b'"batches"' in record]
    assert [b'"fence":true' in record for record in written] == [True, False] * 3
    assert values_of(stored(name)) == [b"%d" % number for number in range(6)]


def create_state_topic(admin, name):
    """Let gateways open it when they start, although they lose no records."""
    create_topic(admin, name, config={"cleanup.policy": "compact,delete"})


VALIDATOR = """
from penstock.policy import *
class Validator(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("bad") if value == b"bad" else None
"""


@pytest.mark.slow
def test_only_topic_configs_that_decide_which_records_are_lost_have_batches_written(
    gateway, topic, admin, stored
):
    name, state = topic(), own_topic()
    [of_state] = state.values()
    create_state_topic(admin, of_state)
    running = gateway(
        {
            "record.validator.classes": "policies.Validator",
            "topic.settings.topic": f"{of_state}-settings",
            **state,
        },
        VALIDATOR,
    )
    batches = Batches(name)
    changes = [
        {"errors.deadletterqueue.topic.name": "${topic}.dead"},
        {"penstock.mode": "mark"},
        {"penstock.mode": "quarantine"},
    ]
    fenced = []
    for number, change in enumerate(changes):
        with TopicClient(running.address) as client:
            assert client.alter(name, change) == 0
        assert batches.send(running.address, number, b"good") == 0
        fenced.append(sum(b'"fence":true' in value for value in values_of(stored(of_state))))
    assert fenced == [0, 0, 1]


def test_a_start_is_a_change_for_topics_whose_configs_set_quarantine(gateway, topic, admin, stored):
    """Other policies than before the start may call other records bad."""
    quarantined, plain, state = topic(), topic(), own_topic()
    [of_state] = state.values()
    create_state_topic(admin, of_state)
    running = gateway(
        {
            "record.validator.classes": "policies.Validator",
            "topic.settings.topic": f"{of_state}-settings",
            **state,
        },
        VALIDATOR,
    )
    with TopicClient(running.address) as client:
        assert client.alter(quarantined, {"penstock.mode": "quarantine"}) == 0
        assert client.alter(plain, {"penstock.mode": "mark"}) == 0
    [announced] = {
        pattern
        for value in filter(None, values_of(stored(of_state)))
        for pattern in json.loads(value).get("change", ["", []])[1]
    }
    assert re.search(announced, quarantined), "to gateways that do not read the settings"

    running.restart()
    for name in (quarantined, plain):
        assert Batches(name).send(running.address, 0, b"good") == 0
    written = [*filter(None, values_of(stored(of_state)))]
    [announced] = {
        pattern for value in written for pattern in json.loads(value).get("change", ["", []])[1]
    }
    assert re.search(announced, quarantined)
    assert not re.search(announced, plain)
    assert sum(b'"fence":true' in value for value in written) == 1


def written_topics(stored, state: str) -> set[str]:
    """Return the topics about whose batches gateways have written."""
    keys = [key for _, key, *_ in stored(state)]
    return {ProducerKey.decode(key).topic for key in keys if key and not Presence.is_about(key)}


@pytest.mark.cases(1)
@pytest.mark.parametrize("change", ["start", "reload"])
def test_a_quarantine_of_some_topics_is_no_change_for_others(gateway, topic, stored, change):
    """At no gateway of the cluster, with policies or without."""
    quarantined, plain, state = topic(), topic(), own_topic()
    [of_state] = state.values()
    running = gateway(
        {
            "record.validator.classes": "policies.Validator",
            f"topics.{quarantined}*.penstock.mode": "quarantine",
            "topics.*.penstock.quarantine.max.ratio": "0.5",
            **state,
        },
        VALIDATOR,
    )
    beside = gateway(state, POLICIES)
    if change == "start":
        running.restart()
    else:
        running.file.with_name("policies.py").write_text(f"{VALIDATOR}# changed\n")
        running.process.send_signal(signal.SIGHUP)
        running.wait_for("reloaded")
    later = gateway(state, POLICIES)
    for through in (running, beside, later):
        for name in (quarantined, plain):
            assert Batches(name).send(through.address, 0, b"good") == 0
    assert written_topics(stored, of_state) == {quarantined}
    fences = [
        value for value in filter(None, values_of(stored(of_state))) if b'"fence":true' in value
    ]
    assert len(fences) == 3


def test_settings_of_a_topic_are_announced_to_gateways_that_do_not_read_them(
    gateway, topic, admin, stored
):
    altered, plain, state = topic(), topic(), own_topic()
    [of_state] = state.values()
    create_state_topic(admin, of_state)
    running = gateway(
        {
            "record.validator.classes": "policies.Validator",
            "topic.settings.topic": f"{of_state}-settings",
            **state,
        },
        VALIDATOR,
    )
    beside = gateway(state, POLICIES)
    with TopicClient(running.address) as client:
        assert client.alter(altered, {"penstock.mode": "quarantine"}) == 0

    def sends() -> set[str]:
        for name in (altered, plain):
            assert Batches(name).send(beside.address, 0, b"good") == 0
        return written_topics(stored, of_state)

    wait_until(sends, what="the other gateway to read it")
    assert sends() == {altered}


def test_state_in_a_file_of_an_earlier_version_is_taken_over(gateway, topic, kafka, admin, stored):
    name = topic()
    running = gateway({**INTERCEPTED, **own_topic()}, POLICIES)
    running.stop()
    batches = Batches(name)
    # As that version sent the first batch: a record between these was dropped.
    assert batches.send(kafka.bootstrap_servers, 0, b"a", b"b", b"c") == 0
    cluster = admin.list_topics(timeout=30).cluster_id
    file = running.file.parent / FORMER_FOLDER / f"producer-state-{cluster}.sqlite"
    write_former_file(file, batches.key)
    running.restart()
    assert batches.send(running.address, 4, b"d") == 0
    assert batches.send(running.address, 5, b"drop", b"e") == 0
    assert values_of(stored(name)) == [b"a", b"b", b"c", b"d", b"e"]


def test_state_of_interceptors_that_a_reload_adds_is_kept(gateway, topic, stored):
    name = topic()
    running = gateway(own_topic(), POLICIES)
    switch_on(running)
    batches = Batches(name)
    assert batches.send(running.address, 0, b"a", b"drop", b"b") == 0
    running.restart(kill=True)
    assert batches.send(running.address, 3, b"c") == 0
    assert values_of(stored(name)) == [b"a", b"b", b"c"]


@pytest.mark.slow
def test_state_is_kept_after_a_reload_that_adds_the_first_dropping_interceptor(
    gateway, topic, stored
):
    name = topic()
    kinds = POLICIES + (
        "class KeepsAll(NoDrop):\n"
        "    drops_records = False\n"
        "    def process_record(self, key, value, topic, partition, headers):\n"
        "        return ProduceRequestInterceptorResult(key, value)\n"
    )
    running = gateway({"produce.request.interceptors": "policies.KeepsAll", **own_topic()}, kinds)
    batches = Batches(name)
    assert batches.send(running.address, 0, b"drop 0") == 0
    text = running.file.read_text()
    running.file.write_text(text.replace("policies.KeepsAll", "policies.NoDrop"))
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded")
    assert batches.send(running.address, 1, b"a", b"drop", b"b") == 0
    running.restart(kill=True)
    assert batches.send(running.address, 4, b"c") == 0
    assert values_of(stored(name)) == [b"drop 0", b"a", b"b", b"c"]
