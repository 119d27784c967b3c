"""Topic level keys that the class of KIP-940 declares: in the file, in plans, on topics, on "
"Spark."""

import itertools
import os
import pickle
from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.declared_keys import (
    as_configs,
    declared_by_own,
    declared_by_user,
    encode_declared,
    rows_of,
)
from penstock.configuration.file import load_configuration, read_configuration
from penstock.configuration.policies import PolicyConfiguration
from penstock.configuration.topic_keys import put_in_force
from penstock.engine.plans.plan import Plan, allows_topic_settings
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.topic_configs import definitions
from penstock.engine.topic_configs.index import (
    TopicConfigIndex,
    TopicConfigRecord,
    UnreadableTopicConfigsError,
    topic_key,
)
from penstock.jobs.plan import load_plan
from penstock.policy import RecordValidationPolicy, TopicConfig, TopicMetadata
from tests.engine.chains import TOPIC_ID, chain, columns
from tests.gateways import is_running

ON, LEVEL, SIZE, FILE = (
    TopicConfig("shop.validation", "BOOLEAN", "false", "Whether.", switches_on=True),
    TopicConfig("shop.level", "STRING", "low", "How much.", ("low", "high")),
    TopicConfig("shop.size", "INT"),
    TopicConfig("shop.file"),
)
DECLARED = (ON, LEVEL, SIZE, FILE)
CLASS = "shop.Policy"
MODULE = """
from penstock.policy import RecordValidationPolicy, TopicConfig
print("noise")
class Policy(RecordValidationPolicy):
    topic_configs = (
        TopicConfig("shop.validation", "BOOLEAN", "false", "Whether.", switches_on=True),
        TopicConfig("shop.level", "STRING", "low", "How much.", ("low", "high")),
        TopicConfig("shop.size", "INT"),
        TopicConfig("shop.file"),
    )
    def validate(self, topic, record): pass
"""


def read(tmp_path, declared=DECLARED, **properties):
    return read_configuration(
        tmp_path / "penstock.properties",
        {
            "upstream.bootstrap.servers": "a:1",
            "record.validation.policy.class.name": CLASS,
            **properties,
        },
        declared=declared,
    )


@pytest.fixture
def in_force():
    put_in_force(rows_of(DECLARED))
    yield
    put_in_force({})


def test_a_topic_that_is_switched_on_needs_no_record_validation_policy(tmp_path):
    plan = Plan(read(tmp_path, **{
        "topics.*.shop.level": "high", "topics.orders-*.shop.validation": "TRUE",
        "topics.orders-no.shop.validation": "false", "topics.by-text.record.validation.policy": "x",
    }).policies)  # fmt: skip

    on = plan.for_topic("orders-1")
    assert (on.validation_policy, on.validation_setting) == (CLASS, "")
    assert on.validation_configs == {"shop.validation": "true", "shop.level": "high"}
    assert plan.for_topic("orders-no") is None
    assert plan.for_topic("other") is None
    by_text = plan.for_topic("by-text")
    assert (by_text.validation_setting, by_text.validation_configs["shop.level"]) == ("x", "high")
    assert plan.for_topic("orders-1", {"shop.validation": "false"}) is None
    own = plan.for_topic("other", {"shop.validation": "true", "shop.level": "low"})
    assert own.validation_configs == {"shop.validation": "true", "shop.level": "low"}
    assert TopicPlan.decode(on.encoded) == on


def test_a_key_that_is_not_declared_any_more_lets_no_record_pass(tmp_path):
    plan = Plan(read(tmp_path, declared=()).policies)
    assert "shop.level is set" in plan.for_topic("t", {"shop.level": "low"}).unusable


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (("topics.a.shop.level", "LOW"), "topics.a.shop.level must be one of low, high; it is 'LO"),
        (
            ("topics.a.shop.validation", "yes"),
            "topics.a.shop.validation must be one of true, false",
        ),
        (
            ("topics.a.shop.size", "1.5"),
            "topics.a.shop.size must be a whole number of at most 32 bits",
        ),
        (("topics.a.b.shop.levels", "low"), "did you mean shop.level?"),
        (("shop.level", "low"), "shop.level belongs to a topic: write topics.<glob>.shop.level"),
    ],
)
def test_the_file_is_checked_as_for_penstocks_own_keys(tmp_path, line, text):
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, **dict([line]))
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ([("retention.ms",)], "'retention.ms' is a key of Kafka's topics"),
        ([("records.policy.enabled",)], "'records.policy.enabled' is a key of Penstock"),
        ([("policy.timeout.ms",)], "'policy.timeout.ms' is a key of Penstock"),
        ([("a b",)], "'a b' is not a valid name for a key"),
        ([("",)], "'' is not a valid name"),
        ([("a",), ("a",)], "'a' is declared twice"),
        ([("a", "LIST")], "'a' has the type LIST, not one of BOOLEAN, STRING, CLASS, INT, LONG"),
        ([("a", "INT", "x")], "'a' must be a whole number"),
        ([("a", "STRING", "z", "", ("x", "y"))], "'a' must be one of x, y; it may be 'z'"),
        ([("a", "INT", None, "", ("x",))], "'a' must be a whole number"),
        ([("a", "STRING", None, "", (), True)], "'a' enables the policy, and is not a BOOLEAN"),
    ],
)
def test_declarations_that_are_not_usable_are_errors_at_start(tmp_path, declared, text):
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, declared=as_configs(declared))
    assert f"record.validation.policy.class.name: {CLASS}: topic_configs: " in str(raised.value)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (5, "must be a sequence of TopicConfig"),
        ([5], "must be a sequence of TopicConfig"),
        ([(1,)], "all but switches_on must be text"),
        ([("a",)] * 101, "more than 100 keys"),
        ((("a",) for _ in itertools.count()), "more than 100 keys"),
        ((1 // 0 for _ in range(1)), "must be a sequence of TopicConfig"),
        ([("a", "BOOLEAN", False)], "all but switches_on must be text"),
        ([("a", "INT", 0)], "all but switches_on must be text"),
        ([("a", "STRING", None, "", None)], "must be a sequence of TopicConfig"),
        ([("a", "STRING", None, "", "xy")], "must be a sequence of TopicConfig"),
        ([("a", "BOOLEAN", "false", "", (), "false")], "switches_on must be True or False"),
        ([("a", "STRING", None, "x" * 32_768)], "longer than 32767 bytes"),
        ([("a", "STRING", "\ud800")], "not Unicode text"),
    ],
)
def test_an_invalid_declaration_is_an_error(given, text):
    with pytest.raises(ValueError, match=text):
        as_configs(given)


def test_it_travels_to_workers_and_to_executors(tmp_path):
    policies = read(tmp_path).policies
    assert PolicyConfiguration.decode(policies.encode()).declared_topic_keys == DECLARED
    assert pickle.loads(pickle.dumps(policies)).topic_keys.keys() == policies.topic_keys.keys()
    assert allows_topic_settings(read(tmp_path))


@pytest.mark.usefixtures("in_force")
def test_topics_take_them_from_admin_tools():
    assert set(definitions.config_keys()) >= {entry.name for entry in DECLARED}
    assert definitions.normalize("shop.validation", " TRUE ") == "true"
    for name, value, why in (
        ("shop.level", "x", "String must be one of: low, high"),
        ("shop.validation", "x", "Expected value to be either true or false"),
        ("shop.size", "x", "Not a number of type INT"),
        ("shop.size", str(2**31), "Not a number of type INT"),
    ):
        expected = f"Invalid value {value} for configuration {name}: {why}"
        assert definitions.value_error(name, value) == expected
    assert definitions.value_error("shop.file", "anything") is None
    numbers = [definitions.config_keys()[entry.name].type.number for entry in DECLARED]
    assert numbers == [1, 2, 3, 2]


def kept(values):
    index = TopicConfigIndex()
    record = TopicConfigRecord("t", values, "gateway").encode()
    index.apply(topic_key(TOPIC_ID).encode(), record, 0)
    return index.of("t", TOPIC_ID)


@pytest.mark.usefixtures("in_force")
def test_topics_keep_them():
    assert kept({"shop.level": "high"}) == {"shop.level": "high"}


def test_without_the_policy_they_are_not_passed_over():
    with pytest.raises(UnreadableTopicConfigsError):
        kept({"shop.level": "high"})


def test_a_reload_that_adds_the_policy_reads_earlier_settings_of_other_gateways():
    index, key = TopicConfigIndex(), topic_key(TOPIC_ID).encode()
    first = TopicConfigRecord("t", {"records.policy.enabled": "true"}, "gateway")
    index.apply(key, first.encode(), 0)
    changes = {"shop.level": "high"}
    # The gateway that wrote it did not know the first record yet.
    second = TopicConfigRecord("t", changes, "other", changes=changes, base="of-none")
    with pytest.raises(UnreadableTopicConfigsError):
        index.apply(key, second.encode(), 0)
    assert index.read_again() == {}
    with pytest.raises(UnreadableTopicConfigsError):
        index.of("t", TOPIC_ID)
    put_in_force(rows_of(DECLARED))
    try:
        assert index.read_again() == {"t": None}
        assert index.of("t", TOPIC_ID) == {"records.policy.enabled": "true", "shop.level": "high"}
        assert index.read_again() == {}
    finally:
        put_in_force({})
    with pytest.raises(UnreadableTopicConfigsError):
        index.apply(key, second.encode(), 0)
    index.apply(key, None, 0)
    assert index.read_again() == {}
    assert index.of("t", TOPIC_ID) == {}


class Tells(RecordValidationPolicy):
    seen: list = []

    def validate(self, topic, record):
        self.seen.append(topic)


def test_the_policy_gets_the_values_of_its_keys():
    from dataclasses import replace

    policies = chain(validation=Tells)
    plan = replace(policies.plan, validation_configs={"shop.level": "high"})
    policies.subset(plan).judge(3, TOPIC_ID, columns(b"x"))
    (topic,) = Tells.seen
    assert topic.configs == {"shop.level": "high"}
    with pytest.raises(TypeError):
        topic.configs["shop.level"] = "low"
    assert len({topic, topic}) == 1, "it may be a key, as before"
    assert TopicMetadata(topic.topic_id_partition, "").configs == {}


def test_built_in_policies_are_imported_in_this_process():
    assert declared_by_own("penstock.policies.JsonSchema") == ()
    assert declared_by_own("penstock.policies:Nothing") == ()
    assert declared_by_own("penstock.policies.nowhere.Nothing") == ()
    assert declared_by_own("penstock.policies_of_a_user.Policy") == ()


@pytest.mark.system
def test_a_class_of_a_user_is_imported_in_another_process(tmp_path):
    import sys

    (tmp_path / "shop.py").write_text(MODULE)
    file = tmp_path / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=a:1\n"
        f"record.validation.policy.class.name={CLASS}\n"
        "topics.orders.shop.validation=true\n"
    )
    configuration = load_configuration(file)
    assert configuration.declared_topic_keys == DECLARED
    assert "shop" not in sys.modules
    assert load_plan(file).judges("orders")


@pytest.mark.system
def test_with_a_class_path_too(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "shop.py").write_text(MODULE)
    found = declared_by_user(CLASS, tmp_path / "p.properties", [tmp_path / "here"])
    assert found == DECLARED


def test_each_folder_of_a_class_path_is_searched(tmp_path):
    file = tmp_path / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=a:1\n"
        f"record.validation.policy.class.name={CLASS}\n"
        f"record.validation.policy.class.path=one{os.pathsep}/two,three{os.pathsep}\n"
        "topics.orders.shop.validation=true\n"
    )
    searched = []

    def read_declared(name, file, folders):
        searched.extend(folders)
        return DECLARED

    configuration = load_configuration(file, read_declared=read_declared)

    assert searched == [tmp_path / "one", Path("/two,three")]
    assert searched == list(configuration.class_path)


@pytest.mark.system
@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("import nothing_such", None),
        ("raise SystemExit", None),
        ("class Policy: pass", None),
        ("class Policy: topic_configs = [('a', 'BOOLEAN', False)]", "all but switches_on"),
        ("class Policy: topic_configs = 5", "must be a sequence of TopicConfig"),
        ("class Policy: topic_configs = [('a' * 30000,)] * 3", "too long"),
    ],
)
def test_failed_imports_are_left_to_the_workers(tmp_path, module, text):
    (tmp_path / "shop.py").write_text(module)
    if text is None:
        assert declared_by_user(CLASS, tmp_path / "p.properties", []) == ()
        return
    with pytest.raises(ConfigurationError, match=text):
        declared_by_user(CLASS, tmp_path / "p.properties", [])


@pytest.mark.system
def test_an_import_that_does_not_end_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text("import time; time.sleep(600)")
    monkeypatch.setattr("penstock.configuration.declared_keys._TIMEOUT_S", 0.5)
    with pytest.raises(ConfigurationError, match="its import took longer"):
        declared_by_user(CLASS, tmp_path / "p.properties", [])


@pytest.mark.system
def test_processes_that_an_import_has_started_end_with_it(tmp_path):
    pid = tmp_path / "pid"
    (tmp_path / "shop.py").write_text(
        "import pathlib, subprocess\n"
        "started = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(started.pid))\n"
    )
    declared_by_user(CLASS, tmp_path / "p.properties", [])
    assert not is_running(int(pid.read_text()))


def test_the_answer_fits_into_a_pipe():
    assert len(encode_declared([TopicConfig("a" * 70_000)])) < 1000


@pytest.mark.usefixtures("in_force")
def test_a_request_that_a_reload_overtakes_ends_with_the_keys_it_began_with():
    put_in_force({})
    assert "shop.level" not in definitions.config_keys()
    assert definitions.normalize("shop.validation", "TRUE") == "true"
    assert "String must be one of" in str(definitions.value_error("shop.level", "x"))
