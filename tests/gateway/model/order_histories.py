"""Histories of a producer of a topic whose batches are only judged, two brokers, and a gateway.

The sessions are real (`sessions.session`), a connection for each broker, with the batches that
have to be retried (`missing_batches`). Verdicts come late, and leaders change meanwhile. A broker
processes the requests of a connection one after the other, and its responses are there at once: what
a broker alone could find out of order between two requests, as they arrive, is left out.
"""

import random
from collections import deque

from penstock.engine.verdict import ACCEPTED, postponed
from penstock.gateway.produce.missing_batches import MissingBatches
from penstock.kafka.records.header import read_producer
from penstock.kafka.wire.requests.produce import read_request
from penstock.policy import RetriableException
from tests.gateway.admin.talk import broker_frame
from tests.gateway.model.broker_model import Append, BrokerModel
from tests.gateway.model.history_features import PLAIN, Features
from tests.gateway.model.producer_model import NUMBERS, Attempt, Java, Librdkafka
from tests.gateway.produce.intercepted import frames_of
from tests.gateway.sessions.talk import Talk
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame

TOPIC = "judged"
VERSIONS = (3, 5, 8, 9, 11)
STARTS = (0, 0, 12, NUMBERS - 7)
FINAL_TURNS = 200
LATER = postponed("v", RetriableException("not now"))


class SomeInline:
    """Accepts some batches at once."""

    def judges(self, _plan):
        return True

    def accepts(self, _plan, _version, data):
        producer = read_producer(data)
        return producer is not None and producer.base_sequence // 2 % 3 == 0


class Link:
    """A connection of the producer through the gateway to a broker."""

    def __init__(self, missing_batches: MissingBatches, version: int, *, inline: bool) -> None:
        self.talk = Talk(missing_batches=missing_batches)
        self.talk.session._supports_describe_producers = False
        if inline:
            self.talk.policies = self.talk.policies._replace(inline=SomeInline())
        self.version = version
        self.attempts: deque[tuple[int, Attempt]] = deque()
        self.at_broker: deque[bytes] = deque()
        self.append: Append | None = None


class OrderWorld:
    """One producer, one partition of a topic with policies, without interceptors."""

    kind = "order"
    held_up = 0

    def __init__(self, seed: object, *, features: Features = PLAIN) -> None:
        self.features = features
        self.chance = chance = random.Random(f"order {seed}")
        self.broker = BrokerModel()
        start = chance.choice(STARTS)
        kind = chance.choice((Librdkafka, Java))
        self.client = kind(17, next=start)
        if start:
            self.broker.has_stored(17, start - 1)
        self.leader = 0
        batches = MissingBatches(lambda: 1_000.0)
        version, inline = chance.choice(VERSIONS), chance.random() < 0.5
        self.links = [Link(batches, version, inline=inline) for _ in range(2)]
        if chance.random() < 0.5:
            self.links.reverse()  # the leader's connection is the later one
        self.number = self.made = 0

    # The client

    def produce(self) -> None:
        count = self.chance.randint(1, 3)
        self.client.make(list(range(self.made, self.made + count)))
        self.made += count

    def send(self) -> None:
        attempt = self.client.to_send()
        if attempt is None:
            return
        self.number += 1
        link = self.links[self.leader]
        data = encode_batch(
            values(*(b"%d" % record for record in attempt.records)),
            producer_id=17, producer_epoch=attempt.epoch, base_sequence=attempt.first,
        )  # fmt: skip
        link.attempts.append((self.number, attempt))
        request = produce_request([(TOPIC, [(0, data)])], version=link.version)
        link.talk.session.client_data(request_frame(request, self.number))

    def learn(self) -> None:
        """Learn the leader from the metadata.

        The Java client sends to it before it hears from the leader before. If the producer is unknown
        there, that takes any batch as the first, with or without a gateway (KAFKA-15591).
        """
        client = self.client
        is_drained = isinstance(client, Librdkafka) or not client.in_flight
        is_known = is_drained or self.broker.has_replicated(client.producer_id)
        if self.leader != self.broker.leader and is_known:
            self.leader = self.broker.leader
            self.client.leader_changed()

    # The gateway and the brokers

    def move(self) -> None:
        """Elect another leader; one that does not know the producer only as in `learn`."""
        client = self.client
        is_drained = isinstance(client, Librdkafka) or not client.in_flight
        if is_drained or self.broker.has_replicated(client.producer_id):
            self.broker.move()

    def judge(self) -> None:
        links = [link for link in self.links if link.talk.verdicts]
        if links:
            talk = self.chance.choice(links).talk
            later = self.chance.random() < 0.1
            talk.decide(
                LATER if later else ACCEPTED, which=self.chance.randrange(len(talk.verdicts))
            )

    def flow(self) -> None:
        """Let requests and responses arrive."""
        is_over = False
        while not is_over:
            is_over = True
            for place, link in enumerate(self.links):
                link.at_broker.extend(frames_of(link.talk.broker.take()))
                is_over = not (self._process(place, link) or self._hear(link)) and is_over

    def _process(self, place: int, link: Link) -> bool:
        """Process the next request at a broker; return whether it has its response."""
        if not link.at_broker:
            return False
        frame = link.at_broker[0]
        if link.append is None:
            link.append = self._appended(place, frame)
        code = link.append.code
        if code is None:
            return False
        link.at_broker.popleft()
        link.append = None
        partition = {"index": 0, "error_code": code, "base_offset": -1 if code else 5}
        response = [{"name": TOPIC, "partition_responses": [partition]}]
        number = int.from_bytes(frame[8:12], "big")
        link.talk.session.upstream_data(broker_frame(0, link.version, number, responses=response))
        return True

    def _appended(self, place: int, frame: bytes) -> Append:
        request = read_request(frame)
        producer = read_producer(request.records(request.topics[0].partitions[0]))
        assert producer is not None
        if place != self.broker.leader:
            refused = Append([], None, 0)
            refused.code = 6
            return refused
        number = int.from_bytes(frame[8:12], "big")
        attempt = next(sent for own, sent in self.links[place].attempts if own == number)
        return self.broker.append(17, producer.epoch, producer.base_sequence, attempt.records)

    def _hear(self, link: Link) -> bool:
        """Let the client take the responses; return whether there are any."""
        frames = frames_of(link.talk.client.take())
        for frame in frames:
            number, attempt = link.attempts.popleft()
            assert int.from_bytes(frame[4:8], "big") == number
            (result,) = produced(parse_response(frame, 0, link.version)).values()
            self.client.answered(attempt, int(result.error_code))
        return bool(frames)

    # Complete histories

    def walk(self) -> "OrderWorld":
        """Cause random events, then let the producer finish."""
        chance = self.chance
        for _ in range(self.features.steps):
            step = chance.random()
            if step < 0.25:
                self.produce()
            elif step < 0.55:
                self.send()
            elif step < 0.75:
                self.judge()
            elif step < 0.83:
                self.broker.replicate(chance.randint(1, 3))
            elif step < 0.9:
                self.learn()
            else:
                self.move()
            self.flow()
        for _ in range(FINAL_TURNS):
            self.learn()
            self.send()
            self.judge()
            self.broker.replicate(100)
            self.flow()
        self.check()
        return self

    def check(self) -> None:
        """Every record is stored once, in order, and no batch was out of order."""
        client, log = self.client, self.broker.log
        assert not client.fatal, client.fatal
        assert 45 not in client.bumps, "out of order"
        assert client.is_idle, f"stuck: {client}"
        assert log == list(range(self.made)), "lost, stored twice, or out of order"
