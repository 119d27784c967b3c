"""Objections of a class of KIP-940 to a topic's text before a record arrives."""

import sys

import pytest

from penstock.configuration import ConfigurationError, read_configuration
from penstock.engine.chain import Chain
from penstock.engine.instances import PolicyInstances
from penstock.engine.plans.plan import Plan
from penstock.engine.plans.topic_plan import TopicPlan

POLICIES = """
from penstock.policy import *

class Reads(RecordValidationPolicy):
    made = 0
    closed = 0
    def __init__(self):
        Reads.made += 1
    def use_folder(self, folder):
        self.folder = folder
    def configure(self, configs):
        self.beside = (self.folder / "beside.txt").read_text()
    def prepare_validation_policy(self, text):
        if text == "crash":
            raise KeyError(text)
        if text != self.beside:
            raise ValueError(f"must be {self.beside}, not {text}")
    def validate(self, topic, record):
        pass
    def close(self):
        Reads.closed += 1

class ReadsNothing(RecordValidationPolicy):
    def __init__(self):
        ReadsNothing.made = True
    def validate(self, topic, record):
        pass
"""


@pytest.fixture
def load(tmp_path):
    """Loads policies of a file with these keys; returns them and the plan."""
    module = f"policies_{abs(hash(tmp_path))}"
    (tmp_path / f"{module}.py").write_text(POLICIES)
    (tmp_path / "beside.txt").write_text("right")

    def loaded(name="Reads", **defaults):
        properties = {
            "upstream.bootstrap.servers": "none:1",
            "record.validation.policy.class.name": f"{module}.{name}",
            **{f"topics.{t}.record.validation.policy": text for t, text in defaults.items()},
        }
        configuration = read_configuration(tmp_path / "penstock.properties", properties).policies
        plan = Plan(configuration)
        return PolicyInstances(configuration, plan.names), plan

    return loaded


def test_policies_are_imported_from_the_folder_of_the_file_first(load, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"policies_{abs(hash(tmp_path))}.py").write_text("class ReadsNothing: pass")
    monkeypatch.setattr(sys, "path", [str(elsewhere), *sys.path, str(tmp_path)])

    policies, _ = load("ReadsNothing", orders="any")

    assert type(policies.validation).made
    assert sys.path[:2] == [str(tmp_path), str(elsewhere)]


def test_the_files_texts_are_read_at_start(load, tmp_path):
    load(orders="right")
    with pytest.raises(ConfigurationError) as raised:
        load(orders="right", other="wrong")

    assert str(raised.value) == (
        f"{tmp_path / 'penstock.properties'}: topics.other.record.validation.policy=wrong: "
        "must be right, not wrong"
    )


def test_the_error_of_a_class_for_a_text_has_its_location(load):
    with pytest.raises(ConfigurationError, match=r"policy=crash: KeyError: 'crash' \(.*py:\d+\)$"):
        load(orders="crash")


def test_a_topic_with_a_wrong_text_cannot_be_judged(load):
    policies, plan = load()

    assert Chain(plan.for_topic("a", {"record.validation.policy": "right"}), policies).judges
    with pytest.raises(ConfigurationError, match=r"policy=wrong: must be right, not wrong$"):
        Chain(plan.for_topic("a", {"record.validation.policy": "wrong"}), policies)


def with_text(name, text):
    return TopicPlan(topic="a", validation_policy=name, validation_setting=text)


def test_a_text_is_tried_with_a_separate_instance(load):
    policies, plan = load()
    [name] = plan.names["record.validation.policy.class.name"]
    cls = type(policies.validation)

    assert policies.try_topic(with_text(name, "right")) is None
    assert policies.try_topic(with_text(name, "wrong")) == "must be right, not wrong"
    with pytest.raises(ConfigurationError, match="KeyError"):
        policies.try_topic(with_text(name, "crash"))
    assert (cls.made, cls.closed) == (4, 3)


def test_a_class_without_a_text_is_not_tried(load):
    policies, plan = load("ReadsNothing", orders="anything")
    [name] = plan.names["record.validation.policy.class.name"]
    del type(policies.validation).made

    assert policies.try_topic(with_text(name, "anything")) is None
    assert not hasattr(type(policies.validation), "made")


def test_an_interceptor_for_no_topic_is_refused(tmp_path):
    """A list of topics is a pattern with a comma, which no topic's name has."""
    properties = {
        "upstream.bootstrap.servers": "none:1",
        "policies": "masked",
        "policies.masked.type": "RedactJsonFields",
        "policies.masked.fields": "card",
        "policies.masked.topics": "orders,payments",
        "topics.*.penstock.policies": "masked",
    }
    configuration = read_configuration(tmp_path / "penstock.properties", properties).policies
    with pytest.raises(
        ConfigurationError, match=r"policies\.masked.*topics 'orders,payments' is a"
    ):
        PolicyInstances(configuration, Plan(configuration).names)
