"""Protocols and suites in the names of Kafka, as OpenSSL takes them."""

import ssl
from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.tls_versions import limit_versions, versions_and_suites

FILE = Path("p.properties")
PROTOCOLS, SUITES = "ssl.enabled.protocols", "ssl.cipher.suites"


def limited(**keys):
    """Return the versions and the suites before TLS 1.3 that a context accepts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    names = {"protocols": PROTOCOLS, "suites": SUITES}
    limit_versions(context, {names[key]: value for key, value in keys.items()}, FILE, "upstream.")
    older, newest, suites = versions_and_suites(context)
    return older, newest, [suite for suite in suites if not suite.startswith("TLS_")]


@pytest.mark.parametrize(
    ("protocols", "versions"),
    [
        ("", (True, True)),
        ("TLSv1.2,TLSv1.3", (True, True)),
        ("TLSv1.3 , TLSv1.2", (True, True)),
        ("TLSv1.2", (True, False)),
        ("TLSv1.3", (False, True)),
    ],
)
def test_protocols(protocols, versions):
    assert limited(protocols=protocols)[:2] == versions


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ],
)
def test_a_suite_before_1_3_in_the_names_of_java_and_of_openssl(suite, name):
    assert limited(suites=suite) == (True, False, [name])


def every_suite_of_1_3():
    ciphers = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()
    return [cipher["name"] for cipher in ciphers if cipher["protocol"] == "TLSv1.3"]


def test_suites_of_1_3_alone_allow_only_1_3():
    assert limited(suites=",".join(every_suite_of_1_3()))[:2] == (False, True)


def test_suites_of_both_versions_allow_both():
    suites = [*every_suite_of_1_3(), "TLS_RSA_WITH_AES_128_GCM_SHA256"]
    assert limited(suites=",".join(suites)) == (True, True, ["AES128-GCM-SHA256"])


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"protocols": "TLSv1.3,TLSv1.1"}, f"upstream.{PROTOCOLS}: TLSv1.1 must be one of TLSv1.2"),
        (
            {"suites": "TLS_AES_128_GCM_SHA256"},
            "those of TLS 1.3 can only be allowed together: TLS",
        ),
        ({"suites": "NONE-1"}, "none of NONE-1 is known"),
        ({"suites": "AES128-GCM-SHA256,NONE-1"}, f"upstream.{SUITES}: NONE-1 is not known"),
        (
            {"protocols": "TLSv1.3", "suites": "AES128-GCM-SHA256"},
            f"upstream.{SUITES} has no suite for any of ssl.enabled.protocols",
        ),
    ],
)
def test_a_wrong_name_is_an_error_with_its_key(keys, fault):
    with pytest.raises(ConfigurationError, match=f"^p.properties: .*{fault}"):
        limited(**keys)
