"""Named policies on Spark: the verdicts of the gateway, under the same names."""

import json
import uuid
from pathlib import Path

import pytest

from penstock.configuration import load_configuration
from penstock.engine.plans.declared import classes_here
from penstock.policy import Record
from penstock.spark import apply, judge, load_plan, split
from tests.gateways import RunningGateway, gateway_port
from tests.integration.reading import read_topic
from tests.kafka.records.encoding import encode_batch
from tests.raw import RawClient, produce_request, produced

MODULE = """
from penstock.policy import *

class Without(RecordValidationPolicy):
    def configure(self, configs):
        self.bad = configs["bad"].encode()
    def get_hints(self):
        return RecordIntrospectionHints(False, 0, ALL)
    def validate(self, topic, record):
        if self.bad in (record.value or b""):
            raise InvalidRecordException(f"it has {self.bad.decode()}")

class WithoutByBatch(Without):
    def validate_batch(self, topic, batch):
        for position, value in enumerate(batch.values):
            if self.bad in (value or b""):
                yield position, f"it has {self.bad.decode()}"

class NoTombstones(RecordsPolicy):
    def validate(self, topic, partition, records):
        if not all(record.has_value for record in records):
            raise PolicyViolationException("a tombstone")

class Keyed:
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("no key") if key is None else None

class Mark(ProduceRequestInterceptor):
    def configure(self, configs):
        self.mark = configs["mark"].encode()
    def interceptor_topic_pattern(self):
        return ""
    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop":
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value if value is None else value + self.mark)
"""
NAMES = "no-a,whole,mark,no-b,keyed"
SENT = [
    Record(1_700_000_000_000, key, value, ())
    for value in (b"a", b"b", b"ab", b"x", b"drop", b"", None)
    for key in (None, b"k")
]


@pytest.fixture
def file(tmp_path, kafka) -> Path:
    module = f"named_{uuid.uuid4().hex}"  # this process keeps imported modules
    (tmp_path / f"{module}.py").write_text(MODULE)
    lines = {
        "upstream.bootstrap.servers": kafka.bootstrap_servers,
        "listeners": f"PLAINTEXT://127.0.0.1:{gateway_port()}",
        "topic.settings.topic": "",
        "policies": "no-a,no-b,whole,keyed,mark,other",
        "policies.no-a.type": f"{module}.Without",
        "policies.no-a.bad": "a",
        "policies.no-b.type": f"{module}.WithoutByBatch",
        "policies.no-b.bad": "b!",
        "policies.whole.type": f"{module}.NoTombstones",
        "policies.keyed.type": f"{module}.Keyed",
        "policies.mark.type": f"{module}.Mark",
        "policies.mark.mark": "!",
        "policies.other.type": f"{module}.Mark",
        "policies.other.mark": "?",
        "topics.named*.penstock.policies": NAMES,
    }
    file = tmp_path / "penstock.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return file


def by_gateway(file, topic):
    """Produce each record alone; return code and message, as the gateway answers."""
    running = RunningGateway(file)
    try:
        with RawClient(running.broker_address()) as client:
            answers = [
                produced(client.call(produce_request([(topic, [(0, encode_batch([record]))])])))
                for record in SENT
            ]
    finally:
        running.stop()
    return [
        (result.error_code, [each.batch_index_error_message for each in result.record_errors])
        for result in (answer[topic, 0] for answer in answers)
    ]


def test_the_verdicts_are_the_gateways(rows, file, topic):
    name = topic("named", 1)
    given = [{"topic": name, "key": record.key, "value": record.value} for record in SENT]

    judged = judge(rows(*given, partitions=2), load_plan(file)).orderBy("offset")
    found = [row.verdict for row in judged.collect()]

    answers = by_gateway(file, name)
    assert [verdict.code for verdict in found] == [code for code, _ in answers]
    for verdict, (code, messages) in zip(found, answers, strict=True):
        if code == 87:
            assert [verdict.message] == messages
    assert [verdict.policy for verdict in found] == [
        "no-a", "no-a", "no-b", "no-b", "no-a", "no-a", "keyed", None, "mark", "mark", "keyed",
        None, "whole", "whole",
    ]  # fmt: skip


def test_both_store_the_intercepted_records(rows, file, topic, kafka):
    name = topic("named", 1)
    given = [{"topic": name, "key": record.key, "value": record.value} for record in SENT]

    applied = apply(rows(*given), load_plan(file)).where("verdict.outcome = 'accepted'")
    by_spark = [bytes(row.value) for row in applied.orderBy("offset").collect()]

    by_gateway(file, name)
    assert by_spark == [record[2] for record in read_topic(kafka.bootstrap_servers, name)]
    assert by_spark == [b"x!", b"!"]


def test_audit_and_split_have_the_names(command, file, topic, produce, tmp_path):
    name, accepted, rejected = topic("named", 1), topic("good", 1), topic("dead", 1)
    produce(name, [{"key": record.key, "value": record.value, "partition": 0} for record in SENT])

    done = command("audit", file, "--topic", name, "--report", tmp_path / "r")
    assert done.code == 0, done
    report = json.loads((tmp_path / "r" / "report.json").read_text())
    counts = {(reason["policy"], reason["code"]): reason["count"] for reason in report["reasons"]}
    assert counts == {
        ("no-a", 87): 4, ("no-b", 87): 2, ("keyed", 87): 2, ("mark", 0): 2, ("whole", 44): 2,
    }  # fmt: skip
    page = (tmp_path / "r" / "report.html").read_text()
    assert f"topics.named*.penstock.policies={NAMES}" in page
    assert "policies.no-a.bad" not in page  # a key of a policy may be a secret

    done = command("split", file, "--topic", name, "--accepted", accepted, "--rejected", rejected)
    assert done.code == 0, done
    bootstrap = load_configuration(file, describe_classes=classes_here).upstream_properties
    dead = read_topic(bootstrap["bootstrap.servers"], rejected)
    policies = [dict(headers)["__penstock.policy"] for _, _, _, headers in dead]
    assert sorted(set(policies)) == [b"keyed", b"no-a", b"no-b", b"whole"]


def test_redact_runs_the_named_interceptors_alone(rows, file):
    plan = load_plan(file).interceptors_only()
    given = [{"topic": name, "value": b"a"} for name in ("named-1", "other")]

    found = apply(rows(*given), plan).orderBy("offset").collect()
    assert [bytes(row.value) for row in found] == [b"a!", b"a"]
    assert [row.verdict.outcome for row in found] == ["accepted", "accepted"]


def test_the_value_on_a_topic_wins(rows, file):
    settings = {"set": {"penstock.policies": "no-a"}, "named-1": {"penstock.policies": "gone"}}
    plan = load_plan(file, topic_settings=settings)
    given = [
        {"topic": name, "value": b"ab!", "key": b"k"} for name in ("set", "named-1", "named-2")
    ]

    found = [row.verdict for row in judge(rows(*given), plan).orderBy("offset").collect()]
    assert [(verdict.outcome, verdict.policy) for verdict in found] == [
        ("refused", "no-a"), ("failed", "of this topic"), ("refused", "no-a"),
    ]  # fmt: skip
    changed = plan.for_topics({}, {"set": {"penstock.policies": "other"}})
    assert changed.has_interceptors
    accepted, rejected = split(rows(*given), changed)
    assert [bytes(row.value) for row in accepted.collect()] == [b"ab!?"]
    assert rejected.count() == 2
