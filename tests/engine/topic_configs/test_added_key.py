"""A key that is added to the table of topic level keys works everywhere, without other changes.

The gateway's part: tests/integration/topics/test_added_key.py.
"""

import pickle
from dataclasses import replace
from uuid import uuid4

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.file import read_configuration
from penstock.configuration.reference import reference
from penstock.configuration.topic_keys import TOPIC_KEYS, VALIDATION_POLICY
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
from tests.engine.topic_configs.added_key import ADDED

LEAST = {"upstream.bootstrap.servers": "a:1", "record.validator.classes": "policies.Any"}


@pytest.fixture(autouse=True)
def order_of_rows():
    """Restore the order: a row that a test removed and added would be the last row of the reference."""
    rows = dict(TOPIC_KEYS)
    yield
    TOPIC_KEYS.clear()
    TOPIC_KEYS.update(rows)


@pytest.fixture
def added(monkeypatch):
    monkeypatch.setitem(TOPIC_KEYS, ADDED.name, ADDED)


def read(tmp_path, **properties):
    return read_configuration(
        tmp_path / "penstock.properties",
        LEAST | properties,
    )


def settings_by_file(configuration, topic):
    plan = Plan(configuration.policies).for_topic(topic)
    assert plan is not None
    return plan.settings


@pytest.mark.usefixtures("added")
def test_the_file_sets_it_for_every_topic_and_for_globs(tmp_path):
    configuration = read(tmp_path, **{"test.level": "low", "topics.pii-*.test.level": "high"})

    assert configuration.warnings == ()
    assert settings_by_file(configuration, "pii-1") == {"test.level": "high"}
    assert settings_by_file(configuration, "other") == {"test.level": "low"}


@pytest.mark.usefixtures("added")
def test_a_glob_for_every_topic_wins_over_the_bare_key(tmp_path):
    configuration = read(tmp_path, **{"topics.*.test.level": "high", "test.level": "low"})

    assert settings_by_file(configuration, "any") == {"test.level": "high"}


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize("name", ["test.level", "topics.a.test.level"])
def test_an_invalid_value_in_the_file_is_an_error(tmp_path, name):
    with pytest.raises(ConfigurationError, match=f"{name} must be one of low, high; it is 'x'"):
        read(tmp_path, **{name: "x"})


def test_the_file_does_not_know_it_without_the_row(tmp_path):
    with pytest.raises(ConfigurationError, match=r"topics\.a\.test\.level must be topics"):
        read(tmp_path, **{"topics.a.test.level": "low"})


@pytest.mark.usefixtures("added")
def test_the_reference_has_it():
    assert "| `test.level` | How much. |" in reference()


@pytest.mark.usefixtures("added")
def test_a_topic_takes_its_values_only():
    assert definitions.select({"test.level": "high", "retention.ms": "1"}) == {"test.level": "high"}
    assert definitions.normalize("test.level", " HIGH ") == "high"
    assert definitions.value_error("test.level", "high") is None
    assert definitions.value_error("test.level", "x") == (
        "Invalid value x for configuration test.level: Expected one of low, high"
    )


def kept(values):
    """Return the settings of a topic after one record of the settings topic."""
    index, topic_id = TopicConfigIndex(), uuid4()
    index.apply(topic_key(topic_id).encode(), TopicConfigRecord("t", values, "gateway").encode(), 0)
    return index.of("t", topic_id)


@pytest.mark.usefixtures("added")
def test_it_is_kept():
    assert kept({"test.level": "high"}) == {"test.level": "high"}
    with pytest.raises(UnreadableTopicConfigsError):
        kept({"test.level": "x"})


def test_a_gateway_without_the_row_does_not_ignore_it():
    """It does not know the meaning of the key."""
    index, topic_id = TopicConfigIndex(), uuid4()
    record = TopicConfigRecord("t", {"test.level": "high"}, "gateway").encode()
    why = "test.level is a key of a later version, or of a policy not in use here"
    with pytest.raises(UnreadableTopicConfigsError, match=why):
        index.apply(topic_key(topic_id).encode(), record, 0)
    with pytest.raises(UnreadableTopicConfigsError) as of_topic:
        index.of("t", topic_id)
    assert str(of_topic.value) == f"the settings of topic t cannot be understood: {why}"


@pytest.mark.usefixtures("added")
def test_the_worker_gets_it_and_the_topic_wins_over_the_file(tmp_path):
    plan = Plan(read(tmp_path, **{"topics.*.test.level": "high"}).policies)

    of_topic = plan.for_topic("t", {"test.level": "low"})

    assert of_topic is not None
    assert TopicPlan.decode(of_topic.encoded).settings == {"test.level": "low"}


@pytest.mark.parametrize("reader", ["record.validation.policy.class.name", None])
def test_a_key_without_its_reader_is_an_error(tmp_path, monkeypatch, reader):
    """Only if the key has a reader, which is not configured."""
    monkeypatch.setitem(TOPIC_KEYS, ADDED.name, replace(ADDED, reader=reader))
    configuration = read(tmp_path)
    plan = Plan(configuration.policies)

    of_topic = plan.for_topic("t", {"test.level": "low"})

    assert of_topic is not None
    if reader is None:
        assert of_topic.unusable == ""
    else:
        assert of_topic.unusable == f"test.level is set, and there is no {reader}"
        with pytest.raises(ConfigurationError, match=f"topics.a.test.level needs {reader}"):
            Plan(read(tmp_path, **{"topics.a.test.level": "low"}).policies)


def test_topics_can_have_settings_if_a_key_has_its_reader(tmp_path, monkeypatch):
    monkeypatch.delitem(TOPIC_KEYS, VALIDATION_POLICY)
    monkeypatch.setitem(TOPIC_KEYS, ADDED.name, replace(ADDED, reader="record.validator.classes"))

    assert allows_topic_settings(read(tmp_path))


@pytest.mark.usefixtures("added")
def test_spark_has_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "added_key_policies.py").write_text(
        "class Any:\n    def validate_record(self, topic_partition, key, value, headers): pass\n"
    )
    file = tmp_path / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=a:1\n"
        "record.validator.classes=added_key_policies.Any\n"
        "topics.*.test.level=high\n"
    )

    loaded = load_plan(file, topic_settings={"own": {"test.level": "low"}})
    plan = pickle.loads(pickle.dumps(loaded))  # as executors get it

    judged = Plan(plan.policies)
    by_file, by_topic = (
        judged.for_topic(topic, plan.topic_settings.get(topic, {})) for topic in ("other", "own")
    )
    assert by_file is not None
    assert by_topic is not None
    assert by_file.settings == {"test.level": "high"}
    assert by_topic.settings == {"test.level": "low"}
    assert plan.fingerprint != load_plan(file).fingerprint
