"""A session whose batches are intercepted."""

import time
from collections.abc import Sequence
from typing import Any

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, PolicyVerdict, replaced
from penstock.gateway.produce.producer_state.all_producers import Producers
from tests.gateway.sessions.talk import Talk, produce_response
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame


class Intercepted(Talk):
    """A session whose topics have an interceptor; several may share their producers."""

    def __init__(self, producers: Producers | None = None) -> None:
        super().__init__()
        self.producers = Producers(now=time.time) if producers is None else producers
        self.session._supports_describe_producers = False  # an older broker

    has_interceptors = True
    may_quarantine = False

    def merged(self, topic: str, own: object) -> dict[str, str]:
        return {}

    def intercepts(self, topic: str) -> bool:
        return topic in self.judged

    def for_topic(self, topic: str, own: object = None) -> TopicPlan | None:
        return TopicPlan(topic=topic, interceptors=("i",)) if topic in self.judged else None


def batch(
    *given: bytes | None, first: int = 0, epoch: int = 0, producer_id: int = 5, **options: Any
) -> bytes:
    return encode_batch(
        values(*given),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=first,
        **options,
    )


def request(number: int, data: bytes, topic: str = "judged") -> bytes:
    return request_frame(produce_request([(topic, [(0, data)])]), number)


def answers(talk: Talk) -> list[Any]:
    """The responses of partitions that the client got since the last call."""
    frames, found = talk.client.take(), []
    while frames:
        end = 4 + int.from_bytes(frames[:4], "big")
        found += produced(parse_response(frames[:end], 0, 9)).values()
        frames = frames[end:]
    return found


def codes(talk: Talk) -> list[int]:
    """The error codes of all responses that the client got since the last call."""
    return [answer.error_code for answer in answers(talk)]


def offsets(talk: Talk) -> list[tuple[int, int]]:
    """The error codes and base offsets of all responses that the client got since the last call."""
    return [(answer.error_code, answer.base_offset) for answer in answers(talk)]


def refused_response(number: int, error_code: int) -> bytes:
    """A broker's response that refuses partition 0 of the judged topic."""
    answer = produce_response(number, "judged")
    at = answer.index(b"judged") + len(b"judged") + 5
    return answer[:at] + error_code.to_bytes(2, "big", signed=True) + answer[at + 2 :]


DROPPED = replaced(b"", [0])


def pipelined(
    *verdicts: PolicyVerdict | None, talk: Intercepted | None = None, first: int = 0
) -> Intercepted:
    """Batches of a record each, sent at once; None for a verdict that accepts."""
    talk = talk or Intercepted()
    frames = [request(first + i + 1, batch(b"v", first=first + i)) for i in range(len(verdicts))]
    talk.session.client_data(b"".join(frames))
    for verdict in verdicts:
        talk.decide(verdict or ACCEPTED)
    return talk


def two_partitions(number: int, first: bytes, second: bytes) -> bytes:
    return request_frame(produce_request([("judged", [(0, first), (1, second)])]), number)


HIGH_WATERMARK = 20


class WithLastSequences(Intercepted):
    """A session whose broker returns the producer's last sequence."""

    def __init__(self, producers: Producers | None = None) -> None:
        super().__init__(producers)
        self.session._supports_describe_producers = True

    def respond_with_last_sequence(
        self, *, error_code: int = 0, last_sequence: int | None = None, epoch: int = 0
    ) -> None:
        """Respond since when the broker leads, and with the producer's last sequence."""
        requests = self.broker.take()
        assert [frame[5] for frame in frames_of(requests)] == [2, 61], "ListOffsets comes first"
        own = frames_of(requests)[0][8:12]
        partition = bytes(4) + word(error_code) + bytes(8) + HIGH_WATERMARK.to_bytes(8, "big")
        partition += epoch.to_bytes(4, "big")
        offsets = own + bytes(4) + array(b"\0\x06judged" + array(partition))
        self.session.upstream_data(framed(offsets))
        producers = b""
        if last_sequence is not None:
            producers = (5).to_bytes(8, "big") + bytes(4) + last_sequence.to_bytes(4, "big")
            producers += bytes(20) + b"\0"
        body = own + bytes(5) + b"\2\7judged\2" + bytes(4) + bytes(2) + b"\0"
        body += bytes([1 + bool(producers)]) + producers + bytes(3)
        self.session.upstream_data(framed(body))

    def respond_with_epoch(self, *, begins: int = 0, error_code: int = 0) -> None:
        """Respond with the offset at which the leader's epoch begins."""
        [frame] = frames_of(self.broker.take())
        assert frame[5] == 23, "OffsetForLeaderEpoch"
        partition = word(error_code) + bytes(8) + begins.to_bytes(8, "big")
        body = array(b"\0\6judged" + array(partition))
        self.session.upstream_data(framed(frame[8:12] + bytes(4) + body))

    def respond_with_replicas(self, replicas: Sequence[int] = (1, 2, 3), *, epoch: int = 7) -> None:
        """Respond with the replicas, including the in-sync replicas."""
        [frame] = frames_of(self.broker.take())
        assert frame[5] == 3, "Metadata"
        nodes = array(*(number.to_bytes(4, "big") for number in replicas))
        partition = bytes(10) + epoch.to_bytes(4, "big") + nodes + nodes + array()
        topic = bytes(2) + b"\0\6judged\0" + array(partition)
        body = bytes(4) + array() + b"\xff\xff" + bytes(4) + array(topic)
        self.session.upstream_data(framed(frame[8:12] + body))


def frames_of(data: bytes) -> list[bytes]:
    frames = []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        frames.append(data[:end])
        data = data[end:]
    return frames


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def word(number: int) -> bytes:
    return number.to_bytes(2, "big", signed=True)


def array(*items: bytes) -> bytes:
    return len(items).to_bytes(4, "big") + b"".join(items)


def observe_from_now_on(talk: Talk) -> None:
    plan = TopicPlan(topic="judged", interceptors=("i",), mode="observe")
    talk.for_topic = lambda topic, own=None: plan
