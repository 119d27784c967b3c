"""Batches of a producer, and responses of a broker that has some of them retried."""

from tests.gateway.admin.talk import broker_frame
from tests.gateway.produce.intercepted import frames_of
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame

NOT_LEADER = 6


def batch(sequence, *, producer_id=17, epoch=0):
    return encode_batch(
        values(b"a", b"b"), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def sent(number, sequence, *topics, version=9, acks=-1, partition=0, **given):
    """A request with two records of a producer for a partition of each topic."""
    batches = [(partition, batch(sequence, **given))]
    request = produce_request(
        [(topic, batches) for topic in topics or ("judged",)], version=version, acks=acks
    )
    return request_frame(request, number)


def responded(number, codes, *, version=9, partition=0):
    """A broker's response with an error code for each topic."""
    responses = [
        {"name": topic, "partition_responses": [
            {"index": partition, "error_code": code, "base_offset": -1 if code else 5}
        ]}
        for topic, code in codes.items()
    ]  # fmt: skip
    return broker_frame(0, version, number, responses=responses)


def codes(talk, version=9):
    """The error codes of the responses, by correlation id and topic."""
    found = {}
    for frame in frames_of(talk.client.take()):
        response = produced(parse_response(frame, 0, version))
        found[int.from_bytes(frame[4:8], "big")] = {
            topic: result.error_code for (topic, _), result in response.items()
        }
    return found
