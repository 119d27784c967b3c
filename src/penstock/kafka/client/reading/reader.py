"""Reads a range of offsets of a partition as raw batches.

One response is read ahead: it is requested when the response before was received, and processed
while it is under way. After a retriable failure (a leader that moved, a lost connection), the
metadata are requested again, and the fetch is repeated at the same position, with pauses, for
`default.api.timeout.ms` without progress. A batch is returned once.

A reader that follows a log calls `poll` again and again, also at the end of the log, and after
errors.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.kafka.client.errors import (
    ClientError,
    NotReadableYetError,
    ResponseError,
    TopicRecreatedError,
    TruncatedError,
    UnreadableBatchError,
    response_error,
)
from penstock.kafka.client.protocol.fetch import (
    API_KEY,
    BY_ID,
    BY_NAME,
    FetchPosition,
    FetchResult,
    fetch_request,
    read_fetch,
)
from penstock.kafka.client.protocol.log_offsets import (
    EARLIEST,
    LATEST,
    LogPartition,
    Sends,
    epoch_end,
    list_offset,
    local_log_start,
)
from penstock.kafka.client.reading.batches import FetchedBatch, Selection, select
from penstock.kafka.client.reading.fetch_sizes import FetchSizes
from penstock.kafka.client.reading.offset_ranges import LostOffsets, WantedRange
from penstock.kafka.wire.errors import UNKNOWN_SERVER_ERROR
from penstock.kafka.wire.names import NO_ID, is_another

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.kafka.client.connections.metadata import PartitionLeader, TopicLeaders
    from penstock.kafka.client.connections.retries import Retries
    from penstock.kafka.client.connections.settings import Settings
    from penstock.kafka.client.protocol.raw_requests import RawRequest, RawResponse
    from penstock.kafka.records.uncompressed import BatchLimits

_OFFSET_OUT_OF_RANGE: Final = 1
_WORTH_A_RETRY: Final = frozenset({_OFFSET_OUT_OF_RANGE, UNKNOWN_SERVER_ERROR})
_CHANNEL: Final = "fetch"
_NONE: Final = -1


class PendingFetch(Protocol):
    """A response that is under way."""

    def wait(self) -> RawResponse: ...

    def abandon(self) -> None: ...


class ReadingConnection(Sends, Protocol):
    """The part of `Connection` that a reader uses."""

    @property
    def settings(self) -> Settings: ...

    def topic(self, name: str, *, refresh: bool = False) -> TopicLeaders: ...

    def refresh(self, topic: str) -> None: ...

    def leader(self, topic: str, partition: int) -> PartitionLeader: ...

    def begin(self, node: int, request: RawRequest, *, channel: str) -> PendingFetch: ...

    def retries(self) -> Retries: ...


class _Pending(NamedTuple):
    response: PendingFetch
    version: int


class _Response(NamedTuple):
    """A response of which parts are returned: its size in bytes, and its first offset."""

    size: int
    position: int


class Follows(NamedTuple):
    """How a reader follows a log.

    Attributes:
        channel: Its own, since a broker lets its requests wait for records.
        max_wait_ms: How long; None for `fetch.max.wait.ms`.
    """

    channel: str
    max_wait_ms: int | None = None


class RangeReader:
    """Reads one range, once."""

    def __init__(
        self,
        cluster: ReadingConnection,
        offsets: WantedRange,
        *,
        on_lost: Callable[[LostOffsets], None],
        committed: bool = True,
        merged_within: BatchLimits | None = None,
        follows: Follows | None = None,
        retries: Retries | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            cluster: A `Connection`.
            offsets: What to read.
            on_lost: Called with offsets of the range that the log does not have any more; may
                raise, which ends the reading.
            committed: Leave out records of aborted transactions, and stay below the last stable
                offset; otherwise everything but control batches is read.
            merged_within: See `select`.
            follows: Wait for records at the end of the log, which is no error then.
            retries: Begin again with each success; those of the connection by default.
            clock: Returns seconds that never go back.
            sleep: Waits for seconds.
        """
        self._cluster = cluster
        self._offsets = offsets
        self._partition = LogPartition(offsets.topic, offsets.partition)
        self._on_lost = on_lost
        self._reads_committed = committed
        self._merged_within = merged_within
        self._clock = clock
        self._sleep = sleep
        self._position = offsets.first
        self._topic_id = offsets.topic_id
        self._follows = follows
        self._retries = retries or cluster.retries()
        self._channel = follows.channel if follows is not None else _CHANNEL
        self._max_wait_ms = cluster.settings.fetch_max_wait_ms
        if follows is not None and follows.max_wait_ms is not None:
            self._max_wait_ms = follows.max_wait_ms
        self._sizes = FetchSizes(cluster.settings.fetch_max_bytes)
        self._pending: _Pending | None = None
        self._parts: Iterator[Selection] = iter(())
        self._response = _Response(0, self._position)
        self._fetched_epoch = _NONE
        self._validated_epoch = _NONE
        # State is read from the leader: a reader that follows cannot tell a follower that lags
        # from the end of the log, and would stay behind with it.
        self._rack = "" if follows is not None else cluster.settings.rack
        self._replica: int | None = None
        self._served_by_id: dict[int, bool] = {}
        self._is_by_name = False
        self._not_before = 0.0
        self._empty_responses = 0

    def __iter__(self) -> Iterator[FetchedBatch]:
        """Return the batches in order.

        Raises:
            DeniedError: The ACLs do not allow it.
            TopicRecreatedError: The topic was created again with the same name.
            TruncatedError: The log ends before offsets that it had.
            NotReadableYetError: The log, or its last stable offset, does not come to the end of
                the range in time.
            UnreadableBatchError: A batch is damaged.
            ClientError: The cluster cannot be reached in time, or refuses.
            WireError: A response cannot be read.
        """
        try:
            while self._position < self._offsets.end:
                if batches := self.poll():
                    yield from batches
                    del batches  # before others are decompressed
                    self._retries.progress()  # the time that batches take is the caller's
            self._check_id_again()
        finally:
            self.close()

    @property
    def position(self) -> int:
        """The next offset to read."""
        return self._position

    def close(self) -> None:
        """Ignore the response that is under way."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.response.abandon()

    def poll(self) -> list[FetchedBatch]:
        """Return the batches of the next part of a response; none after a retried error.

        Raises:
            ClientError: As for the iteration; the next call tries again.
            UnreadableBatchError: A batch is damaged.
            WireError: A response cannot be read.
        """
        try:
            selection = next(self._parts, None) or self._read()
        except ClientError as error:
            self._recover(error)
            return []
        except UnreadableBatchError as error:
            raise UnreadableBatchError(error.offset, error.reason, str(self._partition)) from None
        if selection is None:
            return []
        self._fetched_epoch = selection.leader_epoch
        self._move(selection.position)
        if selection.is_last:
            self._end_response(selection)
        return selection.batches

    def _read(self) -> Selection | None:
        """Return the first part of the next response; None if it has no batches."""
        if self._pending is None:
            self._pending = self._begin()
        pending, self._pending = self._pending, None
        return self._take(pending)

    def _end_response(self, selection: Selection) -> None:
        """Take the sizes of a response with its last part, and request the next."""
        self._parts = iter(())  # which releases the response
        size, position = self._response
        self._sizes.learn(size, selection.position - position, selection)
        if self._may_read_ahead():
            # An error is raised again when the response is read.
            with contextlib.suppress(ClientError):
                self._pending = self._begin()

    def _may_read_ahead(self) -> bool:
        return (
            self._position < self._offsets.end
            and self._not_before <= self._clock()
            and self._sizes.is_within_limit
        )

    def _begin(self) -> _Pending:
        """Send the fetch request at the position."""
        pause = self._not_before - self._clock()
        if pause > 0:
            self._sleep(pause)
        leader = self._leader()
        node = leader.node if self._replica is None else self._replica
        topic = self._topic_id if self._is_served_by_id(node) else self._offsets.topic
        fetch = FetchPosition(
            topic,
            self._offsets.partition,
            self._position,
            leader.epoch,
            self._sizes.wanted(self._offsets.end - self._position),
            self._max_wait_ms,
            self._reads_committed,
            self._rack,
        )
        request = fetch_request(fetch)
        self._is_by_name |= request.version == BY_NAME
        pending = self._cluster.begin(node, request, channel=self._channel)
        return _Pending(pending, request.version)

    def _is_served_by_id(self, node: int) -> bool:
        if self._topic_id == NO_ID:
            return False
        if node not in self._served_by_id:
            self._served_by_id[node] = BY_ID in self._cluster.versions(
                node, API_KEY, channel=self._channel
            )
        return self._served_by_id[node]

    def _leader(self) -> PartitionLeader:
        """Return the leader; after an election, check first that its log is complete."""
        topic = self._cluster.topic(self._offsets.topic)
        if is_another(self._topic_id, topic.topic_id):
            # The metadata can be from before it was created again.
            topic = self._cluster.topic(self._offsets.topic, refresh=True)
        self._check_id(topic)
        leader = self._cluster.leader(self._offsets.topic, self._offsets.partition)
        if leader.epoch != self._validated_epoch and self._fetched_epoch != _NONE:
            end_of_epoch = epoch_end(self._cluster, leader, self._partition, self._fetched_epoch)
            if end_of_epoch.end < self._position:
                raise self._truncated(end_of_epoch.end)
        self._validated_epoch = leader.epoch
        return leader

    def _check_id(self, topic: TopicLeaders) -> None:
        if self._topic_id == NO_ID:
            self._topic_id = topic.topic_id
        elif is_another(self._topic_id, topic.topic_id):
            raise TopicRecreatedError(
                f"topic {topic.name} was deleted and created again while it was to be read"
            )

    def _check_id_again(self) -> None:
        """Check that it was the same topic all the time, where fetch requests did not say which."""
        while self._is_by_name and self._topic_id != NO_ID:
            try:
                self._check_id(self._cluster.topic(self._offsets.topic, refresh=True))
                return
            except ClientError as error:
                self._retries.after(error)

    def _take(self, pending: _Pending) -> Selection | None:
        """Wait for a response; return its first part, or None if it has no batches."""
        fetched = read_fetch(pending.response.wait(), pending.version)
        self._not_before = self._clock() + fetched.throttle_s
        if fetched.code == _OFFSET_OUT_OF_RANGE and self._replica is None:
            self._find_position()
            return None
        if fetched.code:
            raise response_error(fetched.code, str(self._partition))
        if not fetched.records:
            self._take_nothing(fetched)
            return None
        self._response = _Response(len(fetched.records), self._position)
        self._parts = select(
            fetched.records,
            self._position,
            self._offsets.end,
            fetched.aborted_transactions if self._reads_committed else None,
            self._merged_within,
        )
        return next(self._parts)

    def _move(self, position: int) -> None:
        self._position = position
        self._empty_responses = 0
        self._retries.progress()

    def _take_nothing(self, fetched: FetchResult) -> None:
        """Find out why a response has no records."""
        if fetched.throttle_s and fetched.is_empty:
            self._retries.progress()
            return
        if fetched.preferred_replica >= 0 and self._replica is None and self._rack:
            self._replica = fetched.preferred_replica
            return
        limit = fetched.last_stable_offset if self._reads_committed else fetched.high_watermark
        if self._follows is not None and limit <= self._position:
            self._retries.progress()
            return
        if self._replica is not None or limit <= self._position:
            what = "last stable offset" if self._reads_committed else "high watermark"
            raise NotReadableYetError(
                f"{self._partition}: the offsets from {self._position} up to "
                f"{self._offsets.end} cannot be read yet, the {what} is {limit}"
            )
        self._empty_responses += 1
        if self._empty_responses > 1:
            self._skip_gap(limit)

    def _skip_gap(self, limit: int) -> None:
        """Go to the limit: compaction removed all between.

        A broker reads its limit before its log, so a record that is missing in the log below the
        limit does not exist; unless it is in a tier, which may be slow.
        """
        if local_log_start(self._cluster, self._leader(), self._partition) > self._position:
            raise NotReadableYetError(
                f"{self._partition}: the offsets from {self._position} on are in a tier that does "
                "not return them"
            )
        self._fetched_epoch = _NONE
        self._move(min(limit, self._offsets.end))

    def _find_position(self) -> None:
        """Go on where the log starts now, if records were removed from its start."""
        self._cluster.refresh(self._offsets.topic)
        leader = self._leader()
        start = list_offset(self._cluster, leader, self._partition, EARLIEST)
        if start > self._position:
            first, self._fetched_epoch = self._position, _NONE
            self._move(min(start, self._offsets.end))
            self._on_lost(LostOffsets(*self._partition, first, self._position))
            return
        end = list_offset(self._cluster, leader, self._partition, LATEST)
        if end < self._position:
            raise self._truncated(end)
        raise NotReadableYetError(f"{self._partition}: offset {self._position} was out of range")

    def _truncated(self, end: int) -> TruncatedError:
        return TruncatedError(
            f"{self._partition}: the log was truncated to offset {max(end, 0)}, before "
            f"{self._position}, where reading had come to (an unclean leader election?)"
        )

    def _recover(self, error: ClientError) -> None:
        """Prepare another attempt; raises the error if it is final, or the time is over."""
        code = error.code if isinstance(error, ResponseError) else 0
        self._cluster.refresh(self._offsets.topic)
        if self._replica is not None and (error.retriable or code in _WORTH_A_RETRY):
            # The leader has everything. Replicas are not used again.
            self._replica, self._rack = None, ""
            return
        if code == UNKNOWN_SERVER_ERROR:
            error.retriable = True
        self._retries.after(error)
