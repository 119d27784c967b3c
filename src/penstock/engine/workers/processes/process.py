"""The worker process: `python -m penstock.engine.workers.processes.process SOCKET PROGRESS`.

Waits for LOAD, then judges one batch after the other until CLOSE or until its parent
ends. It may be killed at any time; it leaves nothing to clean up.

Verdicts about small batches are sent together while more batches have been received: each system
call, and each wake-up of the parent, costs as much as judging ten records. Where batches take long,
a verdict does not wait for the next verdict. A batch that crashes
or hangs the worker is identified by PROGRESS, memory shared with the parent: the worker writes
the number of an attempt there before it begins it. The parent writes there up to which attempt
the worker is to skip.
"""

from __future__ import annotations

import ctypes
import gc
import json
import signal
import socket
import sys
import time
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock import _native
from penstock.configuration import ConfigurationError, PolicyConfiguration
from penstock.configuration.processes.parent import end_with_parent
from penstock.engine.chain import Chain, inapplicable, unusable
from penstock.engine.instances import NOBODY, PolicyInstances
from penstock.engine.interceptors.intercepted_batch import intercept_and_judge
from penstock.engine.modes.diverting import judge_and_divert
from penstock.engine.not_now import may_pass
from penstock.engine.path_counts import events_of
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.stored_columns import StoredColumns
from penstock.engine.verdict import (
    ACCEPTED,
    FailureCause,
    Outcome,
    PolicyVerdict,
    failed,
    refused,
)
from penstock.engine.workers import messages
from penstock.engine.workers.processes.ring_batches import RingBatches, has_message
from penstock.engine.workers.progress import DONE, INTERCEPTING, JUDGING, PREPARING, SharedProgress
from penstock.engine.workers.topic_loading import TopicLoading
from penstock.kafka.error_codes import POLICY_VIOLATION
from penstock.kafka.records.batch import RecordBatch, read_batch
from penstock.kafka.records.errors import UnreadableRecords
from penstock.policy.counting import take_events
from penstock.policy.sharing import has_new_values, put_shared, take_shared
from penstock.queued_output import log_lines_lost, queue_output_of_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.kafka.records.stored import StoredRecords
    from penstock.policy import ClientContext

_BUFFER_BYTES, _BUFFER_KEPT_BYTES = 2**18, 8 * 2**20
_CHAINS_CACHED = 10_000
_BATCHING_S = 0.002
"""A verdict waits this long at most, and until the batch after that is done."""
_AT_ONCE: Final = 32
"""After a batch that took longer, so many verdicts are sent immediately."""
_PR_SET_NO_NEW_PRIVS = 38

_reported = 0
"""The lines of output of which the parent knows that they were lost."""


class WorkerJudge:
    """Reads batches and judges them, by the plan that comes with each.

    Attributes:
        data_in_ring: Returns the bytes of the batch of a ring that is being judged.
    """

    def __init__(
        self,
        configuration: PolicyConfiguration,
        policies: PolicyInstances,
        progress: SharedProgress,
        parent: socket.socket,
    ) -> None:
        self._parent = parent
        self._policies = policies
        self._progress = progress
        self._limit = configuration.decompressed_batch_max_bytes
        self._max_records = configuration.decompressed_batch_max_records
        self._max_bytes = configuration.socket_request_max_bytes
        self._chain = lru_cache(_CHAINS_CACHED)(self._new_chain)
        self._attempt = 0
        self._phase = JUDGING
        self._has_shared = False
        self.data_in_ring: Callable[[], bytes] = bytes
        policies.on_preparing = self._preparing

    def judge(
        self,
        attempt: int,
        plan: bytes,
        version: int,
        partition: int,
        topic_id: bytes,
        dropped_before: bytes,
        client: bytes,
        data: memoryview,
    ) -> PolicyVerdict:
        """Judge what one partition of a Produce request carries."""
        self._attempt = attempt
        self._progress.begin(attempt)
        self._policies.client = _client(client)
        chain_and_batch = self._read(plan, version, data)
        if isinstance(chain_and_batch, PolicyVerdict):
            return chain_and_batch
        chain, batch = chain_and_batch
        if not chain.interceptors and not dropped_before:
            return self._verdict(
                chain, partition, _topic_id(topic_id), batch.records, lambda: batch
            )
        begin = self._progress.begin
        begin(attempt, INTERCEPTING)
        dropped, quarantined = messages.read_positions_before(dropped_before)
        return intercept_and_judge(
            chain,
            partition,
            _topic_id(topic_id),
            batch,
            dropped_before=frozenset(dropped),
            quarantined_before=quarantined,
            on_intercepted=partial(begin, attempt),
            max_bytes=self._max_bytes,
        )

    @property
    def limits(self) -> tuple[int, int]:
        """The most bytes of a batch, decompressed, and its most records."""
        return self._limit, self._max_records

    def judge_in_ring(
        self,
        plan: bytes,
        version: int,
        partition: int,
        topic_id: bytes,
        client: ClientContext | None,
        records: StoredRecords | bytes,
    ) -> PolicyVerdict:
        """Judge a batch of a ring: no policy intercepts it.

        Args:
            plan: Its topic's policies, encoded.
            version: The version of the Produce request.
            partition: The partition's number.
            topic_id: The topic's id; zeros where no policy needs it.
            client: Who sent it; None where no policy takes that.
            records: Or the whole batch, where the ring does not read it.
        """
        self._policies.client = client or NOBODY
        self._has_shared = False
        if isinstance(records, bytes):
            chain_and_batch = self._read(plan, version, records)
            if isinstance(chain_and_batch, PolicyVerdict):
                return chain_and_batch
            chain, batch = chain_and_batch
            records, batch_source = batch.records, lambda: batch
        else:
            batch_source = partial(self._batch_in_ring, version)
            try:
                chain = self._chain(plan)
            except ConfigurationError as error:
                return unusable(TopicPlan.decode(plan), error)
        verdict = self._verdict(chain, partition, _topic_id(topic_id), records, batch_source)
        # Another object is sent to the parent, after what is shared.
        return replace(verdict) if self._has_shared or has_new_values() else verdict

    def _verdict(
        self,
        chain: Chain,
        partition: int,
        topic_id: UUID,
        records: StoredRecords,
        batch_source: Callable[[], RecordBatch],
    ) -> PolicyVerdict:
        if not chain.plan.diverts:
            return chain.judge(partition, topic_id, StoredColumns(records))
        return judge_and_divert(
            chain, partition, topic_id, records, batch_source, max_bytes=self._max_bytes
        )

    def _batch_in_ring(self, version: int) -> RecordBatch:
        """Read the batch of the ring that is being judged: it is stored otherwise than it is."""
        return self._read_batch(version, self.data_in_ring())

    def _read_batch(self, version: int, data: bytes | memoryview) -> RecordBatch:
        return read_batch(
            data,
            api_version=version,
            max_decompressed_bytes=self._limit,
            max_records=self._max_records,
        )

    def _read(
        self, plan: bytes, version: int, data: bytes | memoryview
    ) -> tuple[Chain, RecordBatch] | PolicyVerdict:
        """Return the policies of a topic, and the records of a batch; or why it is refused."""
        try:
            chain = self._chain(plan)
        except ConfigurationError as error:
            return unusable(TopicPlan.decode(plan), error)
        try:
            batch = self._read_batch(version, data)
        except UnreadableRecords as error:
            return refused(error.code, error.message, "")
        return chain, batch

    def _preparing(self, begins: bool) -> None:
        """Run the clock of another deadline while a policy prepares."""
        if begins:
            self._phase = self._progress.current.phase
        else:
            # At once: the next job may end this process.
            share = _shared()
            if share:
                self._has_shared = True
                self._parent.sendall(share)
        self._progress.begin(self._attempt, PREPARING if begins else self._phase)

    @property
    def needs_context(self) -> bool:
        """Whether a policy of topics takes the context of a request."""
        judges = (self._policies.create_topic, self._policies.alter_config)
        return any(judge is not None and judge.needs_context for judge in judges)

    def judge_admin(self, attempt: int, request: messages.AdminRequest) -> PolicyVerdict:
        """Judge a request about a topic."""
        self._progress.begin(attempt)
        policies = self._policies
        if isinstance(request, messages.JudgeTopicCreation):
            judge = policies.create_topic
            return ACCEPTED if judge is None else judge.judge_creation(*request)
        if isinstance(request, messages.JudgeConfigAlteration):
            judge = policies.alter_config
            return ACCEPTED if judge is None else judge.judge_alteration(*request)
        return self._tried(request)

    def _tried(self, request: messages.Trial) -> PolicyVerdict:
        """Return whether the settings of a topic are valid."""
        objection: str | None = None
        name, problem = "", ""
        try:
            if isinstance(request, messages.TryRecordsPolicy):
                name, problem = request.name, "cannot be used"
                self._policies.try_records_policy(request.name)
            else:
                plan = TopicPlan.decode(request.plan.encode())
                name, problem = plan.policy_names, "cannot judge the topic"
                objection = self._policies.try_topic(plan)
        except ConfigurationError as error:
            return failed(name, problem, detail=str(error))
        return ACCEPTED if objection is None else refused(POLICY_VIOLATION, objection, name)

    def counted(self) -> bytes:
        """Frame policies' counts and shared values since the last call; empty if there are none."""
        counts = [*take_events(), *events_of(self._policies.take_path_counts()), *_lost_lines()]
        return (messages.events(counts) if counts else b"") + _shared()

    def retire(self, name: str, topic: str) -> None:
        """Close a topic's instance of a class of KIP-686, which no later batch needs."""
        self._chain.cache_clear()
        complaint = self._policies.retire(name, topic)
        if complaint:
            sys.stderr.write(f"close() failed: {complaint}\n")

    def _new_chain(self, plan: bytes) -> Chain:
        return Chain(TopicPlan.decode(plan), self._policies)


@lru_cache(maxsize=64)
def _client(data: bytes) -> ClientContext:
    return messages.read_client(data)


@lru_cache(maxsize=1024)
def _topic_id(data: bytes) -> UUID:
    return UUID(bytes=data)


def _lost_lines() -> list[tuple[str, str, int]]:
    """Return how many lines of output were lost since the last call, as an event."""
    global _reported
    previous_count, _reported = _reported, log_lines_lost()
    return [("output", "lost", _reported - previous_count)] if _reported > previous_count else []


def _shared() -> bytes:
    """Frame the shared values of policies since the last call; empty if there are none."""
    return b"".join(messages.shared(take_shared()))


class _Verdicts:
    """Verdicts about batches, and counts of policies, gathered for one system call."""

    def __init__(self, parent: socket.socket, count_source: Callable[[], bytes]) -> None:
        self._parent = parent
        self._count_source = count_source
        self._frames: list[bytes] = []
        self._first_s = 0.0
        self._at_once = 0

    def add(self, verdict: bytes, took_s: float, now: float) -> bool:
        """Gather a verdict; return whether the gathered verdicts are to be sent."""
        if not self._frames:
            self._first_s = now
        self._frames.append(verdict)
        if took_s > _BATCHING_S:
            self._at_once = _AT_ONCE
        elif self._at_once:
            self._at_once -= 1
        return self._at_once > 0 or now - self._first_s > _BATCHING_S

    def send(self) -> None:
        """Send the collected verdicts."""
        count_frames = self._count_source()
        if self._frames or count_frames:
            self._parent.sendall(count_frames + b"".join(self._frames))
            self._frames.clear()


def main() -> None:
    """Run until the parent sends CLOSE or ends."""
    queue_output_of_worker()
    end_with_parent()  # elsewhere than on Linux, it ends at the next read
    _gain_no_privileges()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = socket.socket(fileno=int(sys.argv[1]))
    progress = SharedProgress(int(sys.argv[2]))
    ring = _ring_of(sys.argv[3:], parent)
    inbox = _messages(parent, ring)
    first = next(inbox, None)
    if first is None or first[0] != messages.LOAD:
        return
    encoded, names = json.loads(bytes(first[1]))
    configuration = PolicyConfiguration.decode(encoded)
    _limit_memory(configuration.policy_worker_memory_max_bytes)
    try:
        policies = PolicyInstances(configuration, names)
    except ConfigurationError as error:
        parent.sendall(messages.load_failed(str(error), may_pass=may_pass(error)))
        return
    # Thousands of records live for the time of one batch: collect seldom, never the rest.
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
    judge = WorkerJudge(configuration, policies, progress, parent)
    parent.sendall(
        messages.ready(
            policies.patterns,
            needs_context=judge.needs_context,
            loads_topics=policies.loads_topics,
            takes_client=policies.takes_client,
            drops_records=policies.drops_records,
        )
    )
    policies.on_records_class = lambda name: parent.sendall(
        messages.records_class(name, takes_client=name in policies.takes_client)
    )
    loading = TopicLoading(policies, progress.load)
    if ring is not None:
        ring.begin(judge)
    messages_in_turn = _loading_when_idle(inbox, loading, judge, parent, ring)
    _serve(messages_in_turn, judge, loading, progress, parent, ring)
    for complaint in policies.close():
        sys.stderr.write(f"close() failed: {complaint}\n")


def _loading_when_idle(
    inbox: Iterator[tuple[int, memoryview, bool]],
    loading: TopicLoading,
    judge: WorkerJudge,
    parent: socket.socket,
    ring: RingBatches | None,
) -> Iterator[tuple[int, memoryview, bool]]:
    """Yield messages; load topics while there are no messages."""
    for message in inbox:
        yield message
        more = message[2]
        while loading and not more:
            report = loading.load_next()
            if report is not None:
                parent.sendall(messages.topics_loaded(report) + judge.counted())
            if ring is not None:
                ring.judge_some()
            more = has_message(parent)


def _serve(
    inbox: Iterator[tuple[int, memoryview, bool]],
    judge: WorkerJudge,
    loading: TopicLoading,
    progress: SharedProgress,
    parent: socket.socket,
    ring: RingBatches | None = None,
) -> None:
    """Handle the parent's messages in order, until there are no more."""
    verdicts = _Verdicts(parent, judge.counted)
    for kind, body, more in inbox:
        if kind == messages.JUDGE:
            attempt = messages.JUDGE_HEADER.unpack_from(body)[0]
            if attempt > progress.skipped:
                began = time.monotonic()
                decided = _judge_batch(judge, body)
                progress.begin(attempt, DONE)
                now = time.monotonic()
                framed = messages.verdict(attempt, decided, now - began)
                waited = verdicts.add(framed, now - began, now)
                if decided.cause is FailureCause.OUT_OF_MEMORY:
                    break
                if waited or decided.outcome is not Outcome.ACCEPTED:
                    verdicts.send()
            if not more or ring is not None:
                verdicts.send()
            if ring is not None:
                ring.judge_some()
            continue
        verdicts.send()
        if kind == messages.JUDGE_ADMIN:
            _judge_admin(judge, body, progress, parent)
        elif not _handle(kind, body, judge, loading, ring):
            break
    verdicts.send()


def _handle(
    kind: int,
    body: memoryview,
    judge: WorkerJudge,
    loading: TopicLoading,
    ring: RingBatches | None,
) -> bool:
    """Handle a message that is answered later or never; return whether it is such a message."""
    if kind == messages.RETIRE:
        judge.retire(*json.loads(bytes(body)))
    elif kind == messages.SHARED:
        put_shared(messages.read_shared(body))
    elif kind == messages.MARK and ring is not None:
        ring.note_handled(int.from_bytes(body, "big"))
    elif kind == messages.LOAD_TOPICS:
        loading.add(messages.read_load_topics(bytes(body)))
    else:
        return False
    return True


def _judge_admin(
    judge: WorkerJudge, body: memoryview, progress: SharedProgress, parent: socket.socket
) -> None:
    attempt, request = messages.read_judge_admin(bytes(body))
    if attempt > progress.skipped:
        began = time.monotonic()
        decided = judge.judge_admin(attempt, request)
        progress.begin(attempt, DONE)
        took_s = time.monotonic() - began
        parent.sendall(judge.counted() + messages.verdict(attempt, decided, took_s))


def _judge_batch(judge: WorkerJudge, body: memoryview) -> PolicyVerdict:
    header = messages.JUDGE_HEADER
    attempt, version, partition, topic_id, *sizes = header.unpack_from(body)
    plan_size, dropped_size, client_size = sizes
    plan_end = header.size + plan_size
    dropped_end = plan_end + dropped_size
    client_end = dropped_end + client_size
    plan = bytes(body[header.size : plan_end])
    dropped = bytes(body[plan_end:dropped_end])
    client = bytes(body[dropped_end:client_end]) if client_size else b""
    data = body[client_end:]
    try:
        return judge.judge(attempt, plan, version, partition, topic_id, dropped, client, data)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of native code is no Exception
        return inapplicable(error)


def _ring_of(arguments: list[str], parent: socket.socket) -> RingBatches | None:
    """Return the ring whose descriptors are in the arguments of the process."""
    if not arguments:
        return None
    memory, work, *outcomes = map(int, arguments)
    return RingBatches(_native.RingReader(memory, work, outcomes), parent)


def _messages(
    parent: socket.socket, ring: RingBatches | None = None
) -> Iterator[tuple[int, memoryview, bool]]:
    """Read messages: kind, body, and whether another message has already been received.

    A body is valid until the next message. One system call reads all that has been sent, often
    several messages. While there are no messages, the batches of a ring are judged.
    """
    prefix = messages.PREFIX
    buffer = bytearray(_BUFFER_BYTES)
    start = end = 0
    while True:
        needed = prefix.size
        while end - start >= needed:
            length, kind = prefix.unpack_from(buffer, start)
            needed = prefix.size - 1 + length
            if end - start < needed:
                break
            with memoryview(buffer) as whole, whole[start + prefix.size : start + needed] as body:
                start += needed
                more = end - start >= prefix.size and end - start >= (
                    prefix.size - 1 + prefix.unpack_from(buffer, start)[0]
                )
                yield kind, body, more
            needed = prefix.size
        if start or needed > len(buffer):
            partial_message = buffer[start:end]
            if needed > len(buffer) or len(buffer) > _BUFFER_KEPT_BYTES:
                buffer = bytearray(max(needed, _BUFFER_BYTES))
            start, end = 0, len(partial_message)
            buffer[:end] = partial_message
        if ring is not None:
            ring.judge_until_message()
            if ring.is_ending:
                return
        with memoryview(buffer)[end:] as room:
            count = parent.recv_into(room)
        if not count:
            return
        end += count


def _limit_memory(limit: int) -> None:
    """Limit the memory of this worker.

    The number of its processes stays unlimited: RLIMIT_NPROC counts all processes and threads of
    the user, so gateways that share a user would keep each other from starting workers. `TasksMax=`
    of systemd and a pod's limit of PIDs count those of one gateway.
    """
    if limit:
        import resource  # noqa: PLC0415 - not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _gain_no_privileges() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


if __name__ == "__main__":
    main()
