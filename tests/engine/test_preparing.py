"""`prepare_batch` and `prepare_topic`: called once, before judging, with a separate deadline."""

import asyncio
from dataclasses import replace
from types import MappingProxyType

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.topic_keys import TopicDefault
from penstock.engine.chain import Chain
from penstock.engine.instances import VALIDATION, PolicyInstances
from penstock.engine.interceptors.interceptor_chain import intercept
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, Outcome, PostponedError
from penstock.engine.workers.processes.worker import WorkerState
from penstock.engine.workers.progress import JUDGING, PREPARING
from penstock.engine.workers.schedule import WorkerLimits
from penstock.policy import (
    BrokerRecordValidator,
    InvalidRecordException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    RecordIntrospectionHints,
    RecordValidationPolicy,
    RetriableException,
    TopicConfig,
)
from tests.engine.chains import CONFIGURATION, TOPIC_ID, chain, columns, each
from tests.engine.simulated import World
from tests.engine.supervised import AMPLE_MS, Gate, Judging

calls: list = []


@pytest.fixture(autouse=True)
def _no_calls():
    calls.clear()


class Prepares(RecordValidationPolicy):
    def get_hints(self):
        return RecordIntrospectionHints(access_key_bytes=0, access_value_bytes=3)

    def prepare_batch(self, topic, batch):
        calls.append(("prepare", topic.topic_id_partition.partition, list(batch.values)))
        assert list(batch.keys) == [None] * len(batch)
        if b"awa" in batch.values:
            raise RetriableException("away")
        if b"fai" in batch.values:
            raise KeyError("secret")

    def validate(self, topic, record):
        calls.append(("validate", record.value))
        if record.value == b"bad":
            raise InvalidRecordException("bad")
        if record.value == b"key":
            raise KeyError("secret")


class PreparesColumns(Prepares):
    def validate_batch(self, topic, batch):
        calls.append(("validate", len(batch)))
        for index, value in enumerate(batch.values):
            if value == b"key":
                raise KeyError("secret")
            if value == b"bad":
                yield index, "bad"


class NoX(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("x") if value.startswith(b"x") else None


KINDS = pytest.mark.parametrize("cls", [Prepares, PreparesColumns])


def prepared():
    return [values for what, *_, values in calls if what == "prepare"]


@KINDS
@pytest.mark.parametrize("validators", [[], [NoX]])
def test_it_is_called_once_before_judging_with_the_records_that_are_left(cls, validators):
    policies = chain(validators=validators, validation=cls)
    verdict = policies.judge(3, TOPIC_ID, columns(b"x1", b"bad", b"good"))
    left = [b"bad", b"goo"] if validators else [b"x1", b"bad", b"goo"]
    assert calls[0] == ("prepare", 3, left)
    assert prepared() == [left]
    found = [(error.index, error.message) for error in verdict.record_errors]
    assert found == ([(0, "x")] if validators else []) + [(1, "bad")]


@KINDS
def test_records_that_are_judged_separately_are_prepared_once(cls):
    found = each(chain(validation=cls), columns(b"a", b"key", b"bad", b"b"))
    assert prepared() == [[b"a", b"key", b"bad", b"b"]]
    assert [(index, outcome) for index, outcome, *_ in found] == [(1, "failed"), (2, "refused")]


@KINDS
def test_not_now(cls):
    policies = chain(validation=cls)
    verdict = policies.judge(3, TOPIC_ID, columns(b"good", b"away"))
    assert (verdict.outcome, verdict.code, verdict.message) == (Outcome.POSTPONED, 7, "away")
    with pytest.raises(PostponedError):
        policies.judge_each(3, TOPIC_ID, columns(b"good", b"away"))
    assert ("validate", b"good") not in calls


@KINDS
def test_any_other_exception_lets_nothing_pass(cls):
    policies = chain(validation=cls)
    verdict = policies.judge(3, TOPIC_ID, columns(b"good", b"fail"))
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, -1)
    assert "secret" not in f"{verdict.message}{verdict.detail}"
    found = each(policies, columns(b"good", b"fail"))
    assert [(index, outcome) for index, outcome, *_ in found] == [(0, "failed"), (1, "failed")]


def test_columns_are_judged_in_the_batch_that_was_prepared_for():
    class Remembers(PreparesColumns):
        def prepare_batch(self, topic, batch):
            self.prepared = batch

        def validate_batch(self, topic, batch):
            calls.append(batch is self.prepared)
            return super().validate_batch(topic, batch)

    verdict = chain(validation=Remembers).judge(3, TOPIC_ID, columns(b"a", b"bad"))
    assert calls[0] is True
    assert [error.index for error in verdict.record_errors] == [1]


def test_no_preparation_without_records():
    chain(validators=[NoX], validation=Prepares).judge(3, TOPIC_ID, columns(b"x"))
    assert calls == []


def test_the_clock_of_preparation_runs():
    policies = chain(validation=Prepares)
    instances = PolicyInstances(CONFIGURATION, {VALIDATION: ["P"]}, factories={"P": Prepares})
    instances.on_preparing = calls.append
    plan = replace(policies.plan, validation_policy="P")
    Chain(plan, instances).judge(3, TOPIC_ID, columns(b"away"))
    assert calls == [True, ("prepare", 3, [b"awa"]), False]


class Intercepts(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return ""

    def prepare_batch(self, topic, partition, batch):
        calls.append(("prepare", topic, partition, list(batch.values)))
        if b"away" in batch.values:
            raise RetriableException("away")
        if b"fail" in batch.values:
            raise KeyError("secret")

    def process_record(self, key, value, topic, partition, headers):
        calls.append(("process", value))
        return ProduceRequestInterceptorResult(key, value + b"!")


class InterceptsColumns(Intercepts):
    def process_batch(self, topic, partition, batch):
        calls.append(("process", len(batch)))
        for index, value in enumerate(batch.values):
            yield index, ProduceRequestInterceptorResult(None, value + b"!")


class Drops(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return ""

    def process_record(self, key, value, topic, partition, headers):
        if value == b"x":
            raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value)


INTERCEPTORS_TOO = pytest.mark.parametrize("cls", [Intercepts, InterceptsColumns])


@INTERCEPTORS_TOO
def test_an_interceptor_prepares_once_for_the_remaining_records(cls):
    policies = chain(interceptors=[Drops, cls])
    done = intercept(policies.interceptors, "orders", 3, columns(b"x", b"a", b"b"))
    assert calls[0] == ("prepare", "orders", 3, [b"a", b"b"])
    assert prepared() == [[b"a", b"b"]]
    assert done.values == [None, b"a!", b"b!"]
    assert [(index, verdict.outcome) for index, verdict in done.verdicts] == [(0, Outcome.DROPPED)]


@INTERCEPTORS_TOO
@pytest.mark.parametrize("until_failure", [True, False])
def test_an_interceptor_that_cannot_prepare_lets_nothing_pass(cls, until_failure):
    made = chain(interceptors=[cls, Drops]).interceptors
    done = intercept(made, "orders", 3, columns(b"a", b"away"), until_failure=until_failure)
    ((_, verdict),) = done.verdicts
    assert (verdict.outcome, verdict.code, verdict.message) == (Outcome.POSTPONED, 7, "away")
    done = intercept(made, "orders", 3, columns(b"a", b"fail"), until_failure=until_failure)
    found = [(index, verdict.outcome) for index, verdict in done.verdicts]
    assert found == [(index, Outcome.FAILED) for index in range(1 if until_failure else 2)]
    assert "secret" not in repr(done.verdicts)
    assert [what for what, *_ in calls] == ["prepare", "prepare"]


def test_a_coroutine_is_an_error_of_an_interceptor_too():
    async def runs_not(self, *_):
        pass

    cls = type("Lazy", (Intercepts,), {"prepare_batch": runs_not})
    with pytest.raises(ConfigurationError, match=r"prepare_batch\(\) must not"):
        chain(interceptors=[cls])


@pytest.mark.parametrize("method", ["prepare_batch", "prepare_topic"])
def test_a_coroutine_or_a_generator_is_an_error(method):
    async def runs_not(self, *_):
        pass

    def yields(self, *_):
        yield

    for function in (runs_not, yields):
        cls = type("Lazy", (Prepares,), {method: function})
        with pytest.raises(ConfigurationError, match=rf"{method}\(\) must not"):
            chain(validation=cls)


# Topics


class PreparesTopics(RecordValidationPolicy):
    topic_configs = (
        TopicConfig("on", "BOOLEAN", "false", switches_on=True),
        TopicConfig("level", "STRING", "low"),
    )

    def prepare_topic(self, topic, configs):
        calls.append((topic, dict(configs)))
        if configs["level"] == "wrong":
            raise ValueError("level must be right")
        if configs["level"] == "away":
            raise RetriableException("away")
        if configs["level"] == "fails":
            raise KeyError("x")

    def validate(self, topic, record):
        pass


def with_topics(**levels):
    """Make instances for a file with a level for each topic, which is switched on."""
    defaults = [TopicDefault(topic, "level", level) for topic, level in levels.items()]
    configuration = replace(
        CONFIGURATION,
        record_validation_policy_class_name="P",
        declared_topic_keys=PreparesTopics.topic_configs,
        topic_defaults=(*defaults, TopicDefault("*", "on", "true")),
    )
    return PolicyInstances(configuration, {VALIDATION: ["P"]}, factories={"P": PreparesTopics})


def plan_of(topic, level):
    return TopicPlan(
        topic=topic,
        validation_policy="P",
        validation_setting="",
        validation_configs=MappingProxyType({"on": "true", "level": level}),
    )


def test_topics_that_the_file_names_are_prepared_for_at_the_start():
    with_topics(**{"orders": "high", "pay-*": "high", "away": "away"})
    assert calls == [
        ("orders", {"on": "true", "level": "high"}),
        ("away", {"on": "true", "level": "away"}),
    ]


@pytest.mark.parametrize(
    ("level", "text"), [("wrong", "level must be right"), ("fails", "KeyError")]
)
def test_a_topic_that_cannot_be_judged_is_an_error_at_the_start(level, text):
    with pytest.raises(ConfigurationError, match=f"configs: topic orders: {text}"):
        with_topics(orders=level)


def test_other_topics_are_prepared_for_when_they_are_met():
    instances = with_topics()
    Chain(plan_of("new", "low"), instances)
    Chain(plan_of("away", "away"), instances)
    assert [topic for topic, _ in calls] == ["new", "away"]
    with pytest.raises(ConfigurationError, match="topic new: level must be right"):
        Chain(plan_of("new", "wrong"), instances)


# Deadlines


def preparing(limits, **job):
    """A worker that prepares for a batch."""
    world = World(limits).open()
    submitted = world.submit(**job)
    (process,) = [worker for worker in world.ready if worker.inbox]
    world.begin(process)
    process.phase = PREPARING
    world.tick()
    return world, process, submitted


def test_the_deadline_of_judging_does_not_run_meanwhile():
    world, process, job = preparing(WorkerLimits(1, timeout_s=1, preparation_timeout_s=5))
    for _ in range(9):
        world.tick(0.5)
    assert not process.killed
    process.phase = JUDGING
    world.tick(0.5)
    world.tick(0.9)
    assert not process.killed
    world.judge(process)
    assert world.answers[job] is ACCEPTED


def test_a_batch_whose_preparation_times_out_is_retried_and_the_worker_is_replaced():
    world, process, job = preparing(WorkerLimits(1, timeout_s=9, preparation_timeout_s=1))
    other = world.submit(("t", 1))
    world.tick(1.1)
    assert process.killed
    world.die(process)
    verdict = world.answers[job]
    assert (verdict.outcome, verdict.code) == (Outcome.POSTPONED, 7)
    assert verdict.message == "The policy P did not prepare within 1000 ms"
    world.be_kind(100)
    assert world.answers[other] is ACCEPTED
    assert world.rests == []


def test_a_client_that_timed_out_is_answered_and_the_worker_continues():
    limits = WorkerLimits(1, preparation_timeout_s=10)
    world, process, job = preparing(limits, timeout_s=2)
    world.tick(2.1)
    assert (world.answers[job].outcome, world.answers[job].code) == (Outcome.POSTPONED, 7)
    assert not process.killed
    world.judge(process)
    assert process.worker.state is not WorkerState.KILLED
    again = world.submit()
    world.be_kind(100)
    assert world.answers[again] is ACCEPTED


def test_killed_later_it_is_answered_once():
    world, process, job = preparing(WorkerLimits(1, preparation_timeout_s=4), timeout_s=2)
    world.tick(2.1)
    world.tick(2.1)
    assert process.killed
    world.die(process)
    assert world.answers[job].outcome is Outcome.POSTPONED
    assert world.rests == [], "no batch is answered without an attempt"


def test_a_policy_that_ends_its_process_while_it_prepares_is_to_blame():
    world, process, job = preparing(WorkerLimits(1))
    world.die(process)
    assert (world.answers[job].outcome, world.answers[job].code) == (Outcome.FAILED, -1)


POLICIES = """
import os, time
from penstock.policy import *

class Slow(RecordValidationPolicy):
    def prepare_batch(self, topic, batch):
        (value,) = batch.values
        if value.startswith(b"hold "):
            gate = value[5:].decode()
            open(gate + ".begun", "w").close()
            while not os.path.exists(gate): time.sleep(0.01)
        if value == b"loop":
            while True: time.sleep(0.01)
        if value == b"away":
            raise RetriableException("the registry is away")
    def validate(self, topic, record):
        if record.value.startswith(b"hold "):
            raise InvalidRecordException("prepared")
"""
PROPERTIES = {
    "record.validator.classes": "",
    "record.validation.policy.class.name": "policies.Slow",
    "topics.*.record.validation.policy": "x",
    "policy.workers": 1,
}


@pytest.mark.system
async def test_a_worker_may_prepare_for_longer_than_it_may_judge(tmp_path):
    properties = {**PROPERTIES, "policy.timeout.ms": 3000,
                  "policy.preparation.timeout.ms": AMPLE_MS}  # fmt: skip
    gate = Gate(tmp_path)
    async with Judging(tmp_path, POLICIES, **properties) as judging:
        held = asyncio.ensure_future(judging.judge(gate.value))
        await gate.begun()
        # Only the time itself shows that a time has not passed.
        await asyncio.sleep(4)
        gate.open()
        verdict = await held
        assert [error.message for error in verdict.record_errors] == ["prepared"]
        away = await judging.judge(b"away")
        assert (away.code, away.message) == (7, "the registry is away")


@pytest.mark.system
async def test_a_worker_that_prepares_for_too_long_is_replaced(tmp_path):
    properties = {**PROPERTIES, "policy.timeout.ms": AMPLE_MS,
                  "policy.preparation.timeout.ms": 1000}  # fmt: skip
    async with Judging(tmp_path, POLICIES, **properties) as judging:
        (before,) = judging.supervisor.pids
        late = await judging.judge(b"loop")
        assert (late.code, late.outcome) == (7, Outcome.POSTPONED)
        assert late.message == "The policy policies.Slow did not prepare within 1000 ms"
        assert await judging.judge(b"fine") is ACCEPTED
        assert before not in judging.supervisor.pids
