"""An OAuth endpoint on loopback, for the client credentials grant."""

import http.server
import json
import ssl
import threading
import time
import urllib.parse

from tests.jwts import jwt


def unsigned(subject: str, lifetime_s: float = 3600) -> str:
    """A token that a broker with Kafka's validator for tests accepts."""
    return jwt(sub=subject, iat=time.time(), exp=time.time() + lifetime_s) + "."


class TokenEndpoint:
    """Issues `token-1`, `token-2`, ..., or the value of `answer`.

    Attributes:
        requests: The Authorization header and the form of each request.
        status: Of its responses.
        answer: What a response has besides a token, or instead of it.
        drips: Whether it sends spaces before a token, for a second.
        url: Where it is.
    """

    def __init__(self, certificate: str | None = None) -> None:
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        self.status = 200
        self.answer: dict[str, object] = {}
        self.drips = False
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = urllib.parse.parse_qs(body)
                endpoint.requests.append((self.headers["Authorization"], form))
                self.send_response(endpoint.status)
                self.end_headers()
                for _ in range(100 if endpoint.drips else 0):
                    self.wfile.write(b" ")
                    time.sleep(0.01)
                token = f"token-{len(endpoint.requests)}"
                given = {"access_token": token} if endpoint.status == 200 else {}
                self.wfile.write(json.dumps({**given, **endpoint.answer}).encode())

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> "TokenEndpoint":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
