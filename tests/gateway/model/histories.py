"""Histories of producers, gateways that drop their records, and a broker; by chance alone.

Everything may be lost, late, or overtaken between them. What the gateway does is done by the
real `Producers` (`gateway_model`).
"""

import random
from dataclasses import replace
from typing import NamedTuple

from penstock.gateway.produce.producer_state.known_producers import EXPIRATION_S
from penstock.gateway.produce.producer_state.last_interceptors import (
    Interceptors,
    KeptInterceptors,
    are_as_before,
)
from penstock.gateway.produce.producer_state.letters import Quarantined
from penstock.gateway.produce.producer_state.producer.batch import Batch, State, Stored
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from tests.gateway.model.broker_model import BrokerModel
from tests.gateway.model.gateway_model import (
    Connection,
    DeadLetters,
    Gateway,
    KeptLog,
    Request,
    packed,
    unpacked,
)
from tests.gateway.model.history_features import PLAIN, Features
from tests.gateway.model.producer_model import (
    IN_FLIGHT,
    NUMBERS,
    TIMED_OUT,
    Java,
    Librdkafka,
    Producer,
)

FINAL_VERDICT = 87
STARTS = (0, 0, NUMBERS - 7, NUMBERS - 1, 12)
FOLLOWED_MOST = 60
DOUBTED_S = 601.0
CALMING_TURNS = 100
FINAL_TURNS = 400
FINAL_TURN_S = 1.0
FORGED = 1_000_000_000
"""The first of the records that a client sends instead of others: all of them are bad."""
RUN = 12
"""With runs, all of so many successive records are dropped, or none."""
APPENDED = (7, 20)
"""The errors of a broker for batches that it has appended: timeout, too few replicas."""
SHARED_STARTS = (0, 0, 12)
"""A batch at 0 that moves to another gateway is assumed to be the first, also if it is the batch
after 2**31 records: to query the broker for every new producer would cost more."""


class Decision(NamedTuple):
    """The decision about a batch in an epoch: which records are kept, or become letters."""

    epoch: int
    kept: frozenset[int]
    letters: frozenset[int]


class World:
    """Two producers, one gateway or several, one partition."""

    client_kinds = (Librdkafka, Java)

    def __init__(self, seed: object, *, direct: bool = False, features: Features = PLAIN) -> None:
        self.features = features
        self.more = random.Random(f"more {seed}")  # so that the usual happens as without features
        self.chance = random.Random(f"{seed}")
        chance = self.chance
        self.direct = direct
        self.shared = chance.random() < 0.4
        self.may_forget = not self.shared and chance.random() < 0.15 and not features.takes_later
        self.forgetful = features.forgets
        self.steady = self.shared or self.may_forget or chance.random() < 0.8
        self.decisions: dict[tuple[int, ...], list[Decision]] = {}
        self.refusals = False
        self.expired = False
        # As the gateway does: it reads the records of others at once, also without a request.
        self.follows = self.shared and random.Random(f"follows {seed}").random() < 0.5
        # Whether a client sends all that it may before it hears of the first, when all else is over.
        self.pipelines = random.Random(f"pipelines {seed}").random() < 0.5
        self.now = 1_000_000.0
        self.broker = BrokerModel()
        self.log = KeptLog()
        self.dead = DeadLetters()
        count = features.gateways if self.shared else 1
        self.gateways = [self._gateway() for _ in range(count)]
        # What each gateway kept of its interceptors last, beside the log, and when.
        self.kept: dict[int, tuple[Interceptors, float]] = {}
        self.free_starts = 0
        self.calm = chance.random() < 0.3
        self.clients: list[Producer] = []
        self.number = 0
        for place in range(2):
            start = chance.choice(SHARED_STARTS if self.shared else STARTS)
            kind = chance.choice(self.client_kinds)
            if features.takes_later:
                kind = Java  # librdkafka takes the success of the later batch for both
            client = kind(
                1000 + place,
                base=place * 1_000_000,
                next=start,
                leaders_return=features.returns,
            )
            if start:  # it has been there before these gateways, which dropped nothing of it
                self.broker.has_stored(client.producer_id, start - 1)
            self.clients.append(client)
        if features.forges:
            self.clients[1].forges = self.clients[1].is_lost = True
        self.leaders = [0, 0]
        self.made = [0, 0]
        self.held_up = 0
        self.last_codes: list[int | None] = [None, None]
        self.connections: list[list[Connection]] = [[], []]
        self.verdicts: dict[tuple, int] = {}
        self.too_large: dict[tuple, bool] = {}

    @property
    def kind(self) -> str:
        """The kind of the history."""
        words = ["shared" if self.shared else "local"]
        words += ["with refusals"] if self.refusals else []
        words += ["with expiry"] if self.expired else []
        words += ["forgetful"] if self.forgetful else []
        words += [] if self.steady else ["unsteady"]
        return " ".join(words)

    def _gateway(self):
        features = self.features
        if not self.steady:  # the state of an interceptor that changes its verdicts is not kept
            features = replace(features, evicts=False, forgets=False, little_memory=False)
        return Gateway(
            self.log,
            shared=self.shared,
            chance=self.chance,
            now=lambda: self.now,
            features=features,
            dead=self.dead,
        )

    # What may happen

    def drops(self, record: int, version: int = 0) -> bool:
        """The interceptor; each version of it keeps its verdicts."""
        if self.direct:
            return False
        if record >= FORGED or (version and record % 4 == 1):
            return True
        if self.features.runs and record // RUN % 3:
            return record // RUN % 3 == 1
        return record % 3 == 0

    def quarantines(self, record: int) -> bool:
        """Whether a record that is not stored becomes a dead letter."""
        return self.features.quarantines and record % 2 == 0

    def changes(self, record: int, version: int) -> bool:
        """Whether an interceptor changes a record."""
        return self.features.changes and record % 5 == version

    def produce(self, who: int) -> None:
        count = self.chance.randint(1, 4)
        first = who * 1_000_000 + self.made[who]
        self.made[who] += count
        self.clients[who].make(list(range(first, first + count)))

    def connection(self, who: int) -> Connection:
        """The producer's connection to the broker that it takes for the leader."""
        for each in self.connections[who]:
            if each.leader == self.leaders[who]:
                return each
        self.number += 1
        gateway = self.chance.choice(self.gateways)
        each = Connection(gateway, self.leaders[who], self.number)
        self.connections[who].append(each)
        return each

    def send(self, who: int) -> None:
        if not (self.features.takes_later or self.broker.knows(self.clients[who].producer_id)):
            self.learn(who)  # a leader that does not know it would take any number
        attempt = self.clients[who].to_send()
        if attempt is None:
            return
        connection = self.connection(who)
        key = ProducerKey("t", 0, self.clients[who].producer_id)
        request = Request(attempt, key, self.features.checksums)
        if self.clients[who].forges and self.more.random() < 0.3:
            request.is_forged = True
            attempt.records = [FORGED + record for record in attempt.records]
        producers = connection.gateway.producers
        if self.features.passes and self.shared:
            connection.gateway.read()  # it follows the log, and has read all of it at its start
        request.passes = self.direct or (
            self.features.passes
            and not connection.gateway.has_interceptors
            and not producers.has_topic(key.topic)
            and not producers.arrivals.count(request.arrival)
        )
        if not request.passes:
            producers.arrivals.add(request.arrival, attempt.epoch, attempt.first)
            connection.gateway.meets(request)
            known = producers.find(key, attempt.epoch, request.numbers)
            request.judged = known is None or not known.is_decided
            self._judge(request, connection.gateway, known if request.judged else None)
            set_aside = known is not None and bool(known.quarantined)
            request.can_store_letters = connection.gateway.has_interceptors or set_aside
        connection.arrived.append(request)
        if self.chance.random() < 0.7:
            self.progress(connection)

    def _judge(self, request: Request, gateway: Gateway, known: Batch | None) -> None:
        """Judge a batch; `known` is the earlier decision about it."""
        records = tuple(request.attempt.records)
        before = () if known is None else known.dropped_again
        set_aside = () if known is None else known.quarantined
        request.dropped = tuple(
            i
            for i, record in enumerate(records)
            if i in before
            or ((self.drops(record, gateway.version) if self.steady else self.chance.random() < 0.3)
                and gateway.has_interceptors)
        )  # fmt: skip
        request.is_changed = gateway.has_interceptors and any(
            self.changes(record, gateway.version)
            for i, record in enumerate(records)
            if i not in request.dropped
        )
        request.quarantined = tuple(
            i
            for i in request.dropped
            if i in set_aside or (i not in before and self.quarantines(records[i]))
        )
        # One that was refused may be passed by others at a broker that knows nothing of the
        # producer; another gateway cannot know that then.
        is_passed = self.shared and self.verdicts.get(records) == FINAL_VERDICT
        if self.chance.random() < 0.04 and not is_passed:
            request.verdict = 7
        elif self.refusals:
            # A policy keeps its verdicts.
            if records not in self.verdicts:
                self.verdicts[records] = FINAL_VERDICT if self.chance.random() < 0.05 else 0
            request.verdict = self.verdicts[records]

    def progress(self, connection: Connection) -> None:
        """Decide the batches that have arrived, and send those that are next in order."""
        for request in list(connection.arrived):
            if not request.decided:
                if self._needs_query(connection, request):
                    self._let_go(connection)
                    if connection.arrived[0] is not request:
                        return  # earlier batches have to be at the broker when it is queried
                    self._query(connection, request)
                request.decided = True
                if not request.passes:
                    self._decide(connection, request)
                else:
                    records = request.attempt.records
                    whole = Decision(request.attempt.epoch, frozenset(records), frozenset())
                    self.decisions.setdefault(tuple(records), []).append(whole)
        self._let_go(connection)

    def _let_go(self, connection: Connection) -> None:
        while connection.arrived and connection.arrived[0].decided and connection.arrived[0].kept:
            request = connection.arrived.popleft()
            self._release(connection, request)
            connection.replies.append(request)

    def _needs_query(self, connection: Connection, request: Request) -> bool:
        return (
            not request.passes
            and not (request.judged and request.verdict)
            and connection.gateway.producers.queries.is_needed(
                request.key,
                request.attempt.epoch,
                request.numbers,
                request.dropped,
                connection=connection.number,
            )
        )

    def _query(self, connection: Connection, request: Request) -> None:
        epoch = request.attempt.epoch
        if self.forgetful:
            # A leader also returns records that may still be truncated. A batch is assumed to be
            # stored for that alone only if nothing else is known of its producer.
            self.broker.replicate(100)
        last = self.broker.last_sequence(request.key.producer_id, epoch)
        if self.shared:
            connection.gateway.read()  # the decisions about existing batches
        if not connection.gateway.producers.queries.on_last_sequence(
            request.key,
            request.arrival,
            epoch,
            request.numbers,
            last,
            request.dropped,
            connection=connection.number,
            leader=self.broker.as_leader(),
        ):
            request.code = 7

    def _decide(self, connection: Connection, request: Request) -> None:
        producers, attempt, key = connection.gateway.producers, request.attempt, request.key
        producers.arrivals.remove(request.arrival, attempt.epoch, attempt.first)
        if request.code is not None:
            producers.defer(key, request.arrival, attempt.epoch, request.numbers)
            return
        if request.judged and request.verdict:
            if request.verdict == 7:
                producers.defer(key, request.arrival, attempt.epoch, request.numbers)
            else:
                producers.refuse(key, request.arrival, attempt.epoch, request.numbers)
            request.code = request.verdict
            return
        if self._has_to_be_judged_again(
            producers.find(key, attempt.epoch, request.numbers), request
        ):
            producers.defer(key, request.arrival, attempt.epoch, request.numbers)
            request.code = 7
            return

        def done(failure):
            request.kept = True
            if failure is not None:
                request.code = 7
                producers.not_kept(key, attempt.epoch, request.made)

        request.kept = False
        request.made = object()
        decided = []

        def kept(failure):
            if decided:
                done(failure)
            else:
                decided.append(failure)

        known = producers.find(key, attempt.epoch, request.numbers)
        lost = set(request.dropped)
        own = packed([record for i, record in enumerate(attempt.records) if i not in lost])
        outcome = producers.decide(
            key, request.arrival, attempt.epoch, request.numbers, request.dropped,
            own, connection=connection.number, callback=kept, is_changed=request.is_changed,
            quarantined=self._quarantined(connection.gateway, request),
        )  # fmt: skip
        if isinstance(outcome, int):
            request.code, request.made, request.kept = outcome, None, True
            if outcome in {45, 59}:
                self._check_order(request, f"{outcome}")
            return
        request.made = outcome.batch
        request.outgoing = outcome.data
        request.is_whole = outcome.is_whole
        if outcome.is_whole:
            assert not outcome.batch.is_changed, f"the batch was changed: {attempt}"
            request.outgoing = packed(attempt.records)
        if outcome.batch is not known:
            letters = frozenset(attempt.records[i] for i in request.quarantined)
            self.decisions.setdefault(tuple(attempt.records), []).append(
                Decision(attempt.epoch, frozenset(unpacked(own)), letters)
            )
        if decided:
            done(decided[0])
        else:
            decided.append(None)

    def _quarantined(self, gateway: Gateway, request: Request) -> Quarantined | None:
        if not (self.features.quarantines and request.can_store_letters):
            return None
        letters = request.letters if request.quarantined else None
        return Quarantined(request.quarantined, letters, gateway.store_letters)

    @staticmethod
    def _has_to_be_judged_again(known: Batch | None, request: Request) -> bool:
        if known is not None and known.is_decided:
            return False
        if not request.judged:
            return True
        return known is not None and not set(known.dropped_again) <= set(request.dropped)

    def _release(self, connection: Connection, request: Request) -> None:
        attempt = request.attempt
        if request.code is not None:
            return
        records, first = attempt.records, attempt.first
        if not request.passes:
            made = request.made
            if made.is_done:
                request.due = True
                return
            code = connection.gateway.producers.send(
                request.key, attempt.epoch, made, is_whole=request.is_whole
            )
            if code:
                if code == 45:
                    self._check_order(request, f"{code}")
                request.code = code
                return
            assert request.outgoing is not None, f"an empty batch was sent: {attempt}"
            records = unpacked(request.outgoing)  # a known batch is sent as before
            assert len(records) == made.count - made.dropped_count
            first = made.broker_first
        request.sent = True
        self._at_broker(connection, request, first, records)

    def _at_broker(self, connection, request, first, records):
        producer_id = request.key.producer_id
        if connection.leader != self.broker.leader:
            request.code = 6
        elif self.chance.random() < 0.03 and self.broker.knows(producer_id):
            request.code = 19
        elif self._is_too_large(producer_id, records):
            request.code = 10
        else:
            self._see_overtaking(request)
            request.append = self.broker.append(producer_id, request.attempt.epoch, first, records)
            self._see_forged(request)
            if request.append.code == 45:
                request.was_early = self._is_early(request)
                if self.broker.is_before_last(producer_id, request.attempt.epoch, first, records):
                    # A broker recognizes only five batches; Java sends the next batches
                    # past a batch that goes to another leader, and then retries until its
                    # delivery.timeout.ms: without a gateway, too.
                    self._client(request).is_lost = True
                else:
                    self._check_order(request, "the broker's 45")
            if request.append.code is None and self._is_answered_otherwise():
                request.append.code = self.more.choice(APPENDED)
            is_replicated = self.chance.random() < 0.6
            if is_replicated and not (self.features.returns and self.more.random() < 0.5):
                self.broker.replicate(100)

    def _see_forged(self, request):
        """No record is stored that the gateway has judged, and found to be bad."""
        lost = {request.attempt.records[i] for i in request.dropped} if request.judged else ()
        stored = request.append.records
        assert not any(record >= FORGED and record in lost for record in stored), "forged"

    def _see_overtaking(self, request):
        """A broker that does not know a producer takes a later batch first, never the earlier."""
        if not self.broker.knows(request.key.producer_id) and self._is_early(request):
            self._client(request).is_lost = True

    def _is_answered_otherwise(self):
        return self.features.appended and self.more.random() < 0.05

    def _is_too_large(self, producer_id, records):
        """Some batches are too large, unless the broker would accept any number for the next batch."""
        large = self.refusals and len(records) > 1 and self.chance.random() < 0.02
        return self.too_large.setdefault(tuple(records), large and self.broker.knows(producer_id))

    def _client(self, request) -> Producer:
        return self.clients[request.key.producer_id - 1000]

    def _is_early(self, request) -> bool:
        """Return whether an earlier batch is missing."""
        attempt = request.attempt
        there = self.broker.all_records()
        client = self._client(request)
        return any(
            batch.epoch == attempt.epoch
            and batch.records[0] < attempt.records[0]
            # If it has another epoch than before, existing records may have arrived before that.
            and (batch.may_be_doubled or any(record not in there for record in batch.records))
            for batch in (
                *client.waiting,
                *(other.batch for other in client.in_flight),
                *(batch for batch, code in client.refused if code == TIMED_OUT),
            )
        )

    @property
    def has_order(self) -> bool:
        """Return whether every client continues with its own batch."""
        return not any(code == TIMED_OUT for client in self.clients for _, code in client.refused)

    def _check_order(self, request, message: str):
        """A broker refuses the order only if a batch is missing, never the gateway's numbers."""
        if (
            self.has_order
            and not self.refusals
            and not self.expired
            and not self.forgetful
            and not self._client(request).is_lost
            and not self._client(request).fatal
            and request.attempt.epoch == self._client(request).epoch
        ):
            is_early = request.was_early or self._is_early(request)
            assert is_early, f"{message} without a cause: {request.attempt}"

    def answer(self, who: int) -> None:
        """Deliver the oldest response on a random connection."""
        connections = [connection for connection in self.connections[who] if connection.replies]
        if not connections:
            return
        connection = self.chance.choice(connections)
        request = connection.replies[0]
        attempt = request.attempt
        producers = connection.gateway.producers
        code = request.code
        if request.append is not None:
            code = request.append.code
            if code is None:
                return
        connection.replies.popleft()
        if request.sent and not request.passes:
            code = producers.on_response(request.key, attempt.epoch, request.made, code, Stored(1))
        elif request.due:
            code = producers.acknowledge(request.key, attempt.epoch, request.made)
            if not code:
                self._see_overtaking(request)
        if (request.due and code == 45) or (request.sent and code == 59):
            self._check_order(request, f"{code}")
        if request.due and code == 0 and request.made.loses_all:
            assert request.made.stored.base_offset == -1, "an offset of a batch that is not stored"
        self.last_codes[who] = code
        self.clients[who].answered(attempt, code)
        if self.follows and attempt.first % 2:
            self.follow()
        if code == 6 and self.leaders[who] != self.broker.leader:
            self.learn(who)
        if (
            not connection.arrived
            and not connection.replies
            and (connection.leader != self.leaders[who])
        ):
            self.connections[who].remove(connection)

    def learn(self, who: int) -> None:
        """Let a producer read the leader from the metadata."""
        if self.leaders[who] != self.broker.leader:
            self.leaders[who] = self.broker.leader
            self.clients[who].leader_changed()

    def replicate(self) -> None:
        self.broker.replicate(self.chance.randint(1, 3))

    def move(self) -> None:
        """Elect another leader, if it knows both producers: otherwise it would accept any number."""
        if self.features.takes_later or all(
            self.broker.has_replicated(client.producer_id) or not client.in_flight
            for client in self.clients
        ):
            self.broker.move(returns=self.features.returns)

    def disconnect(self, who: int, gateway: Gateway | None = None) -> None:
        """Break connections; some of the received batches continue nevertheless."""
        for connection in list(self.connections[who]):
            if gateway is not None and connection.gateway is not gateway:
                continue
            self.connections[who].remove(connection)
            attempts = [reply.attempt for reply in (*connection.replies, *connection.arrived)]
            if gateway is None and self.chance.random() < 0.5:
                self.progress(connection)
            for request in connection.arrived:
                self._abandon(connection, request)
            if gateway is None:
                for request in connection.replies:
                    self._unheard(connection, request)
            for attempt in attempts:
                self.clients[who].answered(attempt, None)

    def _abandon(self, connection, request):
        if request.passes:
            return
        producers, attempt = connection.gateway.producers, request.attempt
        if not request.decided:
            producers.arrivals.remove(request.arrival, attempt.epoch, attempt.first)
        elif request.made is not None and request.made.state is State.DECIDED:
            producers.defer(request.key, request.arrival, attempt.epoch, request.numbers)

    def _unheard(self, connection, request):
        """The gateway may get a response after its client has disconnected."""
        if request.passes or not request.sent or self.chance.random() < 0.5:
            return
        code = request.append.code if request.append is not None else request.code
        if code is not None:
            connection.gateway.producers.on_response(
                request.key, request.attempt.epoch, request.made, code, Stored(1)
            )

    def restart(self) -> None:
        """Kill a gateway; it starts with its kept state; some lose that, too."""
        if self.direct or not self.steady:
            return  # the state of an interceptor that changes its verdicts is not kept
        if self.may_forget and self.chance.random() < 0.5:
            self.log = KeptLog()
            self.kept.clear()
            self.forgetful = True
        place = self.chance.randrange(len(self.gateways))
        killed = self.gateways[place]
        for who in (0, 1):
            self.disconnect(who, killed)
        if self.shared and self.chance.random() < 0.5:
            killed.write()
            self.keep_interceptors(place)
        killed.end()
        started = self.gateways[place] = self._gateway()
        started.has_interceptors = killed.has_interceptors
        started.version = killed.version
        if self.features.digests and self.features.switches and self.more.random() < 0.3:
            self.switch(started)
        elif self._are_as_before(place):
            self.free_starts += 1
        else:
            started.producers.interceptors_changed(lambda _: True)
        self.keep_interceptors(place)

    def _are_as_before(self, place: int) -> bool:
        """Whether a gateway that starts need not doubt its interceptors."""
        if not self.features.digests:
            return False
        kept = {
            of: KeptInterceptors(interceptors, self.now - at)
            for of, (interceptors, at) in self.kept.items()
        }
        return are_as_before(self._digest(place), kept.pop(place, None), kept.values())

    def _digest(self, place: int) -> str:
        gateway = self.gateways[place]
        return f"version {gateway.version}" if gateway.has_interceptors else "none"

    def keep_interceptors(self, place: int) -> None:
        """Let a gateway keep its digest with its state, if it can."""
        gateway = self.gateways[place]
        if not gateway.is_cut_off:
            in_doubt = gateway.producers.doubts.are_present
            self.kept[place] = Interceptors(self._digest(place), in_doubt), self.now

    def pass_minutes(self) -> None:
        """Let all doubts end, once no batch is on its way; a rollout is complete by then."""
        for _ in range(CALMING_TURNS):
            if all(client.is_idle for client in self.clients):
                break
            for who in (0, 1):
                self.send_all(who)
        else:
            return
        self.make_equal()
        self.broker.replicate(100)
        self.now += DOUBTED_S
        for gateway in self.gateways:
            gateway.producers.expire()
        for place in range(len(self.gateways)):
            self.keep_interceptors(place)

    def make_equal(self) -> None:
        """Complete a rollout: none takes longer than ten minutes, which each gateway expects."""
        for place, gateway in enumerate(self.gateways):
            gateway.has_interceptors = self.gateways[0].has_interceptors
            gateway.version = self.gateways[0].version
            gateway.producers.interceptors_changed(lambda _: True)
            self.keep_interceptors(place)

    def write(self) -> None:
        for gateway in self.gateways:
            gateway.write()
            if not gateway.is_cut_off_from_letters:
                gateway.end_letters(fails=0.1)
        for connections in self.connections:
            for connection in connections:
                self.progress(connection)

    def catch_up(self) -> None:
        for connections in self.connections:
            for connection in connections:
                self.progress(connection)

    def expire(self) -> None:
        """Nothing happens for more than a day: broker and gateways forget all producers."""
        if self.calm or not all(client.is_idle for client in self.clients):
            return
        self.make_equal()
        self.now += EXPIRATION_S + 1.0
        self.expired = True
        for client in self.clients:
            self.broker.forget(client.producer_id)
        for gateway in self.gateways:
            gateway.producers.expire()

    def follow(self) -> None:
        """Let every gateway read all records, until none has anything to write about them."""
        for _ in range(FOLLOWED_MOST):
            before = len(self.log.records)
            for gateway in self.gateways:
                gateway.read(to=len(self.log.records))
                gateway.write()
            writing = any(gateway.unwritten and not gateway.is_cut_off for gateway in self.gateways)
            if len(self.log.records) == before and not writing:
                return
        raise AssertionError("gateways write to each other without end")

    # Complete histories

    def happen(self) -> None:
        """Cause an event that occurs only in some histories."""
        features, step = self.features, self.more.random()
        gateway = self.more.choice(self.gateways)
        if step < 0.04:
            if features.gives_up:
                self.more.choice(self.clients).give_up()
        elif step < 0.06:
            if features.compacts:
                self.log.compact()
        elif step < 0.08:
            gateway.is_cut_off = features.writes_late and not gateway.is_cut_off
            cut_off = features.writes_late and self.more.random() < 0.5
            gateway.is_cut_off_from_letters = cut_off and features.quarantines
        elif step < 0.12:
            if features.writes_late:
                gateway.time_out()
                gateway.end_letters(fails=1.0)
        elif step < 0.16:
            if features.evicts and self.steady:
                for _ in range(self.more.randint(1, 5)):
                    gateway.serve_another(drops=self.more.random() < 0.5)
        elif step < 0.20:
            if features.switches:
                self.switch(gateway)
        elif step < 0.28 and features.returns:
            self.move()
        elif features.digests:
            if step < 0.32:
                self.pass_minutes()
            elif step < 0.36:
                self.restart()
            elif step < 0.5:
                self.keep_interceptors(self.more.randrange(len(self.gateways)))

    def switch(self, gateway: Gateway) -> None:
        """A gateway loses its interceptors or gets them back; the others do so later, or now."""
        if self.features.changes and self.more.random() < 0.5:
            gateway.version = 1 - gateway.version
        else:
            gateway.has_interceptors = not gateway.has_interceptors
        for other in self.gateways:
            if not self.features.rolls_out:
                other.has_interceptors = gateway.has_interceptors
                other.version = gateway.version
            other.producers.interceptors_changed(lambda _: True)
        for place, other in enumerate(self.gateways):
            if other is gateway or not self.features.rolls_out:
                self.keep_interceptors(place)

    def walk(self) -> "World":
        """Cause random events, then let every producer finish."""
        chance = self.chance
        self.refusals = chance.random() < 0.4
        for _ in range(self.features.steps):
            self.happen()
            who = chance.randrange(2)
            step = chance.random()
            if step < 0.25:
                self.produce(who)
            elif step < 0.55:
                self.send(who)
            elif step < 0.78:
                self.answer(who)
            elif step < 0.84:
                self.replicate()
            elif step < 0.89:
                self.catch_up()
            elif step < 0.92:
                self.write()
            elif step < 0.95:
                self.learn(who)
            elif step < 0.97:
                self.disconnect(who)
            elif step < 0.985:
                self.move()
            elif step < 0.995:
                self.restart()
            else:
                self.expire()
        self.finish()
        return self

    def _has_its_result(self, batch, stored) -> bool:
        """Return whether each record of a batch is stored, a dead letter or dropped, as decided."""
        records = set(batch.records)
        there, letters = stored & records, records & self.dead.ids.keys()
        decided = self.decisions.get(tuple(batch.records), ())
        if (self.steady and not self.features.switches) or not decided:
            return there == {
                record for record in records if not self.drops(record)
            } and letters == {
                record for record in records if self.drops(record) and self.quarantines(record)
            }
        # Under another epoch, as a part, or after a batch that was divided, a batch is judged again;
        # and if the state was lost. Its record may be a letter then, and stored.
        is_judged_again = self.forgetful or (self.refusals and len(decided) > 1)
        is_renewed = batch.may_be_doubled or len({producer.epoch for producer in decided}) > 1
        if is_renewed or batch.is_part or (is_judged_again and self.features.quarantines):
            return any(
                decision.kept <= there and decision.letters <= letters for decision in decided
            )
        return any((decision.kept, decision.letters) == (there, letters) for decision in decided)

    def finish(self) -> None:
        """Complete all pending events."""
        for gateway in self.gateways:
            gateway.is_cut_off = gateway.is_cut_off_from_letters = False
        for turn in range(FINAL_TURNS):
            self.now += FINAL_TURN_S
            for gateway in self.gateways:
                gateway.producers.expire()  # the gateway does so every few seconds
            for who in (0, 1):
                if self.features.gives_up and turn > FINAL_TURNS / 2:
                    self.give_up_what_misses(who)
                self.send_all(who)
            if all(client.is_idle or client.fatal or client.forges for client in self.clients):
                break
        self.check()

    def send_all(self, who: int) -> None:
        """Let a client send, and deliver all messages."""
        self.learn(who)
        for _ in range(IN_FLIGHT if self.pipelines else 1):
            self.send(who)
        self.write()
        self.broker.replicate(100)
        while any(connection.replies for connection in self.connections[who]):
            self.answer(who)

    def give_up_what_misses(self, who: int) -> None:
        """A client gives up the batches after a batch that it has given up.

        A broker answers 45, with which some continue at once. The gateway answers 7 while it expects
        that batch to be retried; later batches in flight time out then, too, and are counted here.
        """
        client = self.clients[who]
        if not any(code == TIMED_OUT for _, code in client.refused):
            return
        if self.last_codes[who] in {7, 45} and client.give_up():
            self.held_up += self.last_codes[who] == 7

    def check(self) -> None:
        """Compare the stored records with the results that the applications got."""
        if self.shared:
            self.follow()
        log = self.broker.log
        stored = set(log)
        for record, ids in self.dead.ids.items():
            epochs = {epoch for _, epoch, _ in ids}
            assert len(ids) == len(epochs), f"dead letters of {record} with ids {ids}"
        for client in self.clients:
            if client.forges:
                continue
            for batch in client.acknowledged:
                assert self._has_its_result(batch, stored), f"lost, or not dropped: {batch}"
            if self.forgetful:
                continue  # lost records may end producers, or double records; unseen they are not
            assert not client.fatal, client.fatal
            assert client.is_idle or client.is_lost, f"stuck: {client}"
            for batch, code in client.refused:
                assert not stored & set(batch.records) or batch.ambiguous, f"{code}: {batch}"
            batches = [*client.acknowledged, *(batch for batch, _ in client.refused)]
            doubled = {
                record for batch in batches if batch.may_be_doubled for record in batch.records
            }
            once = [
                record
                for record in log
                if record // 1_000_000 == client.base // 1_000_000 and record not in doubled
            ]
            assert len(once) == len(set(once)), "stored twice"
            if not client.bumps:
                assert once == sorted(once), "out of order"
