"""`load_topic`: called in workers that have nothing to judge, and holding nothing up."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from penstock.configuration import ConfigurationError
from penstock.engine.instances import VALIDATION, PolicyInstances
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED
from penstock.engine.workers import messages
from penstock.engine.workers.processes.worker import WorkerState
from penstock.engine.workers.progress import SharedProgress, shared_file
from penstock.engine.workers.schedule import WorkerLimits
from penstock.engine.workers.topic_loading import TopicLoading
from penstock.policy import RecordValidationPolicy, RetriableException
from tests.engine.chains import CONFIGURATION, chain
from tests.engine.simulated import World
from tests.engine.supervised import AMPLE_MS, Judging
from tests.gateways import wait_until

calls: list = []


@pytest.fixture(autouse=True)
def _no_calls():
    calls.clear()


class Loads(RecordValidationPolicy):
    def load_topic(self, topic, configs):
        calls.append((topic, dict(configs)))
        if topic == "away":
            raise RetriableException("the registry is away")
        if topic == "wrong":
            raise ValueError("level must be right")
        if topic == "fails":
            raise KeyError("secret")

    def validate(self, topic, record):
        pass


class LoadsNothing(RecordValidationPolicy):
    def validate(self, topic, record):
        pass


def plan_of(topic):
    return TopicPlan(
        topic=topic,
        validation_policy="P",
        validation_setting="",
        validation_configs={"level": "low"},
    )


def instances(cls):
    return PolicyInstances(CONFIGURATION, {VALIDATION: ["P"]}, factories={"P": cls})


def encoded(*topics):
    message = messages.load_topics([plan_of(topic) for topic in topics])
    return messages.read_load_topics(message[messages.PREFIX.size :])


def loaded(*topics):
    """Load all; return the last report."""
    loading = TopicLoading(instances(Loads), lambda _: None)
    loading.add(encoded(*topics))
    reports = []
    while loading:
        reports.append(loading.load_next())
    assert reports[:-1] == [None] * (len(reports) - 1)
    return reports[-1]


def test_each_topic_is_loaded_with_its_configs():
    assert loaded("a", "b") == messages.TopicsLoaded(2, 2, "")
    assert calls == [("a", {"level": "low"}), ("b", {"level": "low"})]


def test_an_unavailable_source_is_not_requested_for_other_topics():
    problem = "topic away: the registry is away"
    assert loaded("a", "away", "b") == messages.TopicsLoaded(1, 3, problem)
    assert [topic for topic, _ in calls] == ["a", "away"]


def test_a_topic_that_cannot_be_loaded_does_not_affect_others():
    assert loaded("wrong", "a") == messages.TopicsLoaded(1, 2, "topic wrong: level must be right")
    count, _, problem = loaded("a", "fails", "wrong", "b")
    assert count == 2
    assert problem.startswith("topic fails: KeyError")


def test_the_progress_of_loading_is_reported():
    reported = []
    loading = TopicLoading(instances(Loads), reported.append)
    loading.add(encoded("a", "fails"))
    while loading:
        loading.load_next()
    assert reported == [1, 0, 2, 0]


def test_the_number_of_the_topic_is_in_the_shared_memory():
    with shared_file() as file:
        ours, theirs = SharedProgress(file.fileno()), SharedProgress(file.fileno())
        theirs.begin(17)
        theirs.load(3)
        assert (ours.current.attempt, ours.current.topic_number) == (17, 3)
        theirs.load(0)
        assert ours.current.topic_number == 0


def test_only_a_policy_that_has_the_method_loads():
    assert instances(Loads).loads_topics
    assert not instances(LoadsNothing).loads_topics
    assert not PolicyInstances(CONFIGURATION, {}).loads_topics


def test_a_coroutine_is_an_error():
    async def runs_not(self, *_):
        pass

    cls = type("Lazy", (Loads,), {"load_topic": runs_not})
    with pytest.raises(ConfigurationError, match=r"load_topic\(\) must not"):
        chain(validation=cls)


def test_reports_come_back_as_they_were():
    report = messages.TopicsLoaded(3, 7, "topic a: away")
    framed = messages.topics_loaded(report)
    assert messages.read_topics_loaded(framed[messages.PREFIX.size :]) == report


# Deadlines


def loading(limits, *, after=0):
    """A worker that loads a topic, after it has judged some batches."""
    world = World(limits).open()
    (process,) = world.ready
    for _ in range(after):
        world.submit()
        world.judge(process)
    process.loading = 1
    world.tick()
    return world, process


@pytest.mark.parametrize("after", [0, 2])
def test_a_worker_that_loads_a_topic_gets_and_loses_no_batches(after):
    world, process = loading(WorkerLimits(1, preparation_timeout_s=5), after=after)
    job = world.submit()
    world.tick(0.2)
    assert process.worker.state is WorkerState.BLOCKED
    for _ in range(20):
        for other in world.living():
            world.settle(other)
        world.tick()
    (extra,) = [worker for worker in world.ready if worker is not process]
    world.judge(extra)
    assert world.answers[job] is ACCEPTED
    assert not process.killed

    process.loading = 0
    world.tick()
    assert process.worker.state is WorkerState.READY
    again = world.submit()
    world.be_kind(100)
    assert world.answers[again] is ACCEPTED


def test_each_topic_has_the_whole_time():
    world, process = loading(WorkerLimits(1, preparation_timeout_s=1))
    for number in range(2, 10):
        world.tick(0.9)
        process.loading = number
    world.tick(0.9)
    assert not process.killed
    world.tick(1.1)
    assert process.killed


@pytest.mark.parametrize("after", [0, 2])
def test_a_worker_that_hangs_is_replaced_and_no_batch_is_to_blame(after):
    world, process = loading(WorkerLimits(1, preparation_timeout_s=1), after=after)
    job = world.submit()
    world.tick(1.1)
    assert process.killed
    world.die(process)
    assert job not in world.answers
    world.be_kind(1000)
    assert world.answers[job] is ACCEPTED


def test_a_policy_that_ends_its_process_while_it_loads_costs_no_batch():
    world, process = loading(WorkerLimits(1), after=2)
    job = world.submit()
    world.die(process)
    assert job not in world.answers
    world.be_kind(1000)
    assert world.answers[job] is ACCEPTED


# Processes

POLICIES = """
import os, time
from pathlib import Path
from penstock.policy import *

HERE = Path(__file__).parent

class Loads(RecordValidationPolicy):
    def load_topic(self, topic, configs):
        with (HERE / "loaded").open("a") as file:
            file.write(f"{os.getpid()} {topic}\\n")
        if topic == "exit":
            os._exit(1)
        if topic == "hang":
            while True: time.sleep(0.01)
        if topic == "away":
            raise RetriableException("the registry is away")
    def validate(self, topic, record):
        if record.value == b"exit":
            os._exit(1)
"""
PROPERTIES = {
    "record.validator.classes": "",
    "record.validation.policy.class.name": "policies.Loads",
    "topics.*.record.validation.policy": "x",
    "policy.workers": 2,
}


def lines(folder):
    """Which process has loaded which topic."""
    file = folder / "loaded"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


async def until(condition):
    await asyncio.to_thread(wait_until, condition, 120)


def load(judging, *topics):
    judging.supervisor.load_topics([judging.plan.for_topic(topic) for topic in topics])


@pytest.mark.system
async def test_every_worker_loads_topics_also_a_replacement(tmp_path):
    async with Judging(tmp_path, POLICIES, **PROPERTIES) as judging:
        with capture_logs() as logged:
            load(judging, "a", "b")
            await until(lambda: len(lines(tmp_path)) == 4)
            assert len({pid for pid, _ in lines(tmp_path)}) == 2
            assert (await judging.judge(b"good")) is ACCEPTED
            assert (await judging.judge(b"exit")).code == -1
            await until(lambda: len(lines(tmp_path)) == 6)
            await until(
                lambda: len([event for event in logged if event["event"] == "topics loaded"]) == 3
            )
        assert len({pid for pid, _ in lines(tmp_path)}) == 3


@pytest.mark.system
async def test_an_unavailable_source_is_logged_and_ends_no_worker(tmp_path):
    async with Judging(tmp_path, POLICIES, **PROPERTIES) as judging:
        with capture_logs() as logged:
            load(judging, "away", "b")
            await until(
                lambda: len([event for event in logged if event["log_level"] == "warning"]) == 2
            )
        failures = [event for event in logged if event["event"] == "topics not loaded"]
        assert [event["reason"] for event in failures] == ["topic away: the registry is away"] * 2
        assert (await judging.judge(b"good")) is ACCEPTED


@pytest.mark.system
@pytest.mark.parametrize("does", ["exit", "hang"])
async def test_a_policy_that_ends_its_workers_loads_no_more(tmp_path, does):
    time_ms = 1000 if does == "hang" else AMPLE_MS
    properties = {**PROPERTIES, "policy.preparation.timeout.ms": time_ms}
    async with Judging(tmp_path, POLICIES, **properties) as judging:
        before = set(judging.supervisor.pids)
        with capture_logs() as logged:
            load(judging, does, "b")
            await until(lambda: not before & set(judging.supervisor.pids))
            await until(lambda: len(judging.supervisor.pids) == 2)
            for partition in range(8):
                assert (await judging.judge(b"good", partition=partition)) is ACCEPTED
        assert any(event["event"] == "topics not loaded" for event in logged)
        ended = {pid for pid, topic in lines(tmp_path) if topic == does}
        assert ended <= {str(pid) for pid in before}
        assert json.dumps(lines(tmp_path)).count('"b"') == 0
