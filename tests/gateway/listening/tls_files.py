"""Certificates, and what a test allows of TLS."""

import ssl
from collections.abc import Callable
from pathlib import Path

import trustme

from penstock.gateway.listening.tls import server_context

JAVA_SUITES = (
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
)


class Files:
    """A listener's key and certificate, and an authority's certificate."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA(key_type=trustme.KeyType.RSA)
        self.key = folder / "listener.pem"
        self.file = folder / "gateway.properties"
        self.issue("first.example.com")

    def issue(self, name: str) -> None:
        issued = self.authority.issue_cert(name, key_type=trustme.KeyType.RSA)
        issued.private_key_and_cert_chain_pem.write_to_path(self.key)

    def context(self, **properties: str) -> ssl.SSLContext:
        named = {f"ssl.{key.replace('_', '.')}": value for key, value in properties.items()}
        return server_context({"ssl.keystore.location": str(self.key), **named}, self.file)

    def handshake(
        self, server: ssl.SSLContext, change: Callable[[ssl.SSLContext], object] = lambda _: None
    ) -> ssl.SSLObject:
        """Shake hands in memory; return the client's end."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.authority.configure_trust(context)
        context.check_hostname = False
        change(context)
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            context.wrap_bio(back, there),
            server.wrap_bio(there, back, server_side=True),
        ]
        while ends:
            for end in list(ends):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                ends.remove(end)
                client = end if not end.server_side else None
                if client is not None:
                    done = client
        return done


def only(version: ssl.TLSVersion) -> Callable[[ssl.SSLContext], None]:
    def change(context: ssl.SSLContext) -> None:
        context.minimum_version = context.maximum_version = version

    return change
