"""Certificates and keys of a registry and its clients, made for one test."""

import ssl
from pathlib import Path

import trustme


class Certificates:
    """An authority, and PEM files in a folder.

    Attributes:
        trusted: The authority's certificate.
        client: A client's key and certificates.
        locked: The same, with the key encrypted by the password `secret`.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.authority = trustme.CA()
        self._server = self.authority.issue_cert(host)
        issued = self.authority.issue_cert("client@example.org")
        self.trusted = folder / "trusted.pem"
        self.client = folder / "client.pem"
        self.locked = folder / "locked.pem"
        self.authority.cert_pem.write_to_path(self.trusted)
        issued.private_key_and_cert_chain_pem.write_to_path(self.client)
        self.locked.write_bytes(
            _encrypted(issued.private_key_pem.bytes())
            + b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        )

    def server(self, *, wants_client: bool = False) -> ssl.SSLContext:
        """Return the context of a registry."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.configure_cert(context)
        if wants_client:
            self.authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _encrypted(key: bytes) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
