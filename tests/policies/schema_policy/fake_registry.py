"""A small schema registry that speaks Confluent's API over HTTP, and fails on demand.

It has what a real registry for tests lacks: GUIDs, contexts, rule sets, authentication, and faults.
Its responses are those of Confluent's `SchemasResource`, `SubjectVersionsResource`, `ContextFilter`
and `AbstractSchemaRegistry` answer for the default tenant.
"""

import contextlib
import json
import re
import socket
import ssl
import threading
import uuid
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit


class Fault(Enum):
    """How a request is answered instead of well."""

    SILENT = auto()  # not at all
    HANGS_UP = auto()
    SLOW_STATUS = auto()  # a byte now and then, without an end
    SLOW_HEADERS = auto()
    SLOW_BODY = auto()
    CUT = auto()  # the body is shorter than announced
    GARBAGE = auto()  # the response of a web server
    NOT_HTTP = auto()
    HUGE = auto()  # more than 8 MiB, with the length announced
    HUGE_CHUNKS = auto()  # the same in chunks
    DEEP = auto()  # JSON, 100,000 levels deep
    REDIRECT = auto()
    LATE = auto()  # well, but not before `release`


class Schema(NamedTuple):
    """A registered schema: the parts that decide whether two are the same."""

    schema_type: str
    text: str
    references: tuple[tuple[str, str, int], ...]
    metadata: str
    rule_set: str

    @property
    def guid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, repr(tuple(self))))

    def as_json(self) -> dict[str, Any]:
        """Return it as `Schema` and `SchemaString` are written: without empty fields."""
        found: dict[str, Any] = {
            "schema": self.text,
            "guid": self.guid,
            "schemaType": self.schema_type,
        }
        if self.references:
            keys = ("name", "subject", "version")
            found["references"] = [
                dict(zip(keys, reference, strict=True)) for reference in self.references
            ]
        for name, text in (("metadata", self.metadata), ("ruleSet", self.rule_set)):
            if text != "null":
                found[name] = json.loads(text)
        return found


class Version(NamedTuple):
    schema_id: int
    deleted: bool = False


class Subject(NamedTuple):
    """A subject's name within its context (`QualifiedSubject`)."""

    context: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        if text.startswith(":."):
            context, _, name = text[1:].partition(":")
            return cls(context, name)
        return cls(DEFAULT_CONTEXT, text)

    def __str__(self) -> str:
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"


DEFAULT_CONTEXT = "."


class FakeRegistry:
    """A registry in a thread; a context manager. All methods may be called at any time.

    Attributes:
        requests: `GET /schemas/ids/1` and so on, in order.
        authorizations: The header `Authorization` of each, or None.
        status: The status of each response, if it is not None.
        fault: The fault of each response, if any.
        only: A regular expression: `status` and `fault` are for requests in which it is found.
        headers: Those of the last request.
        connections: How many clients have made.
    """

    def __init__(
        self,
        *,
        user_info: str | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        path: str = "",
        has_guids: bool = True,
    ) -> None:
        self.requests: list[str] = []
        self.authorizations: list[str | None] = []
        self.headers: Mapping[str, str] = {}
        self.connections = 0
        self.status: int | None = None
        self.fault: Fault | None = None
        self.only = ""
        self.location = "/"
        self._released = threading.Event()
        self._wanted = f"Bearer {token}" if token else None
        if user_info:
            self._wanted = f"Basic {b64encode(user_info.encode()).decode()}"
        self._tls = tls
        self._path = path
        self._has_guids = has_guids
        self._kept = socket.socket()
        """Has the port while nothing listens there: no connection of others takes it meanwhile."""
        self._port = 0
        self._lock = threading.RLock()
        self._schemas: dict[str, list[Schema]] = {}
        self._subjects: dict[Subject, dict[int, Version]] = {}
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind(("127.0.0.1", 0))
        self._port = self._kept.getsockname()[1]
        self.comes_back()
        return self

    def __exit__(self, *_: object) -> None:
        self.goes_away()
        self._kept.close()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}{self._path}"

    def url_of(self, context: str) -> str:
        """Return the URL of a context, as clients are configured with it."""
        return f"{self.url}/contexts/{context}"

    def wants(self, token: str) -> None:
        """Let in who has another token from now on."""
        self._wanted = f"Bearer {token}"

    def goes_away(self) -> None:
        """Close the port and all connections; the registered schemas stay."""
        if self._server is not None:
            self._server.end()
            self._server = None

    def comes_back(self) -> None:
        """Listen at the same port as before."""
        self._server = _Server(self, self._port, self._tls)

    def release(self) -> None:
        """Answer requests that are `LATE`; those that come later are answered at once."""
        self.fault = None
        self._released.set()

    def register(
        self,
        subject: str,
        text: str,
        schema_type: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
        metadata: Mapping[str, Any] | None = None,
        rule_set: Mapping[str, Any] | None = None,
    ) -> int:
        """Register a schema as the next version of a subject, if it is new; return its id.

        Each context counts its ids from 1; `:.name:subject` is a subject in another context.
        """
        schema = Schema(
            schema_type,
            text,
            tuple((name, other, version) for name, other, version in references),
            json.dumps(metadata, sort_keys=True),
            json.dumps(rule_set, sort_keys=True),
        )
        with self._lock:
            named = Subject.parse(subject)
            schemas = self._schemas.setdefault(named.context, [])
            if schema not in schemas:
                schemas.append(schema)
            schema_id = schemas.index(schema) + 1
            versions = self._subjects.setdefault(named, {})
            if Version(schema_id) not in versions.values():
                versions[max(versions, default=0) + 1] = Version(schema_id)
            return schema_id

    def guid(self, schema_id: int) -> str:
        return self._schemas[DEFAULT_CONTEXT][schema_id - 1].guid

    def delete(self, subject: str, version: int) -> None:
        """Delete a version softly."""
        with self._lock:
            versions = self._subjects[Subject.parse(subject)]
            versions[version] = versions[version]._replace(deleted=True)

    def purge(self, subject: str, version: int) -> None:
        """Delete a version for good: an id without any version is not known any more."""
        with self._lock:
            del self._subjects[Subject.parse(subject)][version]

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        """Answer a request of the API: return a status and the JSON to send."""
        parts = urlsplit(target)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        if not parts.path.startswith(self._path):
            return _wrong_path()
        names = [
            unquote(segment) for segment in parts.path[len(self._path) :].strip("/").split("/")
        ]
        names, query = _in_context(names, query)
        with self._lock:
            for known_method, pattern, handle in _ROUTES:
                found = _matched(pattern, names)
                if method == known_method and found is not None:
                    if names[:2] == ["schemas", "guids"] and not self._has_guids:
                        break
                    return handle(self, *found, query, body)
        return _wrong_path()

    def _key_of(self, number: int, subject: str | None) -> tuple[Subject, int] | None:
        """Return a subject and version that an id has (`getSchemaKeyUsingContexts`)."""
        wanted = Subject.parse(subject or "")
        for named, versions in self._subjects.items():
            for version, kept in versions.items():
                if (
                    kept.schema_id == number
                    and named.context == wanted.context
                    and wanted.name in {"", named.name}
                ):
                    return named, version
        return None

    def _by_id(self, number: str, query: Mapping[str, str], _: Any) -> tuple[int, Any]:
        if not number.isdigit():
            return _wrong_path()  # the path has to have an Integer
        subject = query.get("subject")
        key = self._key_of(int(number), subject)
        if key is None:
            return _unknown(40403, f"Schema {number} not found")
        named, version = key
        known = {} if subject is None else {"subject": str(named), "version": version}
        return 200, known | self._schemas[named.context][int(number) - 1].as_json()

    def _versions_by_id(self, number: str, query: Mapping[str, str], _: Any) -> tuple[int, Any]:
        if not number.isdigit():
            return _wrong_path()
        key = self._key_of(int(number), query.get("subject"))
        if key is None:
            return _unknown(40403, "Schema not found")
        deleted = query.get("deleted") == "true"
        return 200, [
            {"subject": str(named), "version": version}
            for named, versions in self._subjects.items()
            for version, kept in versions.items()
            if kept.schema_id == int(number)
            and named.context == key[0].context
            and (deleted or not kept.deleted)
        ]

    def _by_guid(self, guid: str, *_: Any) -> tuple[int, Any]:
        for schemas in self._schemas.values():
            for schema in schemas:
                if schema.guid == guid:
                    return 200, schema.as_json()
        return _unknown(40403, f"Schema {guid} not found")

    def _ids_by_guid(self, guid: str, *_: Any) -> tuple[int, Any]:
        return 200, [
            {"context": context, "id": number}
            for context, schemas in sorted(self._schemas.items())
            for number, schema in enumerate(schemas, 1)
            if schema.guid == guid
        ]

    def _using_contexts(self, subject: str, deleted: bool) -> Subject | None:
        """Return a subject that has versions: without a context, of any (`getUsingContexts`)."""
        wanted = Subject.parse(subject)
        others = [subject for subject in self._subjects if subject.name == wanted.name]
        if wanted.context != DEFAULT_CONTEXT:
            others = []
        for named in (wanted, *others):
            if any(
                deleted or not version.deleted for version in self._subjects.get(named, {}).values()
            ):
                return named
        return None

    def _by_version(
        self, subject: str, number: str, query: Mapping[str, str], _: Any
    ) -> tuple[int, Any]:
        deleted = query.get("deleted") == "true"
        if number != "latest" and (not number.lstrip("-").isdigit() or int(number) < -1):
            return 422, {"error_code": 42202, "message": f"The specified version '{number}' is"}
        named = self._using_contexts(subject, deleted)
        if named is None:
            return _unknown(40401, f"Subject '{subject}' not found.")
        live = {
            version: kept
            for version, kept in self._subjects[named].items()
            if deleted or not kept.deleted
        }
        version = max(live) if number in {"latest", "-1"} else int(number)
        if version not in live:
            return _unknown(40402, f"Version {number} not found.")
        schema_id = live[version].schema_id
        known = {"subject": str(named), "version": version, "id": schema_id}
        return 200, known | self._schemas[named.context][schema_id - 1].as_json()

    def _register(self, subject: str, _: Any, body: Mapping[str, Any]) -> tuple[int, Any]:
        schema_id = self.register(subject, *_of_body(body))
        context = Subject.parse(subject).context
        return 200, {"id": schema_id} | self._schemas[context][schema_id - 1].as_json()

    def _look_up(self, subject: str, _: Any, body: Mapping[str, Any]) -> tuple[int, Any]:
        text, schema_type, *_ = _of_body(body)
        named = Subject.parse(subject)
        for version, kept in self._subjects.get(named, {}).items():
            found = self._schemas[named.context][kept.schema_id - 1]
            if (found.text, found.schema_type) == (text, schema_type) and not kept.deleted:
                return self._by_version(subject, str(version), {}, None)
        return _unknown(40403, "Schema not found")

    def _associations(self, *_: Any) -> tuple[int, Any]:
        """Confluent's serializers first request whether a topic has its own subjects."""
        return 200, []

    def _delete(self, subject: str, number: str, *_: Any) -> tuple[int, Any]:
        self.delete(subject, int(number))
        return 200, int(number)


_ROUTES = (
    ("GET", "schemas/ids/*", FakeRegistry._by_id),
    ("GET", "schemas/ids/*/versions", FakeRegistry._versions_by_id),
    ("GET", "schemas/guids/*", FakeRegistry._by_guid),
    ("GET", "schemas/guids/*/ids", FakeRegistry._ids_by_guid),
    ("GET", "subjects/*/versions/*", FakeRegistry._by_version),
    ("GET", "associations/resources/*/*", FakeRegistry._associations),
    ("POST", "subjects/*/versions", FakeRegistry._register),
    ("POST", "subjects/*", FakeRegistry._look_up),
    ("DELETE", "subjects/*/versions/*", FakeRegistry._delete),
)


def _in_context(names: list[str], query: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return a path below `/contexts/NAME` as one with qualified subjects (`ContextFilter`)."""
    if names[0] != "contexts" or len(names) < 2:
        return names, query
    context = "." + names[1].strip(":").lstrip(".")
    before = "" if context == DEFAULT_CONTEXT else f":{context}:"
    names = names[2:]
    if names[:1] == ["subjects"] and len(names) > 1 and not names[1].startswith((":.", ":*:")):
        names[1] = before + names[1]
    if names[:2] == ["schemas", "ids"] and not query.get("subject", "").startswith(":."):
        query = query | {"subject": before + query.get("subject", "")}
    return names, query


def _matched(pattern: str, names: Sequence[str]) -> list[str] | None:
    """Return the values of the stars, or None."""
    wanted = pattern.split("/")
    if len(wanted) != len(names):
        return None
    pairs = list(zip(wanted, names, strict=True))
    if any(pair not in {"*", name} for pair, name in pairs):
        return None
    return [name for pair, name in pairs if pair == "*"]


def _of_body(body: Mapping[str, Any]) -> tuple[Any, ...]:
    references = [
        (reference["name"], reference["subject"], reference["version"])
        for reference in body.get("references") or ()
    ]
    return (
        body["schema"],
        body.get("schemaType") or "AVRO",
        references,
        body.get("metadata"),
        body.get("ruleSet"),
    )


def _unknown(code: int, message: str) -> tuple[int, Any]:
    return 404, {"error_code": code, "message": message}


def _wrong_path() -> tuple[int, Any]:
    """Answer as Jersey does, below Confluent's registry."""
    return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


class _Server(ThreadingHTTPServer):
    """Listens until `end`, which leaves neither a thread nor a connection."""

    daemon_threads = False

    def __init__(self, registry: FakeRegistry, port: int, tls: ssl.SSLContext | None) -> None:
        self.registry = registry
        self.ended = threading.Event()
        self._tls = tls
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self._thread.start()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Speak TLS in the connection's own thread."""
        if self._tls is not None:
            try:
                request = self._tls.wrap_socket(request, server_side=True)
            except (OSError, ssl.SSLError):
                return
        self.registry.connections += 1
        self._connections.add(request)
        with request, contextlib.suppress(OSError):
            super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what some tests are about."""

    def end(self) -> None:
        """End between two answers: half an answer is another failure than a closed port."""
        self.ended.set()
        self.shutdown()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                # A TLS connection's own `shutdown` would send the rest of an answer as plain text.
                socket.socket.shutdown(connection, socket.SHUT_RD)
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def handle_any(self) -> None:
        registry = self.server.registry
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        registry.requests.append(f"{self.command} {self.path}")
        registry.authorizations.append(self.headers.get("Authorization"))
        registry.headers = dict(self.headers)
        if re.search(registry.only, self.path):
            if registry.fault is Fault.LATE:
                while not (registry._released.is_set() or self.server.ended.wait(0.05)):
                    pass
            elif registry.fault is not None:
                self._fail(registry.fault)
                self.close_connection = True
                return
            if registry.status is not None:
                self._send(
                    registry.status, {"error_code": registry.status * 100 + 1, "message": ""}
                )
                return
        if registry._wanted not in {None, self.headers.get("Authorization")}:
            self._send(401, {"error_code": 401, "message": "Unauthorized"})
            return
        self._send(*registry.answer(self.command, self.path, json.loads(body) if body else None))

    do_GET = do_POST = do_DELETE = handle_any  # noqa: N815 - http.server's names

    def _send(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self._head(status, len(data), "application/vnd.schemaregistry.v1+json")
        self.wfile.write(data)

    def _head(self, status: int, length: int | None, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _fail(self, fault: Fault) -> None:
        huge = b'{"schema": "' + b"x" * 2**20
        match fault:
            case Fault.SILENT:
                self.server.ended.wait()
            case Fault.HANGS_UP:
                pass
            case Fault.SLOW_STATUS:
                self._drip(iter(b"HTTP/1.1 100 Continue\r\n\r\n" * 10**6))
            case Fault.SLOW_HEADERS:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                self._drip(iter(b"X-One: 1\r\n" * 10**6))
            case Fault.SLOW_BODY:
                self._head(200, 10**7)
                self._drip(iter(b" " * 10**7))
            case Fault.CUT:
                self._head(200, 100)
                self.wfile.write(b'{"schema": "')
            case Fault.GARBAGE:
                self._head(200, 21, "text/html")
                self.wfile.write(b"<html>secret 17<html>")
            case Fault.NOT_HTTP:
                self.wfile.write(b"\x15\x03\x01\x00\x02\x02\x50")
            case Fault.HUGE:
                self._head(200, 10 * len(huge))
                for _ in range(10):
                    self.wfile.write(huge)
            case Fault.HUGE_CHUNKS:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for _ in range(10):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(huge), huge))
            case Fault.DEEP:
                self._head(200, 100_000)
                self.wfile.write(b"[" * 100_000)
            case Fault.REDIRECT:
                self.send_response(307)
                self.send_header("Location", self.server.registry.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

    def _drip(self, data: Iterator[int]) -> None:
        for item in data:
            self.wfile.write(bytes([item]))
            if self.server.ended.wait(0.1):
                return

    def log_message(self, *_: Any) -> None:
        """Print nothing."""
