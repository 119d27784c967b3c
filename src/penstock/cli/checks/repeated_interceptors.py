"""Runs interceptors twice on the same records, to find those that depend on time or chance.

The retry of a batch is intercepted again where its first attempt is not held any more. Records that
were dropped the first time have to be dropped again then, and no others.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import Outcome
from penstock.engine.workers.batch_to_judge import BatchToJudge

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.supervisor import Patterns, Supervisor

_RECORDS: Final = 64
_RUNS: Final = 2
_MAGIC: Final = 2
_PRODUCE_VERSION: Final = 9
_NO_ID: Final = UUID(int=0)
_SPECIAL: Final = re.compile(r"\\(.)|[\^$.*+?()\[\]{}|]")


async def unrepeatable(
    pool: Supervisor, globs: Iterable[str], named: Collection[str] = ()
) -> list[str]:
    """Return the interceptors, as chains, whose results on the same records differ.

    Interceptors that fail on the sample, or for which no topic's name is found, are left out.

    Args:
        pool: Runs the policies.
        globs: The topics that the configuration names.
        named: Which interceptors have names: each is run by itself, behind the others.
    """
    chains = []
    batch = _sample()
    for names, topic in _chains(pool.patterns, globs, named).items():
        with_name = tuple(name for name in names if name in named)
        plan = TopicPlan(topic=topic, interceptors=names, named_interceptors=with_name)
        results = [await _run(pool, plan, batch) for _ in range(_RUNS)]
        if len({_result(result) for result in results}) > 1:
            chains.append(", ".join(names))
    return chains


def _chains(
    patterns: Patterns, globs: Iterable[str], named: Collection[str]
) -> dict[tuple[str, ...], str]:
    """Return a topic for each chain of interceptors that some topic has."""
    guessed = (_SPECIAL.sub(lambda part: part[1] or "", pattern.pattern) for _, pattern in patterns)
    topics = dict.fromkeys(["sample", *(glob.replace("*", "sample") for glob in globs), *guessed])
    chains: dict[tuple[str, ...], str] = {}
    own = [entry for entry in patterns if entry[0] not in named]
    for topic in topics:
        names = tuple(name for name, pattern in own if pattern.search(topic))
        if names:
            chains.setdefault(names, topic)
        for name, pattern in patterns:
            if (
                name in named
                and pattern.search(topic)
                and not any(name in names for names in chains)
            ):
                chains[*names, name] = topic
    return chains


def _sample() -> bytes:
    """Return a batch with JSON, text, and nothing."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder  # noqa: PLC0415 - takes long

    builder = DefaultRecordBatchBuilder(_MAGIC, 0, 0, -1, -1, -1, 2**20)
    for index in range(_RECORDS):
        value = json.dumps(
            {"id": index, "name": f"name {index}", "at": 1_700_000_000 + index}
        ).encode()
        values = (value, b"text %d" % index, value, None)
        builder.append(index, 1_700_000_000_000, b"%d" % index, values[index % len(values)], [])
    return bytes(builder.build())


async def _run(pool: Supervisor, plan: TopicPlan, batch: bytes) -> PolicyVerdict:
    future: asyncio.Future[PolicyVerdict] = asyncio.get_running_loop().create_future()
    pool.submit(BatchToJudge(plan, 0, _NO_ID, _PRODUCE_VERSION, batch), future.set_result)
    return await future


def _result(verdict: PolicyVerdict) -> tuple[bytes, tuple[int, ...]] | None:
    """Return the stored and the dropped records; None if the interceptors failed."""
    if verdict.outcome is not Outcome.ACCEPTED:
        return None
    replacement = verdict.replacement
    return (replacement.data, tuple(replacement.dropped)) if replacement else (b"unchanged", ())
