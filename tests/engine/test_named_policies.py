"""Named policies at work: their configs, their order, and how everything calls them."""

import re

import pytest

from penstock.configuration import ConfigurationError, load_configuration
from penstock.engine.chain import Chain
from penstock.engine.explain import LocatedRecord, explain
from penstock.engine.instances import PolicyInstances
from penstock.engine.plans.declared import classes_here
from penstock.engine.plans.plan import Plan
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import PostponedError
from penstock.policy import Record
from tests.engine.chains import TOPIC_ID, columns, each

MODULE = """
from penstock.policy import *
CALLS = []

class Values(RecordValidationPolicy):
    "Refuses a value: KIP-940."
    def configure(self, configs):
        self.configs = configs
        self.bad = configs["bad"].encode()
    def validate(self, topic, record):
        CALLS.append((self.configs["bad"], record.value))
        if record.value == self.bad:
            raise InvalidRecordException(f"{self.configs['bad']} {topic.validation_policy!r}")
        if record.value == b"later":
            raise RetriableException("away")
        if record.value == b"crash":
            raise KeyError("x")
    def close(self):
        CALLS.append(("closed", self.configs["bad"]))

class Columns(Values):
    def validate_batch(self, topic, batch):
        return [(n, "column") for n, value in enumerate(batch.values) if value == self.bad]

class Batches(RecordsPolicy):
    def configure(self, configs):
        self.bad = configs["bad"].encode()
    def validate(self, topic, partition, records):
        values = [record.value for record in records]
        CALLS.append(values)
        if self.bad in values:
            raise PolicyViolationException(f"{topic}-{partition}")

class Validator(BrokerRecordValidator):
    def configure(self, configs):
        self.bad = configs["bad"].encode()
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("validator") if value == self.bad else None

class Suffix(ProduceRequestInterceptor):
    def configure(self, configs):
        self.suffix = configs["suffix"].encode()
    def interceptor_topic_pattern(self):
        return "^orders"
    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop":
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value + self.suffix)

class Plain(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return ""
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value)

class NoConfigs(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return None

class NotRead(RecordValidationPolicy):
    def validate(self, topic, record):
        pass

class Async(NotRead):
    async def configure(self, configs):
        pass

class Switched(RecordValidationPolicy):
    topic_configs = (TopicConfig("shop.on", "BOOLEAN", switches_on=True),
                     TopicConfig("shop.bad", default="x"))
    prepared = []
    def prepare_topic(self, topic, configs):
        self.prepared.append((topic, dict(configs)))
        if topic == "unusable":
            raise ValueError("it is not usable")
    def validate(self, topic, record):
        if record.value == topic.configs["shop.bad"].encode():
            raise InvalidRecordException("switched")

class Context(RecordValidationPolicy):
    def validate(self, topic, record, context):
        raise InvalidRecordException(str(context.principal))
"""


@pytest.fixture
def file(tmp_path, request):
    # Each test has its own module, because it is imported in this process.
    name = "named_" + re.sub(r"\W", "_", request.node.name)
    (tmp_path / f"{name}.py").write_text(MODULE)
    return tmp_path / f"{name}.properties"


def load(file, policies, **properties):
    """Return a configuration with policies of the module: class and keys by name."""
    lines = {"upstream.bootstrap.servers": "a:1", "policies": ",".join(policies), **properties}
    for name, (cls, keys) in policies.items():
        lines[f"policies.{name}.type"] = cls if "." in cls else f"{file.stem}.{cls}"
        lines |= {f"policies.{name}.{key}": value for key, value in keys.items()}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return load_configuration(
        file, read_declared=lambda *_: (), describe_classes=classes_here
    ).policies


class Loaded:
    def __init__(self, configuration):
        self.plan = Plan(configuration)
        self.instances = PolicyInstances(configuration, self.plan.names)
        self.plan.set_interceptor_patterns(self.instances.patterns)

    def chain(self, topic="orders", own=None):
        plan = self.plan.for_topic(topic, own or {})
        assert plan is not None
        return Chain(TopicPlan.decode(plan.encoded), self.instances)


def loaded(file, policies, names, **properties):
    return Loaded(load(file, policies, **{"topics.*.penstock.policies": names, **properties}))


def calls(file):
    return __import__(file.stem).CALLS


FOUR = {
    "values": ("Values", {"bad": "a"}),
    "columns": ("Columns", {"bad": "b"}),
    "batches": ("Batches", {"bad": "c"}),
    "validator": ("Validator", {"bad": "d"}),
}


def test_the_first_objection_in_the_order_of_the_list_counts(file):
    policies = {**FOUR, "again": ("Values", {"bad": "d"})}
    chain = loaded(file, policies, "values,columns,validator,again").chain()

    records = columns(b"a", b"b", b"d", b"x")
    verdict = chain.judge(3, TOPIC_ID, records)
    assert [(error.index, error.policy, error.message) for error in verdict.record_errors] == [
        (0, "values", "a ''"), (1, "columns", "column"), (2, "validator", "validator"),
    ]  # fmt: skip
    assert each(chain, records) == [
        (0, "refused", "values", 87, "a ''"),
        (1, "refused", "columns", 87, "column"),
        (2, "refused", "validator", 87, "validator"),
    ]
    other = loaded(file, policies, "again,validator").chain()
    assert each(other, columns(b"d")) == [(0, "refused", "again", 87, "d ''")]


def test_a_policy_over_batches_stands_anywhere(file):
    chain = loaded(file, FOUR, "values,batches,columns").chain()

    verdict = chain.judge(3, TOPIC_ID, columns(b"x", b"c"))
    assert (verdict.code, verdict.policy, verdict.message) == (44, "batches", "orders-3")
    assert each(chain, columns(b"a", b"c", b"b")) == [
        (0, "refused", "values", 87, "a ''"),
        (1, "refused", "batches", 44, "orders-3"),
        (2, "refused", "columns", 87, "column"),
    ]


def test_a_batch_that_is_refused_for_a_record_is_not_judged_as_a_batch(file):
    chain = loaded(file, FOUR, "values,batches").chain()
    calls(file).clear()

    verdict = chain.judge(3, TOPIC_ID, columns(b"a", b"c"))
    assert (verdict.code, verdict.policy) == (87, "values")
    assert calls(file) == [("a", b"a"), ("a", b"c")]


def test_stored_records_are_given_in_batches_as_the_plan_says(file):
    chain = loaded(file, FOUR, "batches").chain()
    calls(file).clear()

    found = chain.judge_each(
        3, TOPIC_ID, columns(b"1", b"c", b"3", b"4", b"5"), records_policy_batch=2
    )
    assert calls(file) == [[b"1", b"c"], [b"3", b"4"], [b"5"]]
    assert [index for index, _ in found.verdicts] == [0, 1]


def test_a_batch_without_records_is_judged_by_policies_over_batches(file):
    chain = loaded(file, FOUR, "values,batches").chain()
    calls(file).clear()

    assert chain.judge(3, TOPIC_ID, columns()).code == 0
    assert calls(file) == [[]]


@pytest.mark.parametrize("names", ["values", "batches,values", "columns,values"])
def test_a_retriable_exception_ends_the_judging(file, names):
    chain = loaded(file, FOUR, names).chain()

    verdict = chain.judge(3, TOPIC_ID, columns(b"x", b"later"))
    assert (verdict.outcome.value, verdict.policy) == ("postponed", "values")
    with pytest.raises(PostponedError, match="values: away"):
        chain.judge_each(3, TOPIC_ID, columns(b"x", b"later"))


def test_a_failure_is_of_its_name(file):
    chain = loaded(file, FOUR, "values").chain()

    assert [row[:3] for row in each(chain, columns(b"crash"))] == [(0, "failed", "values")]


def test_interceptors_come_first_wherever_they_stand(file):
    policies = {
        "values": ("Values", {"bad": "x!?"}),
        "mark": ("Suffix", {"suffix": "!"}),
        "ask": ("Suffix", {"suffix": "?"}),
    }
    found = loaded(file, policies, "values,mark,ask")

    assert each(found.chain(), columns(b"x", b"drop")) == [
        (0, "refused", "values", 87, "x!? ''"), (1, "dropped", "mark", 0, None),
    ]  # fmt: skip
    assert found.chain().plan.policies == ("mark", "ask", "values")
    # Its pattern has to be found in the topic's name as well.
    assert found.chain("other").plan.policies == ("values",)
    assert each(found.chain("other"), columns(b"drop")) == []
    # And a topic has to name it.
    only = found.chain("orders", {"penstock.policies": "ask"})
    assert only.judge_each(0, TOPIC_ID, columns(b"x")).replaced == ([b"x"], [b"x?"])


def test_its_own_keys_win_over_the_files(file):
    found = Loaded(load(file, {"values": FOUR["values"]}, bad="z", other="o"))

    configs = found.instances.named(TopicPlan(topic="t", named=("values",)))[0].validate.__self__
    assert {key: configs.configs[key] for key in ("bad", "other")} == {"bad": "a", "other": "o"}


@pytest.mark.parametrize("cls", ["Plain", "NoConfigs", "NotRead"])
def test_keys_that_nothing_would_read_are_an_error(file, cls):
    assert loaded(file, {"one": (cls, {})}, "one").chain() is not None
    with pytest.raises(
        ConfigurationError, match=r"policies\.one\.type: .*policies\.one\.limit cann"
    ):
        loaded(file, {"one": (cls, {"limit": "1"})}, "one")


def test_a_coroutine_is_an_error(file):
    with pytest.raises(ConfigurationError, match=r"policies\.one\.type: .*must not be async"):
        loaded(file, {"one": ("Async", {"limit": "1"})}, "one")


def test_an_error_of_configure_names_the_key(file):
    with pytest.raises(
        ConfigurationError, match=r"policies\.values\.type: .*configure\(\) failed: Key"
    ):
        load_and_make(file, {"values": ("Values", {})})


def load_and_make(file, policies):
    configuration = load(file, policies)
    return PolicyInstances(configuration, Plan(configuration).names)


def test_each_name_has_an_instance_that_is_closed_once(file):
    policies = {name: ("Values", {"bad": name}) for name in ("a", "b")}
    instances = load_and_make(file, policies)
    calls(file).clear()

    assert instances.close() == []
    assert calls(file) == [("closed", "b"), ("closed", "a")]


def test_topic_configs_are_those_of_its_name(file):
    keys = {"shop.on": "true", "shop.bad": "y"}
    policies = {"one": ("Switched", keys), "two": ("Switched", {"shop.on": "true"})}
    found = loaded(file, policies, "one,two")

    assert [row[2] for row in each(found.chain(), columns(b"x", b"y"))] == ["two", "one"]
    prepared = __import__(file.stem).Switched.prepared
    assert ("orders", {"shop.on": "true", "shop.bad": "y"}) in prepared
    with pytest.raises(ConfigurationError, match="topic unusable: one: it is not usable"):
        found.chain("unusable")
    with pytest.raises(ConfigurationError, match=r"topics\.unusable: topic unusable: one: it is"):
        loaded(file, policies, "two", **{"topics.unusable.penstock.policies": "one"})


def test_the_policy_gets_the_text_of_the_topic(file):
    own = {"record.validation.policy.class.name": f"{file.stem}.NotRead"}
    found = loaded(file, FOUR, "values", **own)

    chain = found.chain("orders", {"record.validation.policy": "text"})
    assert each(chain, columns(b"a")) == [(0, "refused", "values", 87, "a 'text'")]


def test_a_named_policy_gets_the_client(file):
    found = loaded(file, {"who": ("Context", {})}, "who")

    assert found.instances.takes_client == {"who"}
    assert each(found.chain(), columns(b"a"))[0][4] == "None"


def test_explain_names_them_in_order(file):
    found = loaded(
        file, {**FOUR, "mark": ("Suffix", {"suffix": "!"})}, "values,batches,mark,columns"
    )
    record = LocatedRecord(0, TOPIC_ID, Record(0, None, b"b", ()))

    steps = explain(found.plan, found.instances, "orders", record).steps
    assert [(step.kind, step.name, step.decision) for step in steps] == [
        ("interceptor", "mark", "replaced value"),
        ("record", "values", "accepted"),
        ("batch", "batches", "accepted"),
        ("record", "columns", "accepted"),
    ]


def test_stored_records_are_judged_by_the_strictest_modes_first(file):
    policies = {
        "batches": ("Batches", {"bad": "c", "mode": "mark"}),
        "values": ("Values", {"bad": "c", "mode": "quarantine"}),
        "columns": ("Columns", {"bad": "a"}),
    }
    chain = loaded(file, policies, "batches,values,columns").chain()
    calls(file).clear()

    found = chain.judge_each(3, TOPIC_ID, columns(b"a", b"c", b"x"), records_policy_batch=3)
    assert sorted((index, verdict.policy) for index, verdict in found.verdicts) == [
        (0, "columns"), (1, "values"),
    ]  # fmt: skip
    assert calls(file) == [("c", b"c"), ("c", b"x"), [b"x"]]


def test_explain_starts_with_the_strictest_modes(file):
    policies = {
        "values": ("Values", {"bad": "a", "mode": "observe"}),
        "validator": ("Validator", {"bad": "a"}),
        "mark": ("Suffix", {"suffix": ""}),
    }
    found = loaded(file, policies, "values,validator,mark")
    record = LocatedRecord(0, TOPIC_ID, Record(0, None, b"a", ()))

    explained = explain(found.plan, found.instances, "orders", record)
    assert [step.name for step in explained.steps] == ["mark", "validator"]
    assert explained.verdict.policy == "validator"


def test_explain_equals_gateways_if_interceptors_only_observe(file):
    policies = {
        "mark": ("Suffix", {"suffix": "!"}),
        "observed": ("Values", {"bad": "b!"}),
        "strict": ("Values", {"bad": "a", "mode": "enforce"}),
    }
    found = loaded(
        file, policies, "mark,observed,strict", **{"topics.orders.penstock.mode": "observe"}
    )

    def steps(value):
        record = LocatedRecord(0, TOPIC_ID, Record(0, None, value, ()))
        explained = explain(found.plan, found.instances, "orders", record)
        return [(step.kind, step.name, step.decision) for step in explained.steps]

    assert steps(b"a") == [("record", "strict", "refused with 87: a ''")]
    assert steps(b"b") == [
        ("record", "strict", "accepted"),
        ("interceptor", "mark", "replaced value"),
        ("record", "observed", "refused with 87: b! ''"),
    ]


CONTRACT = """
{"apiVersion": "v3.1.0", "kind": "DataContract", "id": "x", "version": "1", "status": "active",
 "schema": [
 {"name": "orders", "properties": [{"name": "id", "logicalType": "string"}]},
 {"name": "payments", "properties": [{"name": "id", "logicalType": "string"}]}]}
"""


def test_a_named_policy_rejects_topics_that_it_cannot_judge(file):
    (file.parent / "c.yaml").write_text(CONTRACT)
    policies = {
        "values": FOUR["values"],
        "batches": FOUR["batches"],
        "two": ("penstock.policies.DataContract", {"contract": "c.yaml"}),
    }
    # As where topics are altered: no policy of records is loaded.
    instances = PolicyInstances(load(file, policies), {})
    assert instances.try_topic(TopicPlan(topic="orders", named=(*policies,))) is None
    objection = instances.try_topic(TopicPlan(topic="sales", named=(*policies,)))
    assert objection == (
        "two: the contract x 1 has no object for topic sales; it has orders, payments: set object"
    )
    assert instances.validation_instances == []


def test_a_topic_that_names_an_unknown_policy_cannot_be_judged(file):
    with pytest.raises(ConfigurationError, match="there is no policy gone"):
        loaded(file, FOUR, "values").chain("orders", {"penstock.policies": "values,gone"})
