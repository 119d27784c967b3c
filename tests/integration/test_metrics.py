"""Metrics and readiness of a gateway at work: they exist, and their values are correct."""

import gzip
import json
import os
import signal
import socket
import subprocess
import urllib.request
import uuid
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)

from penstock.kafka.local import LocalKafka, free_ports
from tests.conftest import create_topic
from tests.gateways import (
    PENSTOCK,
    run_penstock,
    wait_until,
    wait_until_settled,
    write_configuration,
)
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import get, scrape
from tests.raw import RawClient, produce_request

POLICIES = """
import os, time
from pathlib import Path
from penstock.policy import *

if Path(__file__).with_name("broken").exists():
    raise ValueError("broken")

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"die":
            os._exit(9)
        while value == b"hang":
            time.sleep(1)
        if value == b"slow":
            time.sleep(0.3)
        while value == b"held" and not Path(__file__).with_name("released").exists():
            time.sleep(0.01)
        if value == b"fail":
            raise ZeroDivisionError
        if value == b"later":
            raise RetriableException("not now")
        return InvalidRecordException("no") if value == b"bad" else None

class Drop(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "^dropping"
    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop":
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)

class Small(CreateTopicPolicy):
    def validate(self, request):
        if request.num_partitions > 2:
            raise PolicyViolationException("too many")

class Headers(RecordValidationPolicy):
    def validate(self, topic, record):
        pass
"""
CHECK = {"record.validator.classes": "policies.Check"}


@pytest.fixture
def observed(gateway):
    """Starts gateways with metrics; returns them with the port."""

    def start(properties, policies=POLICIES, **options):
        port = free_ports(1)[0]
        return gateway({"metrics.listener": f":{port}", **properties}, policies, **options), port

    return start


def produce(address, topic, *batches):
    """Send a request for each batch; return the code of each."""
    with RawClient(address) as client:
        found = []
        for batch in batches:
            response = client.call(produce_request([(topic, [(0, encode_batch(values(*batch)))])]))
            (partition_response,) = response.responses[0].partition_responses
            found.append(int(partition_response.error_code))
    return found


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.5", "text/plain"),
        ("application/openmetrics-text;q=0.9,text/plain;q=0.5", "application/openmetrics-text"),
    ],
)
def test_a_client_gets_the_format_that_it_prefers(observed, accept, content_type):
    _, port = observed(CHECK)
    for method in ("GET", "HEAD"):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            assert response.headers["Content-Type"].startswith(f"{content_type}; version=")
            assert int(response.headers["Content-Length"]) > 0
            assert bool(response.read()) == (method == "GET")


def test_formats_compression_and_process_metrics(observed, topic):
    running, port = observed(CHECK)
    name = topic()
    produce(running.broker_address(), name, [b"a"])
    prometheus = {
        "Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
        "Accept-Encoding": "gzip",
    }
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=prometheus)
    with urllib.request.urlopen(request, timeout=60) as response:
        headers, body = response.headers, gzip.decompress(response.read())
    families = {family.name: family for family in openmetrics_families(body.decode())}

    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert headers["Content-Encoding"] == "gzip"
    records = {
        (sample.labels["topic"], sample.labels["outcome"]): sample.value
        for sample in families["penstock_records"].samples
    }
    assert records[name, "accepted"] == 1
    wait_until_settled(lambda: scrape(port)("process_open_fds"))  # the first client has left
    before = scrape(port)
    with RawClient(running.broker_address()), RawClient(running.broker_address()):
        wait_until(
            lambda: scrape(port)("process_open_fds") >= before("process_open_fds") + 2,
            what="two clients",
        )
    assert 0 < before("process_open_fds") < before("process_max_fds")
    assert before("penstock_workers_resident_memory_bytes") > 2**20
    assert before("penstock_workers_cpu_seconds_total") > 0
    assert 0 <= before("penstock_event_loop_lag_seconds") < 60


def test_counts_of_policies(observed, topic):
    running, port = observed({"record.validator.classes": "policies.Counts"}, """
from penstock.policy import *
class Counts(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        count_event("value", value.decode(), len(value))
""")  # fmt: skip
    name = topic()
    assert produce(running.broker_address(), name, [b"a"] * 5, [b"bc"], [b"a"]) == [0, 0, 0]

    assert scrape(port).of("penstock_policy_events_total") == {
        ("value", "a"): 6,
        ("value", "bc"): 2,
    }


def test_requests_records_and_times(observed, topic):
    running, port = observed(CHECK)
    name = topic()
    before = scrape(port)
    codes = produce(running.broker_address(), name, [b"a"] * 5, [b"slow"], [b"a", b"bad", b"a"],
                    [b"fail"], [b"later"])  # fmt: skip

    assert codes == [0, 0, 87, -1, 7]
    found = scrape(port)
    assert found.of("penstock_records_total") == {
        (name, "policies.Check", "accepted"): 6,
        (name, "policies.Check", "refused"): 3,
        (name, "policies.Check", "failed"): 1,
        (name, "policies.Check", "postponed"): 1,
    }
    requests = found.of("penstock_requests_total")
    assert {code: count for (api, code), count in requests.items() if api == "Produce"} == {
        "0": 2, "87": 1, "-1": 1, "7": 1,
    }  # fmt: skip
    assert found("penstock_request_seconds_count", api="Produce") == 5
    assert found("penstock_request_seconds_sum", api="Produce") > 0.3
    assert found("penstock_broker_seconds_count", api="Produce") == 2
    judged = {"policy": "policies.Check"}
    assert found("penstock_judging_seconds_count", **judged) == 5
    assert found("penstock_waiting_seconds_count", **judged) == 5
    assert found("penstock_judging_seconds_sum", **judged) > 0.3
    assert found("penstock_judging_seconds_bucket", **judged, le="0.25") < 5
    for side in ("client", "broker"):
        moved = found("penstock_received_bytes_total", side=side)
        assert moved > before("penstock_received_bytes_total", side=side)


def test_gauges(observed, topic):
    running, port = observed({**CHECK, "policy.workers": 2, "max.connections": 77,
                              "policy.timeout.ms": 120_000,
                              "queued.max.request.bytes": 10_000_000})  # fmt: skip
    name = topic(partitions=1)

    found = scrape(port)
    assert found("penstock_connections", state="open") == 0
    assert found("penstock_workers", state="ready") == 2
    assert found("penstock_batches", state="sent") == 0
    assert found("penstock_connections_limit") == 77
    assert found("penstock_held_bytes_limit") == 10_000_000
    assert found("penstock_held_bytes") == 0
    assert found("penstock_workers_limit") == 5
    assert found("penstock_build_info", **found.families["penstock_build_info"].samples[0].labels)

    with RawClient(running.broker_address()) as client:
        frame = client.frame(produce_request([(name, [(0, encode_batch(values(b"held")))])]))
        held = encode_batch(values(b"x" * 100_000))
        client.send(frame)
        client.send(client.frame(produce_request([(name, [(0, held)])])))
        wait_until(lambda: scrape(port)("penstock_held_bytes") > 100_000, what="held bytes")
        assert scrape(port)("penstock_connections", state="open") == 1
        running.file.with_name("released").touch()
        client.receive()
        client.receive()
    wait_until(lambda: scrape(port)("penstock_held_bytes") == 0, what="no held bytes")
    wait_until(
        lambda: scrape(port)("penstock_connections", state="open") == 0, what="no connection"
    )


def test_dropped_records_and_changed_sequence_numbers(observed, admin):
    name = f"dropping-{uuid.uuid4().hex[:8]}"
    create_topic(admin, name)
    running, port = observed({"produce.request.interceptors": "policies.Drop"})
    producer = Producer({"bootstrap.servers": running.address, "enable.idempotence": True})
    for value in (b"a", b"drop", b"b", b"c"):
        producer.produce(name, value)
        assert producer.flush(60) == 0

    found = scrape(port)
    assert found.of("penstock_records_total") == {
        (name, "policies.Drop", "accepted"): 3,
        (name, "policies.Drop", "dropped"): 1,
    }
    assert found("penstock_sequence_translations_total") == 2
    assert found("penstock_producers") == 1


def test_workers_that_end_are_counted_by_cause(observed, topic):
    running, port = observed({**CHECK, "policy.timeout.ms": 2000})
    codes = produce(running.broker_address(), topic(), [b"die"], [b"hang"])
    assert codes == [-1, -1]

    def ends():
        return {cause: count for (cause,), count in
                scrape(port).of("penstock_worker_restarts_total").items() if count}  # fmt: skip

    wait_until(lambda: len(ends()) == 2, what="two causes")
    assert ends() == {"crashed": 1, "deadline": 1}
    found = scrape(port)
    assert found("penstock_judging_seconds_count", policy="policies.Check") == 2
    assert found("penstock_judging_seconds_sum", policy="policies.Check") > 1.9


def test_topics_and_their_settings(observed):
    running, port = observed({
        "create.topic.policy.class.name": "policies.Small",
        "record.validation.policy.class.name": "policies.Headers",
        "topic.settings.topic": f"settings-{uuid.uuid4().hex[:8]}",
    })  # fmt: skip
    before = scrape(port)("penstock_settings_generation")
    admin = AdminClient({"bootstrap.servers": running.address})
    small, large = (f"t-{uuid.uuid4().hex[:8]}" for _ in range(2))
    create_topic(admin, small)
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic(large, 3)])[large].result(60)
    entry = ConfigEntry("record.validation.policy", "x",
                        incremental_operation=AlterConfigOpType.SET)  # fmt: skip
    resource = ConfigResource(ResourceType.TOPIC, small, incremental_configs=[entry])
    next(iter(admin.incremental_alter_configs([resource]).values())).result(60)

    found = scrape(port)
    assert found.of("penstock_topic_verdicts_total") == {
        ("policies.Small", "accepted"): 1,
        ("policies.Small", "refused"): 1,
    }
    assert found("penstock_settings_generation") > before
    wait_until(lambda: get(port, "/readyz") == (200, "ready\n"), what="ready")


def test_the_plan_of_each_topic(observed, admin):
    names = [f"planned-{uuid.uuid4()}" for _ in range(2)]
    for name in names:
        create_topic(admin, name)
    running, port = observed({**CHECK, "topic.settings.topic": f"settings-{uuid.uuid4()}"})

    def plans():
        return dict(scrape(port).of("penstock_plan_info").keys())

    wait_until(lambda: set(names) <= plans().keys(), what="plans")
    first = plans()[names[0]]
    assert plans()[names[1]] == first
    assert f"  plan {first}\n" in run_penstock("check", running.file).stdout
    state = json.loads(get(port, "/api/state")[1])
    assert {"topic": names[0], "plan": first} in state["plans"]
    policies = running.file.with_name("policies.py")
    policies.write_text(policies.read_text() + "# changed")
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: plans()[names[0]] != first, what="another plan")
    second = plans()[names[0]]
    assert f"  plan {second}\n" in run_penstock("check", running.file).stdout
    own = ConfigEntry("penstock.mode", "observe", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, names[0], incremental_configs=[own])
    client = AdminClient({"bootstrap.servers": running.address})
    client.incremental_alter_configs([resource])[resource].result(60)
    wait_until(lambda: plans()[names[0]] not in {first, second}, what="the topic's own plan")
    assert plans()[names[1]] == second
    assert list(scrape(port).of("penstock_plan_info").values()) == [1.0] * len(plans())


def test_reloads_by_result(observed):
    running, port = observed(CHECK)

    def reload(event):
        running.process.send_signal(signal.SIGHUP)
        running.wait_for(event)
        return scrape(port).of("penstock_reload_total")

    assert reload("reloaded") == {("ok",): 1, ("failed",): 0}
    running.file.write_text(running.file.read_text() + "policy.workers=none\n")
    assert reload("not reloaded, the old policies stay in force") == {("ok",): 1, ("failed",): 1}


@pytest.mark.slow
def test_a_thousand_series_and_no_more(observed):
    running, port = observed(CHECK)
    batch = encode_batch(values(b"a"))
    with RawClient(running.broker_address()) as client:
        for start in range(0, 1200, 200):
            topics = [(f"none-{number}", [(0, batch)]) for number in range(start, start + 200)]
            client.call(produce_request(topics))

    found = scrape(port)
    records = found.of("penstock_records_total")
    assert len(records) == 1001
    assert sum(records.values()) == 1200
    assert records["(other)", "(other)", "accepted"] == 200
    assert found("penstock_series_over_bound_total", metric="penstock_records_total") == 200
    running.wait_for("a metric has too many series: others are counted together")


@pytest.mark.slow
def test_without_a_broker_the_gateway_is_alive_and_not_ready(observed):
    with LocalKafka() as own:
        _, port = observed({}, upstream=own.bootstrap_servers)
        wait_until(lambda: get(port, "/readyz") == (200, "ready\n"), what="ready")
        assert scrape(port).of("penstock_broker_reachable") == {("0",): 1}

    wait_until(lambda: get(port, "/readyz")[0] == 503, what="not ready")
    text = get(port, "/readyz")[1]
    assert text.startswith("not ready\nbroker 0 at 127.0.0.1:")
    assert "cannot be reached" in text
    assert get(port, "/livez") == (200, "alive\n")
    found = scrape(port)
    assert found.of("penstock_broker_reachable") == {("0",): 0}
    assert found("penstock_ready") == 0


def test_a_gateway_that_has_a_port_for_no_broker_is_not_ready(observed):
    _, port = observed({"broker.ids.first": 5})
    wait_until(lambda: "its node id has no port" in get(port, "/readyz")[1], what="not ready")
    status, text = get(port, "/readyz")
    assert (status, text.splitlines()[0]) == (503, "not ready")
    assert scrape(port).of("penstock_broker_reachable") == {("0",): 1}  # by the gateway


def test_without_policies_the_gateway_is_not_ready_and_logs_when_it_is_again(observed):
    running, port = observed({**CHECK, "policy.workers": 1})
    broken = running.file.with_name("broken")
    broken.touch()

    def kill():
        for pid in running.workers():
            os.kill(pid, signal.SIGKILL)

    kill()
    wait_until(lambda: get(port, "/readyz")[0] == 503, what="not ready")
    wait_until(lambda: "cannot be loaded in a new process" in get(port, "/readyz")[1], what="words")
    assert "policies: no worker has them" in get(port, "/readyz")[1]
    ends = scrape(port).of("penstock_worker_restarts_total")
    assert ends["crashed",] == 1
    assert ends["not_loaded",] >= 1

    broken.unlink()
    wait_until(lambda: get(port, "/readyz")[0] == 200, 120, what="ready again")


@pytest.mark.slow
def test_the_gateway_is_not_ready_during_the_start(tmp_path):
    """It responds while it starts, without its cluster."""
    port, nowhere = free_ports(2)
    listening = socket.create_server(("127.0.0.1", nowhere))  # accepts, and never answers
    file = write_configuration(
        tmp_path, f"127.0.0.1:{nowhere}", 0, {"metrics.listener": f":{port}"}
    )
    process = subprocess.Popen([*PENSTOCK, "gateway", str(file)], stderr=subprocess.DEVNULL)
    try:
        text = ""

        def responds():
            nonlocal text
            try:
                status, text = get(port, "/readyz")
            except OSError:
                return False
            return status == 503 and "policies" not in text

        wait_until(responds, what="an answer")
        assert "brokers: none has been reached yet" in text
        assert get(port, "/livez") == (200, "alive\n")
    finally:
        process.terminate()
        process.wait(60)
        listening.close()


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("command", "address", "message"),
    [
        ("gateway", "taken", "metrics.listener: cannot listen on 127.0.0.1:{taken}: "),
        ("gateway", "192.0.2.1:0", "metrics.listener: cannot listen on 192.0.2.1:0: "),
        ("check", "192.0.2.1:9100", "metrics.listener: cannot listen on 192.0.2.1:0: "),
        (
            "check",
            "0.0.0.0:9100",
            "is not a loopback address, so metrics.listener.token is required",
        ),
        (
            "gateway",
            "0.0.0.0:0",
            "is not a loopback address, so metrics.listener.token is required",
        ),
        ("check", "nonsense", "metrics.listener must be host:port, or :port for 127.0.0.1"),
        ("check", ":9192", "metrics.listener: port 9192 is used by listeners"),
        ("check", ":9195", "metrics.listener: port 9195 is used by listeners"),
    ],
)
def test_an_invalid_address_is_reported_at_the_start(tmp_path, command, address, message):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        properties = {
            "metrics.listener": f":{taken}" if address == "taken" else address,
            "broker.ports": "9193-9199",
        }
        file = write_configuration(tmp_path, "127.0.0.1:1", 9192, properties)
        done = run_penstock(command, file)

    assert done.returncode == (3 if address == "taken" else 2)
    assert message.format(taken=taken) in done.stderr
    assert str(file) in done.stderr


def test_check_works_next_to_a_running_gateway(observed):
    running, _ = observed(CHECK)
    done = run_penstock("check", running.file)
    assert done.returncode == 0, done.stderr


def test_without_the_key_there_is_no_listener(gateway):
    running = gateway(CHECK, POLICIES)
    assert not running.events("metrics")
    assert Path(running.file).exists()
