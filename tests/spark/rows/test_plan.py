"""`plan`: rules, a schema, a contract and policies, without a file, a cluster or a session."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.columns import columns_of
from penstock.jobs.evaluation import Evaluator
from penstock.policy import (
    BrokerRecordValidator,
    InvalidRecordException,
    PolicyViolationException,
    ProduceRequestInterceptor,
    Record,
    RecordsPolicy,
    RecordValidationPolicy,
    TopicConfig,
)
from penstock.spark import load_plan
from penstock.spark.arguments import check_plan
from penstock.spark.rows.plan import RowPlan, plan, row_plan_of
from tests.gateways import write_configuration

SCHEMA = {"properties": {"amount": {"minimum": 0}}, "required": ["id"]}
CONTRACT = """
apiVersion: v3.1.0
kind: DataContract
id: shop
version: 1.0.0
status: active
schema:
  - name: orders
    properties:
      - {name: id, logicalType: integer, required: true}
  - name: customers
    properties:
      - {name: email, logicalType: string, required: true}
"""


class NoBad(RecordValidationPolicy):
    topic_configs = (TopicConfig("word", "STRING", "bad", "The word."),)

    def validate(self, topic, record):
        if topic.configs["word"].encode() in record.value:
            raise InvalidRecordException("is bad")


class AtMost(BrokerRecordValidator):
    def __init__(self, most):
        self.most = most

    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("too long") if len(value) > self.most else None


class Whole(RecordsPolicy):
    def configure(self, configs):
        self.configs = configs

    def validate(self, topic, partition, records):
        for record in records:
            if b"whole" in record.value:
                raise PolicyViolationException(f"{topic} {min(self.configs)}")


class RefusingBatches(RecordsPolicy):
    def validate(self, topic, partition, records):
        raise PolicyViolationException("no")


class NoLetters(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return None


class Upper(ProduceRequestInterceptor):
    pass


def verdicts(row_plan, *values, topic="rows"):
    """Return for each value the outcome, the policy, and the rules that object."""
    evaluator = Evaluator(row_plan.records)
    records = columns_of(
        [Record(-1, None, v if isinstance(v, bytes) else json.dumps(v).encode()) for v in values]
    )
    judged = evaluator.judge_by_all(topic, 0, records)
    evaluator.close()
    refused = dict(judged.verdicts)
    return [
        (
            refused[row].policy if row in refused else None,
            [f"{o.policy} {o.rule or o.message}" for o in judged.objections.get(row, ())],
        )
        for row in range(len(values))
    ]


def test_all_parts_judge_in_their_order(tmp_path):
    (tmp_path / "shop.yaml").write_text(CONTRACT)
    row_plan = plan(
        rules={"positive": "value.amount > 0", "known": "value.currency in ['EUR']"},
        schema=SCHEMA,
        contract=tmp_path / "shop.yaml",
        policies=[NoBad, AtMost(60), Whole],
        topic="orders",
    )
    assert verdicts(
        row_plan,
        {"id": 1, "amount": 1, "currency": "EUR"},
        {"id": 1, "amount": -1, "currency": "USD"},
        {"id": 1, "amount": 1, "currency": "EUR", "note": "bad, whole" + "." * 40},
        {"amount": 1, "currency": "EUR"},
        topic="orders",
    ) == [
        (None, []),
        ("rules", ["rules positive", "rules known", "schema amount: minimum"]),
        ("NoBad", ["NoBad is bad", "AtMost too long", "Whole orders policies"]),
        ("schema", ["schema id: required", "contract id: required"]),
    ]
    assert row_plan.rules == (
        ("rules", "positive"), ("rules", "known"), ("schema", None), ("contract", None),
        ("NoBad", None), ("AtMost", None), ("Whole", None),
    )  # fmt: skip
    assert (row_plan.topic, row_plan.nulls) == ("orders", "null")


def test_the_plan_is_the_same_in_another_process_without_its_files(tmp_path):
    for name, content in (("s.json", json.dumps(SCHEMA)), ("shop.yaml", CONTRACT)):
        (tmp_path / name).write_text(content)
    row_plan = plan(
        schema=tmp_path / "s.json", contract=tmp_path / "shop.yaml", topic="orders",
        policies=[NoBad],
    )  # fmt: skip
    for name in ("s.json", "shop.yaml"):
        (tmp_path / name).unlink()
    (tmp_path / "plan").write_bytes(pickle.dumps(row_plan))
    program = (
        "import pickle, sys; from pathlib import Path\n"
        "from penstock.jobs.evaluation import evaluator_of\n"
        "from penstock.engine.columns import columns_of; from penstock.policy import Record\n"
        "plan = pickle.loads(Path(sys.argv[1]).read_bytes())\n"
        "records = columns_of([Record(-1, None, v) for v in (b'{\"id\": 1}', b'{}', b'{\"id\":\"bad\"}')])\n"
        "judged = evaluator_of(plan.records).judge_by_all('orders', 0, records)\n"
        "print([(n, v.policy) for n, v in judged.verdicts], 'tests.spark.rows.test_plan' in sys.modules)\n"
        "print(plan.records.fingerprint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "plan")],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "[(1, 'schema'), (2, 'contract')] False",
        row_plan.records.fingerprint,
    ]


def test_the_fingerprint_tells_plans_apart():
    class Other(NoBad):
        pass

    plans = [
        plan(rules={"a": "value.x > 0"}),
        plan(rules={"a": "value.x > 1"}),
        plan(schema=SCHEMA),
        plan(schema={}),
        plan(policies=[NoBad]),
        plan(policies=[Other]),
        plan(policies=[AtMost(1)]),
        plan(policies=[AtMost(2)]),
    ]
    assert len({row_plan.records.fingerprint for row_plan in plans}) == len(plans)
    assert plan(schema=SCHEMA).records.fingerprint == plans[2].records.fingerprint


def test_a_policy_is_that_of_when_the_plan_was_made():
    policy = AtMost(1)
    row_plan = plan(policies=[policy])
    policy.most = 100
    assert verdicts(row_plan, b"{}") == [("AtMost", ["AtMost too long"])]


def test_policies_of_the_same_name_are_apart():
    row_plan = plan(policies=[AtMost(1), AtMost(100)])
    assert row_plan.rules == (("AtMost", None), ("AtMost-2", None))
    assert verdicts(row_plan, b"{}") == [("AtMost", ["AtMost too long"])]


def test_every_topic_has_the_policies():
    row_plan = plan(rules={"is": 'topic == "a"'})
    assert verdicts(row_plan, b"{}", topic="a") == [(None, [])]
    assert verdicts(row_plan, b"{}", topic="b") == [("rules", ["rules is"])]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "plan: there is nothing to judge by: give rules, schema, contract or policies"),
        ({"rules": {}}, "plan: rules must be conditions by name"),
        ({"rules": ["value.x > 0"]}, "plan: rules must be conditions by name"),
        ({"rules": {"a": "value.("}}, "plan: rules.a: its condition is not valid"),
        ({"rules": {"a.b": "true"}}, "'a.b' has not"),
        ({"rules": {"a": 1}}, "plan: rules: a must be a condition in CEL, not int"),
        ({"schema": "/no/such.json"}, "plan: schema: there is no file /no/such.json"),
        ({"schema": '{"type": "object"}'}, "not the schema's text: schema=json.loads(...)"),
        ({"schema": {"type": 5}}, "plan: schema: the schema is not a valid schema at /type"),
        ({"schema": 5}, "plan: schema: the path of a JSON Schema, or the schema as a mapping,"),
        ({"contract": "/no/such.yaml"}, "plan: such.yaml cannot be read"),
        ({"contract": 5}, "plan: contract: the path of a contract is required, not int"),
        (
            {"policies": NoBad},
            "a list of classes or instances, like policies=[Orders], not NoBad alone",
        ),
        (
            {"policies": NoBad()},
            "plan: policies must be a list of classes or instances, like policies",
        ),
        ({"policies": "mine.NoBad"}, "policies=[Orders], not the text 'mine.NoBad'"),
        ({"policies": {"no": NoBad}}, "policies=[Orders], not a dict"),
        (
            {"policies": ["mine.NoBad"]},
            "pass a policy's class or an instance of it, not the text 'min",
        ),
        (
            {"policies": [len]},
            "policies: pass a policy's class or an instance of it, not a builtin_",
        ),
        ({"policies": [int]}, "plan: policies: int has no validate()"),
        ({"policies": [Upper]}, "plan: policies: Upper is an interceptor, which changes records"),
        ({"rules": {"a": "true"}, "topic": ""}, "plan: topic must be the name of a topic, not ''"),
        ({"rules": {"a": "true"}, "topic": "__consumer_offsets"}, "is Kafka's own"),
        ({"rules": {"a": "true"}, "nulls": "no"}, "plan: nulls must be null or missing, not 'no'"),
    ],
)
def test_errors_name_the_argument(arguments, text):
    with pytest.raises(ConfigurationError) as raised:
        plan(**arguments)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(Path.cwd()) not in str(raised.value)


def test_a_contract_with_several_objects_needs_the_topic(tmp_path):
    (tmp_path / "shop.yaml").write_text(CONTRACT)
    with pytest.raises(ConfigurationError) as raised:
        plan(contract=tmp_path / "shop.yaml")
    assert "it has orders, customers: pass its name as topic=" in str(raised.value)
    assert plan(contract=tmp_path / "shop.yaml", topic="customers").rules == (("contract", None),)


def test_a_class_that_cannot_be_configured():
    class Broken(RecordValidationPolicy):
        def configure(self, configs):
            raise ValueError("no key")

    with pytest.raises(ConfigurationError, match=r"^plan: Broken: configure\(\) failed: .*no key"):
        plan(policies=[Broken])


def test_a_class_with_arguments_is_passed_as_an_instance():
    with pytest.raises(ConfigurationError) as caught:
        plan(policies=[AtMost])
    assert str(caught.value) == (
        "plan: AtMost: cannot be instantiated without arguments: TypeError: AtMost.__init__() "
        "missing 1 required positional argument: 'most'; pass an instance: policies=[AtMost(...)]"
    )


def test_a_plan_says_how_it_judges_rows():
    assert repr(plan(policies=[AtMost(5)])).startswith("<plan of rows: AtMost: by value, since ")
    assert repr(plan(policies=[AtMost(5)], topic="a")).startswith("<plan of rows of a: AtMost: by ")


def test_functions_over_records_name_those_over_rows():
    with pytest.raises(ConfigurationError, match=r"not RowPlan; with plan\(...\), call judge_rows"):
        check_plan(plan(policies=[AtMost(5)]))


def test_the_topic_of_a_file_is_one_name(tmp_path):
    file = write_configuration(tmp_path, "none:1", 9192, {})
    with pytest.raises(ConfigurationError, match="topic must be the name of one topic, not list"):
        load_plan(file, topic=["orders"])


def test_plans_of_files_need_the_topic(tmp_path):
    file = write_configuration(
        tmp_path, "none:1", 9192,
        {"policies": "paid,soft", "policies.paid.type": "penstock.policies.Rules",
         "policies.paid.rules.paid": "value.amount > 0", "policies.paid.rules.paid.message": "pay",
         "policies.soft.type": "penstock.policies.Required", "policies.soft.fields": "id",
         "policies.soft.mode": "observe", "topics.orders.penstock.policies": "paid,soft"},
    )  # fmt: skip
    loaded = load_plan(file)
    with pytest.raises(ConfigurationError, match=r"topic= a column with names of topics"):
        row_plan_of(loaded, "judge_rows", has_topics=False)
    row_plan = row_plan_of(loaded, "judge_rows", has_topics=True)
    assert row_plan.rules == (("paid", "paid"), ("soft", None))
    assert verdicts(row_plan, {"amount": 1}, {"amount": 0}, topic="orders") == [
        (None, ["soft id"]),
        ("paid", ["paid paid", "soft id"]),
    ]
    with pytest.raises(ConfigurationError, match=r"judge_rows: pass plan\(...\) or load_plan"):
        row_plan_of(str(file), "judge_rows", has_topics=False)
    given = RowPlan(loaded, "orders")
    assert row_plan_of(given, "judge_rows", has_topics=False) is given


def test_classes_of_keys_have_a_rule_each(tmp_path):
    name = f"{__name__}.{RefusingBatches.__name__}"
    file = write_configuration(
        tmp_path, "none:1", 9192,
        {"topics.orders.records.policy.enabled": "true",
         "topics.orders.records.policy.class.name": name,
         "record.validator.classes": f"{__name__}.{NoLetters.__name__}"},
    )  # fmt: skip
    row_plan = row_plan_of(load_plan(file, topic="orders"), "judge_rows")
    assert row_plan.rules == ((name, None), (f"{__name__}.{NoLetters.__name__}", None))
    [(policy, _)] = verdicts(row_plan, {"amount": 1}, topic="orders")
    assert policy == name


def test_no_client_of_a_cluster_and_no_session_is_imported():
    program = (
        "import sys; from penstock.spark import plan; plan(rules={'a': 'value.x > 0'}); "
        "print({'penstock.spark.session', 'penstock.kafka.client', 'aiokafka'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
