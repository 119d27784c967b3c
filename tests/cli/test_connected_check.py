"""`penstock check --connect`, with a broker and a schema registry; and without `--connect`."""

import json
import re
from itertools import takewhile

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from penstock.cli.checks import connected_check
from penstock.configuration import load_configuration
from tests.gateways import run_penstock, without_waiting, write_configuration
from tests.policies.schema_policy.fake_registry import FakeRegistry, Fault
from tests.policies.schema_policy.orders import CONTRACT, JSON_ORDER, ORDER, ORDER_2

pytestmark = pytest.mark.system
VALIDATION = "confluent.value.schema.validation"
TRANSFORM = {
    "name": "upper",
    "kind": "TRANSFORM",
    "mode": "WRITE",
    "type": "JSONATA",
    "expr": "$uppercase(note)",
}


@pytest.fixture
def registry():
    with FakeRegistry() as started:
        yield started


def written(folder, upstream, registry, topics, **more):
    """Write a configuration; `topics` has the keys of each."""
    properties = {
        "record.validation.policy.class.name": "penstock.policies.SchemaPolicy",
        "schema.registry.url": registry.url,
        "topic.settings.topic": "",
    } | {key.replace("_", "."): value for key, value in more.items()}
    for topic, keys in topics.items():
        properties |= {f"topics.{topic}.{key}": value for key, value in keys.items()}
    return write_configuration(folder, upstream, 9192, properties)


def check(file, *arguments):
    done = run_penstock("check", *arguments, file)
    assert "Traceback" not in done.stderr + done.stdout
    return done


def lines_of(done, topic):
    """Return the lines below a topic's name in the output, but for the digest of its plan."""
    lines = done.stdout[done.stdout.rindex(f"topic {topic}\n") :].splitlines()[1:]
    own = [line[2:] for line in takewhile(lambda line: line.startswith("  "), lines)]
    return [line for line in own if not re.fullmatch("plan [0-9a-f]{12}", line)]


def test_each_topic_that_exists_is_shown_with_its_schemas(kafka, topic, tmp_path, registry):
    plain, both, none = (topic(prefix) for prefix in ("checked", "checked-both", "checked-none"))
    by_record, ids = topic("checked-record"), topic("checked-id")
    registry.register(f"{plain}-value", json.dumps(ORDER))
    registry.register(f"{plain}-value", json.dumps(ORDER_2))
    registry.register(f"{both}-key", '"string"')
    registry.register(f"{both}-value", json.dumps(JSON_ORDER), "JSON")
    registry.register(f"{ids}-value", '{"type": "record"}')
    on = {VALIDATION: "true"}
    file = written(
        tmp_path,
        kafka.bootstrap_servers,
        registry,
        {
            plain: on,
            both: on | {"confluent.key.schema.validation": "true", "schema.versions": "latest"},
            none: on,
            by_record: on | {"confluent.value.subject.name.strategy": "RecordNameStrategy"},
            ids: on | {"schema.validation.level": "id"},
            "checked-is-not-there": on,
        },
    )

    done = check(file, "--connect")

    assert (done.returncode, without_waiting(done.stderr)) == (0, "")
    assert re.search(f"topic {plain}\n.*\n  plan [0-9a-f]{{12}}\n", done.stdout)
    assert lines_of(done, plain) == [
        f"value: subject {plain}-value, any version, now up to 2 (AVRO, id 2), judged by payload"
    ]
    assert lines_of(done, both) == [
        f"key: subject {both}-key, version 1 alone (AVRO, id 3), judged by payload",
        f"value: subject {both}-value, version 1 alone (JSON, id 4), judged by payload",
    ]
    assert lines_of(done, none) == [
        f"value: subject {none}-value has no schema: every value that is not null is refused"
    ]
    assert lines_of(done, by_record) == [
        "value: the records say which subject (RecordNameStrategy)"
    ]
    assert lines_of(done, ids) == [
        f"value: subject {ids}-value, any version, now up to 1 (AVRO, id 5), judged by id"
    ]
    assert done.stdout.splitlines()[-3:] == [
        "5 of the cluster's topics have policies for records",
        "warning: topics.checked-is-not-there: the cluster has no topic of that name",
        "ok",
    ]


LOUD = """
print("imported")
class Loud:
    def configure(self, configs):
        print("configured")
    def describe_topic(self, topic, configs):
        print("described")
        yield "by its schema"
        print("described")
    def validate(self, topic, record):
        pass
    def close(self):
        print("closed")
"""


def test_results_are_without_the_output_of_policies(tmp_path, capsys, monkeypatch):
    (tmp_path / "loud_when_checked.py").write_text(LOUD)
    file = tmp_path / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=none:1\n"
        "record.validation.policy.class.name=loud_when_checked.Loud\n"
        "topics.*.record.validation.policy=x\n"
    )
    monkeypatch.setattr(connected_check, "_topics", lambda *_: ({"t": {}}, {"t": 1}))
    monkeypatch.setattr(connected_check, "_brokers", lambda *_: 1)
    for line in connected_check.describe_topics(load_configuration(file), ()):
        print(line)
    shown, others = capsys.readouterr()
    assert shown.splitlines() == [
        "topic t", "  by its schema",
        "1 of the cluster's topics have policies for records",
    ]  # fmt: skip
    assert others.split() == ["imported", "configured", "described", "described", "closed"]


@pytest.mark.parametrize(
    ("ids_first", "ports", "code"), [("0", "9193-9292", 0), ("1", "9193-9292", 2)]
)
def test_a_broker_without_a_port_is_an_error(kafka, topic, tmp_path, ids_first, ports, code):
    """The node id of the broker is 0."""
    keys = {"record.validator.classes": "", "policies": "a", "policies.a.type": "KeyRequired"}
    keys |= {"broker.ids.first": ids_first, "broker.ports": ports}
    keys |= {f"topics.{topic('checked')}.penstock.policies": "a"}
    done = check(write_configuration(tmp_path, kafka.bootstrap_servers, 9192, keys), "--connect")
    assert done.returncode == code, done.stderr
    expected = (
        "broker.ports: clients cannot reach the broker with node id 0: 9193-9292 are the ports of "
        "1 to 100; set broker.ids.first=0"
    )
    assert (expected in done.stderr) is (code == 2)


def test_a_pattern_that_matches_no_topic_is_named(kafka, topic, tmp_path, registry):
    name, on = topic("checked"), {VALIDATION: "true"}
    globs = {f"{name[:-1]}?": on, "chekced-*": on, "*": {"schema.validation.level": "id"}}
    file = written(tmp_path, kafka.bootstrap_servers, registry, globs)

    done = check(file, "--connect")

    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if line.startswith("warning")] == [
        "warning: topics.chekced-*: no topic of the cluster has a name that matches"
    ]
    assert "warning: topics" not in check(file).stdout


def test_policies_that_cannot_run_are_reported(kafka, topic, tmp_path, registry):
    name, broken = topic("checked"), topic("checked-broken")
    rules = {"domainRules": [*CONTRACT["domainRules"], TRANSFORM]}
    rules |= {"migrationRules": [{"name": "up", "mode": "UPGRADE", "type": "JSONATA"}]}
    registry.register(f"{name}-value", json.dumps(ORDER), rule_set=rules)
    registry.register(f"{broken}-value", '{"type": "record"}')
    keys = {VALIDATION: "true", "schema.validation.level": "rules"}
    file = written(tmp_path, kafka.bootstrap_servers, registry, {name: keys, broken: keys})

    done = check(file, "--connect")

    assert done.returncode == 0
    first, *rest = lines_of(done, name)
    assert first.endswith("(AVRO, id 1), judged by rules")
    not_run = [line for line in rest if line.startswith("  not run: ")]
    assert len(not_run) == len(rest)
    assert any("upper" in line for line in not_run)
    assert lines_of(done, broken)[1].startswith("  cannot be judged by: ")


def test_dead_letter_topics_that_need_more_brokers_are_named(kafka, topic, tmp_path):
    name = topic("quarantined")
    properties = {
        "policies": "keyed",
        "policies.keyed.type": "KeyRequired",
        f"topics.{name}.penstock.policies": "keyed",
        f"topics.{name}.penstock.mode": "quarantine",
        "topic.settings.topic": "",
    }
    file = write_configuration(tmp_path, "127.0.0.1:1", 9192, properties)
    done = check(file, "--connect", "--bootstrap-server", kafka.bootstrap_servers)
    assert done.returncode == 0
    [warning] = [line for line in done.stdout.splitlines() if "replication.factor" in line]
    assert "the cluster has 1: " in warning
    assert f"topic {name}.dead cannot be created" in warning


def registry_is_down(registry):
    registry.goes_away()


def credentials_are_wrong(registry):
    registry.status = 401


def another_server_responds(registry):
    registry.fault = Fault.GARBAGE


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (registry_is_down, "cannot be reached: Connection refused"),
        (credentials_are_wrong, "responded with status 401 (Unauthorized)"),
        (another_server_responds, "sent a response that"),
    ],
)
def test_an_unavailable_registry_is_3(kafka, topic, tmp_path, registry, trouble, why):
    name = topic("checked")
    user_info = "penstock:not-to-be-shown"
    file = written(
        tmp_path,
        kafka.bootstrap_servers,
        registry,
        {name: {VALIDATION: "true"}},
        schema_registry_basic_auth_user_info=user_info,
    )
    trouble(registry)

    done = check(file, "--connect")

    assert done.returncode == 3
    assert re.fullmatch(
        rf"penstock check: topic {name}: subject {name}-value cannot be looked up: "
        rf"the schema registry at \S+ .*{re.escape(why)}.*\n",
        without_waiting(done.stderr),
    )
    assert "not-to-be-shown" not in done.stdout + done.stderr
    assert "ok" not in done.stdout.splitlines()


def test_an_unavailable_cluster_is_3(tmp_path, registry):
    file = written(tmp_path, "127.0.0.1:1", registry, {"orders": {VALIDATION: "true"}})
    done = check(file, "--connect")
    assert done.returncode == 3
    [error] = without_waiting(done.stderr).splitlines()
    assert error.startswith("penstock check: 127.0.0.1:1: ")
    assert registry.requests == []


def test_without_connect_nothing_is_contacted(tmp_path, registry):
    file = written(tmp_path, "nowhere.invalid:1", registry, {"orders": {VALIDATION: "true"}})
    done = check(file)
    assert (done.returncode, without_waiting(done.stderr)) == (0, "")
    assert done.stdout.splitlines()[-1] == "ok"
    assert (registry.requests, registry.connections) == ([], 0)


def test_without_connect_a_cluster_is_wrong_use(tmp_path):
    file = write_configuration(tmp_path, "127.0.0.1:1", 9192, {})
    done = check(file, "--bootstrap-server", "127.0.0.1:2")
    assert done.returncode == 2
    assert "--bootstrap-server requires --connect, or --since WHEN" in done.stderr


def test_connect_needs_a_policy(tmp_path):
    file = write_configuration(tmp_path, "127.0.0.1:1", 9192, {})
    done = check(file, "--connect")
    assert done.returncode == 2
    assert "--connect needs a policy, such as record.validation.policy.class.name" in done.stderr


def test_a_policy_of_any_kind_is_shown(gateway, kafka, topic, tmp_path):
    name = topic("validated")
    (tmp_path / "validators.py").write_text(
        "from penstock.policy import BrokerRecordValidator\n"
        "class Keyed(BrokerRecordValidator):\n"
        "    def validate_record(self, *_): pass\n"
    )
    file = write_configuration(
        tmp_path, kafka.bootstrap_servers, 9192, {"record.validator.classes": "validators.Keyed"}
    )
    done = check(file, "--connect")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    position = lines.index(f"topic {name}")
    assert lines[position + 1] == "  validators.Keyed"


def test_the_mode_that_admin_tools_set_on_a_topic_is_shown(gateway, topic, tmp_path):
    watched, marked = topic("mode-watched"), topic("mode-marked")
    running = gateway({
        "policies": "keyed",
        "policies.keyed.type": "KeyRequired",
        "topics.mode-*.penstock.policies": "keyed",
        "topic.settings.topic": f"settings-of-{watched}",
    })  # fmt: skip
    admin = AdminClient({"bootstrap.servers": running.address})
    for name, mode in ((watched, "observe"), (marked, "mark")):
        entry = ConfigEntry("penstock.mode", mode, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(60)

    lines = check(running.file, "--connect").stdout.splitlines()

    assert f"topic {watched}, observed: nothing is refused" in lines
    assert f"topic {marked}, marked: bad records are stored, with headers that say why" in lines
