"""Accepts small batches where they are received, without a worker.

A worker protects the gateway from policies, and the round trip to it takes longer than a check of
a few records. So batches are judged inline if all of this holds: the policies of the topic are of
KIP-940 or have names, each is built in (no class of a user is run here) and reports that
the time it takes is bounded by the bytes it gets, the batch is small, and there is time left: a
request with very many batches must not keep the event loop from the others.

Only acceptance is decided inline. Every other verdict is decided by a worker, as if the batch
had not been judged here, so verdicts do not depend on the process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.configuration import ConfigurationError
from penstock.configuration.declared_keys import is_own
from penstock.configuration.interfaces import VALIDATION
from penstock.engine.modes.marks import NAMES as MARKS
from penstock.engine.modes.marks import has_marks
from penstock.engine.plans.configured_policy import ConfiguredPolicy
from penstock.engine.plans.loading import load_class
from penstock.engine.plans.plan import Plan
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.header import ZSTD, ZSTD_FROM_VERSION, codec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from penstock.configuration import PolicyConfiguration
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.policies.by_columns import NativeJudge

MAX_RECORDS: Final = 1000
_NATIVE_MAX_BYTES: Final = 16 * 2**20
_NATIVE_MAX_RECORDS: Final = 100_000
"""Of a batch that native threads judge, decompressed: in slices, so that nobody waits for it."""
_LARGE_MAX_BYTES: Final = 256 * 1024
"""Of a batch that a native judge judges inline; its own limit when decompressed is the same."""
_LARGE_EVERY_S: Final = 1.0
"""How often such a batch is judged inline, so that a connection that sends them can move to a
thread."""
_NATIVE_FROM: Final = 3
"""The first version of Produce requests that native threads read."""
TURN_S: Final = 0.020
BUDGET_S: Final = 0.005
"""Of each `TURN_S`, the CPU time for judging inline; workers judge the batches after it."""
SLOW_S: Final = 0.005
"""CPU time. If a batch takes longer, workers judge by the same text for `SUSPENDED_S`."""
SUSPENDED_S: Final = 30.0
_SMALL_BYTES: Final = 1024
"""A batch of no more, uncompressed, cannot take `SLOW_S`. Its time is read from the other clock: to
read that of CPU time twice takes as long as to judge it."""
_MAX_TEXTS: Final = 100
"""How many texts of topic configs are remembered: each may be a large schema."""


def _judged_by(plan: TopicPlan) -> tuple[str, str]:
    """Return the names of a topic's policies, and the text that configures them."""
    return plan.policy_names, plan.validation_setting or ""


class InlinePolicy(Protocol):
    """The methods of a class of `penstock.policies` that can judge inline."""

    def configure(self, configs: Mapping[str, str]) -> None:
        """Receive the configuration, as in a worker."""

    def is_bounded(self, text: str) -> bool:
        """Return whether `all_fit` takes a few milliseconds at most, for all batches.

        It may read files, which it keeps for `all_fit`. Configuration that cannot be
        used is not bounded.

        Args:
            text: The topic's `record.validation.policy`; empty without one.
        """

    def all_fit(self, text: str, batch: Any) -> bool:
        """Return whether every record is accepted; False as well where it would take long.

        Args:
            text: As for `is_bounded`.
            batch: The records, as columns: `keys`, `values`, `headers`, `timestamps`.

        Raises:
            Exception: A worker judges the batch.
        """


def _at_once(work: Callable[[], None]) -> None:
    work()


class InlineJudge:
    """Judges by instances of Penstock's own policies.

    Attributes:
        warnings: The `warnings` of those instances, which are about their configuration.
    """

    def __init__(
        self,
        configuration: PolicyConfiguration,
        *,
        in_background: Callable[[Callable[[], None]], object] = _at_once,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        on_accepted: Callable[[str, float], None] | None = None,
    ) -> None:
        """Configure the policies of the configuration that can be run inline.

        Reads the files that they need.

        Args:
            configuration: Names them; what their `configure()` receives.
            in_background: Runs a function in another thread: files that topic configs name are
                read there; at once unless given.
            clock: Returns the time in seconds.
            cpu_clock: Returns the CPU time that the thread has used, in seconds.
            on_accepted: Called with a topic's classes and the seconds that a batch took.

        Raises:
            ConfigurationError: One cannot be configured.
        """
        self._in_background = in_background
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._on_accepted = on_accepted
        self._policies: dict[str, InlinePolicy] = {}
        self._max_bytes = min(
            configuration.policy_inline_max_bytes, configuration.decompressed_batch_max_bytes
        )
        self._max_records = min(MAX_RECORDS, configuration.decompressed_batch_max_records)
        self._native_max_bytes = min(_NATIVE_MAX_BYTES, configuration.decompressed_batch_max_bytes)
        self._native_max_records = min(
            _NATIVE_MAX_RECORDS, configuration.decompressed_batch_max_records
        )
        self._is_bounded: dict[tuple[str, str], bool] = {}
        self._suspended_until: dict[tuple[str, str], float] = {}
        self._large_from: dict[tuple[str, str], float] = {}
        self._native_judges: dict[tuple[tuple[str, str], bool], NativeJudge | None] = {}
        self._turn = 0.0
        self._left_s = BUDGET_S
        instances: list[tuple[str, InlinePolicy]] = []
        for configured in _configured(configuration):
            policy = _instance(configured, configuration.folder)
            if policy is not None:
                instances.append((configured.own_prefix, policy))
                if self._max_bytes:
                    self._policies[configured.name] = policy
        if self._policies:
            self._find_out_defaults(configuration)
        self.warnings = [
            f"{prefix}{text}"
            for prefix, policy in instances
            for text in getattr(policy, "warnings", ())  # also about what topics name
        ]
        self._max_texts = len(self._is_bounded) + _MAX_TEXTS

    def _find_out_defaults(self, configuration: PolicyConfiguration) -> None:
        """Find the bounded policies among those that the file names for topics."""
        plan = Plan(configuration)
        for glob in plan.globs:
            topic_plan = plan.for_pattern(glob)
            if topic_plan is not None:
                for part in filter(None, (topic_plan.waited_for, topic_plan.observed)):
                    self._find_out_all(part)

    def _find_out_all(self, plan: TopicPlan) -> None:
        for name, text in self._policies_of(plan):
            self._find_out(name, text)

    @property
    def has_policy(self) -> bool:
        """Whether any batch may be accepted inline."""
        return bool(self._policies)

    def judges(self, plan: TopicPlan) -> bool:
        """Return whether small batches of a topic are judged inline."""
        policies = self._policies_of(plan)
        return bool(policies) and all(self._knows_bounded(*policy) for policy in policies)

    def _policies_of(self, plan: TopicPlan) -> list[tuple[str, str]]:
        """Return the policies of a topic with its text; nothing if any is not run inline."""
        if plan.interceptors or plan.records_policy or plan.validators:
            return []
        if any(name not in self._policies for name in plan.policies):
            return []
        text = plan.validation_setting or ""
        return [(name, text) for name in plan.policies]

    def _knows_bounded(self, name: str, text: str) -> bool:
        is_bounded = self._is_bounded.get((name, text))
        if is_bounded is None:
            is_bounded = False
            if len(self._is_bounded) < self._max_texts:
                self._is_bounded[name, text] = False
                self._in_background(lambda: self._find_out(name, text))
        return is_bounded

    def accepts(self, plan: TopicPlan, version: int, data: bytes | memoryview) -> bool:
        """Return whether a batch is accepted; False where a worker has to judge it.

        Args:
            plan: The topic's policies.
            version: The version of the Produce request.
        """
        if len(data) > self._max_bytes or not self.judges(plan):
            return False
        judged_by = _judged_by(plan)
        if not self._has_time(judged_by):
            return False
        is_small = len(data) <= _SMALL_BYTES and not codec_of(data)
        clock = self._clock if is_small else self._cpu_clock
        began = clock()
        try:
            batch = read_batch(
                data,
                api_version=version,
                max_decompressed_bytes=self._max_bytes,
                max_records=self._max_records,
            )
            text = judged_by[1]
            accepted = all(
                self._policies[name].all_fit(text, batch.records) for name in plan.policies
            ) and not (plan.marks and has_marks(batch.records))
        except KeyboardInterrupt:
            raise
        except BaseException:  # a panic of an extension is no Exception
            accepted = False  # a worker has the reason
        self._note(plan, clock() - began, is_accepted=accepted, may_be_slow=not is_small)
        return accepted

    def accepts_large(
        self, plan: TopicPlan, version: int, data: bytes | memoryview, judge: NativeJudge
    ) -> bool:
        """Return whether a batch is accepted that may be too large for `accepts`.

        Native threads judge such batches, but every connection begins in Python.

        Args:
            plan: The topic's policies.
            version: The version of the Produce request.
            judge: From `natively`.
        """
        if version < _NATIVE_FROM or len(data) > _LARGE_MAX_BYTES:
            return False
        codec = codec_of(data)
        if not codec and len(data) <= self._max_bytes:
            return False
        if codec == ZSTD and version < ZSTD_FROM_VERSION:  # the judge does not learn the version
            return False
        judged_by = _judged_by(plan)
        if self._clock() < self._large_from.get(judged_by, 0.0) or not self._has_time(judged_by):
            return False
        self._large_from[judged_by] = self._clock() + _LARGE_EVERY_S
        began = self._cpu_clock()
        accepted = judge.accepts_in_time(bytes(data))
        self._note(plan, self._cpu_clock() - began, is_accepted=accepted, may_be_slow=True)
        return accepted

    def _note(self, plan: TopicPlan, took: float, *, is_accepted: bool, may_be_slow: bool) -> None:
        """Note how many seconds a batch took."""
        self._left_s -= took
        if may_be_slow and took > SLOW_S:
            self._suspended_until[_judged_by(plan)] = self._clock() + SUSPENDED_S
        if is_accepted and self._on_accepted is not None:
            self._on_accepted(plan.policy_names, took)

    def natively(
        self, plan: TopicPlan, new: Callable[[str, int, int], NativeJudge]
    ) -> NativeJudge | None:
        """Return the native judge of a topic's batches; None if there is none.

        What it accepts, `accepts` would accept, given the time, and with the limits of larger
        batches.

        Args:
            plan: The policies that a request waits for, or those that only observe.
            new: Makes a judge that looks for nothing, by the names of the policies, the most bytes
                of a batch and the most records.
        """
        if not self.judges(plan):
            return None
        judged_by = _judged_by(plan), plan.marks
        if judged_by not in self._native_judges:
            if len(self._native_judges) >= self._max_texts:
                return None
            self._native_judges[judged_by] = self._new_judge(plan, new)
        return self._native_judges[judged_by]

    def _new_judge(
        self, plan: TopicPlan, new: Callable[[str, int, int], NativeJudge]
    ) -> NativeJudge | None:
        judge = new(plan.policy_names, self._native_max_bytes, self._native_max_records)
        if plan.marks:  # as `accepts`: those that a client has written are removed
            judge.has_no_headers(list(MARKS))
        text = plan.validation_setting or ""
        return judge if all(self._adds(name, text, judge) for name in plan.policies) else None

    def _adds(self, name: str, text: str, judge: NativeJudge) -> bool:
        """Configure a native judge as a policy is; return whether that is possible."""
        add = getattr(self._policies[name], "judge_natively", None)
        try:
            return add is not None and bool(add(text, judge))
        except ValueError:  # a worker has the reason
            return False

    def _has_time(self, judged_by: tuple[str, str]) -> bool:
        """Return whether there is time left for a batch that is judged by policies and a text."""
        now = self._clock()
        if now - self._turn >= TURN_S:
            self._turn, self._left_s = now, BUDGET_S
        if self._left_s <= 0:
            return False
        if now < self._suspended_until.get(judged_by, now):
            return False
        self._suspended_until.pop(judged_by, None)
        return True

    def _find_out(self, name: str, text: str) -> None:
        self._is_bounded[name, text] = self._policies[name].is_bounded(text)


def _configured(configuration: PolicyConfiguration) -> Iterator[ConfiguredPolicy]:
    """Yield the policies that may be of a class of Penstock's own."""
    name = configuration.record_validation_policy_class_name
    # With a class path, the name may mean another class.
    if name is not None and not configuration.class_path:
        yield ConfiguredPolicy.by_class(configuration, name, VALIDATION)
    for named in configuration.named_policies:
        yield ConfiguredPolicy.by_name(configuration, named)


def _instance(definition: ConfiguredPolicy, folder: Path) -> InlinePolicy | None:
    """Return a configured instance; None of a class that is not run inline.

    Raises:
        ConfigurationError: It cannot be configured.
    """
    if not is_own(definition.class_name):
        return None
    cls = load_class(definition.class_name, key=definition.key, file=definition.file)
    if not (callable(getattr(cls, "is_bounded", None)) and callable(getattr(cls, "all_fit", None))):
        return None
    policy = cls()
    use_folder = getattr(policy, "use_folder", None)
    if callable(use_folder):
        use_folder(folder)
    try:
        policy.configure(definition.configs)
    except ValueError as error:
        raise ConfigurationError(
            f"{definition.where if definition.is_named else definition.file}: {error}"
        ) from None
    inline: InlinePolicy = policy
    return inline
