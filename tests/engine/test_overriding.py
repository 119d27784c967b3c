"""A class that overrides nothing of its interface is refused at start, and the near method named."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.plans.overriding import check_overriding, hint_of
from penstock.policy import RecordValidationPolicy
from penstock.policy.testing import judge

POLICIES = """
from penstock.policy import *
class Misspelt(RecordValidationPolicy):
    def valdate(self, topic, record): raise InvalidRecordException("no")
class Java(BrokerRecordValidator):
    def validateRecord(self, topic_partition, key, value, headers): return None
class Empty(RecordValidationPolicy):
    pass
class Batch(RecordsPolicy):
    def validates(self, topic, partition, records): pass
class Short(RecordsPolicy):
    def validate(self, topic, records): pass
class Interceptor(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ".*"
    def process_records(self, key, value, topic, partition, headers): pass
class EveryTopic(ProduceRequestInterceptor):
    def process_record(self, key, value, topic, partition, headers): pass
class Tuple(RecordValidationPolicy):
    def get_hints(self): return True, 0, 0
    def validate(self, topic, record): pass
class Create(CreateTopicPolicy):
    def validade(self, request): pass
class CreateWithContext(CreateTopicPolicyWithContext):
    def validade(self, request, context): pass
class Alter(AlterConfigPolicy):
    def check(self, request): pass
class Alone:
    def validate_recrod(self, topic_partition, key, value, headers): return None
def function(topic, record): pass
"""
KEYS = {
    "Misspelt": "record.validation.policy.class.name",
    "Empty": "record.validation.policy.class.name",
    "Java": "record.validator.classes",
    "Alone": "record.validator.classes",
    "Interceptor": "produce.request.interceptors",
    "EveryTopic": "produce.request.interceptors",
    "Tuple": "record.validation.policy.class.name",
    "function": "record.validation.policy.class.name",
    "Batch": "topics.*.records.policy.class.name",
    "Short": "topics.*.records.policy.class.name",
    "Create": "create.topic.policy.class.name",
    "CreateWithContext": "create.topic.policy.class.name",
    "Alter": "alter.config.policy.class.name",
}
HINTS = {
    "Misspelt": "it has valdate(): did you mean validate()?",
    "Java": "it has validateRecord(): did you mean validate_record()?",
    "Alone": "it has validate_recrod(): did you mean validate_record()?",
    "Interceptor": "it has process_records(): did you mean process_record()?",
    "Batch": "it has validates(): did you mean validate()?",
    "Create": "it has validade(): did you mean validate()?",
    "CreateWithContext": "it has validade(): did you mean validate()?",
}


OTHERS = {
    "EveryTopic": "overrides no method interceptor_topic_pattern()",
    "Short": "validate() must take 3 arguments besides self: topic, partition, records",
    "Tuple": "get_hints() failed: TypeError: it must return RecordIntrospectionHints, not tuple",
    "function": "must be a class; in module policies its type is function",
}


@pytest.mark.cases(4)
@pytest.mark.system
@pytest.mark.parametrize("name", KEYS)
def test_check_names_file_key_class_and_the_near_method(name, tmp_path, capsys):
    from penstock.cli import main

    (tmp_path / "policies.py").write_text(POLICIES)
    file = tmp_path / "penstock.properties"
    more = "topics.*.records.policy.enabled=true\n" if name in {"Batch", "Short"} else ""
    file.write_text(f"upstream.bootstrap.servers=none:1\n{KEYS[name]}=policies.{name}\n{more}")

    assert main(["check", str(file)]) == 2

    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert f"{file}: {KEYS[name].removeprefix('topics.*.')}: policies.{name}" in message
    assert (
        OTHERS.get(name, "overrides no method validate") in message
        or "process_record" in message
        or ("has no method" in message and name == "Alone")
    )
    assert HINTS.get(name, "") in message
    assert ("did you mean" in message) == (name in HINTS)


class Inherits(RecordValidationPolicy):
    def validate(self, topic, record):
        pass


class Inherited(Inherits):
    pass


class MadeLater(RecordValidationPolicy):
    def configure(self, configs):
        self.validate = lambda topic, record: None


class Dynamic:
    def __getattr__(self, name):
        return lambda *_: None


@pytest.mark.parametrize("policy", [Inherits, Inherited])
def test_a_method_of_another_base_class_counts(policy):
    check_overriding(policy(), ["validate", "validate_batch"])


def test_a_method_of_the_instance_counts():
    policy = MadeLater()
    policy.configure({})
    check_overriding(policy, ["validate", "validate_batch"])
    assert judge(MadeLater, ["a"])[0].outcome == "accepted"


def test_a_method_from_getattr_counts():
    check_overriding(Dynamic(), ["validate"])


def test_unit_tests_of_a_policy_find_it_too():
    class Misspelt(RecordValidationPolicy):
        def valdate(self, topic, record):
            pass

    with pytest.raises(ConfigurationError, match=r"did you mean validate\(\)\?"):
        judge(Misspelt, ["a"])


def test_a_very_different_name_is_no_hint():
    class Far:
        def check(self):
            pass

        VALIDATE = 3

    assert hint_of(Far, ["validate"]) == ""
