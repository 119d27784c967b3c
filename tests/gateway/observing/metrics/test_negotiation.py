"""The formats and encodings that clients of /metrics accept and get."""

import gzip

import pytest

from penstock.gateway.observing.metrics.http_server import HttpResponse, Request
from penstock.gateway.observing.metrics.negotiation import accepts, compressed, preferred

OPEN = "application/openmetrics-text"
PROMETHEUS_2 = (
    b"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;"
    b"version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


PROMETHEUS_3 = (
    b"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    b"application/openmetrics-text;version=0.0.1;q=0.5,"
    b"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PLAIN = "text/plain"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (PROMETHEUS_2, OPEN),
        (PROMETHEUS_3, OPEN),
        (b"Application/OpenMetrics-Text", OPEN),
        (b"application/*", OPEN),
        (b"text/plain;q=0.5, application/openmetrics-text;q=0.8", OPEN),
        (b"application/openmetrics-text, text/plain", OPEN),
        (b"*/*;q=0.1, application/openmetrics-text", OPEN),
        (b"*/*, text/plain;q=0", OPEN),
        (b"text/plain, application/openmetrics-text", PLAIN),
        (b"text/plain, application/openmetrics-text; q=0.9", PLAIN),
        (b"application/openmetrics-text;version=1.0.0;q=0.2,text/plain;version=0.0.4;q=0.5", PLAIN),
        (b"application/openmetrics-text;q=0.5, */*", PLAIN),
        (b"application/openmetrics-text;q=0.5, text/*;q=0.6", PLAIN),
        (b"text/plain, application/openmetrics-text; q=0", PLAIN),
        (b"text/plain, application/openmetrics-text; q=0.000", PLAIN),
        (b"application/openmetrics-text; q=0", PLAIN),
        (b"text/plain;version=0.0.4", PLAIN),
        (b"text/html", PLAIN),
        (b"*/*", PLAIN),
        (None, PLAIN),
        (b"", PLAIN),
        (b";;,=,\xff;q", PLAIN),
        (b"application/openmetrics-text;q=nan, text/plain;q=0.9", OPEN),  # no weight is 1
        (b"application/openmetrics-text;q=-1, text/plain;q=9", OPEN),
    ],
)
def test_the_accept_header_selects_the_format(header, expected):
    assert preferred(header, (PLAIN, OPEN)) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"gzip, deflate, br", True),
        (b"GZIP;q=0.1", True),
        (b"identity;q=1, gzip;q=0", False),
        (b"*", False),
        (None, False),
    ],
)
def test_the_encodings_that_a_client_accepts(header, expected):
    assert accepts(header, "gzip") == expected


async def test_a_body_is_compressed_for_clients_that_accept_gzip():
    answer = HttpResponse(200, b"a" * 5000)
    plain = await compressed(answer, Request("GET", "/metrics"))
    assert plain.body == answer.body
    assert ("Vary", "Accept, Accept-Encoding") in plain.headers

    request = Request("GET", "/metrics", ((b"accept-encoding", b"gzip"),))
    packed = await compressed(answer, request)
    assert gzip.decompress(packed.body) == answer.body
    assert len(packed.body) < 200
    assert ("Content-Encoding", "gzip") in packed.headers
    assert ("Vary", "Accept, Accept-Encoding") in packed.headers


async def test_a_small_body_is_not_compressed():
    request = Request("GET", "/metrics", ((b"accept-encoding", b"gzip"),))
    assert (await compressed(HttpResponse(200, b"a"), request)).body == b"a"
