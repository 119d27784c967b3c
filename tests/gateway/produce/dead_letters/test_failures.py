"""What a broker's response means for a batch of dead letters."""

import pytest

from penstock.gateway.produce.dead_letters.failures import (
    LetterRefusedError,
    LettersTooLargeError,
    breaks_request,
    failure_of,
    has_other_sequence,
    leaves_open,
)
from penstock.kafka.client.errors import (
    BrokerUnreachableError,
    ConnectionLostError,
    LoginError,
    response_error,
)
from penstock.kafka.client.protocol.produce import ProduceResult
from penstock.kafka.wire.errors import UNKNOWN_SERVER_ERROR, WireError

PLACE = ("orders.dead", 1)


def failure(code, text=""):
    return failure_of(PLACE, 100, ProduceResult(code, 0, text, ()))


@pytest.mark.parametrize("code", [0, 46])
def test_a_batch_that_the_broker_has_is_stored(code):
    assert failure(code) is None


@pytest.mark.parametrize(
    ("code", "kind"), [(10, LettersTooLargeError), (18, LettersTooLargeError),
                       (32, LetterRefusedError), (87, LetterRefusedError)],
)  # fmt: skip
def test_a_refused_batch_is_not_stored(code, kind):
    found = failure(code, "why")
    assert type(found) is kind
    assert not leaves_open(found)
    assert not has_other_sequence(found)


@pytest.mark.parametrize("code", [45, 47, 49, 59, 90])
def test_a_broker_may_expect_other_numbers(code):
    assert has_other_sequence(failure(code))


@pytest.mark.parametrize("code", [-1, 3, 6, 7, 19, 20, 56])
def test_an_error_code_may_leave_open_whether_a_batch_is_stored(code):
    assert leaves_open(failure(code))


@pytest.mark.parametrize("code", [29, 31])
def test_a_denied_batch_is_not_stored(code):
    assert not leaves_open(failure(code))


def test_without_a_response_it_is_open_whether_a_batch_is_stored():
    for lost in (TimeoutError(), BrokerUnreachableError("x"), WireError("x")):
        assert leaves_open(lost)
    assert not leaves_open(LoginError("x"))
    assert not leaves_open(ZeroDivisionError())
    assert not has_other_sequence(response_error(6, "x"))


@pytest.mark.parametrize(
    ("failure", "breaks"),
    [
        (response_error(UNKNOWN_SERVER_ERROR, "t"), True),
        (ConnectionLostError("lost"), True),
        (BrokerUnreachableError("refused"), False),
        (response_error(6, "t"), False),
        (TimeoutError(), False),
    ],
)
def test_a_broker_that_could_not_handle_a_request_is_recognized(failure, breaks):
    assert breaks_request(failure) is breaks
