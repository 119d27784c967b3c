"""The program as scripts use it: output, messages, exit codes."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from penstock.configuration import Address, load_configuration
from penstock.gateway.server import Gateway
from penstock.kafka.local import free_ports
from tests.gateways import (
    PENSTOCK,
    gateway_port,
    is_running,
    run_penstock,
    wait_until,
    without_plans,
    write_configuration,
)
from tests.metrics import get

pytestmark = pytest.mark.system
POLICIES = """
from penstock.policy import *
class Batch(RecordsPolicy):
    def validate(self, topic, partition, records): pass
class One(BrokerRecordValidator):
    def validate_record(self, *_): pass
class Two(One): pass
class Last(RecordValidationPolicy):
    def configure(self, configs):
        if configs.get("fail") == "yes": raise OSError("the registry is away")
        if configs.get("fail") == "hints": self.get_hints = lambda: RecordIntrospectionHints(True, -1, 0)
    def validate(self, topic, record): pass
"""
PROPERTIES = {
    "record.validator.classes": "policies.One,policies.Two",
    "record.validation.policy.class.name": "policies.Last",
    "topics.orders*.record.validation.policy": "order",
    "topics.orders-eu.records.policy.class.name": "policies.Batch",
    "topics.orders-eu.records.policy.enabled": "true",
}


def test_check_prints_the_plan_and_contacts_nothing(tmp_path):
    file = write_configuration(tmp_path, "nowhere.invalid:1", 9192, PROPERTIES, POLICIES)

    done = run_penstock("check", str(file))

    printed, plans = without_plans(done.stdout)
    assert plans == 3
    assert printed == (
        f"configuration {file}\n"
        "settings of topics are stored in __penstock_topic_settings\n"
        "topics orders-eu\n"
        "  1. batch   policies.Batch\n"
        "  2. record  policies.One\n"
        "  3. record  policies.Two\n"
        "  4. record  policies.Last  record.validation.policy=order\n"
        'topics orders* (names that begin with "orders")\n'
        "  1. record  policies.One\n"
        "  2. record  policies.Two\n"
        "  3. record  policies.Last  record.validation.policy=order\n"
        "topics *\n"
        "  1. record  policies.One\n"
        "  2. record  policies.Two\n"
        "ok\n"
    )
    assert done.returncode == 0


def test_check_shows_policies_that_are_judged_inline(tmp_path):
    interceptor = """
from penstock.policy import *
class Passes(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "^intercepted"
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value)
"""
    (tmp_path / "order.json").write_text('{"type": "object"}')
    (tmp_path / "ahead.json").write_text('{"type": "string", "pattern": "^(?=a)"}')
    properties = {
        "record.validation.policy.class.name": "penstock.policies.JsonSchema",
        "topics.orders.record.validation.policy": "order.json",
        "topics.names.record.validation.policy": "ahead.json",
        "topics.intercepted.record.validation.policy": "order.json",
        "produce.request.interceptors": "policies.Passes",
    }
    file = write_configuration(tmp_path, "nowhere.invalid:1", 9192, properties, interceptor)

    lines = run_penstock("check", str(file)).stdout.splitlines()

    record = "  1. record  penstock.policies.JsonSchema  record.validation.policy="
    assert f"{record}order.json; small batches inline" in lines
    assert f"{record}ahead.json" in lines
    assert lines[lines.index("topics intercepted") + 1] == f"{record}order.json"


NOT_DEV = ("check", "gateway")
"""`dev` starts its own upstream."""
ALL = (*NOT_DEV, "dev")


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("commands", "properties", "message"),
    [
        (ALL, {"record.validator.classes": "policies.None"}, "policies.None"),
        (ALL, {"record.validator.class": "policies.One"}, "did you mean record.validator.classes?"),
        (ALL, {"fail": "yes"}, "configure() failed: OSError: the registry is away"),
        (ALL, {"fail": "hints"}, "get_hints()"),
        (ALL, {"listeners": "PLAINTEXT://0.0.0.0:9192"}, "advertised.host must be set"),
        (ALL, {"listeners": "SSL://127.0.0.1:9192"}, "ssl.keystore.location"),
        (ALL, {"produce.request.interceptors": "policies.One"}, "belongs in record.validator"),
        (ALL, {"produce.request.interceptors.timeout.ms": "0"}, "a whole number from 1"),
        (ALL, {"produce.request.interceptors.failed.error.code": "0"}, "-1, or from 1"),
        (NOT_DEV, {"upstream.no.such.key": "1", "x": "1"}, "no.such.key"),
    ],
)
def test_a_wrong_configuration_is_reported_without_a_traceback(
    tmp_path, commands, properties, message
):
    file = write_configuration(
        tmp_path, "127.0.0.1:1", gateway_port(), {**PROPERTIES, **properties}, POLICIES
    )

    for command in commands:
        done = run_penstock(command, str(file))

        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr + done.stdout
        assert "ready" not in done.stdout
        assert "starting Kafka" not in done.stdout


@pytest.mark.parametrize("arguments", [[], ["gateway"], ["serve"], ["check", "a", "b"]])
def test_wrong_arguments_are_2(arguments):
    assert run_penstock(*arguments).returncode == 2


def test_a_missing_file_is_2():
    done = run_penstock("gateway", "/no/such/file.properties")
    assert done.returncode == 2
    assert "/no/such/file.properties: cannot be read" in done.stderr


@pytest.fixture(scope="module")
def without_cluster(tmp_path_factory):
    """The port where no cluster is, and what a gateway says that has waited for it."""
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("unreachable")
    file = write_configuration(folder, f"127.0.0.1:{port}", gateway_port(), {})
    return port, run_penstock("gateway", str(file))


def test_a_cluster_that_cannot_be_reached_is_3(without_cluster):
    port, done = without_cluster
    assert done.returncode == 3
    assert f"127.0.0.1:{port}" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("value", ["yes", "2"])
def test_a_wrong_native_variable_is_one_line(tmp_path, monkeypatch, value):
    monkeypatch.setenv("PENSTOCK_NATIVE_LANE", value)
    file = write_configuration(tmp_path, "127.0.0.1:1", gateway_port(), {})

    done = run_penstock("gateway", str(file))

    assert done.returncode == 2
    assert f"PENSTOCK_NATIVE_LANE={value}: it must be 0" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_waiting_start_logs_the_reason(without_cluster):
    _, done = without_cluster
    lines = [json.loads(line) for line in done.stderr.splitlines()[:-1]]

    [waits] = [line for line in lines if line["event"] == "waiting for the cluster"]
    assert waits["servers"].startswith("127.0.0.1:")
    assert waits["gives_up_after_s"] == 10.0


SLEEPY = """
import time
from penstock.policy import *
class Slow(BrokerRecordValidator):
    def __init__(self): open("loaded", "w").close()
    def validate_record(self, *_): pass
"""


@pytest.mark.parametrize("key", ["listeners", "metrics.listener"])
@pytest.mark.parametrize("command", ["gateway", "dev"])
def test_a_port_in_use_is_reported_before_policies_are_loaded(tmp_path, key, command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = free_ports(3)
        file = write_configuration(
            tmp_path,
            "127.0.0.1:1",
            port if key == "listeners" else ports[0],
            {
                "record.validator.classes": "policies.Slow",
                "metrics.listener": f"127.0.0.1:{port if key != 'listeners' else ports[2]}",
            },
            SLEEPY.replace('"loaded"', f'"{tmp_path}/loaded"'),
        )

        done = run_penstock(command, str(file))

    assert done.returncode == 3  # it may be free in a minute
    assert f"{key}: cannot listen on 127.0.0.1:{port}: " in done.stderr.splitlines()[-1]
    assert not (tmp_path / "loaded").exists()
    assert "starting Kafka" not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["split", "--topic", "t", "--accepted", "a", "--rejected", "d"],
        ["split", "--streaming", "--topic", "t", "--accepted", "a", "--rejected", "d"],
        ["redact", "--topic", "t", "--to", "a"],
        ["redrive", "--from", "d", "--to", "a"],
        ["audit", "--topic", "t"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_without_spark_its_commands_name_the_package_to_install(tmp_path, monkeypatch, arguments):
    (tmp_path / "pyspark.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    file = write_configuration(tmp_path, "127.0.0.1:1", 9192, {})

    done = run_penstock(arguments[0], str(file), *arguments[1:])

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "needs Spark: pip install 'penstock-kafka[spark]'" in done.stderr


def test_debug_shows_a_traceback(tmp_path):
    done = run_penstock("--debug", "check", str(tmp_path / "none"))
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback")
    assert "penstock check: " in done.stderr.splitlines()[-1]


def test_a_port_in_use_is_3(gateway, tmp_path, kafka):
    running = gateway({})
    _, port = running.host_port
    file = write_configuration(tmp_path, kafka.bootstrap_servers, port, {})

    done = run_penstock("gateway", str(file))

    assert done.returncode == 3
    assert f"cannot listen on 127.0.0.1:{port}: " in done.stderr


AWAY = """
import socket, urllib.request
from penstock.policy import *

class Away(RecordsPolicy):
    def validate(self, *_): pass

class Refused(Away):
    def configure(self, configs): raise ConnectionRefusedError

class Late(Away):
    def configure(self, configs): raise TimeoutError

class Later(Away):
    def configure(self, configs): raise RetriableException("not yet")

class Wrapped(Away):
    def configure(self, configs): urllib.request.urlopen("http://127.0.0.1:1/")

class Wrong(Away):
    def configure(self, configs): raise ValueError("wrong")
"""


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("command", "name", "code"),
    [
        (["check"], "Refused", 3),
        (["check"], "Late", 3),
        (["check"], "Wrapped", 3),
        (["check"], "Wrong", 2),
        (["gateway"], "Later", 3),
        (["gateway"], "Wrong", 2),
        (["dev"], "Later", 3),
        (["explain", "--topic", "t", "--value", "v"], "Later", 3),
        (["audit", "--local", "--input", "records.jsonl"], "Later", 3),
    ],
)
def test_a_policy_that_cannot_be_configured_now_is_3(tmp_path, monkeypatch, command, name, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "records.jsonl").write_text('{"topic": "t", "value": "v"}\n')
    properties = {"topics.t.records.policy.class.name": f"policies.{name}"}
    port = gateway_port()
    file = write_configuration(tmp_path, "127.0.0.1:1", port, properties, AWAY)

    done = run_penstock(command[0], str(file), *command[1:])

    assert done.returncode == code, done.stderr
    assert f"policies.{name}: configure() failed: " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", ["check", "gateway"])
def test_a_name_that_does_not_resolve_yet_is_3(tmp_path, command):
    file = write_configuration(
        tmp_path, "127.0.0.1:1", 0, {"metrics.listener": "gateway.invalid:9100"}
    )

    done = run_penstock(command, str(file))

    assert done.returncode == 3
    assert "metrics.listener: cannot listen on gateway.invalid:0: " in done.stderr


def test_too_few_descriptors_are_3(tmp_path):
    file = write_configuration(tmp_path, "127.0.0.1:1", 0, {})

    done = subprocess.run(
        ["prlimit", "--nofile=40:40", *PENSTOCK, "gateway", str(file)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 3
    assert "LimitNOFILE" in done.stderr


ASSERTS = """
from penstock.policy import *

class Asserts(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        assert value != b"bad"
"""


@pytest.mark.parametrize(
    ("command", "optimized"),
    [
        (["explain", "--topic", "t"], "variable"),
        (["explain", "--topic", "t"], "option"),
        (["audit", "--local"], "variable"),
    ],
)
def test_a_command_refuses_to_judge_without_assertions(tmp_path, monkeypatch, command, optimized):
    records = tmp_path / "records.jsonl"
    records.write_text('{"topic": "t", "value": "bad"}\n')
    properties = {"record.validator.classes": "policies.Asserts"}
    file = write_configuration(tmp_path, "127.0.0.1:1", 0, properties, ASSERTS)
    if optimized == "variable":
        monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    python = [PENSTOCK[0], *(["-O"] if optimized == "option" else []), *PENSTOCK[1:]]

    done = subprocess.run(
        [*python, command[0], str(file), *command[1:], "--input", str(records)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (2, "")
    assert "PYTHONOPTIMIZE" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_and_sigint_end_the_gateway_with_0(gateway, number):
    running = gateway({"record.validator.classes": "policies.One"}, POLICIES)
    workers = running.workers()
    running.process.send_signal(number)

    assert running.process.wait(60) == 0
    running.stop()
    wait_until(lambda: not any(map(is_running, workers)))


def test_port_0_selects_a_free_port_and_prints_it(gateway):
    running = gateway({"listeners": "PLAINTEXT://127.0.0.1:0"})
    assert int(running.address.rpartition(":")[2]) > 0


def test_port_0_selects_another_port_if_a_port_for_brokers_is_in_use(kafka, tmp_path, monkeypatch):
    """Ports of brokers follow the listener's port: a port with free ports after it is used."""
    behind, tried = [], []

    def listen(address, **options):
        taken = create_server(address, **options)
        if not address[1]:
            port = taken.getsockname()[1]
            tried.append(port)
            if len(tried) <= 3:
                with contextlib.suppress(OSError):  # taken already
                    behind.append(socket.create_server(("127.0.0.1", port + 1)))
        return taken

    async def start() -> Address:
        gateway = Gateway(load_configuration(file))
        try:
            return await gateway.start()
        finally:
            await gateway.stop()

    create_server = socket.create_server
    monkeypatch.setattr("penstock.gateway.server.socket.create_server", listen)
    file = write_configuration(tmp_path, kafka.bootstrap_servers, 0, {})
    try:
        assert asyncio.run(start()).port == tried[-1]
    finally:
        for listener in behind:
            listener.close()
    assert len(tried) > 3


def test_too_few_ports_for_brokers_are_an_error(kafka, tmp_path):
    file = write_configuration(tmp_path, kafka.bootstrap_servers, 65535, {})
    done = run_penstock("gateway", str(file))
    assert done.returncode == 2
    assert "listeners: no port after 65535 is left for brokers" in done.stderr
    assert "Traceback" not in done.stderr


class Dev:
    """`penstock dev` in a terminal."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self._output = folder / "dev.out"
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                [*PENSTOCK, "dev", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**__import__("os").environ, "TMPDIR": str(folder)},
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.output.count(text) >= times, 60, what=f"{text} in {self.output}")

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


def children_of(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended
            found += map(int, (task / "children").read_text().split())
    return found


def test_dev_shows_a_new_user_how_to_begin(tmp_path):
    dev = Dev(folder=tmp_path)
    try:
        dev.wait_for("Ctrl-C ends both")
        paste = next(line for line in dev.output.splitlines() if "local.produce" in line)
        first = subprocess.run(paste, shell=True, capture_output=True, text=True, check=False)
        dev.wait_for("an order's amount must be above zero")
        console = re.search(r"console +http://127.0.0.1:(\d+)/ ", dev.output)
        state = json.loads(get(int(console[1]), "/api/state")[1])

        policy = Path(dev.output.split("policy   ")[1].split("  (edit")[0])
        checked = run_penstock("check", str(policy.with_name("penstock.properties")))
        text = policy.read_text()
        policy.write_text(text.replace("must be above zero", "must not be so low"))
        dev.wait_for("\nreloaded\n")
        subprocess.run(paste, shell=True, capture_output=True, check=False)
        dev.wait_for("must not be so low")

        policy.write_text("a syntax error")
        dev.wait_for("the old policies stay in force")
        subprocess.run(paste, shell=True, capture_output=True, check=False)
        dev.wait_for("must not be so low", 2)
        children = children_of(dev.process.pid)
    finally:
        code = dev.end()

    assert 'stored:  {"id": 1' in first.stdout
    assert 'refused: {"id": 2' in first.stdout
    assert "INVALID_RECORD (87): an order's amount must be above zero" in first.stdout
    assert first.returncode == 1
    assert checked.returncode == 0, checked.stderr
    assert re.search(r"starting Kafka \.\.\.\n(.*: \d+ s\n)*  done in \d+\.\d s\n", dev.output)
    assert re.search(
        r"starting the gateway \.\.\.\n(.*: \d+ s\n)*  done in \d+\.\d s\n", dev.output
    )
    (refusal,) = state["refusals"]["rows"]
    assert (refusal["topic"], refusal["client"]) == ("orders", "penstock-produce")
    assert refusal["message"] == "an order's amount must be above zero"
    assert code == 0
    assert len(children) >= 2
    wait_until(lambda: not any(map(is_running, children)))
    assert "Traceback" not in dev.output


def test_dev_serves_a_project_of_init(tmp_path):
    ports = free_ports(3)
    assert run_penstock("init", str(tmp_path / "mine")).returncode == 0
    file = tmp_path / "mine" / "penstock.properties"
    text = file.read_text().replace("127.0.0.1:9192", f"127.0.0.1:{ports[1]}")
    file.write_text(text.replace("127.0.0.1:9100", f"127.0.0.1:{ports[0]}"))
    dev = Dev(str(file), folder=tmp_path)
    try:
        dev.wait_for("Ctrl-C ends both")
        paste = next(line for line in dev.output.splitlines() if "local.produce" in line)
        sent = subprocess.run(paste, shell=True, capture_output=True, text=True, check=False)
    finally:
        dev.end()
    assert "INVALID_RECORD (87): an order must have an id" in sent.stdout
    assert re.search(
        r"loading .*penstock.properties and its policies \.\.\.\n(.*: \d+ s\n)*  done", dev.output
    )


@pytest.mark.slow
def test_dev_ends_its_kafka_even_when_killed(tmp_path):
    dev = Dev(folder=tmp_path)
    dev.wait_for("Ctrl-C ends both")
    children = children_of(dev.process.pid)
    assert children
    dev.process.kill()
    dev.process.wait()
    wait_until(lambda: not any(map(is_running, children)))
