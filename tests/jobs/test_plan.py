"""Plans: the columns that policies read, other policies of the same file, and fingerprints."""

import pickle
import uuid
from uuid import UUID

import pytest

from penstock.configuration import ConfigurationError
from penstock.jobs.plan import MAX_DECOMPRESSED_BYTES, load_plan, readable_bytes

MODULE = """
from penstock.policies import Required
from penstock.policy import *

class Hinted(RecordValidationPolicy):
    def get_hints(self): return RecordIntrospectionHints(False, 8, 100)
    def validate(self, topic, record): pass

class Longer(RecordValidationPolicy):
    def get_hints(self): return RecordIntrospectionHints(True, 0, 200)
    def validate(self, topic, record): pass

class Timed(Required):
    # It looks at more than the policy that it derives from.
    def configure(self, configs): super().configure({"fields": "a"})
    def validate_batch(self, topic, batch): return [(0, "late")] if batch.timestamps else ()

class Whole(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers): pass

class Batches(RecordsPolicy):
    def validate(self, topic, partition, records): pass

class Redacts(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "^secret"
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value)

class Repairs(Redacts): pass
"""
VALIDATION = "record.validation.policy.class.name"
CLUSTER = {"upstream.bootstrap.servers": "127.0.0.1:1"}
UNLIMITED = 2**31 - 1
EVERYTHING = {"key": UNLIMITED, "value": UNLIMITED, "headers": UNLIMITED}


@pytest.fixture
def plan(tmp_path):
    """Loads a plan of properties; `mine.` is the module of this test."""
    module = f"mine_{uuid.uuid4().hex}"  # this process keeps imported modules
    (tmp_path / f"{module}.py").write_text(MODULE)
    (tmp_path / "v.json").write_text('{"type": "object"}')

    def load(properties, **options):
        file = tmp_path / "penstock.properties"
        lines = {**CLUSTER, **properties}
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        file.write_text(text.replace("mine.", f"{module}."))
        return load_plan(file, **options)

    return load


def named(*names, **types):
    return {"policies": ",".join(names), **{f"policies.{n}.type": types[n] for n in names}}


@pytest.mark.parametrize(
    ("properties", "columns"),
    [
        ({}, {}),
        ({VALIDATION: "mine.Hinted"}, {"key": 8, "value": 100}),
        ({VALIDATION: "mine.Longer"}, {"headers": UNLIMITED, "value": 200}),
        (
            named("a", "b", a="mine.Hinted", b="mine.Longer"),
            {"key": 8, "value": 200, "headers": UNLIMITED},
        ),
        ({"record.validator.classes": "mine.Whole"}, EVERYTHING),
        ({"produce.request.interceptors": "mine.Redacts"}, EVERYTHING),
        (named("a", a="KeyRequired"), {"key": 1}),
        ({**named("a", a="KeyRequired"), "topics.t.penstock.policies": "a"}, {"key": 1}),
        (
            {**named("a", a="Rules"), "policies.a.rules.paid": "value.amount > 0"},
            {"value": UNLIMITED},
        ),
        (
            {
                **named("a", a="Rules"),
                "policies.a.rules.new": "timestamp > timestamp('2020-01-01T00:00:00Z')",
            },
            {"timestamp": UNLIMITED},
        ),
        ({**named("a", a="JsonSchema"), "policies.a.schema": "v.json"}, {"value": UNLIMITED}),
        ({**named("a", a="JsonSchema"), "policies.a.schema": "key=v.json"}, {"key": UNLIMITED}),
        (
            {
                VALIDATION: "penstock.policies.JsonSchema",
                "topics.t.record.validation.policy": "v.json",
                "topics.u.record.validation.policy": "key=v.json",
            },
            {"key": UNLIMITED, "value": UNLIMITED},
        ),
        ({VALIDATION: "mine.Timed"}, {"value": UNLIMITED, "timestamp": UNLIMITED}),
        (
            {
                "topics.t.records.policy.class.name": "mine.Batches",
                "topics.t.records.policy.enabled": "true",
            },
            {**EVERYTHING, "timestamp": UNLIMITED},
        ),
    ],
)
def test_only_columns_that_policies_read_are_needed(plan, properties, columns):
    found = plan(properties)
    assert {name: found.columns.get(name) for name in columns} == columns
    assert found.columns.keys() >= columns.keys()
    if "timestamp" not in columns:
        assert found.columns == columns


def test_a_policy_that_a_topic_sets_itself_counts(plan):
    settings = {"records.policy.class.name": "mine.Batches", "records.policy.enabled": "true"}
    allowed = {"records.policy.class.names.allowed": "mine.Batches"}
    assert plan(allowed).columns == {}
    module = plan(allowed).policies.records_policy_class_names_allowed[0]
    settings["records.policy.class.name"] = module
    assert "timestamp" in plan(allowed, topic_settings={"t": settings}).columns


TWO_TOPICS = {
    **named("keys", "schema", "secrets", keys="KeyRequired", schema="JsonSchema", secrets="mine.Redacts"),
    "policies.schema.schema": "v.json",
    "topics.t.penstock.policies": "schema",
    "topics.u.penstock.policies": "keys",
    "topics.secret.penstock.policies": "secrets",
}  # fmt: skip


def test_a_plan_of_one_topic_needs_only_what_its_policies_look_at(plan):
    assert plan(TWO_TOPICS).columns == EVERYTHING
    of_t = plan(TWO_TOPICS, topic="t")
    assert (of_t.topic, of_t.columns, of_t.has_interceptors) == ("t", {"value": UNLIMITED}, False)
    assert plan(TWO_TOPICS, topic="u").columns == {"key": 1}
    of_secret = plan(TWO_TOPICS, topic="secret")
    assert (of_secret.columns, of_secret.has_interceptors) == (EVERYTHING, True)
    assert pickle.loads(pickle.dumps(of_t)).topic == "t"


def test_a_plan_of_a_topic_without_a_policy_would_accept_everything(plan):
    with pytest.raises(ConfigurationError, match=r"topic T has no policy; .* topics secret, t, u"):
        plan(TWO_TOPICS, topic="T")


def test_a_plan_of_one_topic_needs_no_cluster(plan, monkeypatch):
    monkeypatch.setitem(globals(), "CLUSTER", {"upstream.sasl.password": "${env:NOT_SET}"})
    found = plan(TWO_TOPICS, topic="t")
    assert found.columns == {"value": UNLIMITED}
    with pytest.raises(ConfigurationError, match=r"upstream.bootstrap.servers is missing"):
        _ = found.configuration
    with pytest.raises(ConfigurationError, match=r"NOT_SET, which is not set"):
        plan(TWO_TOPICS)
    monkeypatch.setitem(globals(), "CLUSTER", {"upstream.bootstrap.servers": "127.0.0.1:1"})
    assert plan(TWO_TOPICS, topic="t").configuration.upstream_servers


def test_topics_that_have_policies_or_can_have_interceptors(plan):
    policies = {
        f"topics.a.{VALIDATION.removesuffix('.class.name')}": "x",
        VALIDATION: "mine.Hinted",
    }
    by_topic = plan(policies)
    assert [by_topic.has_policy(topic) for topic in "ab"] == [True, False]
    assert [by_topic.judges(topic) for topic in "ab"] == [True, False]
    changed = plan({**policies, "produce.request.interceptors": "mine.Redacts"})
    assert changed.has_interceptors
    assert [changed.has_policy(topic) for topic in "ab"] == [True, False]
    assert [changed.judges(topic) for topic in "ab"] == [True, True]


def test_only_interceptors_rewrite(plan):
    both = plan({
        VALIDATION: "mine.Hinted", "record.validator.classes": "mine.Whole",
        "produce.request.interceptors": "mine.Redacts",
    })  # fmt: skip
    only = both.interceptors_only()
    assert only.has_interceptors
    assert not only.has_policy("t")
    assert both.has_policy("t")


def test_named_policies_that_refuse_are_left_out_of_topics_and_of_the_file(plan):
    both = plan(
        {
            **named("checks", "redacts", checks="KeyRequired", redacts="mine.Redacts"),
            "topics.t.penstock.policies": "checks,redacts",
        },
        topic_settings={
            "u": {"penstock.policies": "redacts,checks"},
            "v": {"penstock.mode": "mark"},
        },
    )
    only = both.interceptors_only()
    assert only.policies.properties["topics.t.penstock.policies"] == "redacts"
    assert only.topic_settings == {"u": {"penstock.policies": "redacts"}}
    assert [policy.name for policy in only.policies.named_policies] == ["redacts"]


def test_without_an_interceptor_nothing_rewrites(plan):
    with pytest.raises(ConfigurationError, match=r"produce.request.interceptors is missing"):
        plan({VALIDATION: "mine.Hinted"}).interceptors_only()


def test_an_interceptor_that_repairs_runs_first(plan):
    found = plan({"produce.request.interceptors": "mine.Redacts"}, records_policy_batch=3)
    (first,) = found.policies.produce_request_interceptors
    repair = first.replace("Redacts", "Repairs")
    repairing = found.with_interceptor(repair)
    assert repairing.policies.produce_request_interceptors == (repair, first)
    assert repairing.records_policy_batch == 3
    with pytest.raises(ConfigurationError, match="has no class None"):
        found.with_interceptor("penstock.policies.None")


def test_a_fingerprint_is_that_of_all_that_a_verdict_depends_on(plan):
    first = plan({VALIDATION: "mine.Hinted"})
    others = [
        plan({VALIDATION: "mine.Longer"}),
        plan({VALIDATION: "mine.Hinted"}, topic_ids={"t": UUID(int=1)}),
        plan({VALIDATION: "mine.Hinted"}, records_policy_batch=2),
        plan({VALIDATION: "mine.Hinted"}, topic_settings={"t": {"penstock.mode": "mark"}}),
    ]
    assert plan({VALIDATION: "mine.Hinted"}).fingerprint == first.fingerprint
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 5
    assert first.for_topics({"t": UUID(int=1)}, {}).fingerprint == others[1].fingerprint


def test_a_plan_travels_with_its_fingerprint(plan):
    found = plan({VALIDATION: "mine.Hinted"}, topic_settings={"t": {"penstock.mode": "mark"}})
    again = pickle.loads(pickle.dumps(found))
    assert again.fingerprint == found.fingerprint
    assert (dict(again.columns), again.topic_settings) == (
        dict(found.columns),
        found.topic_settings,
    )


def test_batches_are_merged_unless_a_policy_is_given_several_records(plan):
    assert plan({}).may_merge
    assert not plan({}, records_policy_batch=2).may_merge


def test_the_largest_batch_is_at_least_that_of_the_default(plan):
    assert readable_bytes(1) == MAX_DECOMPRESSED_BYTES
    assert readable_bytes(MAX_DECOMPRESSED_BYTES + 1) == MAX_DECOMPRESSED_BYTES + 1
    larger = plan({"decompressed.batch.max.bytes": 2 * MAX_DECOMPRESSED_BYTES})
    assert larger.max_decompressed_bytes == 2 * MAX_DECOMPRESSED_BYTES
    assert larger.batch_limits.decompressed_bytes == 2 * MAX_DECOMPRESSED_BYTES


def test_wrong_arguments(tmp_path):
    with pytest.raises(ConfigurationError, match=r"load_plan: the path .* is required, not int"):
        load_plan(5)
    with pytest.raises(ValueError, match="records_policy_batch must be 1 or more"):
        load_plan(tmp_path / "none", records_policy_batch=0)
