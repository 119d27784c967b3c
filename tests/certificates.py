"""Certificates for the tests of TLS."""

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Files:
    """A certificate authority, and PEM files of certificates that it issued.

    Attributes:
        trust: The file of the authority's own certificate.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.trust = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(self.trust)

    def key(self, name: str, *identities: str) -> Path:
        """Return a file with a key (PKCS 8, which Java reads) and its certificates."""
        issued = self._authority.issue_cert(*(identities or ("127.0.0.1",)))
        private = load_pem_private_key(issued.private_key_pem.bytes(), None)
        path = self._folder / name
        path.write_bytes(
            private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        )
        return path

    def broker_keys(self) -> dict[str, str]:
        """Return a broker's properties for its key, and for the certificates that it accepts."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key("broker.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
        }
