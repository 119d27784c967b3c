"""Batches as a broker stores them, and the responses to Fetch that carry them."""

import datetime
import struct

import crc32c
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import response as v12
from kio.schema.fetch.v13 import response as v13
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.static.primitive import Records, i32, i32Timedelta, i64

from penstock.kafka.client.protocol.raw_requests import RawResponse
from tests.kafka.client.frames import response_frame
from tests.kafka.records.encoding import encode_batch, values

TRANSACTIONAL, CONTROL = 0x10, 0x20


def batch(
    base: int, count: int = 1, *, epoch: int = 0, producer: int = -1, payload=b"v", **fields
) -> bytes:
    """A batch at an offset; of a transaction where it has a producer."""
    encoded = encode_batch(
        values(*[payload] * count),
        base_offset=base,
        producer_id=producer,
        producer_epoch=-1 if producer < 0 else 0,
        base_sequence=-1 if producer < 0 else 0,
        transactional=producer >= 0,
        **fields,
    )
    return encoded[:12] + struct.pack(">i", epoch) + encoded[16:]


def empty(base: int, count: int, *, epoch: int = 0) -> bytes:
    """A batch whose records were all removed by compaction."""
    encoded = bytearray(batch(base, epoch=epoch, last_offset_delta=count - 1, body=b""))
    struct.pack_into(">i", encoded, 57, 0)
    return with_checksum(encoded)


def marker(base: int, producer: int, *, commit: bool, epoch: int = 0) -> bytes:
    """The end of a transaction."""
    key = struct.pack(">hh", 0, int(commit))
    body = b"\0\0\0" + bytes([len(key) << 1]) + key + bytes([6 << 1]) + bytes(6) + b"\0"
    encoded = bytearray(
        encode_batch(
            values(b""),
            base_offset=base,
            producer_id=producer,
            producer_epoch=0,
            attributes=TRANSACTIONAL | CONTROL,
            body=bytes([len(body) << 1]) + body,
        )
    )
    struct.pack_into(">i", encoded, 12, epoch)
    return bytes(encoded)


def damaged(data: bytes) -> bytes:
    """The same with another last byte."""
    return data[:-1] + bytes([data[-1] ^ 1])


def with_checksum(data: bytearray) -> bytes:
    """The same with the right checksum."""
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(data)


def fetched(
    *batches: bytes,
    version: int = 12,
    code: int = 0,
    outer: int = 0,
    high_watermark: int = 1000,
    stable: int | None = None,
    aborted=(),
    replica: int = -1,
    throttle_ms: int = 0,
    is_empty: bool = False,
    topic="t",
) -> RawResponse:
    """A response to a Fetch request for one partition."""
    module = {12: v12, 13: v13}[version]
    partition = module.PartitionData(
        partition_index=i32(0),
        error_code=ErrorCode(code),
        high_watermark=i64(high_watermark),
        last_stable_offset=i64(high_watermark if stable is None else stable),
        log_start_offset=i64(0),
        aborted_transactions=tuple(
            module.AbortedTransaction(producer_id=ProducerId(pid), first_offset=i64(first))
            for pid, first in aborted
        )
        if aborted is not None
        else None,
        preferred_read_replica=BrokerId(replica),
        records=Records(b"".join(batches)),
    )
    named = {"topic": TopicName(topic)} if version == 12 else {"topic_id": topic}
    found_topic = module.FetchableTopicResponse(partitions=(partition,), **named)
    return RawResponse(
        response_frame(
            module.FetchResponse(
                throttle_time=i32Timedelta.parse(datetime.timedelta(milliseconds=throttle_ms)),
                error_code=ErrorCode(outer),
                responses=() if is_empty else (found_topic,),
            )
        )
    )
