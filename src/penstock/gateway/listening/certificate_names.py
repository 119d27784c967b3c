"""The names that a listener's certificate covers, and when it expires, as clients see it."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from penstock.gateway.listening.tls import server_context

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_HOSTNAME_MISMATCH: Final = 62
"""X509_V_ERR_HOSTNAME_MISMATCH of OpenSSL."""
_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL."""
_DEMANDS: Final = frozenset({"ssl.client.auth", "ssl.enabled.protocols", "ssl.cipher.suites"})
"""Keys with other demands on clients."""


class CertificateNames:
    """The names of the certificate that a listener has in its file now.

    It is shown to a client in memory, which trusts any issuer. Its names also count if
    it has expired.
    """

    def __init__(self, properties: Mapping[str, str], file: Path) -> None:
        """Read the certificate; see `tls.server_context`.

        Raises:
            ConfigurationError: It is not usable.
        """
        own = {key: value for key, value in properties.items() if key not in _DEMANDS}
        self._context = server_context(own, file)
        self._certificate = self._shown()

    def uncovered(self, names: Iterable[str]) -> list[str]:
        """Return the names for which clients would not accept the certificate."""
        return [name for name in names if not self._covers(name)]

    @property
    def expires_at(self) -> float | None:
        """When it expires, in seconds since 1970; None if that cannot be read."""
        if not self._certificate:
            return None
        client = self._trusting()
        client.check_hostname = False
        client.verify_flags = ssl.VerifyFlags(client.verify_flags | _NO_CHECK_TIME)
        try:
            shown = self._shake_hands(client, None).getpeercert()
        except ssl.SSLError:
            return None
        return float(ssl.cert_time_to_seconds(str(shown["notAfter"]))) if shown else None

    def _trusting(self) -> ssl.SSLContext:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.load_verify_locations(cadata=self._certificate)
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return client

    def _shown(self) -> bytes:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.verify_mode = ssl.CERT_NONE
        try:
            return self._shake_hands(client, None).getpeercert(binary_form=True) or b""
        except ssl.SSLError:
            return b""  # it is too old-fashioned for this client; its names are not known

    def _covers(self, name: str) -> bool:
        if not self._certificate:
            return True
        client = self._trusting()
        try:
            self._shake_hands(client, name)
        except ssl.SSLCertVerificationError as error:
            return error.verify_code != _HOSTNAME_MISMATCH
        except ssl.SSLError:
            pass  # not for its name
        return True

    def _shake_hands(self, client: ssl.SSLContext, name: str | None) -> ssl.SSLObject:
        """Shake hands until the client has judged the certificate; return its end."""
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client_end = client.wrap_bio(to_client, to_server, server_hostname=name)
        server_end = self._context.wrap_bio(to_server, to_client, server_side=True)
        while True:
            for end in (client_end, server_end):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                if end is client_end:
                    return client_end
