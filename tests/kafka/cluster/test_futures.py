"""`penstock.kafka.cluster.futures`."""

import gc
import weakref
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.kafka.cluster.futures import result_of


class Found:
    """A result that may be referred to weakly."""


def _failed(error):
    future = Future()
    future.set_exception(error)
    return future


def test_a_result_is_returned():
    future = Future()
    future.set_result(7)
    assert result_of(future, 1) == 7


def test_an_error_of_the_cluster_is_raised():
    with pytest.raises(KafkaException) as raised:
        result_of(_failed(KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH))), 1)
    assert raised.value.args[0].code() == KafkaError.FENCED_LEADER_EPOCH


def test_another_error_is_raised():
    with pytest.raises(ValueError, match="of the client"):
        result_of(_failed(ValueError("of the client")), 1)


def test_a_result_that_is_late_is_not_awaited():
    with pytest.raises(TimeoutError):
        result_of(Future(), 0)


def test_nothing_is_kept_after_an_error():
    def code(futures, found):
        for future in futures:
            try:
                result_of(future, 1)
            except KafkaException as error:
                return error.args[0].code(), found
        return None

    gc.disable()
    try:
        found = Found()
        ended = weakref.ref(found)
        code([_failed(KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH)))], found)
        del found
        assert ended() is None
    finally:
        gc.enable()
