"""`penstock check` runs interceptors twice, and names those whose results differ."""

import pytest

from penstock.cli.jobs.dry_run import dry_run
from penstock.configuration import read_configuration

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


async def found(tmp_path, names, **more):
    (tmp_path / "policies.py").write_text(POLICIES)
    configuration = read_configuration(
        tmp_path / "gateway.properties",
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "upstream.bootstrap.servers": "127.0.0.1:1",
            "produce.request.interceptors": ",".join(f"policies.{name}" for name in names),
            **more,
        },
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


async def test_named_ones_are_tried_each_by_itself(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    named = {
        "policies": "fails,time,same",
        "policies.fails.type": "policies.Fails",
        "policies.time.type": "policies.Time",
        "policies.same.type": "policies.Same",
    }
    assert await found(tmp_path, ["Same"], **named) == ["policies.Same, time"]
