"""A policy that cannot decide now: neither an objection nor a failure, at every interface."""

import pickle
from types import SimpleNamespace

import pytest

from penstock.engine.admin_policies import (
    AdminContext,
    AdminPolicy,
    ConfigAlteration,
    TopicCreation,
)
from penstock.engine.chain import Chain
from penstock.engine.interceptors.intercepted_batch import intercept_and_judge
from penstock.engine.objections import BatchPolicy
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import TEXT_MAX_BYTES, Outcome, PostponedError, postponed
from penstock.engine.workers import messages
from penstock.policy import (
    BrokerRecordValidator,
    InvalidRecordException,
    PolicyViolationException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    RecordsPolicy,
    RecordValidationPolicy,
    RetriableException,
    UndecidableException,
)
from tests.engine.chains import TOPIC_ID, chain, columns, each

AWAY = "the registry is away"
UNUSABLE = "the schema cannot be used"


class Seen(list):
    """The values that a policy has judged."""


SEEN = Seen()


@pytest.fixture(autouse=True)
def _nothing_seen():
    SEEN.clear()


def say(value):
    """Decide by a value: pass, refuse, fail, or "not now"."""
    SEEN.append(value)
    if value == b"bad":
        raise InvalidRecordException("bad")
    if value == b"fail":
        raise KeyError
    if value == b"later":
        raise RetriableException(AWAY)
    if value == b"never":
        raise UndecidableException(UNUSABLE)


class Raising(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        say(value)


class Returning(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        try:
            say(value)
        except (InvalidRecordException, RetriableException) as error:
            return error
        return None


class ByColumns(BrokerRecordValidator):
    def validate_batch(self, topic_partition, batch):
        for index, value in enumerate(batch.values):
            try:
                say(value)
            except InvalidRecordException as error:
                yield index, error.message


class Validation(RecordValidationPolicy):
    def validate(self, topic, record):
        say(record.value)


class ValidationByColumns(RecordValidationPolicy):
    def validate_batch(self, topic, batch):
        return ByColumns().validate_batch(None, batch)


class Batch(RecordsPolicy):
    def validate(self, topic, partition, records):
        for record in records:
            try:
                say(record.value)
            except InvalidRecordException as error:
                raise PolicyViolationException(error.message) from None


class Interceptor(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "."

    def process_record(self, key, value, topic, partition, headers):
        say(value)
        return ProduceRequestInterceptorResult(key, value)


class InterceptorByColumns(Interceptor):
    how = "raised"

    def process_batch(self, topic, partition, batch):
        found = []
        for index, value in enumerate(batch.values):
            try:
                say(value)
            except RetriableException as error:
                if self.how == "raised":
                    raise
                found.append((index, error))
            except Exception as error:
                found.append((index, error))
        return found


class InterceptorThatGives(InterceptorByColumns):
    how = "given"


class Passes(BrokerRecordValidator):
    def validate_batch(self, topic_partition, batch):
        return ()


def chains():
    return {
        "729 raised": chain(validators=[Raising]),
        "729 returned": chain(validators=[Returning]),
        "729 by batch": chain(validators=[ByColumns]),
        "729 second": chain(validators=[Passes, Raising]),
        "729 by batch, second": chain(validators=[Passes, ByColumns]),
        "940": chain(validation=Validation),
        "940 behind 729": chain(validators=[Passes], validation=Validation),
        "940 by batch": chain(validation=ValidationByColumns),
        "686": of_records_policy(),
    }


def of_records_policy():
    bare = chain()
    plan = TopicPlan(topic="orders", records_policy="Batch")
    subset = Chain.subset(bare, plan)
    subset.records_policy = BatchPolicy("Batch", Batch().validate)
    return subset


@pytest.mark.parametrize("kind", chains())
def test_a_batch_is_postponed_as_a_whole(kind):
    verdict = chains()[kind].judge(3, TOPIC_ID, columns(b"good", b"later", b"good"))
    assert (verdict.outcome, verdict.code, verdict.message) == (Outcome.POSTPONED, 7, AWAY)
    assert verdict.policy
    assert verdict.record_errors == ()
    assert verdict.detail == ""
    assert len(SEEN) <= 2, "the rest is not judged: each judgement may wait for the registry"


@pytest.mark.parametrize("kind", chains())
def test_a_postponed_record_raises_if_records_are_judged_separately(kind):
    with pytest.raises(PostponedError, match=f": {AWAY}") as raised:
        chains()[kind].judge_each(3, TOPIC_ID, columns(b"good", b"later", b"good", b"good"),
                                  records_policy_batch=4)  # fmt: skip
    assert raised.value.verdict.outcome is Outcome.POSTPONED
    assert len(SEEN) <= 2


def test_it_is_no_objection_to_the_record_before_it():
    """A refused record is refused when the batch is retried."""
    verdict = chain(validators=[Raising]).judge(3, TOPIC_ID, columns(b"bad", b"later"))
    assert verdict.outcome is Outcome.POSTPONED


def test_a_failure_before_it_counts():
    verdict = chain(validators=[Raising]).judge(3, TOPIC_ID, columns(b"fail", b"later"))
    assert verdict.outcome is Outcome.FAILED


@pytest.mark.parametrize("failing", [b"fail", b"bad"])
def test_halves_are_judged_until_a_half_is_postponed(failing):
    """Columns are cut after a failure; a half that is postponed ends that."""
    with pytest.raises(PostponedError):
        chain(validators=[ByColumns]).judge_each(
            3, TOPIC_ID, columns(failing, b"good", b"later", b"good", b"good", b"good")
        )


@pytest.mark.parametrize("cls", [Interceptor, InterceptorByColumns, InterceptorThatGives])
@pytest.mark.parametrize("first", [[], [Interceptor]])
def test_interceptors(cls, first):
    policies = chain(interceptors=[*first, cls])
    given = columns(b"good", b"later", b"good")
    verdict = intercept_and_judge(
        policies,
        3,
        TOPIC_ID,
        SimpleNamespace(records=_Stored(given)),
        on_intercepted=lambda: pytest.fail("the worker has not judged all records"),
        max_bytes=10**6,
    )
    assert (verdict.outcome, verdict.code, verdict.message) == (Outcome.POSTPONED, 7, AWAY)
    with pytest.raises(PostponedError, match=AWAY):
        policies.judge_each(3, TOPIC_ID, given)


class _Stored:
    """Records as a batch has them."""

    def __init__(self, given):
        self.keys, self.values = list(given.keys), list(given.values)
        self.headers, self.timestamps = list(given.headers), list(given.timestamps)

    def __len__(self):
        return len(self.values)


class Admin:
    def validate(self, request):
        raise RetriableException(AWAY)


def test_policies_of_topics_and_configs():
    policy = AdminPolicy("shop.Admin", Admin())
    for verdict in (
        policy.judge_creation(TopicCreation("t", 1, 1, None, {}), AdminContext()),
        policy.judge_alteration(ConfigAlteration("TOPIC", "t", {}), AdminContext()),
    ):
        assert (verdict.outcome, verdict.code, verdict.message, verdict.policy) == (
            Outcome.POSTPONED, 7, AWAY, "shop.Admin"
        )  # fmt: skip


def test_the_verdict_comes_over_the_pipe_and_the_error_out_of_a_process():
    verdict = postponed("shop.Registry", RetriableException("x" * 5000))
    assert len(verdict.message) == TEXT_MAX_BYTES
    framed = messages.verdict(9, verdict, 0.25)
    assert messages.read_verdict(framed[messages.PREFIX.size :]) == (9, verdict, 0.25)
    error = pickle.loads(pickle.dumps(PostponedError(verdict)))
    assert error.verdict == verdict
    assert str(error).startswith("a policy cannot decide now: shop.Registry: x")


class Preparing(RecordValidationPolicy):
    def prepare_batch(self, topic, batch):
        if b"never" in batch.values:
            raise UndecidableException(UNUSABLE)

    def validate(self, topic, record):
        say(record.value)


@pytest.mark.parametrize(
    "given",
    [
        {"validators": [Raising]},
        {"validators": [Returning]},
        {"validators": [ByColumns]},
        {"validation": Validation},
        {"validation": ValidationByColumns},
    ],
)
def test_an_undecidable_record_fails_alone_if_stored_and_is_retried_otherwise(given):
    policies = chain(**given)
    (name,) = (
        cls.__name__ for cls in (*given.get("validators", ()), given.get("validation")) if cls
    )
    records = columns(b"good", b"never", b"bad", b"never")
    assert each(policies, records) == [
        (1, "failed", name, 7, UNUSABLE),
        (2, "refused", name, 87, "bad"),
        (3, "failed", name, 7, UNUSABLE),
    ]
    verdict = policies.judge(3, TOPIC_ID, columns(b"good", b"never", b"bad"))
    assert (verdict.outcome, verdict.code) == (Outcome.POSTPONED, 7)
    assert verdict.message == UNUSABLE
    with pytest.raises(PostponedError):
        each(policies, columns(b"never", b"later"))


def test_an_undecidable_preparation_fails_for_stored_records():
    policies = chain(validation=Preparing)
    found = each(policies, columns(b"good", b"never"))
    assert [(index, outcome) for index, outcome, *_ in found] == [(0, "failed"), (1, "failed")]


def test_a_missing_message_is_mentioned():
    assert postponed("P", RetriableException()).message == "no reason is given"
