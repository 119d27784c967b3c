"""What stands between the transport of a socket and a client's protocol, without a socket."""

import asyncio
import ssl
from types import SimpleNamespace

import pytest

from penstock import _native
from penstock.gateway.listening.tls_connection import HandshakeError, TlsConnection
from tests.gateway.listening.receiving import Receiving
from tests.gateway.listening.tls_files import Files
from tests.gateway.listening.tls_sessions import Ends, client_context, native_tls

native = _native
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(native, "TlsServer"), reason="native threads need Linux"),
]


class Socket(asyncio.Transport):
    """The transport of a socket; it records what is written."""

    def __init__(self):
        super().__init__({"socket": "a socket"})
        self.written, self.buffered = b"", 0
        self.calls = []
        self.closing = False

    def write(self, data):
        self.written += data

    def get_write_buffer_size(self):
        return self.buffered

    def set_write_buffer_limits(self, high=None, low=None):
        self.calls.append((high, low))

    def pause_reading(self):
        self.calls.append("pause")

    def resume_reading(self):
        self.calls.append("resume")

    def write_eof(self):
        self.calls.append("write_eof")

    def close(self):
        self.closing = True
        self.calls.append("close")

    def abort(self):
        self.closing = True
        self.calls.append("abort")

    def is_closing(self):
        return self.closing


class Client(Receiving):
    """The protocol of a client; it records what it receives."""

    def __init__(self):
        self.received, self.events = b"", []
        self.pauses_at_first = False

    def connection_made(self, transport):
        self.transport = transport
        if self.pauses_at_first:
            transport.pause_reading()

    def data_received(self, data):
        self.received += data

    def eof_received(self):
        self.events.append("eof")

    def connection_lost(self, exc):
        self.events.append(("lost", exc))

    def pause_writing(self):
        self.events.append("pause")

    def resume_writing(self):
        self.events.append("resume")


class Connection:
    """A connection, and OpenSSL's client at its other end."""

    def __init__(self, files):
        served = native_tls(files)
        self.ends = Ends(lambda hello: served._server.hello(hello).answer(), client_context(files))
        self.socket, self.protocol = Socket(), Client()
        self.made = TlsConnection(self.ends.server, served.context, lambda: self.protocol)
        self.made.connection_made(self.socket)

    def to_client(self):
        self.ends.inwards.write(self.socket.written)
        self.socket.written = b""

    def shake_hands(self, early=b""):
        self.to_client()
        self.ends.client.do_handshake()
        if early:
            self.ends.client.write(early)
        self.made.data_received(self.ends.outwards.read())
        self.to_client()
        return self

    def say(self, data):
        self.ends.client.write(data)
        self.made.data_received(self.ends.outwards.read())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("tls"))


async def turn():
    for _ in range(3):
        await asyncio.sleep(0)


async def test_bytes_are_passed_on_in_both_directions(files):
    connection = Connection(files)
    assert not connection.made.established.done()
    connection.shake_hands()
    assert connection.made.established.done()
    connection.say(b"hello")
    assert connection.protocol.received == b"hello"
    connection.made.write(memoryview(b"an "))
    connection.made.writelines([b"ans", memoryview(b"wer")])
    connection.to_client()
    assert connection.ends.client.read(99) + connection.ends.client.read(99) == b"an answer"


async def test_bytes_with_the_end_of_the_handshake_wait_for_a_protocol_that_pauses(files):
    connection = Connection(files)
    connection.protocol.pauses_at_first = True
    connection.shake_hands(b"early")
    connection.say(b" and more")
    assert connection.protocol.received == b""
    assert connection.made.has_unread
    connection.made.resume_reading()
    assert connection.protocol.received == b""  # not within a call of the protocol's own
    await turn()
    assert connection.protocol.received == b"early and more"
    assert not connection.made.has_unread
    assert connection.socket.calls == ["pause", "resume"]


async def test_the_end_of_tls_is_passed_on_after_the_bytes_before_it(files):
    connection = Connection(files).shake_hands()
    connection.made.pause_reading()
    connection.ends.client.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        connection.ends.client.unwrap()
    connection.made.data_received(connection.ends.outwards.read())
    assert (connection.protocol.received, connection.protocol.events) == (b"", [])
    assert connection.made.has_unread
    connection.made.resume_reading()
    await turn()
    assert (connection.protocol.received, connection.protocol.events) == (b"last", ["eof"])
    assert connection.socket.calls[-1] == "close"
    connection.to_client()
    connection.ends.client.unwrap()  # the gateway has said that it ends, too


async def test_the_end_of_the_socket_is_an_end(files):
    connection = Connection(files).shake_hands()
    assert connection.made.eof_received()
    assert connection.protocol.events == ["eof"]
    assert connection.made.is_closing()


async def test_nothing_is_written_after_the_end(files):
    connection = Connection(files).shake_hands()
    connection.made.write(b"last")
    connection.made.close()
    connection.made.close()
    connection.made.write(b"more")
    connection.to_client()
    assert connection.ends.client.read(99) == b"last"
    assert connection.ends.client.read(99) == b""
    assert connection.socket.calls == ["write_eof", "resume"]


async def test_bytes_until_the_clients_end_are_discarded(files, monkeypatch):
    connection = Connection(files).shake_hands()
    connection.made.pause_reading()
    connection.say(b"request")
    connection.made.close()
    connection.made.pause_reading()
    connection.made.resume_reading()
    assert connection.socket.calls == ["pause", "write_eof", "resume"]
    connection.say(b"more")
    assert not connection.made.eof_received()  # the transport closes itself
    connection.made.connection_lost(None)
    assert (connection.protocol.received, connection.protocol.events) == (b"", [("lost", None)])


@pytest.mark.parametrize("end", ["close", "failed handshake", "invalid record"])
async def test_a_client_that_does_not_close_is_not_waited_for_without_limit(
    files, monkeypatch, end
):
    monkeypatch.setattr("penstock.gateway.listening.tls_connection.CLOSING_S", 0.01)
    connection = Connection(files)
    if end == "failed handshake":
        connection.made.data_received(b"\x15\x03\x03\x00\x02\x02\x30")
        with pytest.raises(HandshakeError):
            await connection.made.established
    else:
        connection.shake_hands()
        if end == "close":
            connection.made.close()
        else:
            connection.made.data_received(b"\x17\x03\x03\x00\x20" + b"x" * 32)
    assert connection.socket.calls[-1] != "abort"
    async with asyncio.timeout(60):
        while connection.socket.calls[-1] != "abort":
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("end", ["close_notify", "invalid record"])
async def test_a_request_and_an_end_may_come_with_the_end_of_the_handshake(files, end):
    connection = Connection(files)
    connection.to_client()
    connection.ends.client.do_handshake()
    connection.ends.client.write(b"request")
    with pytest.raises(ssl.SSLWantReadError):
        connection.ends.client.unwrap()
    data = bytearray(connection.ends.outwards.read())
    if end == "invalid record":
        data[-1] ^= 1
    connection.made.data_received(bytes(data))
    await connection.made.established
    assert connection.protocol.received == b"request"
    assert connection.protocol.events == (["eof"] if end == "close_notify" else [])
    assert connection.socket.calls == ["close"]


async def test_an_end_of_tls_within_the_handshake_is_an_error(files):
    connection = Connection(files)
    connection.made.data_received(b"\x15\x03\x03\x00\x02\x01\x00")  # the alert: close_notify
    with pytest.raises(HandshakeError, match="TLS: "):
        await connection.made.established
    assert connection.protocol.events == []


async def test_a_panic_of_the_library_closes_the_connection(files, capfd):
    connection = Connection(files).shake_hands()
    connection.ends.server.panic()
    connection.say(b"hello")
    assert (connection.protocol.received, connection.socket.calls) == (b"", ["close"])
    assert capfd.readouterr().err == ""


async def test_bytes_that_wait_are_held(files):
    connection = Connection(files).shake_hands()
    assert connection.made.held_bytes == 0
    connection.made.pause_reading()
    connection.say(b"hello")
    assert connection.made.held_bytes == 5
    connection.ends.client.write(b"world")
    record = connection.ends.outwards.read()
    connection.made.data_received(record[:-1])
    assert connection.made.held_bytes == 5 + len(record) - 1
    connection.made.data_received(record[-1:])
    assert connection.made.held_bytes == 10


@pytest.mark.parametrize(("buffered", "ends"), [(0, "close"), (1, "abort")])
async def test_an_invalid_record_closes_the_connection_after_the_bytes_before_it(
    files, buffered, ends
):
    connection = Connection(files).shake_hands()
    connection.socket.buffered = buffered
    connection.ends.client.write(b"good")
    connection.ends.client.write(b"bad")
    data = bytearray(connection.ends.outwards.read())
    data[-1] ^= 1
    connection.made.data_received(bytes(data))
    assert (connection.protocol.received, connection.socket.calls) == (b"good", [ends])
    connection.to_client()
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        connection.ends.client.read(1)


async def test_a_connection_whose_keys_are_used_up_is_closed(files):
    connection = Connection(files).shake_hands()
    connection.made.tls = SimpleNamespace(send=fails, take_unsent=lambda: b"")
    connection.made.write(b"x")
    assert not connection.made.is_closing()
    await turn()
    assert connection.made.is_closing()


def fails(_):
    raise ConnectionError


async def test_a_failed_handshake_is_an_error_of_the_client(files):
    connection = Connection(files)
    connection.made.data_received(b"\x15\x03\x03\x00\x02\x02\x30")  # the alert: unknown CA
    assert connection.socket.calls == ["close"]
    with pytest.raises(HandshakeError, match=r"TLS: .*UnknownCA"):
        await connection.made.established
    connection.made.connection_lost(None)


@pytest.mark.parametrize("how", ["eof", "lost"])
async def test_a_handshake_that_is_not_completed_is_an_error(files, how):
    connection = Connection(files)
    if how == "eof":
        connection.made.eof_received()
    connection.made.connection_lost(None)
    with pytest.raises(ConnectionResetError):
        await connection.made.established
    assert connection.protocol.events == []


async def test_the_loss_of_the_connection_is_passed_on_once(files):
    connection, error = Connection(files).shake_hands(), OSError()
    connection.made.connection_lost(error)
    assert connection.protocol.events == [("lost", error)]
    assert connection.made.is_closing()
    connection.made.write(b"x")
    assert connection.socket.written == b""


async def test_after_a_native_thread_what_it_left_is_written_and_an_end_is_noticed(files):
    connection = Connection(files).shake_hands()
    connection.made.pause_reading()
    with pytest.raises(ssl.SSLWantReadError):
        connection.ends.client.unwrap()
    connection.ends.server.receive(connection.ends.outwards.read())  # as the thread does
    assert not connection.made.has_unread
    connection.made.returned()
    assert connection.made.has_unread
    assert connection.protocol.events == []
    connection.made.resume_reading()
    await turn()
    assert connection.protocol.events == ["eof"]


async def test_the_buffer_and_its_limits_are_those_of_the_socket(files):
    connection = Connection(files).shake_hands()
    connection.made.pause_writing()
    connection.made.resume_writing()
    assert connection.protocol.events == ["pause", "resume"]
    connection.socket.buffered = 7
    assert connection.made.get_write_buffer_size() == 7
    connection.made.set_write_buffer_limits(5)
    assert connection.socket.calls == [(5, None)]


async def test_a_connection_has_the_extra_info_of_its_socket(files):
    made = Connection(files).made
    assert made.get_extra_info("socket") == "a socket"
    assert made.get_extra_info("sslcontext") is not None
    assert made.get_extra_info("peercert") is None
    assert made.get_extra_info("other", 5) == 5
