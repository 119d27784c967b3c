"""The error of this package, and Kafka's error codes, from the protocol library's enum.

They are plain integers, since they are packed, compared and logged as such.
"""

from typing import Final

from kio.schema.errors import ErrorCode

from penstock.errors import MalformedError


class WireError(MalformedError):
    """The peer's bytes do not follow the protocol. The connection cannot continue.

    The text never has content of the bytes.
    """


NONE: Final = int(ErrorCode.none)
UNKNOWN_SERVER_ERROR: Final = int(ErrorCode.unknown_server_error)
UNKNOWN_TOPIC_OR_PARTITION: Final = int(ErrorCode.unknown_topic_or_partition)
NOT_LEADER_OR_FOLLOWER: Final = int(ErrorCode.not_leader_or_follower)
REQUEST_TIMED_OUT: Final = int(ErrorCode.request_timed_out)
NETWORK_EXCEPTION: Final = int(ErrorCode.network_exception)
COORDINATOR_NOT_AVAILABLE: Final = int(ErrorCode.coordinator_not_available)
INVALID_TOPIC_EXCEPTION: Final = int(ErrorCode.invalid_topic_exception)
INVALID_REQUIRED_ACKS: Final = int(ErrorCode.invalid_required_acks)
TOPIC_AUTHORIZATION_FAILED: Final = int(ErrorCode.topic_authorization_failed)
ILLEGAL_SASL_STATE: Final = int(ErrorCode.illegal_sasl_state)
UNSUPPORTED_VERSION: Final = int(ErrorCode.unsupported_version)
INVALID_PARTITIONS: Final = int(ErrorCode.invalid_partitions)
INVALID_REPLICATION_FACTOR: Final = int(ErrorCode.invalid_replication_factor)
INVALID_REPLICA_ASSIGNMENT: Final = int(ErrorCode.invalid_replica_assignment)
INVALID_CONFIG: Final = int(ErrorCode.invalid_config)
INVALID_REQUEST: Final = int(ErrorCode.invalid_request)
TOPIC_ALREADY_EXISTS: Final = int(ErrorCode.topic_already_exists)
POLICY_VIOLATION: Final = int(ErrorCode.policy_violation)
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = int(ErrorCode.out_of_order_sequence_number)
DUPLICATE_SEQUENCE_NUMBER: Final = int(ErrorCode.duplicate_sequence_number)
INVALID_PRODUCER_EPOCH: Final = int(ErrorCode.invalid_producer_epoch)
INVALID_TXN_STATE: Final = int(ErrorCode.invalid_txn_state)
UNKNOWN_PRODUCER_ID: Final = int(ErrorCode.unknown_producer_id)
TOPIC_DELETION_DISABLED: Final = int(ErrorCode.topic_deletion_disabled)
PRODUCER_FENCED: Final = int(ErrorCode.producer_fenced)
UNKNOWN_TOPIC_ID: Final = int(ErrorCode.unknown_topic_id)
REBOOTSTRAP_REQUIRED: Final = int(ErrorCode.rebootstrap_required)

RETRIABLE: Final = frozenset(int(code) for code in ErrorCode if code.retriable)
"""Clients send the same request again after these; some of them leave open whether it was
carried out (Errors.java, RetriableException)."""
