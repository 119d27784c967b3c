"""A supervisor whose processes the test plays: messages in, reports out."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

from penstock.configuration.file import read_configuration
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import refused
from penstock.engine.workers import messages
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.engine.workers.processes.child import ProcessEnd
from penstock.engine.workers.processes.worker import WorkerState
from penstock.engine.workers.progress import DONE, CurrentAttempt
from penstock.engine.workers.supervisor import Supervisor
from penstock.policy import ClientContext
from tests.kafka.client.settings import FILE
from tests.kafka.records.encoding import encode_batch, values

TOPIC_ID = UUID(int=9)
DATA = encode_batch(values(b"a", b"b"))
NO = refused(87, "no", "a.V")
SENDER = ClientContext("User:alice")
ENDED = ProcessEnd("exited with status 1")
KILLED = ProcessEnd("killed by another process (SIGKILL)", by_another=True)
KINDS = {
    messages.LOAD: "load",
    messages.JUDGE: "judge",
    messages.JUDGE_ADMIN: "admin",
    messages.RETIRE: "retire",
    messages.LOAD_TOPICS: "topics",
    messages.SHARED: "shared",
    messages.CLOSE: "close",
}


class Process:
    """The end of a process; `received` has the kinds and bodies of its messages."""

    ready = {"patterns": (), "needs_context": False, "loads_topics": True, "takes_client": (),
             "drops_records": False}  # fmt: skip
    failure = None
    starts = True

    def __init__(self, worker, events, *, ring=None):
        self.worker, self.events, self.ring = worker, events, ring
        self.received = []
        self.progress = SimpleNamespace(current=CurrentAttempt(0, DONE), skipped=0, skip=self._skip)
        self.end = asyncio.get_running_loop().create_future()
        self.pid = 1000 + worker.number
        self.killed = False

    def _skip(self, attempt):
        self.progress.skipped = attempt

    async def start(self):
        if not self.starts:
            raise OSError("no more processes")

    def write(self, buffers):
        data = b"".join(buffers)
        while data:
            length, kind = messages.PREFIX.unpack_from(data)
            end = messages.PREFIX.size - 1 + length
            self._receive(KINDS[kind], data[messages.PREFIX.size : end])
            data = data[end:]

    share = write

    def _receive(self, kind, body):
        self.received.append((kind, body))
        if kind == "load" and self.failure is not None:
            self.events.on_load_failed(self.worker, self.failure, may_pass=False)
            self.die()
        elif kind == "load":
            ready = messages.read_ready(messages.ready(**self.ready)[messages.PREFIX.size :])
            asyncio.get_running_loop().call_soon(self.events.on_ready, self.worker, ready)
        elif kind == "close":
            self.die()

    def of(self, kind):
        return [body for found, body in self.received if found == kind]

    @property
    def attempt(self):
        """The attempt of the last batch."""
        return messages.JUDGE_HEADER.unpack_from(self.of("judge")[-1])[0]

    def answer(self, verdict, took_s=0.5):
        self.progress.current = CurrentAttempt(self.attempt, DONE)
        self.events.on_verdicts(self.worker, [(self.attempt, verdict, took_s)])

    def die(self, end=ENDED):
        if not self.end.done():
            self.end.set_result(end)

    def kill(self):
        self.killed = True
        self.die()

    async def ended(self):
        return await self.end

    async def read_output(self):
        """Nothing was printed."""


class Observer:
    """Keeps its arguments."""

    def __init__(self):
        self.verdicts, self.waits, self.ends, self.events = [], [], [], []

    def judged(self, policies, cause, waited_s, judged_s):
        self.verdicts.append((policies, cause, judged_s))
        self.waits.append(waited_s)

    def ended(self, cause):
        self.ends.append(cause)

    def policy_event(self, *event):
        self.events.append(event)


class Supervised:
    """A supervisor and its processes."""

    def __init__(self, process=Process, size=1, spare=False, shared=None, rings=None,
                 **properties):  # fmt: skip
        self.processes = []
        self.observer = Observer()
        named = {key.replace("_", "."): value for key, value in properties.items()}
        given = {"upstream.bootstrap.servers": "k:9", "record.validator.classes": "a.V", **named}
        self.supervisor = Supervisor(
            read_configuration(FILE, given, declared=()),
            size=size,
            spare=spare,
            child=lambda *of, **ring: (
                self.processes.append(process(*of, **ring)) or self.processes[-1]
            ),
            observer=self.observer,
            shared=shared,
            rings=rings,
        )

    async def __aenter__(self):
        await self.supervisor.start()
        return self

    async def __aexit__(self, *_):
        await self.supervisor.close()

    @property
    def process(self):
        """The process that judges."""
        (found,) = [process for process in self.processes if process.worker.state == READY]
        return found

    def submit(self, plan=None, data=DATA, **fields):
        verdicts = []
        batch = BatchToJudge(plan or TopicPlan(topic="t", validators=("a.V",)), 3, TOPIC_ID, 9, data,
                             **fields)  # fmt: skip
        self.supervisor.submit(batch, verdicts.append)
        return verdicts


READY = WorkerState.READY


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


def judged(body):
    """The plan, the positions dropped before, the client, and the data of a batch."""
    _, version, partition, topic_id, *sizes = messages.JUDGE_HEADER.unpack_from(body)
    assert (version, partition, topic_id) == (9, 3, TOPIC_ID.bytes)
    at, parts = messages.JUDGE_HEADER.size, []
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    plan, dropped, client = parts
    return TopicPlan.decode(plan), dropped, client, body[at:]
