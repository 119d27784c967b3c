"""Dead letters as others write them, with the encodings of Java's classes."""

import struct

from penstock.policy import Header, Record

OWN = (Header("own", b"1"), Header("own", None))
LATER = 1_800_000_000_000


def _texts(prefix, topic, partition, offset):
    return (
        Header(f"{prefix}topic", topic.encode()),
        Header(f"{prefix}partition", str(partition).encode()),
        Header(f"{prefix}offset", str(offset).encode()),
    )


def connect(topic, partition, offset, timestamp, key, value, own=OWN):
    """`DeadLetterQueueReporter`: the timestamp and the headers of the record stay."""
    more = (
        Header("__connect.errors.connector.name", b"sink"),
        Header("__connect.errors.exception.message", b"no schema"),
    )
    headers = (*own, *_texts("__connect.errors.", topic, partition, offset), *more)
    return Record(timestamp, key, value, headers)


def streams(topic, partition, offset, timestamp, key, value, own=()):
    """`ExceptionHandlerUtils`: headers of the record are lost."""
    first = (Header("__streams.errors.exception", b"E"), Header("__streams.errors.message", None))
    headers = (*own, *first, *_texts("__streams.errors.", topic, partition, offset))
    return Record(timestamp, key, value, headers)


def spring(topic, partition, offset, timestamp, key, value, own=OWN, prefix="kafka_dlt-original-"):
    """`DeadLetterPublishingRecoverer`: numbers of `ByteBuffer`, and the time of the letter."""
    headers = (
        *own,
        Header(f"{prefix}topic", topic.encode()),
        Header(f"{prefix}partition", struct.pack(">i", partition)),
        Header(f"{prefix}offset", struct.pack(">q", offset)),
        Header(f"{prefix}timestamp", struct.pack(">q", timestamp)),
        Header(f"{prefix}timestamp-type", b"CreateTime"),
        Header("kafka_dlt-exception-fqcn", b"java.lang.IllegalStateException"),
    )
    return Record(LATER, key, value, headers)


def spring_retries(topic, partition, offset, timestamp, key, value, own=OWN):
    """The last of Spring's retry topics."""
    found = spring(topic, partition, offset, timestamp, key, value, own, "kafka_original-")
    more = (Header("retry_topic-attempts", struct.pack(">i", 4)),
            Header("kafka_exception-fqcn", b"E"))  # fmt: skip
    return found._replace(headers=(*found.headers, *more))


def share_group(topic, partition, offset, key=None, value=None):
    """`ShareGroupDLQStateManager`: headers and the timestamp of the record are lost."""
    headers = (
        *_texts("__dlq.errors.", topic, partition, offset),
        Header("__dlq.errors.group", b"readers"),
        Header("__dlq.errors.delivery.count", b"5"),
        Header("__dlq.errors.message", b"Offset rejected by client."),
    )
    return Record(LATER, key, value, headers)


WRITERS = [connect, streams, spring, spring_retries]
