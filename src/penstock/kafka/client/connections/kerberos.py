"""Logins by GSSAPI (Kerberos), by the library of the package `gssapi`.

aiokafka's own steps log in as the first principal that the library finds, and raise errors without
its reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import gssapi

from penstock.kafka.client.errors import LoginError

if TYPE_CHECKING:
    from collections.abc import Generator

_ERROR_TABLE: Final = 0x96C73A00
"""The first code of MIT's table of errors (`krb5_err.et`)."""
_UNKNOWN_SERVICE: Final = _ERROR_TABLE + 7
_CLOCK_SKEW: Final = frozenset({_ERROR_TABLE + 37, _ERROR_TABLE + 148})
_UNKNOWN_REALM: Final = _ERROR_TABLE + 154
_NO_KDC: Final = frozenset(
    {
        _ERROR_TABLE + 29,  # the KDC is not available
        _ERROR_TABLE + 156,  # no KDC of the realm responds
        _ERROR_TABLE + 220,  # no address of the KDC is found
    }
)
_NOT_NOW: Final = frozenset(
    {
        _ERROR_TABLE + 21,  # the client's key is not valid yet: KDCs' clocks differ
        _ERROR_TABLE + 33,  # nor is the ticket
        _ERROR_TABLE + 34,  # another process has sent a request with the same ticket and time
    }
)
_NO_REASONS: Final = frozenset({"Success", "Unknown error"})
_WITHOUT_LAYER: Final = b"\x01\0\0\0"
"""RFC 4752: no security layer after the login, and the ticket's own principal."""


class KerberosAuthenticator:
    """The steps of a GSSAPI login (RFC 4752)."""

    def __init__(self, service: str, principal: str) -> None:
        """Prepare; no ticket is looked for.

        Args:
            service: The broker's, `NAME@HOST`.
            principal: Who logs in; empty for that of the ticket cache or of the keytab.
        """
        self._steps = _login(service, principal)

    def _step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Return the bytes to send, and whether a response is expected; None at the end. Blocks.

        Raises:
            LoginError: There is no ticket, or the broker does not prove itself.
        """
        try:
            return self._steps.send(payload)
        except StopIteration:
            return None
        except gssapi.exceptions.GSSError as error:
            raise _login_error(error) from None


def _login(service: str, principal: str) -> Generator[tuple[bytes, bool], Any, None]:
    """Yield what is to be sent; a login that is given up is freed at once, with its ticket."""
    credentials = None
    if principal:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(name=name, usage="initiate")
    target = gssapi.Name(service, gssapi.NameType.hostbased_service)
    context = gssapi.SecurityContext(
        name=target.canonicalize(gssapi.MechType.kerberos), creds=credentials, usage="initiate"
    )
    received = None
    while not context.complete:
        received = yield context.step(received) or b"", True
    offer = context.unwrap(received).message
    if len(offer) != len(_WITHOUT_LAYER) or not offer[0] & _WITHOUT_LAYER[0]:
        raise LoginError(
            "the login by GSSAPI failed: the broker demands a security layer; "
            "upstream.security.protocol=SASL_SSL encrypts instead"
        )
    yield context.wrap(_WITHOUT_LAYER, encrypt=False).message, True


def _login_error(error: gssapi.exceptions.GSSError) -> LoginError:
    reasons = error.get_all_statuses(error.min_code, is_maj=False)
    if _NO_REASONS.issuperset(reasons):
        reasons = error.get_all_statuses(error.maj_code, is_maj=True)
    reason = " ".join(" ".join(reasons).split())
    return LoginError(
        f"the login by GSSAPI failed: {reason}{_hint(error)}",
        retriable=error.min_code in _NO_KDC | _NOT_NOW,
    )


def _hint(error: gssapi.exceptions.GSSError) -> str:
    """Return what has to be changed, for the usual failures."""
    if error.min_code in _CLOCK_SKEW | _NOT_NOW:
        return ""
    if error.min_code == _UNKNOWN_SERVICE:
        return "; see upstream.sasl.kerberos.service.name, and the broker's host name"
    if error.min_code in _NO_KDC or error.min_code == _UNKNOWN_REALM:
        return "; see krb5.conf (KRB5_CONFIG)"
    return "; see the ticket cache (KRB5CCNAME) or the keytab (KRB5_CLIENT_KTNAME)"
