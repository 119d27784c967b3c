"""Drops records of a retried batch again, where no policy of its topic is left to judge it.

Interceptors may have been removed since the batch was received first, by a reload or by
`penstock.mode`. The decision stays: the sequence numbers of all later batches are
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
    from collections.abc import Callable, Coroutine

    from penstock.configuration import Configuration
    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.batch_to_judge import BatchToJudge

log = structlog.get_logger()


class RepeatedDrops:
    """Rebuilds batches without some records, in a thread: large batches take long."""

    def __init__(
        self,
        configuration: Configuration,
        run: Callable[[Coroutine[object, object, Any]], object],
    ) -> None:
        self._configuration = configuration
        self._run = run

    def submit(self, batch: BatchToJudge, callback: Callable[[PolicyVerdict], None]) -> None:
        """Drop records of a batch again; the same parameters as `Supervisor.submit`."""
        self._run(self._drop_again(batch, callback))

    async def _drop_again(
        self, batch: BatchToJudge, callback: Callable[[PolicyVerdict], None]
    ) -> None:
        plan = batch.plan
        place = Place(plan.topic, batch.partition, plan.dead_letters_have_context, plan.digest)
        limits = self._configuration
        try:
            verdict = await asyncio.to_thread(
                drop_again,
                batch.data,
                frozenset(batch.dropped_before),
                quarantined_before=frozenset(batch.quarantined_before),
                place=place,
                api_version=batch.version,
                max_decompressed_bytes=limits.decompressed_batch_max_bytes,
                max_records=limits.decompressed_batch_max_records,
                max_bytes=limits.socket_request_max_bytes,
            )
        except Exception:
            log.exception("an error of the gateway", action="drop records again")
            verdict = not_judged("of the first attempt", "there was an error")
        callback(verdict)
