"""A broker that idempotent producers write to, as a model.

It does what Kafka (ProducerAppendInfo.java, ProducerStateEntry.java) does with one
partition, as far as it affects stored records, and the responses to clients.
"""

from penstock.kafka.wire.requests.leaders import Leader
from tests.gateway.model.producer_model import after, distance


class Append:
    """One batch in a leader's log; its answer comes when the followers have it."""

    __slots__ = ("code", "leader_epoch", "records", "state_after", "state_before")

    def __init__(self, records, state_before, leader_epoch):
        self.records = records
        self.leader_epoch = leader_epoch
        self.state_before = state_before
        self.state_after = state_before
        self.code: int | None = None


class BrokerModel:
    """One partition, with leaders that change.

    A leader responds to a batch when it is replicated. If another leader is elected before that, the
    producer gets NOT_LEADER_OR_FOLLOWER, and the batch is lost once the earlier leader has fetched
    from the new leader. If the earlier leader is elected again before that, it still has the batch.
    """

    def __init__(self):
        self.log: list[int] = []
        self.leader = 0
        self._epoch = 0
        self._has_committed = False
        self._state: dict[int, tuple[int, tuple]] = {}
        self._tail: list[tuple[int, Append]] = []
        self._left_behind: list[tuple[int, Append]] = []

    def has_stored(self, producer_id: int, number: int) -> None:
        """Begin with a record of a producer already stored, outside of this model's log."""
        self._state[producer_id] = (0, ((number, number),))

    def knows(self, producer_id: int) -> bool:
        """Whether a producer's numbers are checked: a first batch may have any."""
        return producer_id in self._state

    def has_replicated(self, producer_id: int) -> bool:
        """Whether another leader would know a producer."""
        first = next((done for writer, done in self._tail if writer == producer_id), None)
        return self.knows(producer_id) and (first is None or first.state_before is not None)

    def all_records(self) -> set[int]:
        """The records in the leader's log."""
        return {*self.log, *(record for _, done in self._tail for record in done.records)}

    def last_sequence(self, producer_id: int, epoch: int) -> int | None:
        """The response to DescribeProducers."""
        known = self._state.get(producer_id)
        if known is None or known[0] != epoch or not known[1]:
            return None
        return known[1][-1][1]

    def as_leader(self) -> Leader:
        """The response of the leader about itself."""
        return Leader(self._epoch, self._has_committed or not self._epoch)

    def is_before_last(self, producer_id: int, epoch: int, first: int, records: list[int]) -> bool:
        """Whether a batch is stored, and ends before the last batches that are recognized.

        Of a batch that is retried after it was judged otherwise, some records may not be stored.
        """
        known_epoch, batches = self._state.get(producer_id, (-1, ()))
        return (
            known_epoch == epoch
            and bool(batches)
            and distance(after(first, len(records) - 1), batches[0][0]) > 0
            and not self.all_records().isdisjoint(records)
        )

    def forget(self, producer_id: int) -> None:
        """Expire the state of a producer (producer.id.expiration.ms)."""
        self._state.pop(producer_id, None)

    def mark(self, producer_id: int, epoch: int) -> None:
        """Write the marker that ends a transaction, at the end of the log; it is replicated."""
        self.replicate(len(self._tail))
        self._has_committed = True
        known = self._state.get(producer_id)
        if known is None or known[0] < epoch:
            self._state[producer_id] = (epoch, ())

    def append(self, producer_id: int, epoch: int, first: int, records: list[int]) -> Append:
        """Append a batch; its code is available at once if nothing had to be replicated."""
        before = self._state.get(producer_id)
        done = Append(records, before, self._epoch)
        last = after(first, len(records) - 1)
        known_epoch, batches = before or (-1, ())
        if epoch < known_epoch:
            done.code = 47
        elif epoch == known_epoch and (first, last) in batches:
            # A retry is answered when its original is.
            self._tail.append((producer_id, done))
            done.records = []
        elif before is not None and first != (
            after(batches[-1][1], 1) if batches and epoch == known_epoch else 0
        ):
            done.code = 45
        else:
            kept = batches if epoch == known_epoch else ()
            done.state_after = self._state[producer_id] = (epoch, (*kept, (first, last))[-5:])
            self._tail.append((producer_id, done))
        return done

    def replicate(self, count: int) -> None:
        """Let the followers catch up by some batches, and answer those."""
        self._left_behind.clear()
        for _, done in self._tail[:count]:
            self.log += done.records
            self._has_committed |= bool(done.records) and done.leader_epoch == self._epoch
            if done.code is None:
                done.code = 0
        del self._tail[:count]

    def move(self, *, returns: bool = False) -> None:
        """Elect another leader: records that were not replicated are lost.

        Args:
            returns: Whether the leader before may lead again, with what only it has.
        """
        self.leader = 1 - self.leader
        self._epoch += 1
        self._has_committed = False
        left_behind = list(self._tail)
        while self._tail:
            producer_id, done = self._tail.pop()
            if done.records:
                if done.state_before is None:
                    self._state.pop(producer_id, None)
                else:
                    self._state[producer_id] = done.state_before
            if done.code is None:
                done.code = 6
        if returns:
            for producer_id, done in self._left_behind:
                self._tail.append((producer_id, done))
                if done.records:
                    self._state[producer_id] = done.state_after
        self._left_behind = left_behind
