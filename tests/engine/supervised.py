"""Policies in real workers, and batches for them."""

import asyncio
from pathlib import Path

from penstock.configuration import load_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.verdict import PolicyVerdict
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.engine.workers.processes.child import Child
from penstock.engine.workers.rings import WorkerRings
from penstock.engine.workers.supervisor import Supervisor
from penstock.kafka.wire.requests.topics import NO_ID
from tests.gateways import wait_until, write_configuration
from tests.kafka.records.encoding import encode_batch, values

ENDLESS_MS, AMPLE_MS = 2500, 100_000
"""A time that is to pass, and a time that never passes, on any machine."""
POLICIES = """
import ctypes, json, os, re, sys, time
from penstock.policy import *

def nest(depth):
    return nest(depth + 1)

class Misbehaves(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"refuse": return InvalidRecordException("refused")
        if value == b"pid": return InvalidRecordException(str(os.getpid()))
        if value == b"sys.exit": sys.exit(0)
        if value == b"os._exit": os._exit(0)
        if value == b"interrupt": raise KeyboardInterrupt
        if value == b"segfault": ctypes.string_at(0)
        if value == b"loop":
            while True: pass
        if value.startswith(b"hold "):
            gate = value[5:].decode()
            open(gate + ".begun", "w").close()
            while not os.path.exists(gate): time.sleep(0.01)
        if value.startswith(b"sleep "): time.sleep(float(value[6:]))
        if value == b"memory":
            hoard = []
            while True: hoard.append(bytearray(10_000_000))
        if value == b"recursion": nest(0)
        if value == b"brackets": json.loads("[" * 1_000_000)
        if value == b"regex": re.match("(a*)*b", "a" * 60)
        if value == b"wrong": return "no"
        if value == b"socket":
            for fd in range(3, 1000):
                try: os.write(fd, b"garbage garbage garbage")
                except OSError: pass
        if value == b"hang up":
            os.closerange(3, 1000)
            while True: time.sleep(1)
        if value == b"child":
            if not os.fork(): time.sleep(60)
            while True: pass
"""


class Gate:
    """A batch that a policy judges for as long as the test wants."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "gate"
        self.value = f"hold {self._file}".encode()

    async def begun(self) -> None:
        """Wait until the policy has the batch."""
        await asyncio.to_thread(wait_until, self._file.with_suffix(".begun").exists, 60)

    def again(self) -> None:
        """Have `begun` wait until the policy has the batch once more."""
        self._file.with_suffix(".begun").unlink()

    def open(self) -> None:
        """Let the policy continue."""
        self._file.touch()


class Judging:
    """A running pool and a way to use it."""

    def __init__(
        self,
        folder: Path,
        policies: str = POLICIES,
        child: type[Child] = Child,
        rings: WorkerRings | None = None,
        **properties: object,
    ) -> None:
        file = write_configuration(
            folder,
            "none:1",
            9192,
            {
                "record.validator.classes": "policies.Misbehaves",
                "policy.timeout.ms": AMPLE_MS,
                "policy.worker.memory.max.bytes": 400 * 2**20,
                **properties,
            },
            policies,
        )
        self.configuration = load_configuration(file)
        self.plan = Plan(self.configuration.policies)
        self.supervisor = Supervisor(self.configuration, child=child, rings=rings)

    async def __aenter__(self) -> "Judging":
        await self.supervisor.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.supervisor.close()

    async def judge(
        self, value: bytes, topic: str = "t", partition: int = 0, timeout_ms: int = 120_000
    ) -> PolicyVerdict:
        """Judge a batch of one record."""
        future: asyncio.Future[PolicyVerdict] = asyncio.get_running_loop().create_future()
        plan = self.plan.for_topic(topic)
        assert plan is not None
        batch = encode_batch(values(value))
        done = future.set_result
        submitted = BatchToJudge(plan, partition, NO_ID, 9, batch, timeout_ms=timeout_ms)
        self.supervisor.submit(submitted, done)
        return await asyncio.wait_for(future, 120)
