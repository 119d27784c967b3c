"""The one error of this package, and the error codes it writes."""

from typing import Final


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
TOPIC_AUTHORIZATION_FAILED: Final = 29
UNSUPPORTED_VERSION: Final = 35
INVALID_PARTITIONS: Final = 37
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_REPLICA_ASSIGNMENT: Final = 39
INVALID_CONFIG: Final = 40
INVALID_REQUEST: Final = 42
POLICY_VIOLATION: Final = 44
TOPIC_DELETION_DISABLED: Final = 73
UNKNOWN_TOPIC_ID: Final = 100
