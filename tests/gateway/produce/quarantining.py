"""A session that writes dead letters."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import Diverted, Outcome, PolicyVerdict, refused, replaced
from penstock.gateway.produce.bad_shares import BadShares
from penstock.gateway.produce.lookups.max_message_bytes import MaxMessageBytes
from penstock.gateway.produce.lookups.write_rights import WriteRights
from penstock.gateway.produce.producer_state.all_producers import Producers
from tests.gateway.admin.talk import broker_frame
from tests.gateway.sessions.talk import Talk
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame

WRITE, DESCRIBE = 1 << 4, 1 << 8
IDS = {"judged": uuid4(), "other": uuid4()}
BAD = refused(87, "not positive", "v")
LETTERS = encode_batch(values(b"bad"))


class Letters:
    """A dead letter topic; `stored` has the place, the letters, and the function to call."""

    def __init__(self) -> None:
        self.stored, self.keys = [], []
        self.why_not = ""

    def refusal(self, to: Any) -> str:
        return self.why_not

    def store(self, to: Any, letters: bytes, done: Callable[[str | None], None], key: Any) -> None:
        self.keys.append(key)
        self.stored.append((to, letters, done))

    def end(self, failure: str | None = None) -> None:
        self.stored.pop(0)[2](failure)


class Quarantine(Talk):
    """A session whose topics have a policy in mode quarantine."""

    may_quarantine = True
    keeps_decisions = True

    def __init__(self, *, max_ratio: str = "1", modes: dict[str, str] | None = None) -> None:
        super().__init__(judged=frozenset({"judged", "other"}))
        self.settings = {"penstock.quarantine.max.ratio": max_ratio}
        self.modes = modes or {}
        self.producers = Producers(now=time.time)
        self.dead_letters = Letters()
        self.write_rights = WriteRights()
        self.bad_shares = BadShares(lambda: 100.0)
        self.max_message_bytes = MaxMessageBytes()
        self.opened = 0
        self.session._supports_describe_producers = False

    def merged(self, topic: str, own: object) -> dict[str, str]:
        return self.settings

    def intercepts(self, topic: str) -> bool:
        return topic in self.judged

    def for_topic(self, topic: str, own: object = None) -> TopicPlan | None:
        if topic not in self.judged:
            return None
        return TopicPlan(topic=topic, validators=("v",), mode="quarantine", settings=self.settings)

    def open_decisions(self) -> None:
        self.opened += 1

    def produce(self, number: int, *batches: bytes, acks: int = 1) -> None:
        """Send a request; respond to the gateway's Metadata request about the ids of its topics."""
        self.session.client_data(request(number, *batches, acks=acks))
        if self.broker.data:
            topics = [{"name": name, "topic_id": topic_id} for name, topic_id in IDS.items()]
            self.respond(3, topics=topics)

    def respond(self, api_key: int, **fields: Any) -> None:
        """Respond to the gateway's own request, which has this API key."""
        frame = self.broker.take()
        key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
        assert key == api_key
        number = int.from_bytes(frame[8:12], "big")
        self.session.upstream_data(broker_frame(key, version, number, **fields))

    def respond_with_rights(self, operations: int, code: int = 0) -> None:
        """Respond to the Metadata request about the rights of the client."""
        topics = [{"name": "judged", "error_code": code, "topic_authorized_operations": operations}]
        self.respond(3, topics=topics)

    def respond_with_limit(self, **limits: str | None) -> None:
        """Respond to the DescribeConfigs request about `max.message.bytes`."""
        results = [
            {"resource_name": name, "error_code": 0 if value else 29,
             "configs": [{"name": "max.message.bytes", "value": value}]}
            for name, value in limits.items()
        ]  # fmt: skip
        self.respond(32, results=results)

    def responses(self) -> dict[str, tuple[int, str | None]]:
        """Return the error codes and messages of the next response to the client."""
        partitions = produced(parse_response(self.client.take(), 0, 9))
        return {name: (found.error_code, found.error_message)
                for (name, _), found in partitions.items()}  # fmt: skip


def batch(*given: bytes | None, producer_id: int = -1, first: int = -1) -> bytes:
    epoch = 0 if producer_id >= 0 else -1
    return encode_batch(
        values(*given), producer_id=producer_id, producer_epoch=epoch, base_sequence=first
    )


def request(number: int, *batches: bytes, acks: int = 1) -> bytes:
    topics = [(name, [(0, data)]) for name, data in zip(("judged", "other"), batches, strict=False)]
    return request_frame(produce_request(topics, acks=acks), number)


def diverted(
    left: bytes,
    *positions: int,
    letters: bytes = LETTERS,
    refusal: PolicyVerdict = BAD,
    count: int | None = None,
) -> PolicyVerdict:
    """A verdict that puts records in quarantine."""
    bad = Diverted(replace(refusal, outcome=Outcome.QUARANTINED), count or len(positions))
    return replaced(left, positions, (bad,), quarantined=positions, letters=letters)


def with_rights(talk: Talk) -> Talk:
    """Make the client's right to write to the topic known."""
    client = talk.session.number, talk.session.authentication.principal
    talk.write_rights.put(client, "judged", 0)
    return talk
