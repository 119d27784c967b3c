"""The results of confluent_kafka's futures, with errors that end without Python's collector.

A future keeps its error, and an error that was raised keeps the frames that it passed, with their
local variables. If the future is one of these, all of it is a cycle of objects: it stays until
Python's collector reads all objects, which a gateway has it do seldom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaException

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


def result_of(future: Future[T], timeout_s: float) -> T:
    """Wait for a result.

    Args:
        future: Has the result, or its error.
        timeout_s: How long to wait, in seconds.

    Raises:
        KafkaException: A copy of its error.
        TimeoutError: There is no result in time.
    """
    error = future.exception(timeout_s)
    if isinstance(error, KafkaException):
        raise KafkaException(*error.args)
    return future.result()
