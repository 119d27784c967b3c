"""The messages about logins that a broker refuses."""

import threading
from types import SimpleNamespace

import pytest

from penstock.kafka.client.connections.broker_connection import (
    BrokerConnection,
    _ThreadedAuthenticator,
)
from penstock.kafka.client.connections.brokers import Brokers
from penstock.kafka.client.connections.daemon_threads import DaemonThreads
from penstock.kafka.client.errors import LoginError
from tests.kafka.client.sasl_broker import SaslBroker
from tests.kafka.client.settings import SETTINGS

pytestmark = pytest.mark.system


async def refusal(broker, mechanism):
    with pytest.raises(LoginError) as caught:
        await broker.login(mechanism)
    assert not caught.value.retriable
    return str(caught.value)


@pytest.mark.parametrize(
    ("offered", "names"),
    [(["PLAIN", "GSSAPI"], "PLAIN, GSSAPI"), ([], "no mechanism")],
)
async def test_a_mechanism_that_is_not_offered(offered, names):
    async with SaslBroker(*offered) as broker:
        assert await refusal(broker, "SCRAM-SHA-512") == (
            f"{broker.address}: the broker does not offer logins by SCRAM-SHA-512; "
            f"it offers {names}"
        )
        assert not broker.messages


@pytest.mark.parametrize(
    ("code", "reason", "text"),
    [
        (58, "no such user", "no such user"),
        (58, None, "SASL_AUTHENTICATION_FAILED, without a reason"),
        (58, "", "SASL_AUTHENTICATION_FAILED, without a reason"),
        (34, None, "ILLEGAL_SASL_STATE, without a reason"),
    ],
)
async def test_a_login_that_is_refused(code, reason, text):
    async with SaslBroker("PLAIN") as broker:
        broker.code, broker.reason = code, reason
        assert await refusal(broker, "PLAIN") == (
            f"{broker.address} refused the login by PLAIN: {text}"
        )


async def test_a_handshake_that_is_refused():
    async with SaslBroker("PLAIN") as broker:
        broker.handshake_code = 34
        assert await refusal(broker, "PLAIN") == (
            f"{broker.address} refused the login by PLAIN: ILLEGAL_SASL_STATE, without a reason"
        )


class Waiting:
    """The steps of a login that waits for a KDC."""

    def __init__(self):
        self.answer = threading.Event()

    def _step(self, payload):
        self.answer.wait(60)
        return payload, True


async def test_a_login_that_waits_for_a_kdc():
    waiting = Waiting()
    steps = _ThreadedAuthenticator(waiting, DaemonThreads("logins", 1), 0.01)
    try:
        with pytest.raises(LoginError, match=r"no KDC has responded within 0\.01 s") as caught:
            await steps.step(b"")
        assert caught.value.retriable
    finally:
        waiting.answer.set()
    again = _ThreadedAuthenticator(waiting, DaemonThreads("logins", 1))
    assert await again.step(b"next") == (b"next", True)


async def test_a_failure_that_is_kept_has_no_frames(monkeypatch):
    """It is kept until the next attempt; the frames of a login have its ticket or password."""

    async def refuse(_):
        raise LoginError("no")

    monkeypatch.setattr(BrokerConnection, "connect", refuse)
    brokers = Brokers(SETTINGS, SimpleNamespace(options=dict))
    failure = await brokers._attempted(SETTINGS.servers[0])
    assert str(failure) == f"{SETTINGS.servers[0]}: no"
    assert failure.__context__ is failure.__traceback__ is None
