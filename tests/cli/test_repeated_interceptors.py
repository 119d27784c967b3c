"""`penstock check` runs interceptors twice, and names those whose results differ."""

import pytest

from penstock.cli.checks.dry_run import dry_run
from penstock.configuration import read_configuration
from tests.gateways import run_penstock

pytestmark = pytest.mark.system

POLICIES = """
import itertools, random, time
from penstock.policy import *

class Base(ProduceRequestInterceptor):
    pattern = "."
    def interceptor_topic_pattern(self): return self.pattern
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value)

class Same(Base):
    def process_record(self, key, value, topic, partition, headers):
        if value is None:
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value + b"!")

class Chance(Base):
    pattern = "^orders[.]eu$"
    def process_record(self, key, value, topic, partition, headers):
        if random.random() < 0.5:
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)

class Time(Base):
    pattern = "^only-payments$"
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, b"%f" % time.time())

class Fails(Base):
    numbers = itertools.count()
    def process_record(self, key, value, topic, partition, headers):
        raise ValueError(next(self.numbers))
"""


def properties(tmp_path, names):
    (tmp_path / "policies.py").write_text(POLICIES)
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "upstream.bootstrap.servers": "127.0.0.1:1",
        "produce.request.interceptors": ",".join(f"policies.{name}" for name in names),
    }


async def found(tmp_path, names, **more):
    configuration = read_configuration(
        tmp_path / "gateway.properties", {**properties(tmp_path, names), **more}
    )
    return (await dry_run(configuration)).unrepeatable


@pytest.mark.parametrize(
    ("names", "unrepeatable"),
    [
        (["Same"], []),
        (["Fails"], []),
        (["Time"], ["policies.Time"]),
        (["Same", "Time"], ["policies.Same, policies.Time"]),
    ],
)
async def test_results_of_the_same_records_are_compared(tmp_path, monkeypatch, names, unrepeatable):
    monkeypatch.syspath_prepend(tmp_path)
    assert await found(tmp_path, names) == unrepeatable


async def test_the_topics_of_the_file_are_tried(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    topics = {"topics.orders.eu.penstock.mode": "enforce"}
    assert await found(tmp_path, ["Chance"], **topics) == ["policies.Chance"]


async def test_named_interceptors_are_tried_separately(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    named = {
        "policies": "fails,time,same",
        "policies.fails.type": "policies.Fails",
        "policies.time.type": "policies.Time",
        "policies.same.type": "policies.Same",
    }
    assert await found(tmp_path, ["Same"], **named) == ["policies.Same, time"]


def test_check_prints_a_warning_for_each(tmp_path):
    file = tmp_path / "gateway.properties"
    lines = {**properties(tmp_path, ["Same", "Time"]), "broker.ports": "9193-9195"}
    lines["listeners"] = "PLAINTEXT://127.0.0.1:9192"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    done = run_penstock("check", file)
    assert done.returncode == 0, done.stderr
    [warning] = [line for line in done.stdout.splitlines() if line.startswith("warning: ")]
    assert warning.startswith("warning: policies.Same, policies.Time: the same records had diff")
