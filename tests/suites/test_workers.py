"""Mutated records judged by a gateway's worker: it is not killed, whatever a record is.

The worker's CPU time is measured, because of other work of the machine. A minute by
default; `make suites SUITE=workers MINUTES=60` for an hour.
"""

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from penstock.configuration import load_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.verdict import FailureCause, Outcome
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.engine.workers.supervisor import Supervisor
from penstock.kafka.wire.requests.topics import NO_ID
from tests.gateways import write_configuration
from tests.kafka.records.encoding import encode_batch, values
from tests.policies.schema_policy.fake_registry import FakeRegistry
from tests.suites.mutated import kinds, rule_set

pytestmark = pytest.mark.suites
RECORDS = 200
BATCH_BYTES = 2_000_000
BATCHES = 4
TIMEOUT_S = 5
"""The default of `policy.timeout.ms`."""
TOPIC = "orders"


class Ends:
    """Why workers ended."""

    def __init__(self):
        self.causes = []

    def ended(self, cause):
        self.causes.append(cause)

    def judged(self, policies, cause, waited_s, judged_s):
        pass

    def policy_event(self, event, result, amount):
        pass


def cpu_s(pids):
    """The time of the processor that processes have taken."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(of_process[11]) + int(of_process[12]) for of_process in fields) / os.sysconf(
        "SC_CLK_TCK"
    )


def batch_of(kind, schema_id):
    """A batch of records, as large as producers make them."""
    framed, payloads, size = b"\0" + schema_id.to_bytes(4), [], 0
    while len(payloads) < RECORDS and size < BATCH_BYTES:
        payloads.append(framed + kind.record())
        size += len(payloads[-1])
    return encode_batch(values(*payloads)), len(payloads)


async def verdict(supervisor, plan, batch):
    """What becomes of a batch, and the time of the processor that it takes the worker."""
    future = asyncio.get_running_loop().create_future()
    before = cpu_s(supervisor.pids)
    supervisor.submit(
        BatchToJudge(plan, 0, NO_ID, 9, batch, timeout_ms=3_600_000), future.set_result
    )
    return await future, cpu_s(supervisor.pids) - before


def batches(registry, chance):
    """Endless batches, each with its number of records and a description."""
    for kind in kinds(chance):
        rules = rule_set(chance) if chance.random() < 0.5 else None
        schema_id = registry.register(f"{TOPIC}-value", kind.text, kind.schema_type, rule_set=rules)
        for _ in range(BATCHES):
            yield *batch_of(kind, schema_id), f"{kind.schema_type} {kind.text} with {rules}"


async def judge_for(minutes, supervisor, plan, registry, chance):
    """Judge batches of mutated records; return counts, and the longest time of a batch."""
    counted, longest_s = Counter(), 0.0
    ends = time.monotonic() + 60 * minutes
    for batch, count, schema in batches(registry, chance):
        if time.monotonic() > ends:
            break
        found, took_s = await verdict(supervisor, plan, batch)
        longest_s = max(longest_s, took_s)
        counted["records"] += count
        counted["refused records"] += len(found.record_errors)
        counted[found.cause or found.outcome] += 1
        if found.cause not in {None, FailureCause.UNDECIDABLE}:
            pytest.fail(f"{schema}: {found}")
    return counted, longest_s


async def test_no_worker_is_killed_by_a_record(tmp_path, suites_seed, suites_minutes):
    chance = random.Random(suites_seed)
    with FakeRegistry() as registry:
        file = write_configuration(tmp_path, "none:1", 9192, {
            "record.validation.policy.class.name": "penstock.policies.SchemaPolicy",
            f"topics.{TOPIC}.confluent.value.schema.validation": "true",
            f"topics.{TOPIC}.schema.validation.level": "rules",
            "schema.registry.url": registry.url,
            "policy.timeout.ms": 600_000,
            "policy.workers": 1,
        })  # fmt: skip
        configuration, ends = load_configuration(file), Ends()
        plan = Plan(configuration.policies).for_topic(TOPIC)
        supervisor = Supervisor(configuration, spare=False, observer=ends)
        await supervisor.start()
        try:
            counted, longest_s = await judge_for(suites_minutes, supervisor, plan, registry, chance)
        finally:
            await supervisor.close()
    print(f"\nworkers, seed {suites_seed}: {dict(counted)}, a batch at most {longest_s:.2f} s")
    assert ends.causes == []
    assert longest_s < TIMEOUT_S
    assert counted["refused records"] > counted["records"] / 20
    assert set(counted) <= {
        "records", "refused records", Outcome.ACCEPTED, Outcome.REFUSED, FailureCause.UNDECIDABLE
    }  # fmt: skip
