"""The steps of a login by GSSAPI, with a library that has no KDC."""

import gc
import importlib
import sys
import weakref
from types import ModuleType, SimpleNamespace

import pytest

from penstock.kafka.client.errors import LoginError

MODULE = "penstock.kafka.client.connections.kerberos"
TABLE = 0x96C73A00
WITHOUT_LAYER = b"\x01\0\0\0"


class GSSError(Exception):
    """An error of the library."""

    maj_code = 0

    def __init__(self, min_code):
        super().__init__(min_code)
        self.min_code = min_code

    def get_all_statuses(self, code, is_maj):
        return [f"reason {code - TABLE}"]


class Context:
    """A context that sends one token, and takes one. It wraps without a change."""

    instances = weakref.WeakSet()
    error = None

    def __init__(self, **_):
        self.tokens = []
        self.instances.add(self)

    @property
    def complete(self):
        return len(self.tokens) == 2

    def step(self, token):
        if self.error is not None:
            raise self.error
        self.tokens.append(token)
        return None if self.complete else b"ticket"

    def unwrap(self, message):
        return SimpleNamespace(message=message)

    def wrap(self, message, encrypt):
        assert not encrypt
        return SimpleNamespace(message=message)


@pytest.fixture
def kerberos(monkeypatch):
    library = ModuleType("gssapi")
    library.exceptions = SimpleNamespace(GSSError=GSSError)
    library.Name = lambda *_: SimpleNamespace(canonicalize=lambda _: None)
    library.NameType = SimpleNamespace(kerberos_principal=1, hostbased_service=2)
    library.MechType = SimpleNamespace(kerberos=3)
    library.Credentials = lambda **_: None
    library.SecurityContext = Context
    monkeypatch.setitem(sys.modules, "gssapi", library)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield importlib.import_module(MODULE)
    sys.modules.pop(MODULE, None)


def login_until_layers(kerberos):
    authenticator = kerberos.KerberosAuthenticator("kafka@broker", "")
    assert authenticator._step(None) == (b"ticket", True)
    assert authenticator._step(b"proof") == (b"", True)
    return authenticator


@pytest.mark.parametrize("offer", [WITHOUT_LAYER, b"\x07\0\xff\xff"])
def test_no_layer_is_chosen(kerberos, offer):
    authenticator = login_until_layers(kerberos)
    assert authenticator._step(offer) == (WITHOUT_LAYER, True)
    assert authenticator._step(b"") is None


@pytest.mark.parametrize("offer", [b"\x06\0\xff\xff", b"", b"\x01", b"\x01\0\0\0\0"])
def test_a_broker_that_only_offers_layers_is_refused(kerberos, offer):
    """As RFC 4752 says."""
    authenticator = login_until_layers(kerberos)
    with pytest.raises(LoginError, match="the broker demands a security layer") as caught:
        authenticator._step(offer)
    assert not caught.value.retriable


def test_a_login_that_is_given_up_keeps_no_ticket(kerberos):
    Context.instances.clear()
    gc.disable()
    try:
        authenticator = login_until_layers(kerberos)
        assert Context.instances
        del authenticator
        assert not Context.instances
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("code", "retriable"), [(6, False), (21, True), (29, True), (33, True), (34, True), (37, False)]
)
def test_errors_that_may_pass(kerberos, monkeypatch, code, retriable):
    monkeypatch.setattr(Context, "error", GSSError(TABLE + code))
    with pytest.raises(LoginError, match=f"reason {code}") as caught:
        kerberos.KerberosAuthenticator("kafka@broker", "")._step(None)
    assert caught.value.retriable == retriable
