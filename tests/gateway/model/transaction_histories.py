"""Histories of transactions: through several gateways, fenced, timed out, without a record.

Commits go through the real handler of EndTxn. `World` has the batches.
"""

from dataclasses import replace

from penstock.gateway.context.handler_context import HandlerContext
from penstock.gateway.produce.end_txn import end_txn
from penstock.kafka.wire.client_requests import read_request
from penstock.kafka.wire.slices import finish
from tests.gateway.model.coordinator_model import (
    CONCURRENT_TRANSACTIONS,
    ONGOING,
    Coordinator,
    end_request,
    end_response,
)
from tests.gateway.model.histories import FINAL_TURN_S, FINAL_TURNS, FINAL_VERDICT, World
from tests.gateway.model.history_features import PLAIN, Features
from tests.gateway.model.producer_model import Transactional

LOADING = 14


class LostError(Exception):
    """A connection broke, before or after the coordinator had a request."""


class Context(HandlerContext):
    """The context of the handler for a request, with a coordinator that answers at once, or not."""

    def __init__(self, frame, answer):
        self.request = read_request(frame)
        self._answer = answer
        self._transform = self._body = None

    async def send(self, make, **options):
        return self._answer(make(1))

    async def in_turns(self, slices):
        return finish(slices)


def through_gateway(frame: bytes, answer) -> bytes:
    """Return the answer of a gateway to an EndTxn request."""
    coroutine = end_txn(Context(frame, answer))
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the handler waits for another response")


class TransactionWorld(World):
    """Two transactional producers; in some histories the second replaces the first."""

    client_kinds = (Transactional, Transactional)

    def __init__(
        self,
        seed: object,
        *,
        direct: bool = False,
        features: Features = PLAIN,
        version: int | None = None,
    ) -> None:
        # Batches that are given up are aborted here; librdkafka awaits what is on its way.
        features = replace(features, gives_up=False, takes_later=False, forges=False)
        super().__init__(seed, direct=direct, features=features)
        more = self.more
        self.version = version or more.choice((1, 2))
        self.is_fenced = more.random() < 0.3
        self.fates: dict[int, bool] = {}
        self.fenced: set[int] = set()
        self.coordinators = [self._coordinator(client.producer_id) for client in self.clients]
        for client in self.clients:  # its epoch is 0 and its numbers begin again
            client.next = client.next_ack = client.next_err = 0
            self.broker.forget(client.producer_id)
        self.idle = [False, self.is_fenced]

    def _coordinator(self, producer_id):
        return Coordinator(
            producer_id,
            version=self.version,
            mark=lambda epoch, committed: self.mark(producer_id, epoch, committed),
        )

    @property
    def has_order(self) -> bool:
        """Batches of two producers with one id may alternate if one producer replaces the other."""
        return super().has_order and not self.is_fenced

    @property
    def kind(self) -> str:
        """The kind of the history."""
        fenced = " with fencing" if self.is_fenced else ""
        return f"transactions {self.version}{fenced}, {super().kind}"

    def mark(self, producer_id: int, epoch: int, committed: bool) -> None:
        """End the transaction of a producer at the partition."""
        self.broker.mark(producer_id, epoch)
        for record in self.broker.log:
            if self._producer_of(record) == producer_id:
                self.fates.setdefault(record, committed)

    def _producer_of(self, record):
        return self.clients[record // 1_000_000].producer_id

    def _client(self, request):
        return self.clients[request.attempt.records[0] // 1_000_000]

    def coordinator_of(self, who: int) -> Coordinator:
        """Return the owner of a client's transactional id."""
        return self.coordinators[self.clients[who].producer_id - 1000]

    def _judge(self, request, gateway, known):
        """A batch with a record that would become a dead letter is refused.

        That stays so: at a broker that knows nothing of the producer others may have passed it, as
        without a gateway. With a success of theirs, librdkafka takes it for stored, too.
        """
        super()._judge(request, gateway, known)
        records = tuple(request.attempt.records)
        if request.quarantined or self.verdicts.get(records) == FINAL_VERDICT:
            self.verdicts[records] = FINAL_VERDICT
            request.verdict, request.dropped, request.quarantined = FINAL_VERDICT, (), ()

    def _check_order(self, request, message):
        """A client whose transaction was ended by others gets any error."""
        if self.features.quarantines:
            return
        if request.attempt.records[0] // 1_000_000 not in self.fenced:
            super()._check_order(request, message)

    # What may happen

    def produce(self, who: int) -> None:
        """A client begins a transaction, or continues with it."""
        client, coordinator = self.clients[who], self.coordinator_of(who)
        if self.idle[who] or client.fatal:
            return
        if self.version == 1 and not client.open and not client.closing:
            if coordinator.epoch != client.epoch:
                client.fatal = "90 for a partition that is added"
                return
            coordinator.begin()
        super().produce(who)

    def _at_broker(self, connection, request, first, records):
        coordinator = self.coordinators[request.key.producer_id - 1000]
        if connection.leader == self.broker.leader:
            if request.attempt.epoch != coordinator.epoch:
                request.code = 47
                return
            if self.version == 2:
                coordinator.begin()
            elif coordinator.state != ONGOING:
                request.code = 48
                return
        super()._at_broker(connection, request, first, records)

    def happen(self) -> None:
        """Cause an event of transactions."""
        super().happen()
        step, who = self.more.random(), self.more.randrange(2)
        client = self.clients[who]
        if step < 0.06:
            client.closing = client.closing or bool(client.open)
        elif step < 0.3:
            self.end(who)
        elif step < 0.305:
            self.time_out(self.coordinator_of(who))
        elif step < 0.32 and self.idle[1]:
            self.take_over()

    def time_out(self, coordinator: Coordinator) -> None:
        """A transaction is open for too long."""
        coordinator.abort()
        self.fenced |= {at for at in (0, 1) if self.coordinator_of(at) is coordinator}

    def take_over(self) -> None:
        """Another client begins with the transactional id of the first client, which is fenced."""
        first, second = self.clients
        second.producer_id = first.producer_id
        second.epoch = self.coordinators[0].begin_producer()
        self.idle[1] = False
        self.fenced.add(0)

    def end(self, who: int) -> None:
        """A client ends its transaction, through any gateway; the answer may be lost."""
        client = self.clients[who]
        if client.fatal or self.idle[who] or (not client.open and client.ending is None):
            return
        if client.bump:
            client.closing = True
        if not client.wants_to_end():
            return
        if client.ending is None:
            client.ending = not client.bump and self.more.random() < 0.8
        try:
            code, epoch = self._end(client, self.coordinator_of(who))
        except LostError:
            return
        if code == 0:
            client.ended(epoch)
        elif code not in {LOADING, CONCURRENT_TRANSACTIONS}:
            client.fatal = f"{code} for the end of a transaction, {client.ending}"

    def _end(self, client, coordinator):
        if self.version == 1:
            code = coordinator.end(client.epoch, committed=client.ending)
            if not code and client.bump:
                code = coordinator.next_epoch(client.epoch)
            return code, coordinator.epoch
        frame = end_request(client.producer_id, client.epoch, committed=client.ending)
        if self.direct:
            response = self._coordinate(frame, coordinator)
        else:
            response = through_gateway(
                frame, lambda request: self._coordinate(request, coordinator)
            )
        found = end_response(response)
        return int(found.error_code), found.producer_epoch

    def _coordinate(self, frame, coordinator):
        """Let a coordinator answer; a new producer or its time limit may come in between."""
        chance = self.more.random()
        if chance < 0.03:
            raise LostError
        if 0.06 < chance < 0.08:
            self.time_out(coordinator)
        elif 0.08 < chance < 0.1 and self.idle[1]:
            self.take_over()
        answered = coordinator.answer(frame)
        if chance < 0.06:
            raise LostError
        return answered

    def expire(self) -> None:
        """Expire nothing: after days, a coordinator would forget its producers, too."""

    # The end

    def finish(self) -> None:
        """Complete all pending events."""
        for gateway in self.gateways:
            gateway.is_cut_off = gateway.is_cut_off_from_letters = False
        for _ in range(FINAL_TURNS):
            self.now += FINAL_TURN_S
            for who, client in enumerate(self.clients):
                self.send_all(who)
                client.closing = client.closing or bool(client.open)
                self.end(who)
            if all(client.fatal or not client.open for client in self.clients):
                break
        self.check()

    def check(self) -> None:
        """Compare the committed records with the results that the applications got."""
        if self.shared:
            self.follow()
        assert not self.dead.ids, "dead letters of transactions"
        log = self.broker.log
        for who, client in enumerate(self.clients):
            own = [batch for batch in log if batch // 1_000_000 == who]
            visible = [transaction for transaction in own if self.fates.get(transaction)]
            for batches in client.committed:
                for batch in batches:
                    assert self._has_its_result(batch, set(visible)), f"lost: {batch}"
            for batches in client.aborted:
                there = {record for batch in batches for record in batch.records} & set(visible)
                assert not there, f"aborted, and committed: {there}"
            if self.forgetful:
                continue
            assert len(own) == len(set(own)), "stored twice"
            assert visible == sorted(visible), "out of order"
            if (
                who not in self.fenced
            ):  # the coordinator reports it to such a client, if nothing else does
                assert not client.fatal, client.fatal
                assert not client.open, f"stuck: {client}"
