"""Why the connection to a cluster fails, as one more connection shows: for errors.

A wrong security protocol shows as a lost connection, or as no response.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration.clients.tls import client_context
from penstock.configuration.errors import ConfigurationError
from penstock.configuration.values import servers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.configuration import Address

_TIMEOUT_S: Final = 3.0
_SERVERS_MAX: Final = 3
_ANSWER_MAX_BYTES: Final = 4096
_UNSUPPORTED_MECHANISM: Final = 33
_ILLEGAL_STATE: Final = 34
"""The error of a listener without SASL."""
_WRONG_HOST: Final = 62
"""OpenSSL's number for a certificate of another host."""
_NO_LOGIN: Final = "PLAIN"
"""A mechanism to ask about where the file has none."""
_CORRELATION: Final = 1


class _Login(NamedTuple):
    """How a listener answers a SaslHandshake request.

    Attributes:
        code: Kafka's error code.
        mechanisms: Those that it offers.
    """

    code: int
    mechanisms: tuple[str, ...]

    @property
    def is_required(self) -> bool:
        return self.code != _ILLEGAL_STATE


def fault_of(properties: Mapping[str, str], file: Path) -> str:
    """Return what is wrong with the keys of a connection; empty if it does not show. Blocks.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file; relative locations start at its folder.
    """
    for server in servers(properties["bootstrap.servers"])[:_SERVERS_MAX]:
        fault = _fault_at(server, properties, file)
        if fault:
            return fault
    return ""


def _fault_at(server: Address, properties: Mapping[str, str], file: Path) -> str:
    """Return what is wrong; empty if it does not show."""
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    mechanism = properties.get("sasl.mechanism", _NO_LOGIN).strip()
    has_tls = protocol.endswith("SSL")
    try:
        context = client_context(properties, file) if has_tls else None
        login = _login_at(server, mechanism, context)
    except ssl.SSLCertVerificationError as error:
        return _untrusted(error, server, properties)
    except ssl.SSLError as error:
        if "CERTIFICATE_REQUIRED" in str(error.reason):
            return "the broker requires a certificate: set upstream.ssl.keystore.location"
        login = None
    except ConfigurationError as error:
        return str(error)  # a file has changed since the start
    except (TimeoutError, ConnectionRefusedError, socket.gaierror, ValueError):
        return ""
    except (OSError, EOFError):
        login = None
    if login is None:
        has_tls = not has_tls
        login = _other_login_at(server, mechanism, has_tls=has_tls)
    return "" if login is None else _difference(login, protocol, mechanism, has_tls=has_tls)


def _other_login_at(server: Address, mechanism: str, *, has_tls: bool) -> _Login | None:
    """Return how a server answers with TLS instead of without, or the other way round."""
    context = None
    if has_tls:
        # Nothing but the question for mechanisms is sent.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        return _login_at(server, mechanism, context)
    except (OSError, EOFError, ValueError):
        return None


def _difference(login: _Login, protocol: str, mechanism: str, *, has_tls: bool) -> str:
    """Return how the keys differ from what a listener expects; empty if they do not."""
    expected = ("SASL_" if login.is_required else "") + ("SSL" if has_tls else "PLAINTEXT")
    offered = f" (mechanisms: {', '.join(login.mechanisms)})" if login.mechanisms else ""
    if expected != protocol:
        return f"the broker expects upstream.security.protocol={expected}{offered}, not {protocol}"
    if login.code == _UNSUPPORTED_MECHANISM and login.is_required and "SASL" in protocol:
        return f"the broker does not offer upstream.sasl.mechanism={mechanism}{offered}"
    return ""


def _untrusted(
    error: ssl.SSLCertVerificationError, server: Address, properties: Mapping[str, str]
) -> str:
    if error.verify_code == _WRONG_HOST:
        return (
            f"the broker's certificate is not for {server.host}: name the broker as its certificate"
            " does (upstream.ssl.endpoint.identification.algorithm)"
        )
    truststore = properties.get("ssl.truststore.location", "")
    stands = f"{truststore} does not have it" if truststore else "it is missing"
    return (
        f"the broker's certificate is not trusted ({error.verify_message}): "
        "upstream.ssl.truststore.location must have the certificate of the authority that issued "
        f"it; {stands}"
    )


def _login_at(server: Address, mechanism: str, context: ssl.SSLContext | None) -> _Login:
    """Return how a server answers a SaslHandshake request.

    Raises:
        OSError: It does not answer, or not with TLS.
        EOFError: It closes the connection, or its answer is none of a broker.
    """
    with socket.create_connection(server, _TIMEOUT_S) as plain:
        if context is None:
            return _exchange(plain, mechanism)
        with context.wrap_socket(plain, server_hostname=server.host) as secured:
            return _exchange(secured, mechanism)


def _exchange(connection: socket.socket, mechanism: str) -> _Login:
    name = mechanism.encode()
    request = struct.pack(">hhihh", 17, 1, _CORRELATION, -1, len(name)) + name
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _read(connection, 4))
    if not 10 <= size <= _ANSWER_MAX_BYTES:
        raise EOFError
    answer = _read(connection, size)
    correlation, code, count = struct.unpack_from(">ihi", answer)
    if correlation != _CORRELATION:
        raise EOFError
    mechanisms = []
    position = 10
    try:
        for _ in range(count):
            (length,) = struct.unpack_from(">h", answer, position)
            mechanisms.append(answer[position + 2 : position + 2 + length].decode())
            position += 2 + length
    except (struct.error, UnicodeDecodeError):
        raise EOFError from None
    return _Login(code, tuple(mechanisms))


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
