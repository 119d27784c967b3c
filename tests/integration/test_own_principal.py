"""The gateway's own principal, by each mechanism and in each form of the keys.

In Penstock's client, and in Kafka's Java client with what Spark's connector would get.
"""

import base64
import contextlib
import json
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramMechanism
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from penstock.configuration import load_configuration
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic
from tests.gateways import RunningGateway, gateway_port, run_penstock, write_configuration
from tests.integration.reading import read_topic, values_of
from tests.kafka.client.token_endpoint import TokenEndpoint
from tests.secured import (
    ADMIN_LOGIN,
    SCRAM,
    add_alice,
    as_admin,
    files,
    produce,
    secure_kafka,
)

__all__ = ["files"]

MODULE = "org.apache.kafka.common.security"
OAUTH = f"{MODULE}.oauthbearer.OAuthBearerLoginModule required"
HANDLER = f"{MODULE}.oauthbearer.OAuthBearerLoginCallbackHandler"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ISSUER, AUDIENCE = "issuer", "kafka"
POLICIES = """
from penstock.policy import *
class Drops(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop":
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)
class Policy(RecordValidationPolicy):
    def validate(self, topic, record): pass
"""
PASSWORD = {
    "PLAIN": ADMIN_LOGIN,
    "SCRAM-SHA-256": f'{SCRAM} required username="alice" password="a\\\\"b";',
    "SCRAM-SHA-512": f"{SCRAM} required username='alice' password='a\"b';",
}


def slow(*forms):
    """Forms that differ from another form only in how the keys are read."""
    return [pytest.param(form, marks=pytest.mark.slow) for form in forms]


class Issuer:
    """Signs tokens (RS256), and writes its public key where a broker reads it."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.keys = folder / "jwks.json"
        numbers = self._key.public_key().public_numbers()
        found = {
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1",
            "n": _base64(numbers.n.to_bytes(256, "big")),
            "e": _base64(numbers.e.to_bytes(3, "big")),
        }  # fmt: skip
        self.keys.write_text(json.dumps({"keys": [found]}))

    def token(self, subject: str) -> str:
        """A token that lasts for an hour."""
        now = int(time.time())
        claims = {
            "iss": ISSUER, "aud": AUDIENCE, "sub": subject,
            "iat": now, "exp": now + 3600, "scope": "all",
        }  # fmt: skip
        head = {"alg": "RS256", "kid": "1"}
        text = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        signature = self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_base64(signature)}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def issuer(tmp_path_factory):
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def endpoint(files, issuer):
    with TokenEndpoint(str(files.key("endpoint.pem"))) as started:
        started.answer = {"access_token": issuer.token("alice")}
        yield started


@pytest.fixture(scope="module")
def secured(files, issuer):
    """A Kafka with every mechanism, to which alice may do everything."""
    keys = issuer.keys.as_uri()
    more = {
        "super.users": "User:admin;User:alice;User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{OAUTH};",
        "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": (
            f"{MODULE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys,
        "listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-D{ALLOWED_URLS}={keys}")
        kafka = stack.enter_context(secure_kafka(files, **more))
        patch.undo()
        admin = AdminClient(as_admin(kafka.bootstrap_servers, files))
        mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        add_alice(admin, *mechanisms, password=b'a"b')
        yield kafka, admin


def raw_batches(file, topic):
    """The numbers of records in the batches, as Spark's tasks read them."""
    with Connection(load_configuration(file).upstream_properties, file) as connection:
        batches = RangeReader(connection, WantedRange(topic, 0, 0, 1), on_lost=pytest.fail)
        return [batch.record_count for batch in batches]


URL = "sasl.oauthbearer.token.endpoint.url"
LEAST = {
    "produce.request.interceptors": "policies.Drops",
    "record.validation.policy.class.name": "policies.Policy",
    "topics.in*.record.validation.policy": "on",
    "audit.topic": "trail",
}


def use(folder, servers, topic, client, upstream):
    """Send every kind of request to the cluster, with a single file."""
    port = gateway_port()
    properties = {f"upstream.{key}": value for key, value in upstream.items()}
    properties |= {"upstream.send.buffer.bytes": 131072, "upstream.key.serializer": "x.Serializer"}
    file = write_configuration(folder, servers, port, {**LEAST, **properties}, POLICIES)
    checked = run_penstock("check", file)
    assert checked.returncode == 0, checked
    gateway = RunningGateway(file)
    try:
        through = {**client, "bootstrap.servers": gateway.address}
        assert produce(through, topic, b"kept") == ""
        assert produce(through, topic, b"drop") == ""
    finally:
        assert gateway.stop() == 0
    connected = run_penstock("check", "--connect", file)
    assert connected.returncode == 0, connected
    assert "of the cluster's topics have policies for records" in connected.stdout
    explained = run_penstock("explain", file, "--topic", topic, "--offset", "0:0")
    assert explained.returncode == 0, explained
    assert raw_batches(file, topic) == [1]
    return gateway


@pytest.mark.parametrize("form", ["PLAIN", *slow("SCRAM-SHA-256", "SCRAM-SHA-512", "librdkafka")])
def test_a_password(secured, files, tmp_path, form):
    kafka, admin = secured
    topic = f"in-{form.lower()}"
    create_topic(admin, topic)
    upstream = {"sasl.mechanism": form, "sasl.jaas.config": PASSWORD.get(form)}
    if form == "librdkafka":
        upstream = {"sasl.mechanism": "PLAIN", "sasl.username": "admin",
                    "sasl.password": "a-secret"}  # fmt: skip
    upstream |= {"security.protocol": "SASL_SSL", "ssl.truststore.location": files.trust}
    client = as_admin("", files)
    client["security.protocol"] = "SASL_PLAINTEXT"
    try:
        use(tmp_path, kafka.bootstrap_servers, topic, client, upstream)
    finally:
        admin.delete_topics([topic])[topic].result(60)


@pytest.mark.parametrize("form", ["kip-768", *slow("kip-1139", "no-handler", "file")])
@pytest.mark.slow
def test_a_token(secured, files, issuer, endpoint, tmp_path, form):
    kafka, admin = secured
    topic = f"in-{form}"
    create_topic(admin, topic)
    (tmp_path / "token").write_text(issuer.token("alice"))
    trust = f'ssl.truststore.location="{files.trust}" ssl.truststore.type="PEM"'
    credentials = f'{OAUTH} clientId="me" clientSecret="s3" scope="all" {trust};'
    upstream = {
        "kip-768": {
            "sasl.login.callback.handler.class": HANDLER, URL: endpoint.url,
            "sasl.jaas.config": credentials,
        },
        "kip-1139": {
            "sasl.login.callback.handler.class": HANDLER, URL: endpoint.url,
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "s3",
            "sasl.jaas.config": f"{OAUTH} {trust};",
        },
        "no-handler": {URL: endpoint.url, "sasl.jaas.config": credentials},
        "file": {URL: (tmp_path / "token").as_uri(), "sasl.jaas.config": f"{OAUTH};"},
    }[form]  # fmt: skip
    upstream |= {"security.protocol": "SASL_SSL", "ssl.truststore.location": files.trust,
                 "sasl.mechanism": "OAUTHBEARER"}  # fmt: skip
    client = as_admin("", files)
    client["security.protocol"] = "SASL_PLAINTEXT"
    try:
        use(tmp_path, kafka.bootstrap_servers, topic, client, upstream)
    finally:
        admin.delete_topics([topic])[topic].result(60)


def test_an_endpoint_that_refuses_is_named(secured, files, endpoint, tmp_path):
    kafka, _ = secured
    with TokenEndpoint() as refusing:
        refusing.status = 401
        file = write_configuration(
            tmp_path,
            kafka.bootstrap_servers,
            gateway_port(),
            {
                "upstream.security.protocol": "SASL_SSL",
                "upstream.ssl.truststore.location": files.trust,
                "upstream.sasl.mechanism": "OAUTHBEARER",
                f"upstream.{URL}": refusing.url,
                "upstream.sasl.jaas.config": f'{OAUTH} clientId="me" clientSecret="s3";',
            },
        )
        assert run_penstock("check", file).returncode == 0
        for done in (
            run_penstock("explain", file, "--topic", "t", "--offset", "0:0"),
            run_penstock("gateway", file),
        ):
            assert done.returncode == 3, done
            assert "responded with HTTP status 401" in done.stderr
            assert "s3" not in done.stderr


@pytest.fixture(scope="module")
def certified(files):
    """A Kafka that knows a client by its certificate."""
    properties = {**files.broker_keys(), "ssl.client.auth": "required"}
    with LocalKafka(protocol="SSL", properties=properties) as kafka:
        yield kafka


@pytest.mark.parametrize("form", ["location", *slow("contents")])
def test_a_certificate(certified, files, tmp_path, form):
    topic = f"in-{form}"
    key = files.key("own.pem", "gateway.example.com")
    direct = {
        "bootstrap.servers": certified.bootstrap_servers, "security.protocol": "SSL",
        "ssl.ca.location": str(files.trust), "ssl.certificate.location": str(key),
        "ssl.key.location": str(key), "log_level": 0,
    }  # fmt: skip
    admin = AdminClient(direct)
    create_topic(admin, topic)
    upstream = {"security.protocol": "SSL"}
    if form == "location":
        upstream |= {"ssl.truststore.location": files.trust, "ssl.keystore.location": key}
    else:
        private, separator, chain = key.read_text().partition("-----BEGIN CERT")
        contents = {
            "ssl.truststore.certificates": files.trust.read_text(),
            "ssl.keystore.key": private,
            "ssl.keystore.certificate.chain": separator + chain,
            "ssl.keystore.type": "PEM\n",
            "ssl.truststore.type": "PEM\n",
        }
        upstream |= {name: text.strip().replace("\n", "\\n") for name, text in contents.items()}
    try:
        use(tmp_path, certified.bootstrap_servers, topic, {"log_level": 0}, upstream)
        stored = read_topic(certified.bootstrap_servers, topic, settings=direct)
        assert values_of(stored) == [b"kept"]
    finally:
        admin.delete_topics([topic])[topic].result(60)
