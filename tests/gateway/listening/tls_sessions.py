"""Both ends of a TLS session, and the keys of one."""

import contextlib
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from penstock import _native
from penstock.gateway.listening.native_tls import NativeTls
from penstock.gateway.listening.tls import server_context
from penstock.gateway.listening.tls_connection import TlsPhase
from tests.gateway.listening.tls_files import Files

native: Any = _native


def native_tls(files: Files, names: Any = None, **properties: str) -> NativeTls:
    named = {f"ssl.{key.replace('_', '.')}": value for key, value in properties.items()}
    named = {"ssl.keystore.location": str(files.key), **named}
    return NativeTls(native, server_context(named, files.file), named, files.file, names)


def client_context(
    files: Files, change: Callable[[ssl.SSLContext], object] = lambda _: None
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    files.authority.configure_trust(context)
    context.check_hostname = False
    change(context)
    return context


class Ends:
    """Both ends of a connection in memory: OpenSSL's client, and rustls's server."""

    def __init__(
        self, accept: Callable[[bytes], Any], context: ssl.SSLContext, name: str | None = None
    ) -> None:
        self.inwards, self.outwards = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = context.wrap_bio(self.inwards, self.outwards, server_hostname=name)
        with pytest.raises(ssl.SSLWantReadError):
            self.client.do_handshake()
        self.server = accept(self.outwards.read())

    def shake_hands(self) -> "Ends":
        self.inwards.write(self.server.take_unsent())
        while self.server.phase == TlsPhase.HANDSHAKE:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.to_server()
        self.client.do_handshake()
        return self

    def to_server(self) -> bytes:
        plain, unsent, _ = self.server.receive(self.outwards.read())
        self.inwards.write(unsent)
        return plain

    def to_client(self, data: bytes) -> bytes:
        self.inwards.write(self.server.send(data))
        found = b""
        while len(found) < len(data):
            found += self.client.read(2**20)
        return found


class Keys:
    """The keys with which a peer sends after the handshake: for records that OpenSSL never sends."""

    def __init__(self, suite: str, secret: bytes) -> None:
        self.hash = hashes.SHA384() if suite.endswith("SHA384") else hashes.SHA256()
        self._use(secret, 32 if "256_GCM" in suite else 16)

    def _use(self, secret: bytes, size: int) -> None:
        self.secret, self.size, self.sequence = secret, size, 0
        self.key = AESGCM(self._derived(b"key", size))
        self.iv = int.from_bytes(self._derived(b"iv", 12), "big")

    def _derived(self, label: bytes, size: int) -> bytes:
        info = size.to_bytes(2, "big") + bytes([len(label) + 6]) + b"tls13 " + label + b"\0"
        return HKDFExpand(self.hash, size, info).derive(self.secret)

    def record(self, kind: int, content: bytes) -> bytes:
        head = b"\x17\x03\x03" + (len(content) + 17).to_bytes(2, "big")
        nonce = (self.iv ^ self.sequence).to_bytes(12, "big")
        self.sequence += 1
        return head + self.key.encrypt(nonce, content + bytes([kind]), head)

    def renew(self) -> bytes:
        record = self.record(22, b"\x18\0\0\1\0")  # KeyUpdate, no answer wanted
        self._use(self._derived(b"traffic upd", self.hash.digest_size), self.size)
        return record
