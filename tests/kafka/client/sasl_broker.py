"""A broker that refuses logins, and a client that logs in there."""

import asyncio
import base64
import contextlib
import struct

from penstock.configuration.values import Address
from tests.kafka.client.silent_broker import API_VERSIONS, HANDSHAKE, NODE, SMALL, connected


class SaslBroker:
    """Refuses logins.

    Attributes:
        iterations: The number that it demands in a SCRAM login.
        code: The error code of a login.
        handshake_code: The error code of a handshake about a mechanism that is offered.
        reason: The message of the error; None for none.
        messages: The messages of clients to log in.
    """

    def __init__(self, *mechanisms: str) -> None:
        self._mechanisms = mechanisms
        self.iterations = 4096
        self.code = self.handshake_code = 0
        self.reason: str | None = None
        self.messages: list[bytes] = []

    async def __aenter__(self) -> "SaslBroker":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = Address(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def login(self, mechanism: str = "SCRAM-SHA-256") -> None:
        """Log in, as the user u with the password p."""
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "u",
            "sasl.password": "p",
        }
        async with connected(self, **properties) as connection:
            await connection.exchange(NODE, SMALL)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                key, _, correlation, client_size = struct.unpack_from(">hhih", request)
                body = self._response(key, request[10 + max(client_size, 0) :])
                writer.write(struct.pack(">ii", len(body) + 4, correlation) + body)
        writer.close()

    def _response(self, key: int, body: bytes) -> bytes:
        if key == API_VERSIONS:
            served = ((0, 0, 12), (HANDSHAKE, 0, 1), (36, 0, 0))
            return struct.pack(">hi", 0, len(served)) + b"".join(
                struct.pack(">hhh", *versions) for versions in served
            )
        if key == HANDSHAKE:
            (size,) = struct.unpack_from(">h", body)
            is_offered = body[2 : 2 + size].decode() in self._mechanisms
            code = self.handshake_code if is_offered else 33
            names = b"".join(map(_text, self._mechanisms))
            return struct.pack(">hi", code, len(self._mechanisms)) + names
        message = body[4:]
        self.messages.append(message)
        challenge = b""
        if not self.code:
            nonce = message.decode().partition("r=")[2]
            salt = base64.b64encode(b"salt").decode()
            challenge = f"r={nonce}x,s={salt},i={self.iterations}".encode()
        return (
            struct.pack(">h", self.code)
            + _text(self.reason)
            + struct.pack(">i", len(challenge))
            + challenge
        )


def _text(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()
