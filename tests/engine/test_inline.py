"""Batches that are accepted without a worker, and those that are left to a worker."""

import json
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.configuration import ConfigurationError, load_configuration
from penstock.engine import inline
from penstock.engine.chain import Chain
from penstock.engine.inline import (
    BUDGET_S,
    MAX_RECORDS,
    SLOW_S,
    SUSPENDED_S,
    TURN_S,
    InlineJudge,
)
from penstock.engine.instances import PolicyInstances
from penstock.engine.plans.declared import classes_here
from penstock.engine.plans.plan import Plan
from penstock.engine.stored_columns import StoredColumns
from penstock.engine.verdict import ACCEPTED
from penstock.kafka.records.batch import read_batch
from penstock.policies.json_schema.native import NativeCheck
from penstock.policy import Header, Record
from tests.gateways import write_configuration
from tests.kafka.records.encoding import CODECS, encode_batch, values

TOPIC_ID = uuid.UUID(int=7)
MAX_BYTES = 32 * 1024
SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "note": {"type": "string", "maxLength": 5}},
}
GOOD, BAD = b'{"id": 1}', b'{"id": "1"}'
CLASS = "record.validation.policy.class.name"
POLICIES = """
from penstock.policy import *
from penstock.policies import JsonSchema
class Mine(JsonSchema): pass
class Passes(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers): pass
"""


class Clock:
    """A clock that moves when it is read."""

    def __init__(self):
        self.now = self.step = 0.0

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "order.json").write_text(json.dumps(SCHEMA))
    unbounded = {"pattern": "^(?!a)"}
    (folder / "unbounded.json").write_text(json.dumps(unbounded))
    return folder


def configured(folder, **properties):
    properties = {
        CLASS: "penstock.policies.JsonSchema",
        "topics.orders.record.validation.policy": "order.json",
        **properties,
    }
    file = write_configuration(folder, "127.0.0.1:1", 9, properties, POLICIES)
    return load_configuration(
        file, read_declared=lambda *_: (), describe_classes=classes_here
    ).policies


class AcceptsAll:
    """A native judge."""

    def accepts_in_time(self, data):
        return True


def judge_of(configuration, clock=lambda: 0.0, cpu_clock=lambda: 0.0):
    return InlineJudge(configuration, clock=clock, cpu_clock=cpu_clock)


def accepts(judge, plan, data):
    return judge.accepts(plan, 9, memoryview(data))


@pytest.fixture(scope="module")
def orders(folder):
    configuration = configured(folder)
    return judge_of(configuration), Plan(configuration).for_topic("orders")


@pytest.mark.parametrize("codec", CODECS)
def test_small_batches_that_fit_are_accepted(orders, codec):
    assert accepts(*orders, encode_batch(values(*[GOOD] * 10), codec=codec))


@pytest.mark.parametrize(
    "data",
    [
        encode_batch(values(GOOD, BAD, GOOD)),
        encode_batch(values(GOOD, None)) + b"x",
        encode_batch(values(GOOD))[:-1],
        b"",
        encode_batch(values(*[GOOD] * (MAX_RECORDS + 1))),
        encode_batch(values(b'{"id": 1}' + b" " * MAX_BYTES)),
        encode_batch(values(b'{"id": 1}' + b" " * MAX_BYTES), codec="gzip"),
    ],
    ids=["refused", "bytes behind", "cut off", "empty", "many records", "large", "unpacks large"],
)
def test_all_else_is_left_to_a_worker(orders, data):
    assert not accepts(*orders, data)


@pytest.mark.parametrize(
    "properties",
    [
        {CLASS: "policies.Mine"},
        {CLASS: "penstock.policies.JsonSchema", "record.validator.classes": "policies.Passes"},
        {CLASS: "penstock.policies.JsonSchema", "record.validation.policy.class.path": "."},
        {"topics.orders.record.validation.policy": "unbounded.json"},
        {"policy.inline.max.bytes": 0},
    ],
    ids=["a user's class", "a second policy", "a class path", "not bounded", "switched off"],
)
def test_policies_that_are_not_run_inline(folder, properties):
    configuration = configured(folder, **properties)
    plan = Plan(configuration).for_topic("orders")
    assert not judge_of(configuration).judges(plan)
    assert not accepts(judge_of(configuration), plan, encode_batch(values(b"[]", GOOD)))


@pytest.mark.parametrize(
    "limit", [{"decompressed.batch.max.bytes": 1024}, {"decompressed.batch.max.records": 4}]
)
def test_smaller_limits_of_the_configuration_hold(folder, limit):
    configuration = configured(folder, **limit)
    judge, plan = judge_of(configuration), Plan(configuration).for_topic("orders")
    document = b'{"id": 1}' + b" " * 250
    assert accepts(judge, plan, encode_batch(values(*[document] * 3), codec="gzip"))
    assert not accepts(judge, plan, encode_batch(values(*[document] * 5), codec="gzip"))


@pytest.mark.parametrize("limit", [{}, {"policy.inline.max.bytes": 0}])
def test_warnings_of_policies_are_collected(folder, limit):
    properties = {
        "policies": "share,other",
        "policies.share.type": "penstock.policies.Rules",
        "policies.share.rules.paid": "value.paid / value.total < 1",
        "policies.other.type": "penstock.policies.Rules",
        "policies.other.rules.paid": "value.paid < 1",
    }
    [warning] = judge_of(configured(folder, **properties, **limit)).warnings
    assert warning.startswith("policies.share.rules.paid: / of two whole numbers drops")


def test_a_panic_of_an_extension_is_left_to_a_worker(folder, monkeypatch):
    class PanicException(BaseException):
        """Raised where a Rust extension panics."""

    def panic(*_, **__):
        raise PanicException

    configuration = configured(folder)
    judge, plan = judge_of(configuration), Plan(configuration).for_topic("orders")
    monkeypatch.setattr(inline, "read_batch", panic)
    assert not accepts(judge, plan, encode_batch(values(GOOD)))


def test_the_files_of_topic_configs_are_read_elsewhere(folder):
    configuration = configured(folder)
    works = []
    judge = InlineJudge(configuration, in_background=works.append, cpu_clock=lambda: 0.0)
    settings_of_topic = {"record.validation.policy": "value=order.json"}
    plan = Plan(configuration).for_topic("others", settings_of_topic)
    batch = encode_batch(values(GOOD))
    assert [accepts(judge, plan, batch) for _ in range(2)] == [False, False]
    (work,) = works
    work()
    assert accepts(judge, plan, batch)


@pytest.fixture
def timed(folder):
    clock, cpu_clock = Clock(), Clock()
    configuration = configured(folder)
    judge = judge_of(configuration, clock, cpu_clock)
    return judge, Plan(configuration).for_topic("orders"), clock, cpu_clock


SLOW = [encode_batch(values(*[GOOD] * 100)), encode_batch(values(GOOD), codec="gzip")]


@pytest.mark.parametrize("batch", SLOW, ids=["not small", "compressed"])
def test_slow_topics_are_left_to_workers_for_a_while(timed, batch):
    judge, plan, clock, cpu_clock = timed
    cpu_clock.step = SLOW_S * 1.1
    assert accepts(judge, plan, batch)
    cpu_clock.step = 0.0
    assert not accepts(judge, plan, batch)
    clock.now += SUSPENDED_S * 0.9
    assert not accepts(judge, plan, batch)
    clock.now += SUSPENDED_S * 0.2
    assert accepts(judge, plan, batch)


def test_many_small_batches_do_not_keep_the_event_loop(folder):
    most = BUDGET_S * 0.6
    # Read at the begin of a turn or in it, then before a batch and after it.
    times = iter([1.0, 1.0, 1.0 + most, 1.0 + most, 1.0 + most, 1.0 + 2 * most, 1.0 + 2 * most])
    configuration = configured(folder)
    judge = judge_of(configuration, lambda: next(times, 1.0 + TURN_S))
    plan, batch = Plan(configuration).for_topic("orders"), encode_batch(values(GOOD))
    assert [accepts(judge, plan, batch) for _ in range(3)] == [True, True, False]
    assert accepts(judge, plan, batch)


def test_many_batches_do_not_keep_the_event_loop(timed):
    judge, plan, clock, cpu_clock = timed
    batch = SLOW[0]
    cpu_clock.step = BUDGET_S / 4
    assert [accepts(judge, plan, batch) for _ in range(6)] == [True] * 4 + [False] * 2
    clock.now += TURN_S
    assert accepts(judge, plan, batch)


def test_reasons_are_never_looked_for_inline(folder, monkeypatch):
    def objection(*_):
        raise AssertionError("a worker has the reason")

    configuration = configured(folder)
    judge, plan = judge_of(configuration), Plan(configuration).for_topic("orders")
    monkeypatch.setattr(NativeCheck, "refused", objection)
    assert not accepts(judge, plan, encode_batch(values(GOOD, BAD, b"{", None)))


DOCUMENTS = st.one_of(
    st.sampled_from([GOOD, BAD, None, b"", b"{", b'{"id": 1, "note": "123456"}', b"\xff"]),
    st.builds(
        lambda given: json.dumps(given).encode(),
        st.fixed_dictionaries(
            {}, optional={"id": st.integers() | st.none(), "note": st.text(max_size=7)}
        ),
    ),
)


@pytest.mark.thorough
@settings(max_examples=200)
@given(st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_a_worker_accepts_all_that_is_accepted_inline(folder_of_judges, documents):
    judge, chain, plan = folder_of_judges
    data = encode_batch(values(*documents))
    batch = read_batch(data, api_version=9, max_decompressed_bytes=10**6)
    verdict = chain.judge(0, TOPIC_ID, StoredColumns(batch.records))
    assert accepts(judge, plan, data) is (verdict is ACCEPTED)


@pytest.fixture(scope="module")
def folder_of_judges(folder):
    configuration = configured(folder)
    plan = Plan(configuration)
    policies = PolicyInstances(configuration, plan.names)
    topic = plan.for_topic("orders")
    return judge_of(configuration), Chain(topic, policies), topic


class Rule:
    """A policy of Penstock's own, made up: what `penstock.policies` may have more of."""

    def configure(self, configs):
        self.bad = configs["bad"].encode()
        if not self.bad:
            raise ValueError("bad must be something")

    def is_bounded(self, text):
        return text != "unbounded"

    def all_fit(self, text, batch):
        return self.bad not in list(batch.values)

    def validate(self, topic, record):
        raise NotImplementedError


@pytest.fixture
def rule(monkeypatch):
    monkeypatch.setattr("penstock.policies.Rule", Rule, raising=False)


RULES = {
    CLASS: "penstock.policies.JsonSchema",
    "policies": "a,b,mine",
    "policies.a.type": "penstock.policies.Rule",
    "policies.a.bad": "a",
    "policies.b.type": "penstock.policies.Rule",
    "policies.b.bad": "b",
    "policies.mine.type": "policies.Passes",
    "topics.orders.penstock.policies": "a",
}


@pytest.mark.parametrize(
    ("names", "accepted"),
    [("", False), ("a", True), ("b", False), ("a,b", False), ("a,mine", False)],
)
@pytest.mark.usefixtures("rule")
def test_named_policies_of_our_own_are_run_inline(folder, names, accepted):
    configuration = configured(folder, **{**RULES, "topics.orders.record.validation.policy": ""})
    plan = Plan(configuration).for_topic("named", {"penstock.policies": names})
    judge = judge_of(configuration)

    data = encode_batch(values(b"b"))
    if plan is not None:
        accepts(judge, plan, data)  # whether it is bounded is found out beside
        assert accepts(judge, plan, data) is accepted
        assert judge.judges(plan) is ("mine" not in names)


SHORT = {
    "Required": ({"fields": "id"}, GOOD, b"{}"),
    "MaxBytes": ({"value.max.bytes": "8"}, b"12345678", b"123456789"),
    "HeaderRequired": (
        {"headers": "trace"}, Record(0, None, b"x", (Header("trace", b"1"),)), b"x",
    ),
    "KeyRequired": ({}, b"x", Record(0, None, b"x", ())),
    "JsonSchema": ({"schema": "order.json"}, GOOD, BAD),
    "Rules": ({"rules.id": "value.id > 0"}, GOOD, b'{"id": 0}'),
    "DataContract": ({"contract": "contract.json"}, GOOD, BAD),
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_each_policy_without_code_is_run_inline(folder, name):
    keys, good, bad = SHORT[name]
    properties = {f"policies.p.{key}": value for key, value in keys.items()}
    (folder / "contract.json").write_text(json.dumps({
        "apiVersion": "v3.1.0", "kind": "DataContract", "id": "c", "version": "1", "status": "active",
        "schema": [{"name": "o", "properties": [{"name": "id", "logicalType": "integer"}]}],
    }))  # fmt: skip
    configuration = configured(
        folder, **properties, policies="p", **{"policies.p.type": f"penstock.policies.{name}"}
    )
    judge = judge_of(configuration)
    plan = Plan(configuration).for_topic("named", {"penstock.policies": "p"})

    def accepted(record):
        records = [record] if isinstance(record, Record) else values(record)
        return accepts(judge, plan, encode_batch(records))

    accepted(good)  # whether it is bounded is found out beside
    assert accepted(good)
    assert not accepted(bad)


@pytest.mark.usefixtures("rule")
def test_all_policies_of_a_topic_have_to_accept(folder):
    configuration = configured(folder, **RULES)
    plan = Plan(configuration).for_topic("orders")
    assert plan.policies == ("penstock.policies.JsonSchema", "a")
    judge = judge_of(configuration)

    assert accepts(judge, plan, encode_batch(values(GOOD)))
    assert not accepts(judge, plan, encode_batch(values(BAD)))
    text = {"record.validation.policy": "unbounded.json"}
    unbounded = Plan(configuration).for_topic("orders", text)
    accepts(judge, unbounded, encode_batch(values(GOOD)))
    assert not judge.judges(unbounded)


@pytest.mark.usefixtures("rule")
def test_a_policy_that_cannot_be_configured_names_its_key(folder):
    with pytest.raises(
        ConfigurationError, match=r"policies\.a\.type: .*Rule: bad must be something"
    ):
        judge_of(configured(folder, **{**RULES, "policies.a.bad": ""}))


@pytest.mark.parametrize("version", [2, 3, 6, 7])
@pytest.mark.parametrize("codec", CODECS)
def test_a_large_batch_is_judged_natively_if_its_request_may_have_its_codec(folder, version, codec):
    judge = judge_of(configured(folder))
    plan = Plan(configured(folder)).for_topic("orders")
    data = encode_batch(values(*[GOOD] * 5000), codec=codec)
    may = version >= (7 if codec == "zstd" else 3)
    assert judge.accepts_large(plan, version, data, AcceptsAll()) == may
