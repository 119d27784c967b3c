"""Batches whose bad records are stored: the policy that counts, and the written records."""

import pytest

from penstock.engine.chain import Chain
from penstock.engine.interceptors.intercepted_batch import intercept_and_judge
from penstock.engine.modes.diverting import judge_and_divert
from penstock.engine.objections import BatchPolicy
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, TEXTS_MAX_BYTES, Outcome
from penstock.engine.workers import messages
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import (
    BrokerRecordValidator,
    Header,
    InvalidRecordException,
    PolicyViolationException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    Record,
)
from tests.engine.chains import TOPIC_ID, columns, each, instances
from tests.kafka.records.encoding import CODECS, encode_batch

FORGED = Header("__mark.errors.policy", b"nobody")


class Bad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("it is bad") if b"bad" in value else None


class Worse(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"fail":
            raise ZeroDivisionError
        return InvalidRecordException("it is worse") if b"worse" in value else None


class Upper(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "."

    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop":
            raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value.replace(b"x", b"y"))


class Swap(ProduceRequestInterceptor):
    """Makes bad records good, and good records bad."""

    def interceptor_topic_pattern(self):
        return "."

    def process_record(self, key, value, topic, partition, headers):
        if b"drop" in value:
            raise ProduceRequestInterceptorSkipRecordException
        made = {b"x": b"bad", b"y": b"worse"}.get(value)
        return ProduceRequestInterceptorResult(
            key, made or value.replace(b"bad", b"***").replace(b"worse", b"***")
        )


class Whole:
    """A policy of KIP-686."""

    def validate(self, topic, partition, records):
        raise PolicyViolationException("all of it" * 200)


MARK = {"mode": "mark"}


def chain(*, modes, interceptors=()) -> Chain:
    plan = TopicPlan(
        topic="orders",
        interceptors=tuple(cls.__name__ for cls in interceptors),
        validators=("Bad", "Worse"),
        **modes,
    )
    return Chain(plan, instances(interceptors=interceptors, validators=[Bad, Worse]))


def batch_of(*values, headers=(), codec=0, **fields):
    records = [Record(1000 + n, b"k", value, headers) for n, value in enumerate(values)]
    data = encode_batch(records, codec=codec, **fields) + bytes(64)
    return read(memoryview(data)[:-64])


def read(data, **options):
    return read_batch(data, api_version=9, max_decompressed_bytes=2**20, **options)


def judge(policies, batch, max_bytes=2**20):
    return judge_and_divert(
        policies, 3, TOPIC_ID, batch.records, lambda: batch, max_bytes=max_bytes
    )


def marked(*, policy, message, code=b"87"):
    return (
        Header("__mark.errors.policy", policy),
        Header("__mark.errors.code", code),
        Header("__mark.errors.message", message),
    )


@pytest.mark.parametrize("codec", CODECS)
def test_bad_records_are_marked_and_all_else_stays(record_batches, codec):
    own = (Header("h", b"1"), Header("h", None))
    numbers = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 40, "transactional": True}
    batch = batch_of(b"a", b"bad", b"worse", b"b", headers=own, codec=codec, **numbers)
    verdict = judge(chain(modes=MARK), batch)

    assert verdict.outcome is Outcome.ACCEPTED
    assert list(verdict.replacement.dropped) == []
    stored = read(verdict.replacement.data)
    assert stored._replace(records=None) == batch._replace(records=None)
    assert list(stored.records.values) == [b"a", b"bad", b"worse", b"b"]
    assert list(stored.records.timestamps) == [1000, 1001, 1002, 1003]
    assert list(stored.records.headers) == [
        own,
        (*own, *marked(policy=b"Bad", message=b"it is bad")),
        (*own, *marked(policy=b"Worse", message=b"it is worse")),
        own,
    ]
    (diverted,) = verdict.diverted
    assert (diverted.verdict.outcome, diverted.verdict.code, diverted.count) == (
        Outcome.MARKED,
        87,
        2,
    )
    assert [error.index for error in diverted.verdict.record_errors] == [1, 2]


def test_a_good_batch_goes_as_it_came(record_batches):
    assert judge(chain(modes=MARK), batch_of(b"a", b"b")) is ACCEPTED


def test_marks_of_a_client_are_removed(record_batches):
    batch = batch_of(b"a", b"bad", headers=(FORGED, Header("__mark.x", b""), Header("h", b"")))
    stored = read(judge(chain(modes=MARK), batch).replacement.data)
    assert list(stored.records.headers) == [
        (Header("h", b""),),
        (Header("h", b""), *marked(policy=b"Bad", message=b"it is bad")),
    ]
    good = batch_of(b"a", headers=(FORGED,))
    verdict = judge(chain(modes=MARK), good)
    assert (verdict.outcome, verdict.diverted) == (Outcome.ACCEPTED, ())
    assert list(read(verdict.replacement.data).records.headers) == [()]


def test_the_strictest_policy_that_objects_counts():
    modes = {"mode": "mark", "policy_modes": {"Worse": "enforce"}}
    refused = judge(chain(modes=modes), batch_of(b"bad", b"bad worse", b"a"))
    assert (refused.outcome, refused.code, refused.policy) == (Outcome.REFUSED, 87, "Worse")
    assert [(error.index, error.message) for error in refused.record_errors] == [(1, "it is worse")]

    verdict = judge(chain(modes=modes), batch_of(b"a", b"bad"))
    assert [part.count for part in verdict.diverted] == [1]


@pytest.mark.parametrize("by_record", [False, True])
def test_of_stored_records_the_strictest_policy_that_objects_is_named_too(by_record):
    policies = chain(modes={"mode": "mark", "policy_modes": {"Worse": "enforce"}})
    records = columns(b"bad", b"bad worse", b"a", b"fail", b"worse")
    assert each(policies.by_record() if by_record else policies, records) == [
        (0, "refused", "Bad", 87, "it is bad"),
        (1, "refused", "Worse", 87, "it is worse"),
        (3, "failed", "Worse", -1, "The policy Worse failed: ZeroDivisionError"),
        (4, "refused", "Worse", 87, "it is worse"),
    ]


@pytest.mark.parametrize("mode", ["enforce", "quarantine", "mark"])
def test_a_stricter_policy_judges_unchanged_records_if_interceptors_only_observe(mode):
    modes = {"mode": "observe", "policy_modes": {"Bad": mode}}
    policies = chain(modes=modes, interceptors=[Swap])
    values = [b"bad", b"x", b"a", b"drop bad", b"drop", b"y", b"bad y", b"worse"]
    expected = [
        (0, "refused", "Bad", 87, "it is bad"),
        (3, "refused", "Bad", 87, "it is bad"),
        (4, "dropped", "Swap", 0, None),
        (5, "refused", "Worse", 87, "it is worse"),
        (6, "refused", "Bad", 87, "it is bad"),
    ]
    assert each(policies, columns(*values)) == expected
    assert each(policies.by_record(), columns(*values)) == expected
    waited_for = policies.subset(policies.plan.waited_for)
    verdicts = [judge(waited_for, batch_of(value)) for value in values]
    objected = [
        verdict.outcome is Outcome.REFUSED or bool(verdict.diverted) for verdict in verdicts
    ]
    assert [index for index, is_objected in enumerate(objected) if is_objected] == [0, 3, 6]

    # The intercepted records, and the others as they were sent.
    assert policies.judge_each(3, TOPIC_ID, columns(*values)).replaced == (
        [b"b", b"x", b"a", b"d", None, b"y", b"b", b"w"],
        [b"bad", b"bad", b"a", b"drop bad", None, b"worse", b"bad y", b"***"],
    )


def test_only_interceptors_may_observe():
    plan = TopicPlan(
        topic="orders",
        interceptors=("Swap",),
        validators=("Bad",),
        mode="observe",
        policy_modes={"Bad": "enforce"},
    )
    policies = Chain(plan, instances(interceptors=[Swap], validators=[Bad]))
    found = policies.judge_each(3, TOPIC_ID, columns(b"bad", b"bad"))
    assert [(index, verdict.policy) for index, verdict in found.verdicts] == [
        (0, "Bad"),
        (1, "Bad"),
    ]
    assert found.replaced == ([b"b", b"b"], [b"bad", b"bad"])
    assert each(policies, columns(b"x", b"drop")) == [(1, "dropped", "Swap", 0, None)]


def test_policies_judge_intercepted_records_if_all_only_observe():
    policies = chain(modes={"mode": "observe"}, interceptors=[Swap])
    assert each(policies, columns(b"bad", b"x")) == [(1, "refused", "Bad", 87, "it is bad")]


def test_a_policy_that_fails_lets_nothing_pass():
    verdict = judge(chain(modes=MARK), batch_of(b"bad", b"fail"))
    assert (verdict.outcome, verdict.replacement) == (Outcome.FAILED, None)


def test_a_batch_that_becomes_too_large_is_refused():
    verdict = judge(chain(modes=MARK), batch_of(b"bad"), max_bytes=80)
    assert (verdict.outcome, verdict.code) == (Outcome.REFUSED, 10)


def test_records_are_marked_as_interceptors_left_them(record_batches):
    batch = batch_of(b"x", b"drop", b"bad x", b"a")
    verdict = intercept_and_judge(
        chain(modes=MARK, interceptors=[Upper]), 3, TOPIC_ID, batch,
        on_intercepted=lambda: None, max_bytes=2**20,
    )  # fmt: skip
    assert list(verdict.replacement.dropped) == [1]
    stored = read(verdict.replacement.data).records
    assert list(stored.values) == [b"y", b"bad y", b"a"]
    assert list(stored.headers) == [(), marked(policy=b"Bad", message=b"it is bad"), ()]
    assert [error.index for error in verdict.diverted[0].verdict.record_errors] == [2]


def test_of_a_batch_that_is_bad_as_a_whole_each_record_is_marked():
    policies = chain(modes=MARK)
    policies.records_policy = BatchPolicy("Whole", Whole().validate)
    count = 300
    verdict = judge(policies, batch_of(*[b"a"] * count))
    headers = read(verdict.replacement.data).records.headers
    assert verdict.diverted[0].count == count
    assert verdict.diverted[0].verdict.code == 44
    assert all(dict(header)["__mark.errors.code"] == b"44" for header in headers)
    texts = [dict(header)["__mark.errors.message"] for header in headers]
    assert texts[0].startswith(b"all of it")
    assert sum(map(len, texts)) <= TEXTS_MAX_BYTES
    assert texts[-1] == b""


def test_a_worker_sends_marked_records():
    verdict = judge(chain(modes=MARK), batch_of(b"a", b"bad"))
    framed = messages.verdict(7, verdict, 0.5)
    attempt, read_back, took_s = messages.read_verdict(framed[messages.PREFIX.size :])
    assert (attempt, took_s) == (7, 0.5)
    assert read_back.diverted == verdict.diverted
    assert read_back.replacement.data == verdict.replacement.data


class TestQuarantine:
    """Records that become dead letters, and those that later policies judge."""

    MODES = {"mode": "quarantine", "policy_modes": {"Worse": "mark"}}

    def counts(self, verdict):
        return [
            (part.verdict.outcome, part.verdict.policy, part.count) for part in verdict.diverted
        ]

    def letters(self, verdict):
        found = read_stored_batch(verdict.replacement.letters, max_decompressed_bytes=2**20)
        return [
            (value, dict(headers)["__penstock.policy"], dict(headers)["__penstock.message"])
            for value, headers in zip(found.records.values, found.records.headers, strict=True)
        ]

    def test_the_other_records_are_judged_by_the_policies_that_mark(self):
        batch = batch_of(b"a", b"bad", b"worse", b"bad worse", b"b")
        verdict = judge(chain(modes=self.MODES), batch)
        assert (list(verdict.replacement.dropped), list(verdict.replacement.quarantined)) == (
            [1, 3],
            [1, 3],
        )
        stored = read(verdict.replacement.data)
        assert list(stored.records.values) == [b"a", b"worse", b"b"]
        assert list(stored.records.headers) == [
            (),
            marked(policy=b"Worse", message=b"it is worse"),
            (),
        ]
        assert self.counts(verdict) == [
            (Outcome.QUARANTINED, "Bad", 2),
            (Outcome.MARKED, "Worse", 1),
        ]
        assert self.letters(verdict) == [
            (b"bad", b"Bad", b"it is bad"),
            (b"bad worse", b"Bad", b"it is bad"),
        ]

    def test_without_other_records_nothing_is_left(self):
        verdict = judge(chain(modes=self.MODES), batch_of(b"bad", b"bad worse"))
        assert verdict.replacement.data == b""
        assert list(verdict.replacement.quarantined) == [0, 1]
        assert self.counts(verdict) == [(Outcome.QUARANTINED, "Bad", 2)]

    def test_a_batch_of_a_transaction_is_refused(self):
        batch = batch_of(
            b"a", b"bad", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        verdict = judge(chain(modes=self.MODES), batch)
        assert (verdict.outcome, verdict.code) == (Outcome.REFUSED, 87)
        ((index, text),) = ((error.index, error.message) for error in verdict.record_errors)
        assert index == 1
        assert text.startswith("penstock.mode is quarantine, which sets no records of transactions")
        assert text.endswith(": it is bad")
        assert verdict.message.endswith(f"RecordError(batchIndex=1, message='{text}')]")
        marks = judge(chain(modes=MARK), batch)
        assert marks.outcome is Outcome.ACCEPTED

    def test_a_retry_quarantines_the_same_records_after_a_change_of_policies(self):
        batch = batch_of(b"a", b"bad", b"b", b"drop")
        verdict = intercept_and_judge(
            chain(modes=self.MODES), 3, TOPIC_ID, batch,
            dropped_before=frozenset({0, 1, 3}), quarantined_before=[0, 1],
            on_intercepted=lambda: None, max_bytes=2**20,
        )  # fmt: skip
        assert list(verdict.replacement.dropped) == [0, 1, 3]
        assert list(verdict.replacement.quarantined) == [0, 1]
        assert list(read(verdict.replacement.data).records.values) == [b"b"]
        (first, second) = self.letters(verdict)
        assert first[0] == b"a"
        assert first[1] == b""
        assert second == (b"bad", b"Bad", b"it is bad")
