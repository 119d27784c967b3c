"""A realm, a Kafka that lets its principals in, and the environment of a client."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from penstock.kafka.local import LocalKafka
from tests.kerberos.kdc import Kdc, host
from tests.kerberos.realm import KERBEROS
from tests.secured import ADMIN_LOGIN

REALM: Final = "PENSTOCK.TEST"


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """The KDC of the brokers' realm."""
    keytabs = {
        "kafka.keytab": [f"kafka/{host()}"],
        "unknown.keytab": [f"unknown/{host()}"],
        "penstock.keytab": ["penstock"],
        "two.keytab": ["alice", "penstock"],
    }
    folder = tmp_path_factory.mktemp("kdc")
    with Kdc(folder, REALM, keytabs) as kdc:
        yield kdc


def broker_keys(kdc: Kdc, protocol: str) -> dict[str, str]:
    """Return the keys of a broker that lets principals of the realm in, and `admin`."""
    listener = f"listener.name.{protocol.lower()}"
    login = (
        f'{KERBEROS} useKeyTab=true storeKey=true keyTab="{kdc.keytab("kafka.keytab")}" '
        f'principal="kafka/{host()}@{kdc.realm}";'
    )
    return {
        "sasl.enabled.mechanisms": "GSSAPI,PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.kerberos.service.name": "kafka",
        f"{listener}.gssapi.sasl.jaas.config": login,
        f"{listener}.plain.sasl.jaas.config": ADMIN_LOGIN.replace(";", ' user_admin="a-secret";'),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:penstock;User:ANONYMOUS",
    }


@contextmanager
def started(kdc: Kdc, protocol: str, keys: Mapping[str, str]) -> Iterator[LocalKafka]:
    """Start a Kafka whose Java knows the realm."""
    kafka = LocalKafka(protocol=protocol, properties=keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.configuration}")
        kafka.start()
    try:
        yield kafka
    finally:
        kafka.stop()


@pytest.fixture(scope="session")
def kerberized(kdc: Kdc) -> Iterator[LocalKafka]:
    """A Kafka at which `penstock` may do everything, and `alice` nothing."""
    with started(kdc, "SASL_PLAINTEXT", broker_keys(kdc, "SASL_PLAINTEXT")) as kafka:
        yield kafka


@pytest.fixture
def environment(kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a process that logs in as `penstock`, with its keytab."""
    for name in [name for name in os.environ if name.startswith("KRB5")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.configuration))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc.keytab("penstock.keytab")))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.configuration}")
    return monkeypatch
