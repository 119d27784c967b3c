"""The valid values of `console.peers`, beside `metrics.listener`."""

import pytest

from penstock.configuration import Address, ConfigurationError
from penstock.gateway.observing.console.keys import check_console_peers, is_same
from tests.gateway.observing.audit_trail.configured import configuration


@pytest.mark.parametrize(
    ("listener", "peers", "why"),
    [
        (None, "gateway-2:9100", "console.peers needs metrics.listener"),
        (":9100", "gateway-2:9100,127.0.0.1:9100", "127.0.0.1:9100 is metrics.listener of this"),
        ("localhost:9100", "127.0.0.1:9100", "127.0.0.1:9100 is metrics.listener of this"),
        ("gateway-1:9100", "Gateway-1:9100", "Gateway-1:9100 is metrics.listener of this"),
    ],
)
def test_peers_that_cannot_be_right_are_an_error(tmp_path, listener, peers, why):
    keys = {"console.peers": peers, **({"metrics.listener": listener} if listener else {})}
    with pytest.raises(ConfigurationError) as raised:
        check_console_peers(configuration(tmp_path, **keys))
    assert why in str(raised.value)
    assert "penstock.properties" in str(raised.value)


@pytest.mark.parametrize("peers", ["", "gateway-2:9100, [fd00::2]:9100", "127.0.0.1:9101"])
def test_other_gateways_are_peers(tmp_path, peers):
    check_console_peers(
        configuration(tmp_path, **{"console.peers": peers, "metrics.listener": ":9100"})
    )


@pytest.mark.parametrize(
    ("listener", "peer", "same"),
    [
        ("0.0.0.0", "127.0.0.1", True),
        ("::", "::1", True),
        ("0.0.0.0", "localhost", True),
        ("10.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("10.0.0.1", "127.0.0.1", False),
        ("0.0.0.0", "10.0.0.1", False),  # nobody knows yet
    ],
)
def test_an_address_of_this_gateway_is_recognized(listener, peer, same):
    assert is_same(Address(listener, 9100), Address(peer, 9100)) == same
    assert not is_same(Address(listener, 9101), Address(peer, 9100))
    assert not is_same(Address(listener, 0), Address(peer, 0))
