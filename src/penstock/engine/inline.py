"""Accepts small batches where they are received, without a worker.

A worker protects the gateway from policies, and the round trip to it takes longer than a check of
a few records. So batches are judged inline if all of this holds: the topic has one policy, it is
one of Penstock's own (no class of a user is run here), it says that the time it takes is bounded
by the bytes it gets, the batch is small, and there is time left: a request with very many batches
must not keep the event loop from the others.

Only acceptance is decided inline. Whatever else a batch deserves is decided by a worker, as if it
had not been looked at here, so verdicts do not depend on where a batch was judged.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.topic_keys import VALIDATION_POLICY
from penstock.engine.marks import has_marks
from penstock.policies.json_schema.policy import JsonSchema
from penstock.records.batch import read_batch
from penstock.records.header import is_compressed

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.configuration import PolicyConfiguration
    from penstock.engine.plan import TopicPlan

MAX_RECORDS: Final = 1000
TURN_S: Final = 0.020
BUDGET_S: Final = 0.005
"""Of each `TURN_S`, the CPU time for judging inline; workers judge what comes after."""
SLOW_S: Final = 0.005
"""CPU time. If a batch takes longer, workers judge by the same text for `SUSPENDED_S`."""
SUSPENDED_S: Final = 30.0
_SMALL_BYTES: Final = 1024
"""A batch of no more, uncompressed, cannot take `SLOW_S`. Its time is read from the other clock: to
read that of CPU time twice takes as long as to judge it."""
_MAX_TEXTS: Final = 100
"""How many texts of topic configs are remembered: each may stand for a large schema."""
_OWN_CLASSES: Final = frozenset({"penstock.policies.JsonSchema", "penstock.policies:JsonSchema"})


def _at_once(work: Callable[[], None]) -> None:
    work()


class InlineJudge:
    """Judges by an instance of one of Penstock's own policies."""

    def __init__(
        self,
        configuration: PolicyConfiguration,
        *,
        in_background: Callable[[Callable[[], None]], object] = _at_once,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        on_accepted: Callable[[str, float], None] | None = None,
    ) -> None:
        """Configure the policy, if the configuration names one that can be run inline.

        Reads the files that the policy needs.

        Args:
            configuration: What `configure()` receives.
            in_background: Runs a function in another thread: files that topic configs name are
                read there; at once unless given.
            clock: Returns the time in seconds.
            cpu_clock: Returns the CPU time that the thread has used, in seconds.
            on_accepted: Called with a topic's classes and the seconds that a batch took.

        Raises:
            ConfigurationError: The policy cannot be configured.
        """
        self._in_background = in_background
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._on_accepted = on_accepted
        self._policy: JsonSchema | None = None
        self._max_bytes = min(
            configuration.policy_inline_max_bytes, configuration.decompressed_batch_max_bytes
        )
        self._max_records = min(MAX_RECORDS, configuration.decompressed_batch_max_records)
        self._is_bounded: dict[str, bool] = {}
        self._suspended_until: dict[str, float] = {}
        self._turn = 0.0
        self._left_s = BUDGET_S
        if not (self._max_bytes and _names_own_policy(configuration)):
            return
        self._policy = JsonSchema()
        self._policy.use_folder(configuration.folder)
        try:
            self._policy.configure(configuration.properties)
        except ValueError as error:
            raise ConfigurationError(f"{configuration.path}: {error}") from None
        for default in configuration.topic_defaults:
            if default.key == VALIDATION_POLICY:
                self._find_out(default.value)
        self._max_texts = len(self._is_bounded) + _MAX_TEXTS

    @property
    def has_policy(self) -> bool:
        """Whether any batch may be accepted inline."""
        return self._policy is not None

    def judges(self, plan: TopicPlan) -> bool:
        """Return whether small batches of a topic are judged inline."""
        if self._policy is None or len(plan.policies) != 1 or plan.validation_policy is None:
            return False
        text = plan.validation_setting or ""
        known = self._is_bounded.get(text)
        if known is None:
            known = False
            if len(self._is_bounded) < self._max_texts:
                self._is_bounded[text] = False
                self._in_background(lambda: self._find_out(text))
        return known

    def accepts(self, plan: TopicPlan, version: int, data: bytes | memoryview) -> bool:
        """Return whether a batch is accepted; False where a worker has to judge it.

        Args:
            plan: The topic's policies.
            version: The version of the Produce request.
            data: The batch.
        """
        if self._policy is None or len(data) > self._max_bytes or not self.judges(plan):
            return False
        text = plan.validation_setting or ""
        if not self._has_time(text):
            return False
        is_small = len(data) <= _SMALL_BYTES and not is_compressed(data)
        clock = self._clock if is_small else self._cpu_clock
        began = clock()
        try:
            batch = read_batch(
                data,
                api_version=version,
                max_decompressed_bytes=self._max_bytes,
                max_records=self._max_records,
            )
            accepted = self._policy.all_fit(text, batch.records) and not (
                plan.marks and has_marks(batch.records)
            )
        except KeyboardInterrupt:
            raise
        except BaseException:  # a panic of an extension is no Exception
            accepted = False  # a worker has the reason
        took = clock() - began
        self._left_s -= took
        if took > SLOW_S and not is_small:
            self._suspended_until[text] = self._clock() + SUSPENDED_S
        if accepted and self._on_accepted is not None:
            self._on_accepted(plan.policy_names, took)
        return accepted

    def _has_time(self, text: str) -> bool:
        """Return whether there is time left for a batch that is judged by a text."""
        now = self._clock()
        if now - self._turn >= TURN_S:
            self._turn, self._left_s = now, BUDGET_S
        if self._left_s <= 0:
            return False
        if now < self._suspended_until.get(text, now):
            return False
        self._suspended_until.pop(text, None)
        return True

    def _find_out(self, text: str) -> None:
        assert self._policy is not None
        self._is_bounded[text] = self._policy.is_bounded(text)


def _names_own_policy(configuration: PolicyConfiguration) -> bool:
    # With a class path of its own, the name may mean another class.
    name = configuration.record_validation_policy_class_name
    return name in _OWN_CLASSES and not configuration.class_path
