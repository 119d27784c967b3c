"""One URL: kept connections, and limits for any server."""

import socket
import threading
import time

import pytest

from penstock.policies.schema_policy.registry import endpoint as module
from penstock.policies.schema_policy.registry.endpoint import Endpoint
from penstock.policies.schema_policy.registry.errors import NoAnswerError
from penstock.policies.schema_policy.registry.settings import RegistrySettings
from tests.policies.schema_policy.certificates import Certificates
from tests.policies.schema_policy.fake_registry import FakeRegistry, Fault

pytestmark = pytest.mark.system
PLENTY = 60.0
"""A limit that no test waits for."""
SOON = 1.0
"""A limit that tests wait for."""


def settings(url, folder=None, **more):
    names = {f"schema.registry.{key.replace('_', '.')}": str(more[key]) for key in more}
    found = RegistrySettings.from_configs({"schema.registry.url": url} | names, folder)
    assert found is not None
    return found


@pytest.fixture
def registry():
    with FakeRegistry() as running:
        running.register("orders-value", '"int"')
        yield running


@pytest.fixture
def connect():
    """Makes endpoints, and closes them."""
    made = []

    def make(url, **more):
        made.append(Endpoint(url, settings(url, **more)))
        return made[-1]

    yield make
    for endpoint in made:
        endpoint.close()


def fails(endpoint, limit=PLENTY):
    with pytest.raises(NoAnswerError) as caught:
        endpoint.get("/schemas/ids/1", limit)
    return caught.value


def ends(endpoint):
    """Wait until a request that was given up ends, although it would never end by itself."""
    if endpoint._given_up is not None:
        endpoint._given_up.join(60)
        assert not endpoint._given_up.is_alive()


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_answer_is_a_status_and_a_body(registry, connect):
    registry_client = connect(registry.url)
    status, body = registry_client.get("/schemas/ids/1", PLENTY)
    assert status == 200
    assert body.startswith(b'{"schema": "\\"int\\""')
    assert registry_client.get("/schemas/ids/2", PLENTY).status == 404
    assert registry.requests == ["GET /schemas/ids/1", "GET /schemas/ids/2"]
    assert registry.headers["Accept"].startswith("application/vnd.schemaregistry.v1+json,")
    assert "Authorization" not in registry.headers


def test_the_path_of_the_url_is_kept(connect):
    with FakeRegistry(path="/apis/ccompat/v7") as registry:
        registry.register("s", '"int"')
        assert connect(registry.url).get("/schemas/ids/1", PLENTY).status == 200
        assert registry.requests == ["GET /apis/ccompat/v7/schemas/ids/1"]


def test_a_connection_is_kept_and_reopened_when_it_is_closed(registry, connect):
    registry_client = connect(registry.url)
    for _ in range(5):
        assert registry_client.get("/schemas/ids/1", PLENTY).status == 200
    assert registry.connections == 1
    registry.goes_away()
    registry.comes_back()
    assert registry_client.get("/schemas/ids/1", PLENTY).status == 200
    assert registry.connections == 2


def test_a_kept_connection_that_is_closed_without_an_answer_is_reopened(connect):
    """As a proxy closes one just when the request is on its way."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"
    requests = []

    def serve():
        for answers in (1, 1):
            peer, _ = listener.accept()
            with peer:
                for _ in range(answers):
                    requests.append(peer.recv(10_000))
                    peer.sendall(answer)
                peer.recv(10_000)  # the next request, or the end

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        registry_client = connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert registry_client.get("/a", PLENTY) == (200, b"[]")
        assert registry_client.get("/b", PLENTY) == (200, b"[]")
        registry_client.close()
        thread.join(60)
    assert [request.split()[1] for request in requests] == [b"/a", b"/b"]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"basic_auth_user_info": "me:pä:ss"}, "Basic bWU6cMOkOnNz"),
        ({"bearer_auth_token": "abc"}, "Bearer abc"),
    ],
)
def test_credentials_are_sent(registry, connect, more, expected):
    connect(registry.url, **more).get("/schemas/ids/1", PLENTY)
    assert registry.authorizations == [expected]


def test_a_port_without_a_listener_is_away(registry, connect):
    registry_client = connect(registry.url)
    registry.goes_away()
    failure = fails(registry_client)
    assert str(failure) == "cannot be reached: Connection refused"
    assert failure.is_away


def test_a_host_that_is_not_known_is_away(connect, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    failure = fails(connect("http://registry.invalid"))
    assert str(failure) == "cannot be reached: its host name is not known"
    assert failure.is_away


def test_names_that_do_not_resolve_in_time_do_not_hold_the_caller(connect, monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.wait(60) and [])
    registry_client = connect("http://registry.invalid")
    assert str(fails(registry_client, SOON)) == "does not answer within 1 seconds"
    assert str(fails(registry_client, SOON)) == "still does not answer an earlier request"
    ended.set()
    ends(registry_client)


@pytest.mark.parametrize(
    "fault", [Fault.SILENT, Fault.SLOW_STATUS, Fault.SLOW_HEADERS, Fault.SLOW_BODY]
)
def test_a_limit_holds_however_slowly_bytes_come(registry, connect, fault):
    registry_client = connect(registry.url)
    assert registry_client.get("/schemas/ids/1", PLENTY).status == 200, (
        "the connection is kept alive, too"
    )
    registry.fault = fault
    failure = fails(registry_client, SOON)
    assert str(failure) == "does not answer within 1 seconds"
    assert failure.is_away
    ends(registry_client)
    registry.fault = None
    assert registry_client.get("/schemas/ids/1", PLENTY).status == 200


@pytest.mark.parametrize("fault", [Fault.HANGS_UP, Fault.CUT, Fault.NOT_HTTP])
def test_an_invalid_answer_is_away(registry, connect, fault):
    registry.fault = fault
    failure = fails(connect(registry.url))
    assert str(failure).startswith("ends the connection before its answer does (")
    assert failure.is_away


@pytest.mark.parametrize("fault", [Fault.HUGE, Fault.HUGE_CHUNKS])
def test_an_answer_is_read_up_to_a_size(registry, connect, fault):
    registry.fault = fault
    registry_client = connect(registry.url)
    failure = fails(registry_client)
    assert str(failure) == "responded with more than 8388608 bytes"
    assert not failure.is_away, "another schema may be smaller"
    registry.fault = None
    assert registry_client.get("/schemas/ids/1", PLENTY).status == 200


def test_an_answer_of_just_that_size_is_read(registry, connect, monkeypatch):
    registry_client = connect(registry.url)
    size = len(registry_client.get("/schemas/ids/1", PLENTY).body)
    monkeypatch.setattr(module, "MAX_BYTES", size)
    assert len(registry_client.get("/schemas/ids/1", PLENTY).body) == size
    monkeypatch.setattr(module, "MAX_BYTES", size - 1)
    assert not fails(registry_client).is_away


def test_a_redirect_is_not_followed(registry, connect):
    with FakeRegistry() as other:
        registry.fault, registry.location = Fault.REDIRECT, other.url
        registry_client = connect(registry.url, basic_auth_user_info="me:secret")
        assert registry_client.get("/schemas/ids/1", PLENTY).status == 307
        assert other.requests == []


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def test_a_trusted_registry_is_used(certificates, connect):
    with FakeRegistry(tls=certificates.server()) as registry:
        registry.register("s", '"int"')
        registry_client = connect(registry.url, ssl_truststore_location=certificates.trusted)
        for _ in range(3):
            assert registry_client.get("/schemas/ids/1", PLENTY).status == 200
        assert registry.connections == 1


def test_a_registry_of_another_authority_is_not(certificates, connect):
    with FakeRegistry(tls=certificates.server()) as registry:
        failure = fails(connect(registry.url))
        assert str(failure).startswith("cannot be trusted: ")
        assert registry.requests == []


def test_a_registry_of_another_name_is_not_unless_names_do_not_count(tmp_path, connect):
    certificates = Certificates(tmp_path, host="elsewhere.example.org")
    with FakeRegistry(tls=certificates.server()) as registry:
        registry.register("s", '"int"')
        failure = fails(connect(registry.url, ssl_truststore_location=certificates.trusted))
        assert str(failure).startswith("cannot be trusted: IP address mismatch")
        registry_client = connect(
            registry.url,
            ssl_truststore_location=certificates.trusted,
            ssl_endpoint_identification_algorithm="",
        )
        assert registry_client.get("/schemas/ids/1", PLENTY).status == 200


def test_a_registry_may_want_a_certificate(certificates, connect):
    with FakeRegistry(tls=certificates.server(wants_client=True)) as registry:
        registry.register("s", '"int"')
        trusted = {"ssl_truststore_location": certificates.trusted}
        own = {"ssl_keystore_location": certificates.locked, "ssl_key_password": "secret"}
        assert connect(registry.url, **trusted, **own).get("/schemas/ids/1", PLENTY).status == 200
        assert fails(connect(registry.url, **trusted)).is_away


def test_plain_http_to_a_tls_port_is_away(certificates, connect):
    with FakeRegistry(tls=certificates.server()) as registry:
        assert fails(connect(registry.url.replace("https", "http"))).is_away


def test_tls_to_a_plain_http_port_is_away(registry, connect):
    failure = fails(connect(registry.url.replace("http", "https")), PLENTY)
    assert failure.is_away


def test_a_limit_holds_for_a_handshake_that_is_not_answered(connect):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        registry_client = connect(f"https://127.0.0.1:{listener.getsockname()[1]}")
        assert str(fails(registry_client, SOON)) == "does not answer within 1 seconds"
        ends(registry_client)


def test_ended_requests_leave_no_thread(registry, connect):
    before = threading.active_count()
    registry.goes_away()
    registry_client = connect(registry.url)
    for _ in range(20):
        fails(registry_client)
    wait_for(lambda: threading.active_count() <= before)
