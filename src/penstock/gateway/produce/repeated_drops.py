"""Drops records of a retried batch again, where no policy of its topic is left to judge it.

Interceptors may have been taken away since the batch was received first, by a reload or by
`penstock.mode`. What was decided then stays: the sequence numbers of all batches behind it are
lower by the number of records that were dropped.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

from penstock.engine.interceptors.intercepted_batch import drop_again
from penstock.engine.modes.quarantine import Place
from penstock.engine.verdict import not_judged

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from uuid import UUID

    from penstock.configuration import Configuration
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import Verdict

log = structlog.get_logger()


class RepeatedDrops:
    """Rebuilds batches without some records, in a thread: it takes long for large ones."""

    def __init__(
        self,
        configuration: Configuration,
        run: Callable[[Coroutine[object, object, Any]], object],
    ) -> None:
        self._configuration = configuration
        self._run = run

    def submit(
        self,
        topic_plan: TopicPlan,
        partition: int,
        topic_id: UUID,  # noqa: ARG002 - nobody judges
        version: int,
        data: bytes | memoryview,
        done: Callable[[Verdict], None],
        *,
        dropped_before: Sequence[int] = (),
        quarantined_before: Sequence[int] = (),
        **_: object,
    ) -> None:
        """Have the records dropped; implements `gateway.policy_set.Submit`."""
        place = Place(topic_plan.topic, partition, topic_plan.dead_letters_have_context)
        before = dropped_before, quarantined_before
        self._run(self._drop_again(place, version, data, before, done))

    async def _drop_again(
        self,
        place: Place,
        version: int,
        data: bytes | memoryview,
        before: tuple[Sequence[int], Sequence[int]],
        done: Callable[[Verdict], None],
    ) -> None:
        limits = self._configuration
        try:
            verdict = await asyncio.to_thread(
                drop_again,
                data,
                frozenset(before[0]),
                quarantined_before=frozenset(before[1]),
                place=place,
                api_version=version,
                max_decompressed_bytes=limits.decompressed_batch_max_bytes,
                max_records=limits.decompressed_batch_max_records,
                max_bytes=limits.socket_request_max_bytes,
            )
        except Exception:
            log.exception("an error of the gateway", action="drop records again")
            verdict = not_judged("of the first attempt", "there was an error")
        done(verdict)
