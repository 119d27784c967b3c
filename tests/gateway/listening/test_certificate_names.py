"""The names that a certificate covers, by the rules of clients."""

import datetime

import trustme

from penstock.gateway.listening.certificate_names import CertificateNames

NAMES = ["gw.example.com", "broker-1.gw.example.com", "broker-2.gw.example.com"]


def names_of(tmp_path, *names, **options):
    file = tmp_path / "listener.pem"
    issued = trustme.CA().issue_cert(*names, **options)
    issued.private_key_and_cert_chain_pem.write_to_path(file)
    return CertificateNames({"ssl.keystore.location": str(file)}, tmp_path / "file")


def test_a_wildcard_covers_one_label(tmp_path):
    found = names_of(tmp_path, "*.gw.example.com")
    assert found.uncovered([*NAMES, "a.broker-1.gw.example.com"]) == [
        "gw.example.com",
        "a.broker-1.gw.example.com",
    ]


def test_exact_names_are_covered(tmp_path):
    assert names_of(tmp_path, *NAMES[:2]).uncovered(NAMES) == NAMES[2:]


def test_an_expired_certificate_still_covers_its_names(tmp_path):
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    found = names_of(tmp_path, *NAMES[:2], not_before=past, not_after=past)
    assert found.uncovered(NAMES) == NAMES[2:]


def test_the_expiry_of_a_certificate(tmp_path):
    for expires in (datetime.datetime(year, 1, 2, tzinfo=datetime.UTC) for year in (2020, 2040)):
        before = expires - datetime.timedelta(days=9)
        found = names_of(tmp_path, "gw.example.com", not_before=before, not_after=expires)
        assert found.expires_at == expires.timestamp()
