"""A token endpoint of OAuth that issues numbered tokens to a client, and fails on demand."""

import json
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

CLIENT_ID = "penstock"
CLIENT_SECRET = "xK9-client secret"


class FakeIssuer:
    """Listens in a thread; a context manager.

    Attributes:
        issued: The tokens, in order.
        forms: The form of each request.
        lifetime: The value of `expires_in`; None to leave it out.
        status: The status of each response, if it is not None.
        answer: The body of each response instead of a token, if it is not None.
    """

    def __init__(self) -> None:
        self.issued: list[str] = []
        self.forms: list[dict[str, list[str]]] = []
        self.lifetime: Any = 1000
        self.status: int | None = None
        self.answer: Any = None
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, content = issuer._answer(
                    self.headers.get("Authorization"), self.headers["Content-Type"], body.decode()
                )
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/oauth/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def settings(self) -> dict[str, str]:
        """The configuration of a client of this endpoint."""
        before = "schema.registry.bearer.auth."
        return {
            f"{before}credentials.source": "OAUTHBEARER",
            f"{before}issuer.endpoint.url": self.url,
            f"{before}client.id": CLIENT_ID,
            f"{before}client.secret": CLIENT_SECRET,
        }

    def _answer(self, login: str | None, kind: str, body: str) -> tuple[int, Any]:
        self.forms.append(parse_qs(body))
        wanted = b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if self.status is not None:
            return self.status, {"error": "server_error"}
        if self.answer is not None:
            return 200, self.answer
        if login != f"Basic {wanted}" or kind != "application/x-www-form-urlencoded":
            return 401, {"error": "invalid_client"}
        self.issued.append(f"token-{len(self.issued) + 1}")
        found = {"access_token": self.issued[-1], "token_type": "Bearer"}
        return 200, found if self.lifetime is None else found | {"expires_in": self.lifetime}
