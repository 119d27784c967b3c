"""Penstock's own logins by GSSAPI: a KDC, MIT's library and a Kafka, none of them ours."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from penstock.configuration import load_configuration
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.errors import ClientError, LoginError
from tests.conftest import create_topic
from tests.gateways import run_penstock
from tests.kerberos.conftest import broker_keys, started
from tests.kerberos.kdc import Kdc, host
from tests.kerberos.realm import KERBEROS, as_admin, upstream_file
from tests.secured import as_admin as as_admin_by_tls
from tests.secured import files, produce

__all__ = ["files"]

pytestmark = pytest.mark.kerberos


@pytest.fixture(scope="module")
def topic(kerberized):
    create_topic(AdminClient(as_admin(kerberized)), "logins")
    assert produce(as_admin(kerberized), "logins", b"1") == ""
    return "logins"


def explained(file, topic="logins"):
    """Read a record with a command that has the file; return the process that ended."""
    return run_penstock("explain", file, "--topic", topic, "--offset", "0:0")


def line_of(ended):
    """Return the single line of a command that could not do it."""
    assert ended.returncode == 3, ended
    (line,) = ended.stderr.splitlines()
    return line


def test_jobs_log_in(kerberized, topic, environment, tmp_path):
    file = upstream_file(tmp_path, kerberized.bootstrap_servers)
    for ended in (run_penstock("check", "--connect", file), run_penstock("audit", file, "--topic", topic),
                  explained(file)):  # fmt: skip
        assert ended.returncode == 0, ended
        assert ended.stderr == "" or "Traceback" not in ended.stderr


def test_jobs_log_in_over_tls(kdc, environment, files, tmp_path):
    keys = {**broker_keys(kdc, "SASL_SSL"), **files.broker_keys()}
    with started(kdc, "SASL_SSL", keys) as kafka:
        create_topic(AdminClient(as_admin_by_tls(kafka.bootstrap_servers, files)), "logins")
        file = upstream_file(
            tmp_path,
            kafka.bootstrap_servers,
            upstream_security_protocol="SASL_SSL",
            upstream_ssl_truststore_location=files.trust,
        )
        ended = run_penstock("check", "--connect", file)
    assert ended.returncode == 0, ended


@pytest.mark.parametrize("realm", ["", "@PENSTOCK.TEST"])
def test_the_principal_of_the_key_logs_in(kerberized, topic, kdc, environment, tmp_path, realm):
    """The first of the keytab is another, who may do nothing."""
    environment.setenv("KRB5_CLIENT_KTNAME", str(kdc.keytab("two.keytab")))

    def as_principal(name):
        # Java's caches are of one principal, too.
        environment.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets-{name}")
        login = f'{KERBEROS} useKeyTab=true keyTab="/java.keytab" principal="{name}{realm}";'
        more = {"upstream_sasl_jaas_config": login}
        return explained(upstream_file(tmp_path, kerberized.bootstrap_servers, **more))

    for _ in range(2):  # with a ticket that is there, too
        assert as_principal("penstock").returncode == 0
    assert "AUTHORIZATION_FAILED" in line_of(as_principal("alice"))


def test_a_principal_that_is_not_in_the_keytab(kerberized, topic, environment, tmp_path):
    login = f'{KERBEROS} useKeyTab=true keyTab="/java.keytab" principal="alice";'
    file = upstream_file(tmp_path, kerberized.bootstrap_servers, upstream_sasl_jaas_config=login)
    assert "Can't find client principal alice@PENSTOCK.TEST" in line_of(explained(file))


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        ("nobody", "not found in Kerberos database; see upstream.sasl.kerberos.service.name"),
        # The KDC knows it, and the broker has no key of it.
        ("unknown", "refused the login by GSSAPI: Authentication failed"),
    ],
)  # fmt: skip
def test_another_service(kerberized, topic, environment, tmp_path, service, reason):
    file = upstream_file(
        tmp_path, kerberized.bootstrap_servers, upstream_sasl_kerberos_service_name=service
    )
    assert reason in line_of(explained(file))


@pytest.mark.parametrize("keytab", [None, "/does/not/exist"])
def test_no_ticket(kerberized, topic, environment, tmp_path, keytab):
    environment.delenv("KRB5_CLIENT_KTNAME")
    if keytab:
        environment.setenv("KRB5_CLIENT_KTNAME", keytab)
    line = line_of(explained(upstream_file(tmp_path, kerberized.bootstrap_servers)))
    assert "No Kerberos credentials available (default cache: FILE:" in line
    assert "KRB5CCNAME" in line
    assert "KRB5_CLIENT_KTNAME" in line


def test_an_expired_ticket(kerberized, topic, kdc, environment, tmp_path):
    file = upstream_file(tmp_path, kerberized.bootstrap_servers)
    short = kdc.configure(tmp_path / "short.conf", "ticket_lifetime = 6s")
    environment.setenv("KRB5_CONFIG", str(short))
    first = time.monotonic()
    assert explained(file).returncode == 0
    environment.delenv("KRB5_CLIENT_KTNAME")
    wait_until_expired(first)
    line = line_of(explained(file))
    assert "the login by GSSAPI failed: Ticket expired" in line
    assert "KRB5CCNAME" in line


def wait_until_expired(since, lifetime_s=7):
    """Wait for the end of a ticket, which KDC and library know in whole seconds."""
    while time.monotonic() - since < lifetime_s:
        time.sleep(0.1)


def test_a_new_connection_gets_a_new_ticket(kerberized, kdc, environment, tmp_path):
    short = kdc.configure(tmp_path / "short.conf", "ticket_lifetime = 6s")
    environment.setenv("KRB5_CONFIG", str(short))
    file = upstream_file(
        tmp_path, kerberized.bootstrap_servers, upstream_connections_max_idle_ms=500
    )
    with Connection(load_configuration(file).upstream_properties, file) as connection:
        first = time.monotonic()
        assert connection.cluster(10)
        wait_until_expired(first)
        assert connection.cluster(10)
        environment.delenv("KRB5_CLIENT_KTNAME")
        wait_until_expired(time.monotonic())
        with pytest.raises(LoginError, match="Ticket expired") as caught:
            connection.cluster(10)
        assert not caught.value.retriable


def test_the_kdc_does_not_respond(kerberized, topic, kdc, environment, tmp_path):
    file = upstream_file(tmp_path, kerberized.bootstrap_servers)
    with kdc.stopped():
        line = line_of(run_penstock("check", "--connect", file))
        assert "the login by GSSAPI failed: no KDC has responded within 8 s" in line
        assert "KRB5_CONFIG" in line


def test_it_is_in_time_for_the_same_command(kerberized, topic, kdc, environment, tmp_path):
    """A KDC that is away is our own trouble: the command waits for it."""
    file = upstream_file(tmp_path, kerberized.bootstrap_servers)
    properties = load_configuration(file).upstream_properties
    with Connection(properties, file) as connection:
        with kdc.stopped(), pytest.raises(ClientError, match=r"no KDC|no answer"):
            connection.cluster(0.5)
        assert connection.cluster(60)


def test_no_kdc(kerberized, topic, kdc, environment, tmp_path):
    away = tmp_path / "away.conf"
    away.write_text(kdc.configuration.read_text().replace(str(kdc.port), "1"))
    environment.setenv("KRB5_CONFIG", str(away))
    file = upstream_file(tmp_path, kerberized.bootstrap_servers)
    line = line_of(run_penstock("check", "--connect", file))
    assert "Cannot contact any KDC for realm 'PENSTOCK.TEST'; see krb5.conf" in line
    with Connection(load_configuration(file).upstream_properties, file) as connection:
        with pytest.raises(LoginError) as caught:
            connection.cluster(1)
        assert caught.value.retriable


@pytest.fixture(scope="module")
def other_realm(tmp_path_factory) -> Iterator[Kdc]:
    """A KDC of a realm that the brokers' realm does not know."""
    with Kdc(tmp_path_factory.mktemp("other"), "OTHER.TEST", {"p.keytab": ["penstock"]}) as kdc:
        yield kdc


def test_another_realm(kerberized, topic, other_realm, environment, tmp_path):
    environment.setenv("KRB5_CONFIG", str(other_realm.configuration))
    file = upstream_file(tmp_path, kerberized.bootstrap_servers)
    # The keytab is one of the brokers' realm.
    assert 'Cannot find KDC for realm "PENSTOCK.TEST"' in line_of(explained(file))
    environment.setenv("KRB5_CLIENT_KTNAME", str(other_realm.keytab("p.keytab")))
    line = line_of(explained(file))
    assert f"Server kafka/{host()}@OTHER.TEST not found in Kerberos database" in line


def test_a_key_that_was_changed(kerberized, topic, environment, tmp_path, tmp_path_factory):
    keys = {"p.keytab": ["penstock"]}
    with Kdc(tmp_path_factory.mktemp("again"), "PENSTOCK.TEST", keys) as changed:
        environment.setenv("KRB5_CONFIG", str(changed.configuration))
        line = line_of(explained(upstream_file(tmp_path, kerberized.bootstrap_servers)))
    assert "the login by GSSAPI failed: " in line
    assert "KRB5_CLIENT_KTNAME" in line


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec + 3600;
    now->tv_usec = real.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *result) {
    struct timeval now;
    gettimeofday(&now, 0);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
"""
"""For a process whose clock, as MIT's library reads it, is an hour ahead."""


@pytest.mark.skipif(shutil.which("cc") is None, reason="cc compiles a wrong clock")
def test_a_wrong_clock(kerberized, topic, kdc, environment, tmp_path):
    (tmp_path / "clock.c").write_text(CLOCK)
    library = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "clock.c"], check=True)
    file = upstream_file(tmp_path, kerberized.bootstrap_servers)
    strict = kdc.configure(tmp_path / "strict.conf", "kdc_timesync = 0")
    environment.setenv("KRB5_CONFIG", str(strict))
    environment.setenv("LD_PRELOAD", str(library))
    line = line_of(explained(file))
    assert line.endswith("the login by GSSAPI failed: Clock skew too great in KDC reply")


async def test_the_event_loop_goes_on(kerberized, kdc, environment, tmp_path):
    """Also for a library that would not let other threads run while it waits."""
    file = upstream_file(tmp_path, kerberized.bootstrap_servers)
    with Connection(load_configuration(file).upstream_properties, file) as connection:
        longest = 0.0
        with kdc.stopped():
            waiting = asyncio.create_task(asyncio.to_thread(connection.cluster, 2))
            while not waiting.done():
                before = time.monotonic()
                await asyncio.wait([waiting], timeout=0.01)
                longest = max(longest, time.monotonic() - before)
            assert isinstance(waiting.exception(), ClientError)
    assert longest < 1.5
