"""The one error of this package, and Kafka's error codes."""

from typing import Final

from kio.schema.errors import ErrorCode


class WireError(Exception):
    """The peer's bytes are not what the protocol says. The connection cannot go on.

    The text never holds what the bytes hold.
    """


NONE: Final = 0
UNKNOWN_SERVER_ERROR: Final = -1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
NOT_LEADER_OR_FOLLOWER: Final = 6
REQUEST_TIMED_OUT: Final = 7
NETWORK_EXCEPTION: Final = 13
COORDINATOR_NOT_AVAILABLE: Final = 15
INVALID_TOPIC_EXCEPTION: Final = 17
INVALID_REQUIRED_ACKS: Final = 21
TOPIC_AUTHORIZATION_FAILED: Final = 29
UNSUPPORTED_VERSION: Final = 35
INVALID_PARTITIONS: Final = 37
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_REPLICA_ASSIGNMENT: Final = 39
INVALID_CONFIG: Final = 40
INVALID_REQUEST: Final = 42
POLICY_VIOLATION: Final = 44
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
DUPLICATE_SEQUENCE_NUMBER: Final = 46
INVALID_PRODUCER_EPOCH: Final = 47
UNKNOWN_PRODUCER_ID: Final = 59
TOPIC_DELETION_DISABLED: Final = 73
UNKNOWN_TOPIC_ID: Final = 100

RETRIABLE: Final = frozenset(int(code) for code in ErrorCode if code.retriable)
"""Clients send the same request again after these; some of them leave open whether it was
carried out (Errors.java, RetriableException)."""
