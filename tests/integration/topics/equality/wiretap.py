"""A relay between a gateway and a broker that keeps the bytes of each connection."""

import contextlib
import socket
import socketserver
import threading


class Wiretap(socketserver.ThreadingTCPServer):
    """A relay between a gateway and a broker that keeps the bytes of each connection."""

    daemon_threads = True

    def __init__(self, broker: tuple[str, int]) -> None:
        self.broker = broker
        self.connections: list[tuple[bytearray, bytearray]] = []
        super().__init__(("127.0.0.1", 0), Tapped)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Tapped(socketserver.BaseRequestHandler):
    """One connection."""

    server: Wiretap

    def handle(self) -> None:
        requests, answers = bytearray(), bytearray()
        self.server.connections.append((requests, answers))
        with socket.create_connection(self.server.broker) as broker:
            back = threading.Thread(target=copy, args=(broker, self.request, answers))
            back.start()
            copy(self.request, broker, requests)
            back.join()


def copy(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    """Forward received bytes, and keep them."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            kept += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def split(stream: bytes) -> list[bytes]:
    """Cut a stream into frames."""
    frames = []
    while stream:
        end = 4 + int.from_bytes(stream[:4], "big")
        frames.append(stream[:end])
        stream = stream[end:]
    return frames
