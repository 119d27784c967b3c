"""The console of a gateway at work, as its page reads it."""

import contextlib
import http.client
import json
import signal
import socket
import threading
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from penstock.gateway.observing.console.recent_refusals import ROWS_MAX
from penstock.gateway.observing.console.subscribers import SUBSCRIBERS_MAX
from penstock.kafka.local import free_ports
from tests.gateways import wait_until
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import get
from tests.raw import RawClient, produce_request

POLICIES = """
from pathlib import Path
from penstock.policy import *

if Path(__file__).with_name("broken").exists():
    raise ValueError("broken")

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException(f"no: {value.decode()}") if value.startswith(b"bad") else None
"""
CHECK = {"record.validator.classes": "policies.Check"}


@pytest.fixture
def watched(gateway):
    """Starts gateways with a console; returns them with its port."""

    def start(properties=None, **options):
        port = free_ports(1)[0]
        named = {**CHECK, "metrics.listener": f":{port}", **(properties or {})}
        return gateway(named, POLICIES, **options), port

    return start


@pytest.fixture(scope="module")
def port(shared_gateway):
    """The port of the console of a gateway to which nothing is produced."""
    number = free_ports(1)[0]
    shared_gateway({**CHECK, "metrics.listener": f":{number}"}, POLICIES)
    return number


def produce(running, topic, *batches):
    with RawClient(running.broker_address()) as client:
        for batch in batches:
            client.call(produce_request([(topic, [(0, encode_batch(values(*batch)))])]))


def read(port, path):
    status, text = get(port, path)
    assert status == 200, text
    return json.loads(text)


class Events:
    """Subscribes as a browser does."""

    def __init__(self, port, headers=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.connection.request("GET", "/api/events", headers=headers or {})
        self.response = self.connection.getresponse()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.response.close()
        self.connection.close()

    def __iter__(self):
        name = ""
        for line in self.response:
            if line.startswith(b"event: "):
                name = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                yield name, json.loads(line[6:])

    def wait_for(self, name, condition=lambda _: True):
        return next(data for event, data in self if event == name and condition(data))


def test_a_refusal_is_sent_to_every_console(watched, topic):
    running, port = watched()
    name = topic()
    with Events(port) as early:
        assert early.response.getheader("Content-Type") == "text/event-stream"
        assert early.wait_for("state")["refusals"]["rows"] == []
        produce(running, name, [b"a", b"bad 1"], [b"bad 1", b"a"], [b"a"])
        both = early.wait_for("refusals", lambda message: message["rows"][0]["count"] == 2)
        figures = early.wait_for(
            "figures",
            lambda message: (
                message["totals"].get("refused") == 4
                and message["totals"].get("accepted") == 1
                and message["rates"]["records"].get("refused")
            ),
        )

    (row,) = both["rows"]
    assert (row["topic"], row["policy"], row["code"]) == (name, "policies.Check", 87)
    assert (row["message"], row["partition"], row["records"]) == ("no: bad 1", 0, 4)
    assert row["address"] == "127.0.0.1"
    assert figures["totals"]["accepted"] == 1
    assert figures["rates"]["records"]["refused"] > 0
    assert figures["workers"]["states"]["ready"] >= 1
    with Events(port) as late:
        state = late.wait_for("state")
    assert [row["count"] for row in state["refusals"]["rows"]] == [2]
    assert state["topics"] == [{"topic": name, "records": {"accepted": 1, "refused": 4}}]
    assert [broker["reachable"] for broker in state["brokers"]] == [True]


@pytest.mark.parametrize("mode", ["quarantine", "mark"])
def test_stored_bad_records_are_shown_with_topic_and_offset(watched, topic, mode):
    running, port = watched({
        "penstock.mode": mode, "errors.deadletterqueue.topic.replication.factor": 1,
        "errors.deadletterqueue.topic.name": "${topic}.bad",
    })  # fmt: skip
    name = topic()
    with Events(port) as events:
        produce(running, name, (b"good", b"bad 1", b"bad 1"))
        (row,) = events.wait_for("refusals", lambda message: message["rows"])["rows"]
    assert (row["outcome"], row["policy"], row["code"], row["message"], row["records"]) == (
        {"quarantine": "quarantined", "mark": "marked"}[mode], "policies.Check", 87, "no: bad 1", 2,
    )  # fmt: skip
    assert row["dead_letter_topic"] == (f"{name}.bad" if mode == "quarantine" else None)


@pytest.mark.slow
def test_a_point_of_the_chart_is_sent(watched, topic):
    running, port = watched()
    name = topic()
    with Events(port) as events:
        produce(running, name, [b"a"] * 50)
        for event, point in events:
            if event == "point":
                if point["records"].get("accepted") and point["produce"]["p50"]:
                    break
                produce(running, name, [b"a"] * 50)  # it ended between the two counts
    assert point["records"]["accepted"] > 0
    assert point["produce"]["p50"] > 0
    assert point["judging"]["p99"] is not None
    assert read(port, "/api/state")["history"]["points"][-1]["at"] >= point["at"]


def test_plans_with_settings_of_topics(watched, topic):
    running, port = watched({
        "record.validation.policy.class.name": "penstock.policies.JsonSchema",
        "topics.pii-*.penstock.mode": "observe",
    })  # fmt: skip
    plain, pii = topic(), topic("pii")
    from confluent_kafka.admin import AdminClient

    entry = ConfigEntry("penstock.mode", "observe", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, plain, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": running.address})
    next(iter(admin.incremental_alter_configs([resource]).values())).result(60)

    def plans():
        return {plan["topic"]: plan for plan in read(port, "/api/topics")["topics"]}

    wait_until(lambda: plans().get(plain, {}).get("observed"), what="the setting")
    found = plans()
    assert found[plain]["settings"] == [
        {"key": "penstock.mode", "value": "observe", "from": "topic", "line": ""}
    ]
    assert found[pii]["settings"] == [
        {"key": "penstock.mode", "value": "observe", "from": "pattern",
         "line": "topics.pii-*.penstock.mode"}
    ]  # fmt: skip
    assert [policy["class"] for policy in found[plain]["policies"]] == ["policies.Check"]


def test_a_reload_while_a_console_is_open(watched, topic):
    running, port = watched()
    name = topic()
    with Events(port) as events:
        running.process.send_signal(signal.SIGHUP)
        assert events.wait_for("reload")["worked"]
        running.file.with_name("broken").touch()
        running.process.send_signal(signal.SIGHUP)
        failed = events.wait_for("reload")
        produce(running, name, [b"bad 1"])
        assert events.wait_for("refusals")["rows"][0]["message"] == "no: bad 1"
    assert not failed["worked"]
    assert "broken" in failed["why_not"]
    assert read(port, "/api/state")["reload"] == failed


def test_the_gateway_ends_while_the_most_consoles_are_open(watched, topic):
    running, port = watched()
    with contextlib.ExitStack() as stack:
        for _ in range(SUBSCRIBERS_MAX):
            assert stack.enter_context(Events(port)).response.status == 200
        one_more = stack.enter_context(Events(port))
        assert (one_more.response.status, one_more.response.getheader("Retry-After")) == (503, "10")
        assert get(port, "/livez")[0] == 200
        assert running.stop() == 0


def open_connections(port):
    """How many connections to a port of this machine its server has not closed."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(row[1].endswith(f":{port:04X}") and row[3] in {"01", "08"} for row in rows)


def test_a_closed_console_makes_room(port):
    for _ in range(3 * SUBSCRIBERS_MAX):
        with Events(port) as events:
            assert events.response.status in {200, 503}
    wait_until(lambda: not open_connections(port), what="closed connections")
    with Events(port) as events:
        events.wait_for("state")


@pytest.mark.slow
def test_many_refusals_and_a_console_that_does_not_read(watched, topic):
    """A message with a number in it is a new reason for every record."""
    running, port = watched()
    name = topic(partitions=300)
    deaf = socket.create_connection(("127.0.0.1", port))
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    with Events(port) as events:
        events.wait_for("state")
        with RawClient(running.broker_address(), timeout_s=60) as client:
            for first in range(0, 3000, 300):  # many at once, however slow the machine is
                batches = [
                    (partition, encode_batch(values(b"bad %d" % (first + partition) + b"x" * 500)))
                    for partition in range(300)
                ]
                client.call(produce_request([(name, batches)]))
        message = events.wait_for("refusals", lambda message: message["others"])
        assert len(message["rows"]) <= 100
        assert max(len(row["message"]) for row in message["rows"]) <= 300
    state = read(port, "/api/state")
    rows = state["refusals"]["rows"]
    assert len(rows) <= ROWS_MAX
    assert state["totals"]["refused"] == 3000
    assert get(port, "/livez") == (200, "alive\n")
    deaf.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
    ],
)
def test_pages_of_other_origins_are_rejected(port, headers, status):
    for path in ("/", "/api/state", "/api/topics", "/api/events", "/metrics", "/readyz"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        # It is ready, or not yet.
        assert response.status in ({200, 503} if status == 200 else {status}), path
        assert not [
            name for name, _ in response.getheaders() if name.lower().startswith("access-control")
        ]
        response.close()
        connection.close()


def test_a_token(watched):
    _, port = watched({"metrics.listener.token": "a-token"})
    assert [get(port, path)[0] for path in ("/livez", "/console.css", "/")] == [200, 200, 401]
    for path in ("/api/state", "/api/topics", "/api/events", "/metrics", "/no-such-page"):
        assert get(port, path)[0] == 401
    with Events(port, {"Authorization": "Bearer a-token"}) as events:
        assert events.wait_for("state")["api"] == 1


@pytest.fixture
def replicas(gateway):
    """Starts gateways that know each other, each with its own port for the console."""

    def start(count=2, tokens=None):
        ports = free_ports(count)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        running = [
            gateway({
                **CHECK, "metrics.listener": address,
                "console.peers": ",".join(other for other in addresses if other != address),
                **({"metrics.listener.token": tokens[number]} if tokens else {}),
            }, POLICIES)
            for number, address in enumerate(addresses)
        ]  # fmt: skip
        return running, ports

    return start


def test_two_gateways_are_one_page(replicas, topic):
    running, ports = replicas()
    names = [topic("first"), topic("second")]
    for number, replica in enumerate(running):
        produce(replica, names[number], [b"bad 1"], [b"good"])
        produce(replica, names[0], [b"bad 2"], [b"bad 2"])

    def are_all(figures):
        return figures["totals"] == {"refused": 6, "accepted": 2}

    for port in ports:
        with Events(port) as events:
            figures = events.wait_for("figures", are_all)
        assert [entry["answers"] for entry in figures["gateways"]] == [True, True]
        assert {entry["gateway"]["version"] for entry in figures["gateways"]}
        state = read(port, "/api/state")
        counts = {row["topic"]: 0 for row in state["refusals"]["rows"]}
        for row in state["refusals"]["rows"]:
            counts[row["topic"]] += row["count"]
        assert counts == {names[0]: 5, names[1]: 1}
        both = next(row for row in state["refusals"]["rows"] if row["message"] == "no: bad 2")
        assert both["count"] == 4
        assert {entry["topic"]: entry["records"]["refused"] for entry in state["topics"]} == counts

    # What a peer reads has nothing of other gateways.
    _, text = get(ports[0], "/api/own")
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0]["head"]["totals"]["records"]["refused"] == 3
    assert {line["row"]["topic"] for line in lines if "row" in line} == {names[0]}


@pytest.mark.slow
def test_a_gateway_ends_and_starts_while_its_peer_is_watched(replicas, topic):
    (first, second), (port, other) = replicas()
    name = topic()
    produce(second, name, [b"bad 1"])
    with Events(port) as events:
        events.wait_for("figures", lambda figures: figures["totals"].get("refused") == 1)
        second.stop()
        silent = events.wait_for("figures", lambda figures: not figures["gateways"][1]["answers"])
        assert silent["gateways"][1]["why_not"]
        assert silent["gateways"][1]["answered"] <= silent["gateways"][1]["since"] <= silent["at"]
        assert silent["totals"]["refused"] == 1  # what it counted remains
        assert silent["connections"]["limit"] == 2**31 - 1
        assert silent["ready"]["is_ready"]
        assert f"127.0.0.1:{other} does not answer" in silent["ready"]["troubles"][0]
        assert get(port, "/readyz")[0] == 200  # that of this gateway alone
        produce(first, name, [b"bad 2"])
        events.wait_for("refusals", lambda message: message["rows"][-1]["message"] == "no: bad 2")
        second.restart()
        events.wait_for("figures", lambda figures: figures["gateways"][1]["answers"])
    first.wait_for("a peer does not answer")
    first.wait_for("a peer answers again")


def test_peers_have_the_same_token_and_no_log_has_it(replicas):
    tokens = ["one-secret", "one-secret", "another-secret"]
    running, ports = replicas(3, tokens)
    with Events(ports[0], {"Authorization": "Bearer one-secret"}) as events:
        figures = events.wait_for(
            "figures",
            lambda figures: (
                figures["gateways"][1]["answers"] and "another" in figures["gateways"][2]["why_not"]
            ),
        )
    assert figures["gateways"][2]["why_not"] == (
        "status 401: it has another metrics.listener.token"
    )
    assert "secret" not in json.dumps(figures)
    assert get(ports[0], "/api/own")[0] == 401
    for replica in running:
        replica.wait_for("a peer does not answer")
        replica.stop()
        assert "secret" not in json.dumps([*replica.log])


def test_a_broken_policy_is_shown_with_the_place_of_its_error(gateway, topic):
    port = free_ports(1)[0]
    policies = POLICIES.replace(
        "        return Inv", '        assert value != b"bug", "a secret"\n        return Inv'
    )
    running = gateway({**CHECK, "metrics.listener": f":{port}"}, policies)
    name = topic()
    with Events(port) as events:
        produce(running, name, [b"bad 1"], [b"bug"])
        rows = {}
        while len(rows) < 2:
            for row in events.wait_for("refusals")["rows"]:
                rows[row["outcome"]] = row
    assert rows["refused"]["detail"] == ""
    failed = rows["failed"]
    assert (failed["code"], failed["policy"]) == (-1, "policies.Check")
    place = failed["detail"].split(" < ")[0]
    assert place.startswith(f"{running.file.with_name('policies.py')}:")
    assert place.endswith(" in validate_record")
    assert "a secret" not in json.dumps(failed)
    assert [count for _, count in failed["minutes"]] == [1]


@pytest.mark.slow
def test_hostile_peers_delay_and_learn_nothing(gateway, topic):
    """One is silent, one never ends, one lies, and one sends the reader elsewhere."""
    trap = socket.create_server(("127.0.0.1", 0))
    trap.settimeout(0.0)
    where = f"http://127.0.0.1:{trap.getsockname()[1]}/"
    body = b'{"head": {"api": 1, "totals": "many"}}\n'
    answers = [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n" + bytes(1_000_000),
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body),
        b"HTTP/1.1 307 Go\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % where.encode(),
    ]
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(answering(answer)) for answer in answers]
        port = free_ports(1)[0]
        running = gateway({
            **CHECK, "metrics.listener": f":{port}", "metrics.listener.token": "a-secret",
            "console.peers": ",".join(f"127.0.0.1:{peer}" for peer in peers),
        }, POLICIES)  # fmt: skip
        produce(running, topic(), [b"bad 1"])
        with Events(port, {"Authorization": "Bearer a-secret"}) as events:
            figures = events.wait_for(
                "figures",
                lambda figures: (
                    figures["totals"] == {"refused": 1}
                    and all(entry["since"] for entry in figures["gateways"][1:])
                ),
            )
        reasons = [entry["why_not"] for entry in figures["gateways"][1:]]
        assert reasons == [
            "no answer within 5 s",
            "no answer within 5 s",
            "its answer is not that of a gateway of this version",
            "status 307",
        ]
        assert get(port, "/livez")[0] == 200
        assert running.stop() == 0
    with pytest.raises(BlockingIOError):
        trap.accept()
    trap.close()
    assert "a-secret" not in json.dumps(running.log)
    assert "many" not in json.dumps(running.log)


@contextlib.contextmanager
def answering(answer):
    """A server that answers each connection with the same bytes, and keeps it open."""
    listening = socket.create_server(("127.0.0.1", 0))
    connections = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connections.append(listening.accept()[0])
                connections[-1].sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    thread.join(60)
    for connection in (*connections, listening):
        connection.close()
