"""Who gets `configure()` with configs, without, or not at all; and which hints are read."""

from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.errors import NotNowError
from penstock.configuration.interfaces import INTERCEPTORS, RECORDS, VALIDATION, VALIDATORS
from penstock.engine.plans.configured_policy import ConfiguredPolicy
from penstock.engine.plans.configuring import configure, has_life_cycle, hints_of
from penstock.policy import (
    BrokerRecordValidator,
    ProduceRequestInterceptor,
    RecordIntrospectionHints,
    RecordValidationPolicy,
)

ALL = RecordIntrospectionHints()


def definition(interface=VALIDATION, *, own=None, class_name="mine.P"):
    """Return a policy; it has a name if it has own keys."""
    configs = {"file": "1", **(own or {})}
    return ConfiguredPolicy(
        "n", class_name, interface, "k", Path("/f"), configs, tuple(own or ()),
        is_named=own is not None,
    )  # fmt: skip


class WithConfigs:
    calls = None

    def configure(self, configs):
        self.calls = configs


class WithoutConfigs:
    calls = 0

    def configure(self):
        self.calls += 1


@pytest.mark.parametrize("interface", [VALIDATION, RECORDS])
def test_a_class_under_a_key_gets_the_configs(interface):
    policy = WithConfigs()
    configure(policy, definition(interface))
    assert policy.calls == {"file": "1"}


def test_an_interceptor_under_a_key_gets_none():
    policy = WithoutConfigs()
    configure(policy, definition(INTERCEPTORS))
    assert policy.calls == 1


def test_a_validator_under_a_key_has_no_life_cycle():
    policy = WithoutConfigs()
    configure(policy, definition(VALIDATORS))
    assert policy.calls == 0
    assert not has_life_cycle(definition(VALIDATORS))
    assert has_life_cycle(definition(VALIDATORS, own={}))
    assert has_life_cycle(definition(INTERCEPTORS))


@pytest.mark.parametrize("interface", [VALIDATION, RECORDS, INTERCEPTORS, VALIDATORS])
def test_a_name_gets_its_configs_by_any_interface(interface):
    policy = WithConfigs()
    configure(policy, definition(interface, own={"limit": "5"}))
    assert policy.calls == {"file": "1", "limit": "5"}


@pytest.mark.parametrize("interface", [INTERCEPTORS, VALIDATORS])
def test_a_name_whose_method_takes_no_argument_gets_none(interface):
    policy = WithoutConfigs()
    configure(policy, definition(interface, own={}))
    assert policy.calls == 1


def test_a_policy_without_the_method_needs_none():
    configure(object(), definition())
    configure(object(), definition(INTERCEPTORS, own={}))


@pytest.mark.parametrize(
    ("interface", "policy"),
    [
        (VALIDATION, object()),
        (VALIDATION, type("Inherits", (RecordValidationPolicy,), {"validate": lambda *_: None})()),
        (INTERCEPTORS, WithoutConfigs()),
        (VALIDATORS, type("Validator", (BrokerRecordValidator,), {"validate_record": id})()),
    ],
)
def test_own_keys_that_no_method_reads_are_an_error(interface, policy):
    with pytest.raises(ConfigurationError, match=r"policies.n.limit cannot be passed to it"):
        configure(policy, definition(interface, own={"limit": "5"}))


def test_a_method_that_would_not_run_is_an_error_where_keys_are_passed():
    class Async(ProduceRequestInterceptor):
        async def configure(self, configs): ...

    with pytest.raises(ConfigurationError, match=r"/f: k: mine.P: configure\(\) must not be async"):
        configure(Async(), definition(INTERCEPTORS, own={"limit": "5"}))


def failing(error):
    class Fails:
        def configure(self, configs):
            raise error

    return Fails()


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no"), RuntimeError("no")])
def test_a_failure_names_the_class_and_the_error(error):
    name = type(error).__name__
    with pytest.raises(ConfigurationError, match=rf"^/f: k: mine.P: configure\(\) failed: {name}"):
        configure(failing(error), definition())


def test_a_failure_that_may_pass_is_another_error():
    with pytest.raises(NotNowError):
        configure(failing(ConnectionError("refused")), definition())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limit must be 1", "/f: policies.n.limit must be 1"),
        ("limits must be 1", "/f: k: penstock.policies.P: limits must be 1"),
        ("limit.x must be 1", "/f: k: penstock.policies.P: limit.x must be 1"),
        ("there is no limit", "/f: k: penstock.policies.P: there is no limit"),
    ],
)
def test_a_built_in_policy_explains_what_is_wrong_with_its_key(text, message):
    own = definition(own={"limit": "5"}, class_name="penstock.policies.P")
    with pytest.raises(ConfigurationError) as raised:
        configure(failing(ValueError(text)), own)
    assert str(raised.value) == message


def test_another_error_of_a_built_in_policy_is_a_failure():
    with pytest.raises(ConfigurationError, match=r"configure\(\) failed: KeyError"):
        configure(failing(KeyError("a")), definition(class_name="penstock.policies.P"))


def hinting(hints):
    return type("Hinting", (), {"get_hints": lambda _: hints})()


def test_without_hints_everything_is_requested():
    assert hints_of(object(), definition()) == ALL


def test_hints_are_converted():
    hints = RecordIntrospectionHints(0, True, 7.0)
    found = hints_of(hinting(hints), definition())
    assert found == RecordIntrospectionHints(False, 1, 7)
    assert [type(value) for value in found] == [bool, int, int]


@pytest.mark.parametrize(
    ("hints", "problem"),
    [
        (None, "get_hints() failed: TypeError: it must return RecordIntrospectionHints, not None"),
        (RecordIntrospectionHints(True, "many", 0), "get_hints() failed: ValueError"),
        (RecordIntrospectionHints(True, -1, 0), "bytes must be 0 or more, or ALL"),
        (RecordIntrospectionHints(True, 0, -1), "bytes must be 0 or more, or ALL"),
    ],
)
def test_wrong_hints_are_an_error(hints, problem):
    with pytest.raises(ConfigurationError) as raised:
        hints_of(hinting(hints), definition())
    assert str(raised.value).startswith("/f: k: mine.P: get_hints()")
    assert problem in str(raised.value)
