"""The keys `policies` and `policies.<name>.*`, and topics that name policies by them."""

import pickle
import re

import pytest

from penstock.configuration import ConfigurationError, load_configuration, read_configuration
from penstock.configuration.interfaces import INTERCEPTORS, RECORDS, VALIDATION, VALIDATORS
from penstock.configuration.policies import PolicyConfiguration
from penstock.engine.plans.declared import classes_here
from penstock.engine.plans.plan import Plan, allows_topic_settings
from penstock.engine.plans.topic_plan import TopicPlan

MODULE = """
print("noise")
from penstock.policy import *
class Limit(RecordValidationPolicy):
    config_keys = (
        ConfigKey("limit", "INT", documentation="The most bytes.", required=True),
        ConfigKey("unit", valid_values=("bytes", "kib")),
    )
    def configure(self, configs): pass
    def validate(self, topic, record): pass
class Duck:
    def validate(self, topic, partition, records): pass
class Keyed(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers): pass
class Upper(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "orders"
    def process_record(self, key, value, topic, partition, headers): pass
class Both(RecordsPolicy, BrokerRecordValidator): pass
class Switched(RecordValidationPolicy):
    topic_configs = (
        TopicConfig("shop.on", "BOOLEAN", "false", switches_on=True),
        TopicConfig("shop.level", default="low", valid_values=("low", "high")),
    )
    def validate(self, topic, record): pass
"""
LIMIT = {"policies": "short", "policies.short.type": "mine.Limit", "policies.short.limit": "5"}


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    return tmp_path / "penstock.properties"


def load(file, *parts):
    properties = {"upstream.bootstrap.servers": "a:1"}
    for part in parts:
        properties |= part
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return load_configuration(file, describe_classes=classes_here)


def test_a_class_stands_under_several_names(file):
    long = {
        "policies": "short,long",
        "policies.long.type": "mine:Limit",
        "policies.long.limit": "9",
    }
    configuration = load(file, LIMIT, long, {"policies.long.mode": "Mark", "other": "x"})

    short, of_long = configuration.named_policies
    assert (short.name, short.class_name, dict(short.configs)) == (
        "short", "mine.Limit", {"limit": "5"},
    )  # fmt: skip
    assert (of_long.label, dict(of_long.configs)) == ("long (mine:Limit)", {"limit": "9"})
    assert (short.mode, of_long.mode) == (None, "mark")
    assert short.interface == VALIDATION


def test_it_may_have_any_interface_of_records(file):
    classes = {"a": "Limit", "b": "Duck", "c": "Keyed", "d": "Upper"}
    types = {f"policies.{name}.type": f"mine.{cls}" for name, cls in classes.items()}
    configuration = load(file, {"policies": "a,b,c,d", "policies.a.limit": "1"}, types)

    assert [policy.interface for policy in configuration.named_policies] == [
        VALIDATION, RECORDS, VALIDATORS, INTERCEPTORS,
    ]  # fmt: skip


def test_it_travels(file):
    policies = load(file, LIMIT, {"policies.short.mode": "observe"}).policies

    assert PolicyConfiguration.decode(policies.encode()) == policies
    assert pickle.loads(pickle.dumps(policies)).named_policies == policies.named_policies


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"policies": "short,short"}, "policies must be names of policies .*, each once"),
        ({"policies": "sh.ort"}, "policies must be names of policies"),
        ({"policies.short.type": ""}, r"policies\.short\.type is missing: .*package\.module\.Class"),
        ({"policies.short.type": "", "policies.short.typ": "mine.Limit"},
         r"policies\.short\.type is missing: .*; the file has policies\.short\.typ$"),
        ({"policies.short.type": "", "policies.shirt.type": "mine.Limit"},
         r"policies\.short\.type is missing: .*; the file has policies\.shirt\.type$"),
        ({"policies.short.type": "mine."}, r"policies\.short\.type must be package\.module\.Class"),
        ({"policies.short.type": "JsonShema"}, r"policies\.short\.type must be .*JsonSchema\?"),
        ({"policies.short.type": "mine.Gone"}, r"policies\.short\.type: mine\.Gone: module mine"),
        ({"policies.short.type": "mine.Both"}, "more than one interface"), ({"policies.short.type":
        "penstock.policies.TopicRules"}, "judges topics"), ({"policies.short.limit": "five"},
        r"policies\.short\.limit must be a whole number"), ({"policies.short.unit": "mib"},
        r"policies\.short\.unit must be one of bytes, kib"), ({"policies.short.limt": "1"},
        r"policies\.short\.limt is unknown; .*short\.limit\?"), ({"policies.short.mode": "obsreve"},
        r"policies\.short\.mode must be one of enforce, quar"), ({"policies.shrt.limit": "1"},
        r"policies\.shrt\.limit is for shrt, .*mean short\?"), ({"policies.short": "1"},
        r"policies\.short must be policies\.<name>\.<key>"), ({"topics.a.penstock.policies":
        "shrot"}, r"there is no policy shrot; there are short; did"),
        ({"topics.a.penstock.policies": "short,short"}, "each once"), ({"penstock.policies":
        "short"}, r"belongs to a topic: write topics\.<glob>\.penstock"),
    ],
)  # fmt: skip
def test_an_unusable_key_is_an_error_with_its_place(file, more, why):
    with pytest.raises(ConfigurationError, match=why) as raised:
        Plan(load(file, LIMIT, more).policies)
    assert str(raised.value).startswith(f"{file}: ")


def test_an_interceptor_has_no_mode(file):
    names = {"policies": "up", "policies.up.type": "mine.Upper"}
    with pytest.raises(ConfigurationError, match=r"policies\.up\.mode has no effect on an interc"):
        load(file, names, {"policies.up.mode": "mark"})


def test_a_required_key_that_is_missing(file):
    with pytest.raises(ConfigurationError, match=r"policies\.short\.limit is missing: The most"):
        load(file, {"policies": "short", "policies.short.type": "mine.Limit"})


def test_the_file_may_have_a_required_key_for_all(file):
    of_short = {"policies": "short", "policies.short.type": "mine.Limit"}

    assert load(file, of_short, {"limit": "3"}).named_policies[0].configs == {}


def test_keys_of_unnamed_policies_are_a_warning(file):
    more = {"policies.shor.type": "x.Y", "policies.shor.limit": "1"}  # as complete as any
    assert load(file, LIMIT, more).warnings == (
        "policies.shor.type: policies does not name shor: it is not used",
    )
    warnings = load(
        file, LIMIT, {"policies.other.type": "x.Y", "policies.short.colour": "1"}
    ).warnings

    assert warnings == (
        "policies.other.type: policies does not name other: it is not used",
        "policies.short.colour is unknown to mine.Limit, whose keys are limit, unit",
    )


def test_without_names_keys_may_belong_to_users(file):
    configuration = load(file, {"policies.folder": "x", "policies.a.type": "not.Loaded"})

    assert configuration.warnings == (
        "policies.folder is unknown to Penstock; it is handed to the policies' configure()",
        "policies.a.type: policies does not name a: it is not used",
    )
    assert configuration.named_policies == ()


def test_a_secret_is_not_shown(file):
    (file.parent / "secret").write_text("hush")
    with pytest.raises(ConfigurationError) as raised:
        load(file, LIMIT, {"policies.short.limit": "${file:secret}"})
    assert "hush" not in str(raised.value)


def test_topic_configs_of_its_class_are_its_own(file):
    switched = {"policies": "s", "policies.s.type": "mine.Switched"}
    on = {"policies.s.shop.on": "TRUE", "policies.s.shop.level": "high"}

    [named] = load(file, switched, on).named_policies
    assert named.topic_configs == {"shop.on": "true", "shop.level": "high"}
    with pytest.raises(ConfigurationError, match=r"policies\.s\.shop\.on must be true: otherwise"):
        load(file, switched)
    with pytest.raises(ConfigurationError, match=r"policies\.s\.shop\.level must be one of low"):
        load(file, switched, on, {"policies.s.shop.level": "x"})
    with pytest.raises(ConfigurationError, match=r"did you mean policies\.s\.shop\.level"):
        load(file, switched, on, {"policies.s.shop.levle": "x"})


@pytest.mark.parametrize(("key", "meant"), [("Mode", "mode"), ("modes", "mode"), ("types", "type")])
def test_a_misspelt_mode_or_type_is_an_error(file, key, meant):
    with pytest.raises(
        ConfigurationError, match=rf"{key} is unknown; did you mean policies\.short\.{meant}"
    ):
        load(file, LIMIT, {f"policies.short.{key}": "mark"})
    assert load(file, LIMIT, {"policies.short.node": "x"}).named_policies


@pytest.mark.system
def test_classes_of_users_are_imported_in_a_separate_process(file):
    before = load(file, LIMIT)
    assert load_configuration(file).named_policies == before.named_policies

    file.write_text(file.read_text().replace("mine.Limit", "mine.Gone"))
    with pytest.raises(
        ConfigurationError, match=r"policies\.short\.type: mine\.Gone: module mine has"
    ):
        load_configuration(file)

    (file.parent / "mine.py").write_text("import os; os._exit(3)")
    with pytest.raises(ConfigurationError, match="the process that imported them ended"):
        load_configuration(file)


TOPICS = {
    "policies": "short,keyed,upper",
    "policies.keyed.type": "mine.Keyed",
    "policies.upper.type": "mine.Upper",
    "topics.orders*.penstock.policies": "keyed , upper,short",
    "topics.orders-raw.penstock.policies": "",
    "topics.other.penstock.policies": "upper,short",
}


def test_topics_have_them_in_their_order(file):
    plan = Plan(load(file, LIMIT, TOPICS).policies)
    of = plan.for_topic

    assert (of("orders-1").named, of("orders-1").named_interceptors) == (
        ("keyed", "short"), ("upper",),
    )  # fmt: skip
    assert of("orders-raw") is None
    assert of("else") is None
    plan.set_interceptor_patterns([("a.Class", re.compile("")), ("upper", re.compile("orders"))])
    assert of("orders-1").policies == ("a.Class", "upper", "keyed", "short")
    assert of("other").policies == ("a.Class", "short")
    assert of("else").policies == ("a.Class",)
    assert TopicPlan.decode(of("orders-1").encoded) == of("orders-1")


def test_which_topics_may_be_intercepted(file):
    patterns = [("upper", re.compile("orders"))]
    plan = Plan(load(file, LIMIT, TOPICS).policies)
    assert not plan.intercepts("orders-1")
    plan.set_interceptor_patterns(patterns)
    # By a topic level key, any of them may have it.
    assert [plan.intercepts(topic) for topic in ("orders-1", "orders-raw", "other")] == [
        True,
        True,
        False,
    ]
    fixed = Plan(
        load(file, LIMIT, TOPICS, {"topic.settings.keys.allowed": "penstock.mode"}).policies
    )
    fixed.set_interceptor_patterns(patterns)
    assert [fixed.intercepts(topic) for topic in ("orders-1", "orders-raw")] == [True, False]
    fixed.set_interceptor_patterns([("a.Class", re.compile("raw"))])
    assert [fixed.intercepts(topic) for topic in ("orders-1", "orders-raw")] == [False, True]


def test_they_follow_the_policies_of_the_proposals(file):
    own = {
        "record.validator.classes": "v.V",
        "record.validation.policy.class.name": "p.P",
        "topics.*.record.validation.policy": "x",
        "topics.*.records.policy.class.name": "r.R",
        "topics.*.records.policy.enabled": "true",
    }
    plan = Plan(load(file, LIMIT, TOPICS, own).policies)

    found = plan.for_topic("orders-1")
    assert found.policies == ("r.R", "v.V", "p.P", "keyed", "short")
    assert found.validation_setting == "x"


def test_the_value_on_the_topic_wins_and_may_be_unknown(file):
    plan = Plan(load(file, LIMIT, TOPICS).policies)

    assert plan.for_topic("orders-1", {"penstock.policies": "short"}).named == ("short",)
    gone = plan.for_topic("orders-1", {"penstock.policies": "short,gone"})
    assert gone.unusable == (
        "penstock.policies: there is no policy gone; there are short, keyed, upper"
    )
    assert gone.named == ()
    bare = Plan(load(file).policies)
    assert bare.for_topic("t", {"penstock.policies": "gone"}).unusable == (
        "penstock.policies: there is no policy gone: the gateway's file names none (policies)"
    )


def test_names_alone_let_topics_have_settings(file):
    assert not allows_topic_settings(load(file))
    assert allows_topic_settings(load(file, LIMIT))


def test_read_again_nothing_is_imported(file):
    configuration = load(file, LIMIT)

    again = read_configuration(
        file,
        configuration.properties,
        declared=(),
        named=configuration.named_policies,
        describe_classes=lambda *_: pytest.fail("imported"),
    )
    assert again.named_policies == configuration.named_policies


def test_a_class_without_declared_keys_may_have_the_name_of_a_topic_level_key(file):
    names = {"policies": "up", "policies.up.type": "mine.Upper"}
    key = {"policies.up.errors.deadletterqueue.topic.name": "bad"}
    (policy,) = load(file, names, key).named_policies
    assert policy.configs == {"errors.deadletterqueue.topic.name": "bad"}
    with pytest.raises(ConfigurationError, match="belongs to a topic"):
        load(file, names, {"policies.up.penstock.mode": "mark"})
