"""Kafka's error codes that policies and records lead to, as plain integers.

They are `kio.schema.errors.ErrorCode`'s, and a test compares them. They are written out here
because each policy worker process, and each of Spark's, loads this module: the library's enum
takes 20 ms to import, and ten times that where Hypothesis is installed. What runs only in the
gateway takes its codes from the enum itself (`penstock.kafka.wire.errors`).
"""

from typing import Final

UNKNOWN_SERVER_ERROR: Final = -1
CORRUPT_MESSAGE: Final = 2
REQUEST_TIMED_OUT: Final = 7
MESSAGE_TOO_LARGE: Final = 10
INVALID_TIMESTAMP: Final = 32
POLICY_VIOLATION: Final = 44
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
INVALID_RECORD: Final = 87
