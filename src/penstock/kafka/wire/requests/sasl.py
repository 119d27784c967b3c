"""The principal of a client, read from its SASL requests and the broker's responses.

SaslHandshake (API key 17) version 1 has the mechanism; SaslAuthenticate (API key 36) versions 0 to
2 have its messages. They are read like Kafka's `PlainSaslServer`, `ScramSaslServer` and
`OAuthBearerSaslServer` do, and the principal is that of the default principal builder. Nothing is
verified here: a name is used once the broker has accepted it.
"""

from __future__ import annotations

import base64
import json
import re
from collections import deque
from struct import error
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.wire.errors import ILLEGAL_SASL_STATE, NONE, WireError
from penstock.kafka.wire.frames import body_of_response
from penstock.kafka.wire.primitives import (
    INT16,
    INT64,
    read_length,
    read_long_length,
    skip_string,
    skip_tags,
)

if TYPE_CHECKING:
    from collections.abc import Callable

HANDSHAKE: Final = 17
HANDSHAKE_VERSION: Final = 1
"""After version 0, tokens follow without a request header."""
AUTHENTICATE: Final = 36
AUTHENTICATE_VERSIONS: Final = range(3)
_FLEXIBLE_FROM: Final = 2

_API_AT, _VERSION_AT, _CLIENT_ID_AT = 4, 6, 12
_REFUSALS: Final = (b"{", b"e=")
"""How refusals begin that come without an error code: OAUTHBEARER's (RFC 7628, 3.2.2), which
Kafka sends before the error, and SCRAM's (RFC 5802, 7). No mechanism's success begins so."""

_MAX_BYTES: Final = 524_288
"""The longest message that is read (default of `sasl.server.max.receive.size`)."""

_SASLNAME: Final = rb"(?:[^\x00=,\x80-\xff]|=2C|=3D)+"
_SCRAM_FIRST: Final = re.compile(
    rb"n,(?:a=%b)?,(?:m=[^\x00,\x80-\xff]+,)?n=(?P<name>%b),r=[\x21-\x2b\x2d-\x7e]+"
    rb"(?P<extensions>(?:,[A-Za-z]+=[^\x00,\x80-\xff]+)*)" % (_SASLNAME, _SASLNAME)
)
_OAUTHBEARER_FIRST: Final = re.compile(
    rb"n,(?:a=%b)?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]+\x01)*)\x01" % _SASLNAME
)
_BEARER: Final = re.compile(rb"bearer +(?P<token>[-_~+/.a-z0-9]+=*)", re.IGNORECASE)
_BLANKS: Final = "".join(map(chr, range(0x21)))
"""The characters that Java's `String.trim` removes."""


def read_handshake(frame: bytes) -> str:
    """Read a SaslHandshake request of version 1, length included.

    Returns:
        The mechanism that the client names.

    Raises:
        WireError: It has another type, or cannot be read.
    """
    try:
        version, position = _after_header(frame, HANDSHAKE)
        if version != HANDSHAKE_VERSION:
            raise IndexError
        length, position = read_length(frame, position, flexible=False)
        return _take(frame, position, length).decode()
    except (IndexError, error, UnicodeDecodeError):
        raise WireError("a SaslHandshake request that cannot be read") from None


def read_authenticate(frame: bytes) -> bytes:
    """Read a SaslAuthenticate request of versions 0 to 2, length included.

    Returns:
        The mechanism's message. It may hold a password: neither log nor keep it.

    Raises:
        WireError: It has another type, or cannot be read.
    """
    try:
        version, position = _after_header(frame, AUTHENTICATE)
        flexible = _flexible(version)
        if flexible:
            position = skip_tags(frame, position)
        length, position = read_long_length(frame, position, flexible=flexible)
        return _take(frame, position, length)
    except (IndexError, error):
        raise WireError("a SaslAuthenticate request that cannot be read") from None


def authenticated(frame: bytes, version: int) -> bool | None:
    """Read the response of a broker to a SaslAuthenticate request.

    Args:
        frame: The response, length included.
        version: The version of the request.

    Returns:
        True if the message was accepted, False if it was refused: with an error code, or
        without an error code in the mechanism's own words. None if the broker did not authenticate
        (ILLEGAL_SASL_STATE): the client keeps its previous identity.

    Raises:
        WireError: The response cannot be read.
    """
    try:
        flexible = _flexible(version)
        position = body_of_response(frame, flexible=flexible)
        (code,) = INT16.unpack_from(frame, position)
        position = skip_string(frame, position + INT16.size, flexible=flexible)
        length, position = read_long_length(frame, position, flexible=flexible)
        message = _take(frame, position, length)
    except (IndexError, error):
        raise WireError("a response to SaslAuthenticate that cannot be read") from None
    if code == ILLEGAL_SASL_STATE:
        return None
    return code == NONE and not message.lstrip().startswith(_REFUSALS)


def session_lifetime_ms(frame: bytes, version: int) -> int:
    """Read for how long a client is authenticated that a broker has accepted (KIP-368).

    Args:
        frame: A response to SaslAuthenticate that `authenticated` has read, length included.
        version: The version of the request.

    Returns:
        0 where there is no end.
    """
    if version < 1:
        return 0
    flexible = _flexible(version)
    position = body_of_response(frame, flexible=flexible)
    position = skip_string(frame, position + INT16.size, flexible=flexible)
    length, position = read_long_length(frame, position, flexible=flexible)
    try:
        return max(0, int(INT64.unpack_from(frame, position + max(0, length))[0]))
    except error:
        raise WireError("a response to SaslAuthenticate that cannot be read") from None


class Authentication:
    """The facts about the client of a connection.

    Tell it of every handshake and of every message when it is sent, and of every answer, in the
    order in which they pass. Answers are matched with messages, so a client that does not wait
    for an answer before it sends the next message is not identified wrongly.
    """

    def __init__(self) -> None:
        self._principal: str | None = None
        self._mechanism = _UNKNOWN
        self._name: str | None = None
        self._round = 0
        self._requests: deque[_Message] = deque()
        self._is_complete = False

    @property
    def is_complete(self) -> bool:
        """Whether the broker has accepted an exchange to its end; that stays so.

        Of a mechanism that is not known here (GSSAPI) it is the first message.
        """
        return self._is_complete

    @property
    def principal(self) -> str | None:
        """Who the broker accepted the client as, like `User:alice`.

        None where that is not known: before it, after a refusal, with delegation tokens,
        with tokens that are no JWT, with GSSAPI and any other mechanism. While a client
        authenticates again (KIP-368) it is who it was.
        """
        return self._principal

    @property
    def undecided(self) -> bool:
        """Whether a response is expected that decides who the client is."""
        return bool(self._requests)

    def handshake(self, mechanism: str) -> None:
        """Begin an exchange: the client named its mechanism."""
        self._mechanism = _MECHANISMS.get(mechanism, _UNKNOWN)
        self._name = None
        self._round = 0

    def sent(self, auth_bytes: bytes) -> None:
        """Take the client's next message, with any content; keep only the name in it."""
        if self._round == 0:
            self._name = _read_name(self._mechanism, auth_bytes)
        self._round = (self._round + 1) % self._mechanism.rounds
        self._requests.append(_Message(self._name, completes=self._round == 0))

    def answered(self, ok: bool | None) -> bool:
        """Take the broker's answer to the first message that has none yet.

        Args:
            ok: The result of `authenticated` for it.

        Returns:
            Whether the client has authenticated with it.
        """
        if not self._requests:
            return False
        message = self._requests.popleft()
        if ok is None:
            return False
        if not ok:
            self._principal = None
            return False
        if message.completes:
            self._is_complete = True
            self._principal = None if message.name is None else f"User:{message.name}"
        return message.completes


class _Message(NamedTuple):
    name: str | None
    """The client's identity in its exchange."""
    completes: bool
    """Whether the exchange is over once the broker accepts it."""


class _Mechanism(NamedTuple):
    read_name: Callable[[bytes], str | None]
    """Reads the first message of an exchange; ValueError or RecursionError if it is invalid."""
    rounds: int
    """How many messages of the client, and answers, an exchange takes."""


def _read_name(mechanism: _Mechanism, message: bytes) -> str | None:
    if len(message) > _MAX_BYTES:
        return None
    try:
        return mechanism.read_name(message)
    except (ValueError, RecursionError):
        return None


def _plain_name(message: bytes) -> str | None:
    _authorization_id, name, _password = message.split(b"\x00")
    return name.decode() or None


def _scram_name(message: bytes) -> str | None:
    match = _SCRAM_FIRST.fullmatch(message)
    if match is None:
        return None
    extensions = _pairs(match["extensions"].split(b","))
    if extensions.get(b"tokenauth", b"").lower() == b"true":
        return None  # the name is a delegation token's; the principal is the token's owner
    return match["name"].replace(b"=2C", b",").replace(b"=3D", b"=").decode()


def _oauthbearer_name(message: bytes) -> str | None:
    match = _OAUTHBEARER_FIRST.fullmatch(message)
    if match is None:
        return None
    pairs = _pairs(match["pairs"].split(b"\x01"))
    bearer = _BEARER.fullmatch(pairs.get(b"auth", b""))
    return None if bearer is None else _subject(bearer["token"])


def _subject(token: bytes) -> str | None:
    _header, payload, _signature = token.split(b".")
    claims = json.loads(base64.urlsafe_b64decode(payload + b"==").decode())
    subject = claims.get("sub") if isinstance(claims, dict) else None
    if not isinstance(subject, str) or not subject:
        return None
    if subject != subject.strip(_BLANKS):
        return None  # only one of Kafka's two validators trims it
    return subject.encode().decode()  # ValueError for half a surrogate pair


def _no_name(_message: bytes) -> None:
    return None


_MECHANISMS: Final = {
    "PLAIN": _Mechanism(_plain_name, rounds=1),
    "SCRAM-SHA-256": _Mechanism(_scram_name, rounds=2),
    "SCRAM-SHA-512": _Mechanism(_scram_name, rounds=2),
    "OAUTHBEARER": _Mechanism(_oauthbearer_name, rounds=1),
}
_UNKNOWN: Final = _Mechanism(_no_name, rounds=1)


def _pairs(items: list[bytes]) -> dict[bytes, bytes]:
    """Split each `key=value`; of equal keys the last counts, as in Kafka."""
    return {key: value for key, _, value in (item.partition(b"=") for item in items)}


def _after_header(frame: bytes, api_key: int) -> tuple[int, int]:
    """Return a request's version and the position after its client id; IndexError if another's."""
    if INT16.unpack_from(frame, _API_AT)[0] != api_key:
        raise IndexError
    position = skip_string(frame, _CLIENT_ID_AT, flexible=False)
    return INT16.unpack_from(frame, _VERSION_AT)[0], position


def _flexible(version: int) -> bool:
    if version not in AUTHENTICATE_VERSIONS:
        raise IndexError
    return version >= _FLEXIBLE_FROM


def _take(frame: bytes, position: int, length: int) -> bytes:
    if length < 0 or position + length > len(frame):
        raise IndexError
    return frame[position : position + length]
