"""How a policy of KIP-940 reads texts of topics, and prepares for topics."""

from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.errors import NotNowError
from penstock.configuration.interfaces import VALIDATION
from penstock.engine.plans.configured_policy import ConfiguredPolicy
from penstock.engine.validation_policy import ValidationPolicy, objection_to
from penstock.policy import RetriableException
from tests.engine.plans import VALIDATED, plan_of

BY_CLASS = {VALIDATION: "a.P"}
KEY = "record.validation.policy"


class Texts:
    """Reads texts, and records the calls."""

    def __init__(self, error=None):
        self.error, self.calls = error, []

    def _called(self, *arguments):
        self.calls.append(arguments)
        if self.error is not None:
            raise self.error

    def prepare_validation_policy(self, text):
        self._called(text)

    def prepare(self, topic, configs):
        self._called(topic, dict(configs))


def policy(instance, *, prepare=None, load=None, named=None):
    """Return a policy; `named` has the topic level keys of one with a name."""
    definition = ConfiguredPolicy(
        "n" if named is not None else "a.P", "a.P", VALIDATION, "k", Path("/f"), {},
        topic_configs=named, is_named=named is not None,
    )  # fmt: skip
    return ValidationPolicy(definition, instance, instance, prepare, load)


def topic_plan(text=""):
    texts = {f"topics.t.{KEY}": text} if text else {}
    return plan_of({**BY_CLASS, **VALIDATED, **texts}).for_topic("t")


def test_a_text_is_read():
    instance = Texts()
    policy(instance).prepare_text("a text")
    assert instance.calls == [("a text",)]
    assert objection_to(instance, "b") is None


def test_a_policy_that_reads_no_text_has_no_objection():
    assert objection_to(object(), "a text") is None
    assert objection_to(type("P", (), {"prepare_validation_policy": 5})(), "a text") is None


def test_an_objection_is_returned_and_another_error_is_that_of_the_configuration():
    assert objection_to(Texts(ValueError("not so")), "x") == "not so"
    with pytest.raises(ConfigurationError, match=f"^{KEY}=x: KeyError") as raised:
        objection_to(Texts(KeyError("a")), "x")
    assert type(raised.value) is ConfigurationError
    with pytest.raises(NotNowError):
        objection_to(Texts(ConnectionError("a")), "x")


@pytest.mark.parametrize(
    ("named", "text", "message"),
    [(None, "x", f"{KEY}=x: no"), ({}, "x", f"{KEY}=x: no"), ({}, "", "n: no")],
)
def test_an_objection_to_a_text_names_the_text_or_the_policy(named, text, message):
    with pytest.raises(ConfigurationError) as raised:
        policy(Texts(ValueError("no")), named=named).prepare_text(text)
    assert str(raised.value) == message


def test_the_text_of_a_topic_is_read():
    instance = Texts()
    policy(instance).read_text_of(topic_plan("limit=5"))
    assert instance.calls == [("limit=5",)]


def test_a_topic_without_a_text_is_read_unless_it_has_keys():
    without_keys, with_keys = Texts(), Texts()
    policy(without_keys, named={}).read_text_of(topic_plan())
    policy(with_keys, named={"limit": "5"}).read_text_of(topic_plan())
    assert (without_keys.calls, with_keys.calls) == ([("",)], [])


def test_it_prepares_for_a_topic_with_its_keys():
    instance = Texts()
    policy(instance, prepare=instance.prepare, named={"limit": "5"}).prepare_topic(topic_plan())
    assert instance.calls == [("t", {"limit": "5"})]


def test_without_a_method_there_is_nothing_to_prepare():
    plain = policy(object())
    plain.prepare_for(topic_plan())
    plain.load_topic(topic_plan())
    assert plain.objection_to(topic_plan()) is None


@pytest.mark.parametrize(("named", "where"), [(None, "topic t"), ({}, "topic t: n")])
def test_an_objection_to_a_topic(named, where):
    instance = Texts(ValueError("no"))
    objecting = policy(object(), prepare=instance.prepare, named=named)
    assert objecting.objection_to(topic_plan()) == "no"
    with pytest.raises(ConfigurationError) as raised:
        objecting.prepare_topic(topic_plan())
    assert str(raised.value) == f"{where}: no"


def test_a_service_that_is_unavailable_is_no_objection():
    instance = Texts(RetriableException("not now"))
    assert policy(object(), prepare=instance.prepare).objection_to_topic(topic_plan()) is None


def test_a_failure_to_prepare_is_an_error():
    instance = Texts(SystemExit(3))
    with pytest.raises(ConfigurationError, match=r"^topic t: SystemExit"):
        policy(object(), prepare=instance.prepare).objection_to(topic_plan())


def test_an_objection_to_the_text_comes_before_the_topic_is_prepared():
    text, topic = Texts(ValueError("the text")), Texts(ValueError("the topic"))
    both = policy(text, prepare=topic.prepare)
    assert both.objection_to(topic_plan("x")) == "the text"
    assert topic.calls == []
    with pytest.raises(ConfigurationError, match="the text"):
        both.prepare_for(topic_plan("x"))
    assert topic.calls == []


@pytest.mark.parametrize("error", [RetriableException("later"), KeyboardInterrupt()])
def test_loading_passes_on_that_it_is_to_be_repeated_and_that_the_process_ends(error):
    loading = policy(object(), load=Texts(error).prepare)
    with pytest.raises(type(error)):
        loading.load_topic(topic_plan())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no schema"), "topic t: no schema"),
        (RuntimeError("broken"), "topic t: RuntimeError: broken"),
        (BaseException("panic"), "topic t: BaseException: panic"),
    ],
)
def test_loading_that_fails_is_an_error_of_the_topic(error, message):
    with pytest.raises(ConfigurationError, match=f"^{message}"):
        policy(object(), load=Texts(error).prepare).load_topic(topic_plan())
