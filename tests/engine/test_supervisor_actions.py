"""A supervisor with processes that the test plays: messages in, reports out."""

import asyncio
import json
import re

import pytest
from structlog.testing import capture_logs

from penstock.configuration import ConfigurationError
from penstock.engine.admin_policies import AdminContext, TopicCreation
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, FailureCause, Outcome
from penstock.engine.workers import messages
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.engine.workers.processes.worker import WorkerState
from penstock.engine.workers.progress import DONE, INTERCEPTING, JUDGING, CurrentAttempt
from tests.engine.played import (
    DATA,
    ENDED,
    KILLED,
    NO,
    READY,
    SENDER,
    TOPIC_ID,
    Process,
    Supervised,
    judged,
    until,
)
from tests.kafka.records.encoding import encode_batch, values


async def test_a_worker_loads_the_policies_and_judges_batches():
    async with Supervised() as supervised:
        (body,) = supervised.process.of("load")
        _, names = json.loads(body)
        assert names["record.validator.classes"] == ["a.V"]
        assert supervised.supervisor.pids == [supervised.process.pid]
        verdicts = supervised.submit()
        plan, dropped, client, data = judged(supervised.process.of("judge")[0])
        assert (plan.topic, dropped, client, data) == ("t", b"", b"", DATA)
        assert verdicts == []
        supervised.process.answer(NO)
        assert verdicts == [NO]
        assert supervised.observer.verdicts == [("a.V", None, 0.5)]


async def test_a_retry_has_the_positions_that_were_dropped_before():
    async with Supervised() as supervised:
        supervised.submit(dropped_before=(0, 1), quarantined_before=(1,))
        _, dropped, _, _ = judged(supervised.process.of("judge")[0])
        assert messages.read_positions_before(dropped) == ([0, 1], [1])
        supervised.process.answer(ACCEPTED)


async def test_a_client_is_sent_only_to_policies_that_take_it():
    class TakesClient(Process):
        ready = {**Process.ready, "takes_client": ("a.V",)}

    for process, expected in ((Process, b""), (TakesClient, messages.client(SENDER))):
        async with Supervised(process) as supervised:
            supervised.submit(sender=SENDER)
            supervised.submit()
            clients = [judged(body)[2] for body in supervised.process.of("judge")]
            assert clients == [expected, b""]


async def test_a_topics_class_gets_the_client_until_it_is_known_whether_it_takes_a_context():
    async with Supervised() as supervised:
        supervisor, process = supervised.supervisor, supervised.process
        plans = {name: TopicPlan(topic="t", records_policy=name) for name in ("b.P", "c.P", "d.P")}
        assert all(map(supervisor.needs_client, plans.values()))
        process.events.on_records_class("b.P", takes_client=False)
        process.events.on_records_class("c.P", takes_client=True)
        assert {name: supervisor.needs_client(plan) for name, plan in plans.items()} == {
            "b.P": False,
            "c.P": True,
            "d.P": True,
        }


async def test_an_instance_of_a_class_is_closed_after_its_last_batch():
    plan = TopicPlan(topic="t", records_policy="b.P")
    async with Supervised() as supervised:
        supervised.submit(plan)
        supervised.supervisor.retain("t", {"c.P"})
        assert supervised.process.of("retire") == []
        supervised.process.answer(ACCEPTED)
        assert list(map(json.loads, supervised.process.of("retire"))) == [["b.P", "t"]]
        supervised.submit(plan)
        supervised.process.answer(ACCEPTED)
        supervised.supervisor.retain("t", {"b.P"})
        assert len(supervised.process.of("retire")) == 1
        supervised.supervisor.retain("t", ())
        assert len(supervised.process.of("retire")) == 2


async def test_a_request_about_a_topic_is_answered():
    request = messages.JudgeTopicCreation(TopicCreation("t", 1, 1, None, {}), AdminContext())
    async with Supervised() as supervised:
        verdicts = []
        supervised.supervisor.submit_admin(request, "a.C", verdicts.append)
        attempt, found = messages.read_judge_admin(supervised.process.of("admin")[0])
        assert found == request
        supervised.process.events.on_verdicts(supervised.process.worker, [(attempt, NO, 0.1)])
        assert verdicts == [NO]
        assert supervised.observer.verdicts == [("a.C", None, 0.1)]


async def test_the_report_of_a_ready_worker():
    class Reports(Process):
        ready = {
            "patterns": [("b.I", re.compile("^t"))],
            "needs_context": True,
            "loads_topics": False,
            "takes_client": ("b.I",),
            "drops_records": True,
        }

    async with Supervised(Reports) as supervised:
        found = supervised.supervisor
        assert found.patterns == [("b.I", re.compile("^t"))]
        assert (found.needs_context, found.loads_topics, found.drops_records) == (True, False, True)
        found.load_topics([TopicPlan(topic="t")])
        assert supervised.process.of("topics") == []


async def test_policies_that_cannot_be_loaded_are_an_error():
    class Fails(Process):
        failure = "a.V: there is no such class"

    with pytest.raises(ConfigurationError, match="there is no such class"):
        await Supervised(Fails).supervisor.start()


async def test_processes_that_cannot_be_started_are_an_error():
    class Missing(Process):
        starts = False

    with pytest.raises(ConfigurationError, match="no more processes"):
        await Supervised(Missing).supervisor.start()


async def test_a_worker_that_ends_is_replaced_and_its_batch_is_answered():
    async with Supervised(spare=True) as supervised:
        first, verdicts = supervised.process, supervised.submit()
        first.progress.current = CurrentAttempt(first.attempt, JUDGING)
        first.die()
        await until(lambda: verdicts)
        assert verdicts[0].outcome is Outcome.FAILED
        assert "ended its process" in verdicts[0].message
        await until(lambda: any(found.worker.state == READY for found in supervised.processes))
        assert supervised.process is not first
        later = supervised.submit()
        supervised.process.answer(ACCEPTED)
        assert later == [ACCEPTED]
        assert len(supervised.observer.ends) == 1


async def test_a_worker_that_another_process_kills_has_its_batch_judged_again():
    async with Supervised(spare=True) as supervised:
        first, verdicts = supervised.process, supervised.submit()
        first.progress.current = CurrentAttempt(first.attempt, JUDGING)
        first.die(KILLED)
        await until(lambda: any(found.of("judge") for found in supervised.processes[1:]))
        assert verdicts == []
        supervised.process.answer(NO)
        assert verdicts == [NO]


async def test_bytes_that_are_no_message_end_the_worker():
    async with Supervised() as supervised:
        first = supervised.process
        first.events.on_protocol_error(first.worker)
        assert first.killed
        await until(lambda: len(supervised.processes) > 1)


async def test_an_error_in_a_callback_ends_nothing_else():
    async with Supervised() as supervised:
        batch = BatchToJudge(TopicPlan(topic="t", validators=("a.V",)), 3, TOPIC_ID, 9, DATA)
        supervised.supervisor.submit(batch, lambda _: 1 / 0)
        with capture_logs() as lines:
            supervised.process.answer(ACCEPTED)
        assert [line["event"] for line in lines] == ["an error of the gateway"]
        verdicts = supervised.submit()
        supervised.process.answer(NO)
        assert verdicts == [NO]


async def test_a_batch_of_a_client_that_is_gone_is_answered_unjudged():
    async with Supervised() as supervised:
        held = supervised.submit(client="other")
        process = supervised.process
        process.progress.current = CurrentAttempt(process.attempt, JUDGING)
        await until(lambda: process.worker.state is WorkerState.BLOCKED)
        verdicts = supervised.submit(client="gone")
        supervised.supervisor.leave("gone")
        assert verdicts == []
        supervised.supervisor.cancel("gone")
        assert [found.cause for found in verdicts] == [FailureCause.ABANDONED]
        assert ("a.V", FailureCause.ABANDONED, 0.0) in supervised.observer.verdicts
        process.answer(ACCEPTED)
        assert held == [ACCEPTED]


async def test_a_batch_that_takes_too_long_is_suspended_for_a_while():
    plan = TopicPlan(topic="t", interceptors=("b.I",))
    async with Supervised(
        produce_request_interceptors_timeout_ms="40",
        produce_request_interceptors_max_timeout_retries="0",
    ) as supervised:
        verdicts, first = supervised.submit(plan), supervised.process
        first.progress.current = CurrentAttempt(first.attempt, INTERCEPTING)
        await until(lambda: verdicts)
        assert verdicts[0].cause is FailureCause.TIMED_OUT
        assert first.killed
        (again,) = supervised.submit(plan)
        assert "spent their time on this batch before (40 ms each)" in again.message
        other = supervised.submit(plan, data=encode_batch(values(b"c")))
        assert other == []


class TestTopics:
    """Topics that workers load while they have no batches."""

    PLANS = (TopicPlan(topic="t", validation_policy="a.V"),)

    async def test_every_worker_and_every_replacement_loads_topics(self):
        async with Supervised() as supervised:
            supervised.supervisor.load_topics(self.PLANS)
            first = supervised.process
            assert [messages.read_load_topics(body) for body in first.of("topics")] == [
                list(self.PLANS)
            ]
            first.die()
            await until(lambda: any(found.of("topics") for found in supervised.processes[1:]))

    async def test_no_topics_are_no_message(self):
        async with Supervised() as supervised:
            supervised.supervisor.load_topics([])
            assert supervised.process.of("topics") == []

    @pytest.mark.parametrize(
        ("end", "reason"),
        [(ENDED, "the policy ended its process"), (KILLED, KILLED.text)],
    )
    async def test_a_policy_that_ends_its_process_by_it_loads_no_more(self, end, reason):
        async with Supervised() as supervised:
            supervised.supervisor.load_topics(self.PLANS)
            first = supervised.process
            first.progress.current = CurrentAttempt(0, DONE, 1)
            with capture_logs() as lines:
                first.die(end)
                await until(
                    lambda: any(found.worker.state == READY for found in supervised.processes[1:])
                )
            reasons = [line["reason"] for line in lines if line["event"] == "topics not loaded"]
            assert reasons == [reason]
            assert supervised.process.of("topics") == []

    async def test_the_log_has_the_number_of_loaded_topics(self):
        async with Supervised() as supervised:
            process = supervised.process
            with capture_logs() as lines:
                process.events.on_topics_loaded(process.worker, messages.TopicsLoaded(5, 5, ""))
                process.events.on_topics_loaded(process.worker, messages.TopicsLoaded(2, 5, "why"))
        assert [(line["event"], line["count"]) for line in lines] == [
            ("topics loaded", 5),
            ("topics not loaded", 3),
        ]
        assert (lines[1]["total"], lines[1]["reason"]) == (5, "why")


async def test_shared_values_reach_the_other_workers_once():
    async with Supervised(size=2) as supervised:
        first, second = supervised.processes[:2]
        for _ in range(2):
            first.events.on_shared(first.worker, [("name", b"value")])
        assert first.of("shared") == []
        assert [messages.read_shared(body) for body in second.of("shared")] == [
            [("name", b"value")]
        ]
        first.die()
        await until(lambda: len(supervised.processes) > 2 and supervised.processes[2].received)
        assert supervised.processes[2].of("shared") == second.of("shared")


async def test_events_of_policies_are_counted():
    async with Supervised() as supervised:
        supervised.process.events.on_policy_events(
            [("looked up", "hit", 2), ("looked up", "miss", 1)]
        )
    assert supervised.observer.events == [("looked up", "hit", 2), ("looked up", "miss", 1)]


class TestClosing:
    async def test_batches_are_judged_before_the_workers_are_closed(self):
        supervised = Supervised()
        await supervised.supervisor.start()
        process, verdicts = supervised.process, supervised.submit()
        closing = asyncio.ensure_future(supervised.supervisor.close(drain_s=60))
        await asyncio.sleep(0)
        assert process.of("close") == []
        process.answer(NO)
        await closing
        assert verdicts == [NO]
        assert process.of("close") == [b""]
        assert supervised.observer.ends == []

    async def test_without_time_they_are_not(self):
        supervised = Supervised()
        await supervised.supervisor.start()
        process, verdicts = supervised.process, supervised.submit()
        await supervised.supervisor.close()
        assert process.of("close") == [b""]
        assert [found.cause for found in verdicts] == [FailureCause.NOT_JUDGED]
        assert supervised.submit()[0].cause is FailureCause.NOT_JUDGED

    async def test_a_worker_that_does_not_close_is_killed(self):
        class Hangs(Process):
            def _receive(self, kind, body):
                if kind != "close":
                    super()._receive(kind, body)

        supervised = Supervised(Hangs)
        await supervised.supervisor.start()
        process = supervised.process
        await supervised.supervisor.close(close_s=0.01)
        assert process.killed


async def test_the_writes_after_several_verdicts_are_sent_together():
    class Transport:
        calls = ()

        def is_closing(self):
            return False

        def writelines(self, buffers):
            self.calls = (*self.calls, b"".join(buffers))

    async with Supervised() as supervised:
        supervisor, transport = supervised.supervisor, Transport()
        batch = BatchToJudge(TopicPlan(topic="t", validators=("a.V",)), 3, TOPIC_ID, 9, DATA)
        for sent in (b"a", b"b", b"c"):
            supervisor.submit(
                batch, lambda _, sent=sent: supervisor.writes.write(transport, [sent])
            )
        worker = supervised.process.worker
        first, second, third = worker.sent_jobs
        supervisor.on_verdicts(worker, [(first, ACCEPTED, 0.0), (second, ACCEPTED, 0.0)])
        assert transport.calls == (b"ab",)
        supervisor.on_verdicts(worker, [(third, ACCEPTED, 0.0)])
        assert transport.calls == (b"ab", b"c")
