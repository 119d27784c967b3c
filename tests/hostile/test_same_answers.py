"""The same inputs to a broker and to a gateway: equal responses, or closed by both (12).

An input that changes the cluster is not compared: the broker's second response differs.
"""

import collections
import socket
from typing import Any

import pytest
from kio.serial import entity_reader
from kio.serial.errors import SerialError

from penstock.kafka.wire.checked import checked
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import read_length, read_varint
from penstock.kafka.wire.schemas import load_request_schema
from tests.hostile.attack import codes
from tests.hostile.greedy import place
from tests.hostile.inputs import Base, mutated
from tests.raw import parse_response

pytestmark = pytest.mark.slow

WAIT_S = 1.0
PRODUCE, DESCRIBE_CONFIGS = 0, 32
UNKNOWN_SERVER_ERROR, CORRUPT, INVALID_REQUIRED_ACKS, NOT_IN_TRANSACTION = -1, 2, 21, 53
CLOSED, NOTHING = "closed", "nothing"


class Endpoint:
    """Sends inputs to an address, each over a new connection."""

    def __init__(self, address: str) -> None:
        self._place = place(address)

    def send(self, of: Base, data: bytes) -> object:
        """Send an input; return the error codes of the response, or what happened instead."""
        with socket.create_connection(self._place, WAIT_S) as connection:
            try:
                connection.sendall(data)
                answer = self._receive(connection)
            except TimeoutError:
                return NOTHING
            except ConnectionError:
                return CLOSED
        if answer is None:
            return CLOSED
        try:
            response = parse_response(answer, of.api_key, of.version)
            if of.api_key == DESCRIBE_CONFIGS:  # a gateway knows keys that the broker does not
                return [int(result.error_code) for result in response.results]
            return codes(response)
        except Exception as error:
            return f"not readable: {type(error).__name__}"

    @staticmethod
    def _receive(connection: socket.socket) -> bytes | None:
        data, size = b"", 4
        while len(data) < size:
            piece = connection.recv(65536)
            if not piece:
                return None
            data += piece
            if len(data) >= 4:
                size = 4 + int.from_bytes(data[:4], "big")
        return data[:size]


def is_known(of: Base, data: bytes, broker: object, gateway: object) -> bool:
    """Return whether docs/failures.md lists a difference."""
    if of.api_key == PRODUCE and isinstance(gateway, dict) and isinstance(broker, dict):
        return is_known_refusal(read(of, data)[0], every_code(broker), every_code(gateway))
    if gateway != CLOSED:
        return False
    if broker == NOTHING:
        return True
    try:
        return read(of, data)[1] < len(data)
    except (WireError, SerialError, ValueError, IndexError):
        # Not UTF-8; or a length, or a count, that is negative for Kafka, and so null or none.
        return True


def is_known_refusal(request: Any, broker: set[int], gateway: set[int]) -> bool:
    """Return whether both refuse a Produce request with codes whose difference is documented."""
    if 0 in broker | gateway:
        return False
    if gateway == {INVALID_REQUIRED_ACKS}:
        return request.acks not in {-1, 0, 1}
    in_transaction = request.transactional_id is not None or NOT_IN_TRANSACTION in broker
    unknown_codec = broker == {UNKNOWN_SERVER_ERROR}
    return gateway == {CORRUPT} and (in_transaction or unknown_codec)


def every_code(response: object) -> set[int]:
    """Return the error codes of a Produce response."""
    if isinstance(response, dict):
        return set().union(*map(every_code, response.values()))
    if isinstance(response, list):
        return set().union(*map(every_code, response))
    return {response} if isinstance(response, int) else set()


def read(of: Base, data: bytes) -> tuple[Any, int]:
    """Read a request that the broker has read; return it, and where it ends."""
    schema = load_request_schema(of.api_key, of.version)
    size, position = read_length(data, 12, flexible=False)
    position += max(0, size)
    data[14:position].decode()
    if schema.__flexible__:
        count, position = read_varint(data, position)
        for _ in range(count):
            _, position = read_varint(data, position)
            size, position = read_varint(data, position)
            position += size
    body, end = checked(data, position, schema)
    return entity_reader(schema)(body, 0)[0], end


def test_responses_and_closed_connections_are_those_of_a_broker(
    cluster, attacked, inputs, pytestconfig, chance
):
    count = pytestconfig.getoption("fuzz_inputs") // 40
    broker, gateway = Endpoint(cluster.bootstrap_servers), Endpoint(attacked.broker_address())
    compared: collections.Counter[str] = collections.Counter()
    different = []
    for _ in range(count):
        of, data = mutated(chance, inputs)
        expected = broker.send(of, data)
        if broker.send(of, data) != expected:
            compared["told twice in two ways"] += 1
            continue
        actual = gateway.send(of, data)
        compared[expected if isinstance(expected, str) else "answered"] += 1
        if actual != expected and not is_known(of, data, expected, actual):
            different.append((of.api_key, of.version, expected, actual, data.hex()))
    print(dict(compared))
    assert not different, (len(different), different[0])
    assert compared["answered"] > count / 20
    assert compared[CLOSED] > count / 20
