"""Policies in processes: a misbehaving policy costs only the batch that it gets."""

import asyncio
import errno
import gc
import os
import random
import signal
import time
import weakref
from collections import Counter
from pathlib import Path

import pytest
import structlog

from penstock.configuration import ConfigurationError, NotNowError
from penstock.configuration.keys import Keys
from penstock.engine.verdict import ACCEPTED, Outcome, PolicyVerdict
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.engine.workers.processes.child import Child, ProcessEnd
from penstock.engine.workers.supervisor import Supervisor
from penstock.kafka.wire.requests.topics import NO_ID
from tests.engine.supervised import AMPLE_MS, ENDLESS_MS, POLICIES, Gate, Judging
from tests.gateways import is_running, wait_until
from tests.kafka.records.encoding import encode_batch, values

pytestmark = pytest.mark.system


@pytest.mark.cases(4)
@pytest.mark.kips("B44")
@pytest.mark.parametrize(
    ("does", "message", "timeout_ms"),
    [
        ("sys.exit", "failed: SystemExit", AMPLE_MS),
        ("os._exit", "ended its process", AMPLE_MS),
        ("interrupt", "ended its process", AMPLE_MS),
        ("segfault", "ended its process", AMPLE_MS),
        ("memory", "failed: MemoryError", AMPLE_MS),
        ("recursion", "failed: RecursionError", AMPLE_MS),
        ("brackets", "failed: RecursionError", AMPLE_MS),
        ("wrong", "failed: AnswerError", AMPLE_MS),
        ("socket", "ended its process", AMPLE_MS),
        ("loop", "did not decide within 2500 ms", ENDLESS_MS),
        ("regex", "did not decide within 2500 ms", ENDLESS_MS),
        ("child", "did not decide within 2500 ms", ENDLESS_MS),
    ],
)
async def test_a_policy_that_misbehaves_costs_its_own_batch(tmp_path, does, message, timeout_ms):
    properties = {"policy.workers": 1, "policy.timeout.ms": timeout_ms}
    async with Judging(tmp_path, **properties) as judging:
        bad, *others = await asyncio.gather(
            judging.judge(does.encode()),
            *(judging.judge(b"refuse", topic=f"other-{i}") for i in range(5)),
            *(judging.judge(b"fine", partition=i) for i in range(1, 6)),
        )

        assert bad.outcome is Outcome.FAILED
        assert (bad.code, bad.message) == (-1, f"The policy policies.Misbehaves {message}")
        assert [87] * 5 + [0] * 5 == [verdict.code for verdict in others]
        assert await judging.judge(b"fine") is ACCEPTED


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("os._exit", "exited with status 0"),
        ("segfault", "ended by SIGSEGV"),
        ("hang up", "killed after it closed its socket"),
    ],
)
async def test_the_log_says_how_a_worker_ended(tmp_path, does, reason):
    async with Judging(tmp_path, **{"policy.workers": 1}) as judging:
        with structlog.testing.capture_logs() as logged:
            assert (await judging.judge(does.encode())).outcome is Outcome.FAILED
    (died,) = [line for line in logged if line["event"] == "policy worker died"]
    assert died["reason"] == reason


IN_COLUMNS = """
import ctypes
from penstock.policy import BrokerRecordValidator

class Misbehaves(BrokerRecordValidator):
    def validate_batch(self, topic_partition, batch):
        [value] = batch.values
        if value == b"refuse": yield 0, "refused"
        if value == b"arrow": yield 0, str(batch.values_arrow[0])
        while value == b"endless": yield 0, "again"
        if value == b"outside": yield 1, "behind the last"
        if value == b"segfault": yield 0, ctypes.string_at(0)
        if value == b"memory":
            hoard = []
            while True: hoard.append(bytearray(10_000_000))
"""


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("does", "message", "timeout_ms"),
    [
        ("endless", "did not decide within 2500 ms", ENDLESS_MS),
        ("outside", "failed: AnswerError", AMPLE_MS),
        ("segfault", "ended its process", AMPLE_MS),
        ("memory", "failed: MemoryError", AMPLE_MS),
    ],
)
async def test_a_crash_while_judging_columns_is_isolated(tmp_path, does, message, timeout_ms):
    properties = {"policy.workers": 1, "policy.timeout.ms": timeout_ms}
    async with Judging(tmp_path, IN_COLUMNS, **properties) as judging:
        bad, *others = await asyncio.gather(
            judging.judge(does.encode()),
            judging.judge(b"refuse", topic="other"),
            judging.judge(b"fine", partition=1),
        )
        assert bad.outcome is Outcome.FAILED
        assert (bad.code, bad.message) == (-1, f"The policy policies.Misbehaves {message}")
        assert [verdict.code for verdict in others] == [87, 0]
        [error] = others[0].record_errors
        assert (error.index, error.message) == (0, "refused")


async def test_arrow_fits_into_the_memory_that_a_worker_has_by_default(tmp_path):
    default = Keys.model_fields["policy_worker_memory_max_bytes"].default
    properties = {"policy.worker.memory.max.bytes": default}
    async with Judging(tmp_path, IN_COLUMNS, **properties) as judging:
        [error] = (await judging.judge(b"arrow")).record_errors
        assert error.message == "b'arrow'"


@pytest.mark.cases(1)
@pytest.mark.parametrize("does", ["os._exit", "loop", "socket", "segfault"])
async def test_verdicts_gathered_before_a_bad_batch_are_not_lost_with_it(tmp_path, does):
    properties = {"policy.workers": 1, "policy.timeout.ms": ENDLESS_MS}
    async with Judging(tmp_path, **properties) as judging:
        values = [b"fine"] * 7 + [does.encode()] + [b"refuse", b"fine"] * 3
        verdicts = await asyncio.gather(
            *(judging.judge(value, partition=i) for i, value in enumerate(values))
        )
        assert [verdict.code for verdict in verdicts] == [0] * 7 + [-1] + [87, 0] * 3


async def test_batches_of_all_sizes_arrive_whole_and_in_order(tmp_path):
    """Many at once, small batches in one read, large batches in several."""
    sizes = [1, 300_000, 10, 20, 262_000, 3_000_000, 5, 100_000, 9_000_000, 7, 261_900, 2]
    async with Judging(tmp_path, **{"policy.workers": 1}) as judging:
        judgements = [judging.judge(b"x" * size, partition=i) for i, size in enumerate(sizes)]
        judgements += [judging.judge(b"refuse", partition=i) for i in range(50)]
        verdicts = await asyncio.gather(*judgements)
        assert [verdict.code for verdict in verdicts] == [0] * len(sizes) + [87] * 50


async def test_processes_that_a_policy_started_end_with_it(tmp_path):
    properties = {"policy.workers": 1, "policy.timeout.ms": ENDLESS_MS}
    async with Judging(tmp_path, **properties) as judging:
        (pid,) = judging.supervisor.pids
        pending = asyncio.create_task(judging.judge(b"child"))
        children = Path(f"/proc/{pid}/task/{pid}/children")
        while not children.exists() or not children.read_text():
            await asyncio.sleep(0.02)
        child = int(children.read_text().split()[0])
        await pending
        await asyncio.to_thread(wait_until, lambda: not is_running(child))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_killed_worker_is_replaced_and_its_batch_judged_again(tmp_path, number):
    async with Judging(tmp_path, **{"policy.workers": 1}) as judging:
        (pid,) = judging.supervisor.pids
        gate = Gate(tmp_path)
        pending = asyncio.create_task(judging.judge(gate.value))
        await gate.begun()
        behind = asyncio.create_task(judging.judge(b"refuse", topic="behind"))
        await asyncio.sleep(0)
        with structlog.testing.capture_logs() as logged:
            os.kill(pid, number)
            assert (await behind).code == 87
            gate.open()
            assert await pending is ACCEPTED
        assert pid not in judging.supervisor.pids
    (died,) = [line for line in logged if line["event"] == "policy worker died"]
    assert died["reason"] == f"killed by another process ({number.name})"


async def test_a_batch_whose_workers_are_killed_every_time_fails(tmp_path):
    async with Judging(tmp_path, **{"policy.workers": 1}) as judging:
        gate = Gate(tmp_path)
        pending = asyncio.create_task(judging.judge(gate.value))
        for _ in range(3):
            await gate.begun()
            gate.again()
            (pid,) = judging.supervisor.pids
            os.kill(pid, signal.SIGKILL)
        assert (await pending).message == "The policy policies.Misbehaves ended its process"
        assert await judging.judge(b"fine") is ACCEPTED


async def test_a_slow_partition_holds_up_neither_others_nor_itself_out_of_order(tmp_path):
    properties = {"policy.workers": 1}
    async with Judging(tmp_path, **properties) as judging:
        gate = Gate(tmp_path)
        done: list[str] = []

        async def judge_and_note(name: str, value: bytes, topic: str) -> None:
            await judging.judge(value, topic)
            done.append(name)

        tasks = [asyncio.create_task(judge_and_note("slow", gate.value, "slow"))]
        await gate.begun()
        tasks += [asyncio.create_task(judge_and_note("same", b"fine", "slow"))]
        tasks += [
            asyncio.create_task(judge_and_note(f"other{i}", b"fine", f"o{i}")) for i in range(20)
        ]
        await asyncio.gather(*tasks[2:])
        assert len(done) == 20

        gate.open()
        await asyncio.gather(*tasks)
        assert done[20:] == ["slow", "same"]


@pytest.mark.kips("B39")
async def test_the_policies_of_one_process_never_overlap(tmp_path):
    policies = """
import threading
from penstock.policy import *
class Misbehaves(BrokerRecordValidator):
    def __init__(self): self.lock = threading.Lock()
    def validate_record(self, *_):
        if not self.lock.acquire(blocking=False): raise RuntimeError("overlap")
        for _ in range(10000): pass
        self.lock.release()
"""
    async with Judging(tmp_path, policies, **{"policy.workers": 2}) as judging:
        verdicts = await asyncio.gather(*(judging.judge(b"v", partition=i % 3) for i in range(60)))

    assert {ACCEPTED} == set(verdicts)


@pytest.mark.slow
async def test_a_worker_that_cannot_start_again_is_not_started_in_a_tight_loop(tmp_path):
    once = tmp_path / "once"
    policies = f"""
import os, pathlib
from penstock.policy import *
starts = pathlib.Path({str(tmp_path)!r}) / "starts"
class Misbehaves(RecordsPolicy):
    def configure(self, configs):
        starts.open("a").write("x")
        once = pathlib.Path({str(once)!r})
        if once.exists(): raise OSError("the registry is away")
        once.write_text("")
    def validate(self, topic, partition, records): os._exit(1)
"""
    properties = {
        "record.validator.classes": "",
        "topics.*.records.policy.class.name": "policies.Misbehaves",
        "topics.*.records.policy.enabled": "true",
        "policy.workers": 1,
    }
    async with Judging(tmp_path, policies, **properties) as judging:
        first = await judging.judge(b"v")
        assert first.message == "The policy policies.Misbehaves ended its process"
        starts = tmp_path / "starts"
        await asyncio.to_thread(wait_until, lambda: len(starts.read_text()) > 1, 60)
        verdicts = []
        deadline = time.monotonic() + 2.5
        while time.monotonic() < deadline:
            verdicts.append(await judging.judge(b"v", timeout_ms=100))

        assert {Outcome.FAILED} == {verdict.outcome for verdict in verdicts}
        assert {7} == {verdict.code for verdict in verdicts}
        assert "cannot be loaded in a new process" in verdicts[-1].message
        assert len(starts.read_text()) <= 6

        once.unlink()
        verdict = await judging.judge(b"v")
        assert "ended its process" in str(verdict.message)


@pytest.mark.cases(3)
@pytest.mark.kips("B9")
@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ("class Other: pass", "module policies has no class Misbehaves"),
        ("import no_such_module", "no_such_module"),
        ("syntax error", "SyntaxError"),
        ("raise SystemExit", "ended the program"),
        (
            "import os; os._exit(3)",
            "a policy worker ended: exited with status 3 while its policies were loaded",
        ),
        ("class Misbehaves: pass", "has no method validate_record()"),
        (
            "class Misbehaves:\n def __init__(self, x): pass\n def validate_record(self): pass",
            "cannot be instantiated without arguments",
        ),
        ("Misbehaves = 1", "must be a class; in module policies its type is int"),
    ],
)
async def test_a_policy_that_cannot_be_loaded_is_reported_at_start(tmp_path, policies, message):
    judging = Judging(tmp_path, policies)
    with pytest.raises(ConfigurationError) as raised:
        await judging.supervisor.start()
    assert message in str(raised.value)
    wait_until(lambda: not judging.supervisor.pids)


async def test_instances_are_configured_once_and_closed_once(tmp_path):
    trace = tmp_path / "trace"
    policies = f"""
from penstock.policy import *
def note(*what): open({str(trace)!r}, "a").write(" ".join(map(str, what)) + "\\n")
class Batch(RecordsPolicy):
    def configure(self, configs): note(id(self), "configure", configs["own.key"])
    def validate(self, topic, partition, records): note(id(self), "validate", topic)
    def close(self): note(id(self), "close")
"""
    properties = {
        "record.validator.classes": "",
        "topics.*.records.policy.class.name": "policies.Batch",
        "topics.*.records.policy.enabled": "true",
        "policy.workers": 1,
        "own.key": "own",
    }
    async with Judging(tmp_path, policies, **properties) as judging:
        for topic in ("a", "b", "a"):
            assert await judging.judge(b"v", topic) is ACCEPTED

    lines = [line.split(" ", 1) for line in trace.read_text().splitlines()]
    by_instance: dict[str, list[str]] = {}
    for instance, what in lines:
        by_instance.setdefault(instance, []).append(what)
    assert sorted(by_instance.values()) == [
        ["configure own", "validate a", "validate a", "close"],
        ["configure own", "validate b", "close"],
    ]


PER_TOPIC = """
from pathlib import Path
from penstock.policy import *

class Told(RecordsPolicy):
    def configure(self, configs):
        self.events = Path(configs["events.file"])
        self.tell("configured")
    def tell(self, what):
        with self.events.open("a") as file:
            file.write(what + chr(10))
    def validate(self, topic, partition, records):
        self.tell(topic)
    def close(self):
        self.tell("closed")

class Other(Told): pass
"""


def per_topic(folder: Path) -> tuple[Judging, Path]:
    """A pool whose topics have separate instances, which record their life cycle."""
    events = folder / "events"
    events.touch()
    judging = Judging(
        folder,
        PER_TOPIC,
        **{
            "record.validator.classes": "",
            "policy.workers": 1,
            "topics.*.records.policy.class.name": "policies.Told",
            "topics.*.records.policy.enabled": "true",
            "events.file": events,
        },
    )
    return judging, events


async def test_instances_of_topics_are_closed_after_their_last_batch(tmp_path):
    judging, events = per_topic(tmp_path)
    async with judging:
        last = [asyncio.ensure_future(judging.judge(b"x", "a")) for _ in range(5)]
        await asyncio.sleep(0)
        judging.supervisor.retain("a", {"policies.Other"})
        assert [verdict.outcome for verdict in await asyncio.gather(*last)] == [
            Outcome.ACCEPTED
        ] * 5
        wait_until(lambda: "closed" in events.read_text())
        assert events.read_text().split() == ["configured", *"aaaaa", "closed"]

        await judging.judge(b"x", "a")
        assert events.read_text().split()[-3:] == ["closed", "configured", "a"]


async def test_a_verdict_is_not_held_up_by_an_instance_that_is_closed_behind_it(tmp_path):
    judging, _ = per_topic(tmp_path)
    async with judging:
        for number in range(40):
            await judging.judge(b"x", f"gone-{number}")
            judged = asyncio.ensure_future(judging.judge(b"x", "stays"))
            await asyncio.sleep(0)
            judging.supervisor.retain(f"gone-{number}", ())
            async with asyncio.timeout(30):
                assert await judged == ACCEPTED


async def test_a_closed_pool_answers_late_batches(tmp_path):
    async with Judging(tmp_path, **{"policy.workers": 1}) as judging:
        await judging.supervisor.close(drain_s=1)
        verdict = await judging.judge(b"fine")
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, 7)


async def test_policies_of_any_speed_cost_no_worker_and_no_batch(tmp_path):
    speeds = random.Random(7)
    async with Judging(tmp_path, **{"policy.workers": 1}) as judging:
        (pid,) = judging.supervisor.pids
        took = [speeds.choice([0, speeds.random() * 0.3]) for _ in range(120)]
        judgements = [
            judging.judge(b"sleep %.3f" % seconds, partition=speeds.randrange(30))
            for seconds in took
        ]
        assert {ACCEPTED} == set(await asyncio.gather(*judgements))
        assert pid in judging.supervisor.pids


class Counted(Child):
    """Counts the processes that start or run."""

    running = most = 0

    async def start(self) -> None:
        Counted.running += 1
        Counted.most = max(Counted.most, Counted.running)
        await super().start()

    async def ended(self) -> ProcessEnd:
        end = await super().ended()
        Counted.running -= 1
        return end


@pytest.mark.parametrize("partitions", [40, 20_000])
async def test_a_slow_batch_and_many_partitions_start_no_more_than_the_limit(tmp_path, partitions):
    Counted.running = Counted.most = 0
    async with Judging(tmp_path, child=Counted, **{"policy.workers": 1}) as judging:
        gate = Gate(tmp_path)
        slow = asyncio.ensure_future(judging.judge(gate.value, topic="slow"))
        await gate.begun()
        plan, batch = judging.plan.for_topic("t"), encode_batch(values(b"fine"))
        verdicts: list[PolicyVerdict] = []
        for partition in range(partitions):
            judging.supervisor.submit(
                BatchToJudge(plan, partition, NO_ID, 9, batch), verdicts.append
            )
        while len(verdicts) < partitions:
            await asyncio.sleep(0.02)
        gate.open()
        assert await slow is ACCEPTED
    assert {ACCEPTED} == set(verdicts)
    assert Counted.most == 3
    assert Counted.running == 0


class Barred(Child):
    """Cannot be started at times."""

    barred = False

    async def start(self) -> None:
        if Barred.barred:
            raise OSError(errno.EMFILE, "Too many open files")
        await super().start()


async def test_a_process_that_cannot_be_started_is_started_later(tmp_path):
    Barred.barred = False
    async with Judging(tmp_path, child=Barred, **{"policy.workers": 1}) as judging:
        Barred.barred = True
        # The spare takes over once, and then there is no spare.
        for _ in range(2):
            assert (await judging.judge(b"os._exit")).code == -1
        waits = asyncio.ensure_future(judging.judge(b"refuse"))
        verdict = await judging.judge(b"refuse", timeout_ms=800)
        assert (verdict.outcome, verdict.code) == (Outcome.FAILED, 7)
        assert "no process can be started" in str(verdict.message)
        Barred.barred = False
        assert (await waits).code == 87


async def test_a_batch_that_its_worker_never_began_is_not_charged(tmp_path):
    async with Judging(tmp_path, **{"policy.workers": 1}) as judging:
        await judging.judge(b"fine")
        (pid,) = judging.supervisor.pids
        os.kill(pid, signal.SIGSTOP)
        judgements = [asyncio.ensure_future(judging.judge(b"refuse")) for _ in range(3)]
        await asyncio.sleep(0)  # they are sent
        os.kill(pid, signal.SIGKILL)
        assert [verdict.code for verdict in await asyncio.gather(*judgements)] == [87] * 3


async def test_a_worker_that_is_stopped_is_replaced_and_its_batches_judged(tmp_path):
    """No batch is at fault, and no client has to time out first."""
    properties = {"policy.workers": 1, "policy.timeout.ms": ENDLESS_MS}
    async with Judging(tmp_path, **properties) as judging:
        await judging.judge(b"fine")
        (pid,) = judging.supervisor.pids
        os.kill(pid, signal.SIGSTOP)
        with structlog.testing.capture_logs() as logged:
            judgements = (judging.judge(b"refuse", partition=i) for i in range(20))
            verdicts = await asyncio.gather(*judgements)
        assert [verdict.code for verdict in verdicts] == [87] * 20
        assert pid not in judging.supervisor.pids
    (died,) = [line for line in logged if line["event"] == "policy worker died"]
    assert died["reason"] == "began no batch within 2500 ms"


async def test_verdicts_have_their_times(tmp_path):
    """Verdicts of a quick and a slow batch come in any order, and may come together."""
    observed = []

    class Observer:
        def judged(self, policies, cause, waited_s, judged_s):
            observed.append(judged_s)

        def ended(self, cause): ...

        def policy_event(self, event, result, amount): ...

    judging = Judging(tmp_path, **{"policy.workers": 1})
    judging.supervisor = Supervisor(judging.configuration, observer=Observer())
    async with judging:
        values = [b"fine", b"sleep 0.5", b"fine", b"sleep 0.5"]
        await asyncio.gather(*(judging.judge(value, partition=i) for i, value in enumerate(values)))
    assert [seconds >= 0.5 for seconds in sorted(observed)] == [False, False, True, True]


async def test_an_error_in_who_takes_a_verdict_ends_nothing_else(tmp_path):
    def fails(_: PolicyVerdict) -> None:
        raise IndexError("in the session")

    properties = {"policy.workers": 1, "policy.timeout.ms": ENDLESS_MS}
    async with Judging(tmp_path, **properties) as judging:
        (pid,) = judging.supervisor.pids
        plan, batch = judging.plan.for_topic("t"), encode_batch(values(b"fine"))
        for _ in range(3):
            judging.supervisor.submit(BatchToJudge(plan, 0, NO_ID, 9, batch), fails)
            assert (await judging.judge(b"refuse")).code == 87
        assert (await judging.judge(b"loop")).code == -1
        assert pid not in judging.supervisor.pids


async def test_a_policy_is_not_charged_for_time_in_which_the_gateway_stood_still(tmp_path):
    properties = {"policy.workers": 1, "policy.timeout.ms": ENDLESS_MS}
    async with Judging(tmp_path, **properties) as judging:
        gate = Gate(tmp_path)
        judgement = asyncio.ensure_future(judging.judge(gate.value))
        await gate.begun()
        gate.open()
        time.sleep(1.5 * ENDLESS_MS / 1000)  # this process is the gateway
        assert await judgement is ACCEPTED


LEAVES_PROCESSES = """
import os, subprocess, time
from penstock.policy import *

class Misbehaves(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        left = subprocess.Popen(["sleep", "60"], start_new_session=True)
        forked = os.fork()
        if not forked:
            os.setsid()
            time.sleep(60)
        if value == b"loop":
            open("pids", "w").write(f"{left.pid} {forked}")
            while True: pass
        return InvalidRecordException(f"{left.pid} {forked}")
"""


@pytest.mark.parametrize("does", ["loop", "return"])
async def test_processes_that_a_policy_leaves_running_end_with_its_worker(
    tmp_path, monkeypatch, does
):
    monkeypatch.chdir(tmp_path)
    properties = {"policy.workers": 1, "policy.timeout.ms": ENDLESS_MS}
    async with Judging(tmp_path, LEAVES_PROCESSES, **properties) as judging:
        verdict = await judging.judge(does.encode())
        returned = does == "return"
        printed = verdict.record_errors[0].message if returned else Path("pids").read_text()
        pids = [int(pid) for pid in printed.split()]
        if does == "return":
            assert all(is_running(pid) for pid in pids)
    await asyncio.to_thread(wait_until, lambda: not any(is_running(pid) for pid in pids))


async def test_a_worker_gains_no_privileges(tmp_path):
    async with Judging(tmp_path, **{"policy.workers": 1}) as judging:
        pid = judging.supervisor.pids[0]
        assert "NoNewPrivs:\t1" in Path(f"/proc/{pid}/status").read_text()


async def test_a_process_whose_end_cannot_be_awaited_is_replaced(tmp_path):
    trouble, pids = asyncio.Event(), []

    class Unwatched(Child):
        async def ended(self) -> ProcessEnd:
            if not pids:
                pids.append(self.pid)
                await trouble.wait()
                raise OSError(errno.EBADF, "pidfd")
            return await super().ended()

    async with Judging(tmp_path, child=Unwatched, **{"policy.workers": 1}) as judging:
        assert await judging.judge(b"fine") is ACCEPTED
        trouble.set()
        await asyncio.to_thread(wait_until, lambda: not is_running(pids[0]))
        assert await judging.judge(b"fine") is ACCEPTED
        assert judging.supervisor.pids != pids


async def test_an_interceptor_that_hangs_past_its_clients_deadline(tmp_path):
    """The client is answered in time, the worker ends in its time, and the batch rests."""
    policies = """
import time
import weakref
from collections import Counter
import weakref
from collections import Counter
from penstock.policy import *
class Hangs(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        while value == b"hang": time.sleep(0.01)
        return ProduceRequestInterceptorResult(key, value)
"""
    properties = {
        "record.validator.classes": "",
        "produce.request.interceptors": "policies.Hangs",
        "produce.request.interceptors.timeout.ms": 3000,
        "policy.workers": 1,
    }
    with structlog.testing.capture_logs() as logs:
        await _hang(Judging(tmp_path, policies, **properties))
    assert not [line for line in logs if "error of the gateway" in line["event"]]


async def _hang(opening: Judging) -> None:
    async with opening as judging:
        judging.plan.set_interceptor_patterns(judging.supervisor.patterns)
        verdict = await judging.judge(b"hang", timeout_ms=1000)
        assert verdict.code == 7
        assert "the client's own timeout" in str(verdict.message)
        async with asyncio.timeout(60):
            while "spent their time on this batch before" not in str(verdict.message):
                verdict = await judging.judge(b"hang", timeout_ms=1000)
                assert verdict.code == 7
        assert await judging.judge(b"fine") is ACCEPTED


def test_a_closed_supervisor_is_freed_without_the_collector(tmp_path):
    async def judged_and_closed() -> list[weakref.ref[object]]:
        async with Judging(tmp_path) as judging:
            await judging.judge(b"good")
            plan, supervisor = judging.plan, judging.supervisor
            return [weakref.ref(supervisor), weakref.ref(supervisor.schedule), weakref.ref(plan)]

    gc.disable()
    try:
        ended = asyncio.run(judged_and_closed())
        assert [of() for of in ended] == [None, None, None]
    finally:
        gc.enable()


ASSERTS = """
import warnings
from penstock.policy import *

class Misbehaves(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        assert value != b"bad"
        warnings.warn("old")
        int(value or b"0")
"""


@pytest.mark.parametrize("value", [b"bad", b"9" * 5000, b"1"])
async def test_variables_that_change_what_a_policy_means_do_not_reach_it(
    tmp_path, monkeypatch, value
):
    changing = {"PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error", "PYTHONINTMAXSTRDIGITS": "0"}
    for name, given in changing.items():
        monkeypatch.setenv(name, given)
    async with Judging(tmp_path, ASSERTS) as judging:
        outcome = (await judging.judge(value)).outcome
    assert outcome is (Outcome.ACCEPTED if value == b"1" else Outcome.FAILED)


PRINTS = """
import os, sys
from penstock.policy import *

class Misbehaves(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"crash":
            print("last words")
            sys.stdout.buffer.write(b"of bytes\\n")
            os.abort()
        for number in range(10):
            print("spam " * 200_000, file=sys.stderr)
"""


async def test_output_of_a_policy_holds_up_no_batch(tmp_path):
    """Ten megabytes for each record, which are lost for the most part, and counted."""
    events = []

    class Observer:
        def judged(self, policies, cause, waited_s, judged_s): ...

        def ended(self, cause): ...

        def policy_event(self, event, result, amount):
            events.append((event, result, amount))

    judging = Judging(tmp_path, PRINTS, **{"policy.workers": 1})
    judging.supervisor = Supervisor(judging.configuration, observer=Observer(), spare=False)
    with structlog.testing.capture_logs() as logged:
        async with judging:
            for _ in range(5):
                assert (await judging.judge(b"any")).outcome is Outcome.ACCEPTED
    assert {event[:2] for event in events} == {("output", "lost")}
    assert 0 < sum(event[2] for event in events) < 50
    assert any(line["event"] == "policy output" for line in logged)


async def test_paths_of_interceptors_are_counted_with_their_verdicts(tmp_path):
    events = Counter()

    class Observer:
        def judged(self, *_): ...

        def ended(self, cause): ...

        def policy_event(self, event, result, amount):
            events[event, result] += amount

    policies = f"""{POLICIES}
from penstock.policies import RedactJsonFields
class Mask(RedactJsonFields):
    topics = "^t"
    fields = ("card.number", "cards.*.number")
"""
    judging = Judging(tmp_path, policies, **{"produce.request.interceptors": "policies.Mask"})
    judging.supervisor = Supervisor(judging.configuration, observer=Observer())
    async with judging:
        judging.plan.set_interceptor_patterns(judging.supervisor.patterns)
        for value in (b'{"card":{"number":1}}', b"{}"):
            await judging.judge(value)
    assert events == {
        ("json_values_read", "policies.Mask"): 2,
        ("json_path_found", "policies.Mask: card.number"): 1,
        ("json_path_found", "policies.Mask: cards.*.number"): 0,
    }


async def test_last_words_of_a_worker_are_logged(tmp_path):
    with structlog.testing.capture_logs() as logged:
        async with Judging(tmp_path, PRINTS, **{"policy.workers": 1}) as judging:
            assert (await judging.judge(b"crash")).outcome is Outcome.FAILED
    texts = [line.get("text") for line in logged if line["event"] == "policy output"]
    assert texts[:2] == ["last words", "of bytes"]


async def test_a_policy_that_cannot_be_configured_now_is_not_wrong_for_good(tmp_path):
    policies = PRINTS.replace(
        "    def validate_record",
        "    def __init__(self): raise TimeoutError\n    def validate_record",
    )
    with pytest.raises(NotNowError, match="TimeoutError"):
        async with Judging(tmp_path, policies):
            pass
