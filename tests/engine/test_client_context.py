"""The client of records: passed to the methods that take a context, and to no others."""

import functools

import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.instances import NOBODY, RECORDS, PolicyInstances
from penstock.engine.workers import messages
from penstock.engine.workers.timeouts import TimedOutBatches, batch_of
from penstock.policy import (
    BrokerRecordValidator,
    BrokerRecordValidatorWithContext,
    ClientContext,
    InvalidRecordException,
    PolicyViolationException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorWithContext,
    RecordsPolicyWithContext,
    RecordValidationPolicy,
    RecordValidationPolicyWithContext,
)
from penstock.policy.testing import judge
from tests.engine.chains import CONFIGURATION, TOPIC_ID, chain, columns, instances
from tests.kafka.records.encoding import encode_batch, values

ALICE = ClientContext("User:alice", "shop", "10.0.0.7")
IDENTITY = {"principal": "User:alice", "client_id": "shop", "address": "10.0.0.7"}
DESCRIBED = f"{ALICE}"


class Validator(BrokerRecordValidatorWithContext):
    def validate_record(self, topic_partition, key, value, headers, context):
        return InvalidRecordException(str(context))


class ColumnsValidator(BrokerRecordValidatorWithContext):
    def validate_batch(self, topic_partition, batch, context):
        return [(index, str(context)) for index in range(len(batch))]


class Policy(RecordValidationPolicyWithContext):
    def validate(self, topic, record, context):
        raise InvalidRecordException(str(context))


class Prepared(RecordValidationPolicyWithContext):
    def prepare_batch(self, topic, batch, context):
        self.prepared = context

    def validate(self, topic, record):
        raise InvalidRecordException(str(self.prepared))


class KeywordOnly(RecordValidationPolicy):
    """Derives from the interface without context: the parameter alone counts."""

    def validate(self, topic, record, *, context=None):
        raise InvalidRecordException(str(context))


class Whole(RecordsPolicyWithContext):
    def validate(self, topic, partition, records, context):
        raise PolicyViolationException(str(context))


class DuckWhole:
    def validate(self, topic, partition, records, context):
        raise PolicyViolationException(str(context))


class DuckPolicy:
    def validate(self, topic, record, context):
        raise InvalidRecordException(str(context))


class StaticWhole:
    @staticmethod
    def validate(topic, partition, records, context):
        raise PolicyViolationException(str(context))


class StaticPolicy:
    @classmethod
    def validate(cls, topic, record, context):
        raise InvalidRecordException(str(context))


@pytest.mark.parametrize(
    "policy",
    [
        Validator,
        ColumnsValidator,
        Policy,
        Prepared,
        KeywordOnly,
        Whole,
        DuckWhole,
        DuckPolicy,
        StaticWhole,
        StaticPolicy,
    ],
)
def test_a_policy_that_takes_a_context_gets_the_client(policy):
    assert [verdict.message for verdict in judge(policy, [b"a", b"b"], **IDENTITY)] == [
        DESCRIBED
    ] * 2
    [of_instance] = judge(policy(), [b"a"], **IDENTITY)
    assert of_instance.message == DESCRIBED


class Names(ProduceRequestInterceptorWithContext):
    def interceptor_topic_pattern(self):
        return ""

    def process_record(self, key, value, topic, partition, headers, context):
        return ProduceRequestInterceptorResult(key, str(context).encode())


class NamesInColumns(Names):
    def process_batch(self, topic, partition, batch, context):
        changed = str(context).encode()
        for index, key in enumerate(batch.keys):
            yield index, ProduceRequestInterceptorResult(key, changed)


class NamesPrepared(ProduceRequestInterceptorWithContext):
    def interceptor_topic_pattern(self):
        return ""

    def prepare_batch(self, topic, partition, batch, context):
        self.prepared = context

    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, str(self.prepared).encode())


@pytest.mark.parametrize("policy", [Names, NamesInColumns, NamesPrepared])
def test_an_interceptor_that_takes_a_context_gets_the_client(policy):
    assert [verdict.value for verdict in judge(policy, [b"a", b"b"], **IDENTITY)] == [
        DESCRIBED.encode()
    ] * 2


@pytest.mark.parametrize("policy", [Validator, Policy, Whole])
def test_an_unknown_client_has_a_context_without_names(policy):
    """As on Spark: the context exists, and is empty."""
    [verdict] = judge(policy, [b"a"])
    assert verdict.message == str(ClientContext(None, None, None)) == str(NOBODY)


class Silent(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return None


class SilentInterceptor(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return ""

    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value)


def test_only_classes_that_take_a_context_are_listed_and_wrapped():
    policies = instances(
        validators=[Silent, Validator], interceptors=[SilentInterceptor, Names], validation=Prepared
    )
    assert policies.takes_client == {"Validator", "Names", "Prepared"}
    assert policies.validators["Silent"].validate.__func__ is Silent.validate_record
    assert instances(validators=[Silent]).takes_client == set()


def test_the_next_batch_is_of_the_next_client():
    """One chain, one place, two clients: nothing is kept of the first."""
    policies = instances(validators=[Validator])
    judging = chain(validators=[Validator])
    for context in (ALICE, NOBODY, ALICE._replace(principal="User:bob")):
        policies.client = context
        judging.validators = [policies.validators["Validator"]]
        own = judging.subset(judging.plan)
        verdict = own.judge(0, TOPIC_ID, columns(b"a"))
        assert verdict.record_errors[0].message == str(context)


class TooMany(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers, more, context):
        return None


class TooFewColumns(BrokerRecordValidator):
    def validate_batch(self, batch, context):
        return ()


class WrongPreparation(RecordValidationPolicy):
    def prepare_batch(self, context):
        """Takes too little."""

    def validate(self, topic, record):
        """Let everything pass."""


class PositionOnly(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers, context, /):
        return None


def passes_positions_alone(method):
    @functools.wraps(method)
    def decorated(*arguments):
        return method(*arguments)

    return decorated


class Decorated(BrokerRecordValidator):
    @passes_positions_alone
    def validate_record(self, topic_partition, key, value, headers, context):
        return None


class DecoratedColumns(BrokerRecordValidator):
    @passes_positions_alone
    def validate_batch(self, topic_partition, batch, context):
        return ()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"validators": [PositionOnly]},
            r"validate_record\(\) must take 4 .* context, by its name",
        ),
        ({"validators": [Decorated]}, r"validate_record\(\) must take 4 .* context, by its name"),
        ({"validators": [DecoratedColumns]}, r"validate_batch\(\) must take 2 .* by its name"),
        ({"validators": [TooMany]}, r"validate_record\(\) must take 4 arguments .* then context"),
        ({"validators": [TooFewColumns]}, r"validate_batch\(\) must take 2 arguments"),
        ({"validation": WrongPreparation}, r"prepare_batch\(\) must take 2 arguments"),
    ],
)
def test_a_method_with_a_wrong_signature_is_refused_at_start(given, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        instances(**given)


def passes_all(method):
    @functools.wraps(method)
    def decorated(*arguments, **named):
        return method(*arguments, **named)

    return decorated


class RefusesWithContext:
    def __call__(self, topic, record, context):
        raise InvalidRecordException(str(context))


class ByAnObject(RecordValidationPolicy):
    validate = RefusesWithContext()


class ByADecorator(RecordValidationPolicy):
    @passes_all
    def validate(self, topic, record, context):
        raise InvalidRecordException(str(context))


class OfTheClass(RecordValidationPolicy):
    @classmethod
    def validate(cls, topic, record, context):
        raise InvalidRecordException(str(context))


class OfNobody(RecordValidationPolicy):
    @staticmethod
    def validate(topic, record, context):
        raise InvalidRecordException(str(context))


class Inherits(Policy):
    pass


@pytest.mark.parametrize("policy", [ByAnObject, ByADecorator, OfTheClass, OfNobody, Inherits])
def test_however_a_method_comes_to_its_class(policy):
    assert [verdict.message for verdict in judge(policy, [b"a"], **IDENTITY)] == [DESCRIBED]


class WrongWhole:
    def validate(self, topic, context):
        """Let everything pass."""


def test_a_batch_policy_that_could_not_be_called_is_refused_at_start():
    with pytest.raises(ConfigurationError, match=r"validate\(\) must take 3 arguments"):
        PolicyInstances(
            CONFIGURATION, {RECORDS: ["WrongWhole"]}, factories={"WrongWhole": WrongWhole}
        )


class NotAContext:
    """A policy of batches, named where one of records belongs: it must not judge by chance."""

    def validate(self, topic, partition, records):
        for _ in records:
            raise PolicyViolationException("no")


def test_a_third_parameter_of_another_name_is_no_context():
    with pytest.raises(ConfigurationError, match=r"must take 2 arguments besides self: topic, rec"):
        chain(validation=NotAContext, setting="x")


def test_a_client_crosses_the_pipe():
    for client in (ALICE, ClientContext(None, "", None), ClientContext("User:ünï\n", "\0", "::1")):
        assert messages.read_client(messages.client(client)) == client
    assert messages.read_client(b"") == NOBODY


def test_a_batch_that_timed_out_for_a_client_is_judged_for_another():
    """The verdict of an interceptor that takes a context is not used for another client."""
    timed_out, data = TimedOutBatches(lambda: 0.0), encode_batch(values(b"a"))
    timed_out.add(batch_of("t", 0, data, messages.client(ALICE)), 5.0)
    assert timed_out.is_suspended(batch_of("t", 0, data, messages.client(ALICE)))
    other = ALICE._replace(principal="User:bob")
    assert not timed_out.is_suspended(batch_of("t", 0, data, messages.client(other)))


def test_a_long_client_id_is_not_held_for_each_batch():
    """Clients choose it: 32 KiB at most, times the partitions of a request, times the cache."""
    long = ClientContext("User:a", "x" * 32_000, "::1")
    assert messages.client(long) is messages.client(ClientContext(*long))
    key = batch_of("t", 0, encode_batch(values(b"a")), messages.client(long))
    assert len(key[-1]) <= 32
    assert batch_of("t", 0, encode_batch(values(b"a")), b"")[-1] == b""


def test_the_gateway_knows_a_class_whose_first_instance_could_not_be_configured():
    reported, fails = [], [True]

    class Late(RecordsPolicyWithContext):
        def configure(self, configs):
            if fails.pop() if fails else False:
                raise ValueError("not yet")

        def validate(self, topic, partition, records, context):
            """Let everything pass."""

    policies = PolicyInstances(CONFIGURATION, {}, factories={"Late": Late})
    policies.on_records_class = reported.append
    with pytest.raises(ConfigurationError):
        policies.judging_records("Late", "t")
    policies.judging_records("Late", "t")
    policies.judging_records("Late", "u")
    assert reported == ["Late"]
