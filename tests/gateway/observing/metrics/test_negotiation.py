"""The formats and encodings that clients of /metrics accept and get."""

import gzip

import pytest

from penstock.gateway.observing.metrics.http_server import HttpResponse, Request
from penstock.gateway.observing.metrics.negotiation import accepts, compressed

OPEN = "application/openmetrics-text"
PROMETHEUS_2 = (
    b"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;"
    b"version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("header", "wanted", "expected"),
    [
        (PROMETHEUS_2, OPEN, True),
        (b"Application/OpenMetrics-Text", OPEN, True),
        (b"text/plain, application/openmetrics-text; q=0", OPEN, False),
        (b"text/plain, application/openmetrics-text; q=0.000", OPEN, False),
        (b"text/plain;version=0.0.4", OPEN, False),
        (b"*/*", OPEN, False),
        (None, OPEN, False),
        (b"", OPEN, False),
        (b";;,=,\xff;q", OPEN, False),
        (b"gzip, deflate, br", "gzip", True),
        (b"identity;q=1, gzip;q=0", "gzip", False),
    ],
)
def test_the_accept_header_selects_the_format(header, wanted, expected):
    assert accepts(header, wanted) == expected


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
