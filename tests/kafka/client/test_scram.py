"""SCRAM logins: the iterations that a broker may demand."""

import asyncio
import base64
import hashlib

import pytest

from penstock.kafka.client.connections.scram import LimitedScramAuthenticator
from penstock.kafka.client.errors import LoginError
from tests.kafka.client.sasl_broker import SaslBroker


def steps(iterations):
    """Return the step after the broker's first message."""
    found = LimitedScramAuthenticator(
        loop=None,
        sasl_plain_password="secret",
        sasl_plain_username="u",
        sasl_mechanism="SCRAM-SHA-256",
    )
    first, _ = found._step(None)
    nonce = first.decode().partition("r=")[2]
    salt = base64.b64encode(b"salt").decode()
    return found._step(f"r={nonce}x,s={salt},i={iterations}".encode())


@pytest.fixture
def hashed(monkeypatch):
    """Return the iterations of each hash; none is computed."""
    found = []

    def hash_quickly(name, password, salt, iterations):
        found.append(iterations)
        return b"x" * 32

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", hash_quickly)
    return found


@pytest.mark.parametrize("iterations", [4096, 8192, 1_000_000])
def test_allowed_iterations(hashed, iterations):
    message, _ = steps(iterations)
    assert b",p=" in message
    assert hashed == [iterations]


@pytest.mark.parametrize("iterations", [-1, 0, 1, 4095, 1_000_001, 10**9])
def test_too_few_and_too_many_iterations(hashed, iterations):
    with pytest.raises(LoginError, match=f"demands {iterations} iterations of SCRAM; 4096 to"):
        steps(iterations)
    assert not hashed


@pytest.mark.system
@pytest.mark.parametrize("iterations", [1, 10**8])
async def test_a_broker_that_demands_them_gets_no_proof(iterations):
    async with SaslBroker("SCRAM-SHA-256") as broker:
        broker.iterations = iterations
        with pytest.raises(LoginError, match=f"{broker.address}: the broker demands") as caught:
            await asyncio.wait_for(broker.login(), 1.5)
        assert not caught.value.retriable
        assert len(broker.messages) == 1
