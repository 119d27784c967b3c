"""The data that is sent to tasks."""

import pytest
from pyspark.cloudpickle import dumps, loads

from penstock.jobs.topics.access import ClusterAccess
from tests.certificates import Files

pytestmark = pytest.mark.unit


def test_an_access_is_pickled_with_its_stores_and_shows_no_value(tmp_path):
    files = Files(tmp_path)
    properties = {
        "bootstrap.servers": "k:9",
        "sasl.jaas.config": 'PlainLoginModule required username="u" password="a-secret";',
        "ssl.truststore.location": str(files.trust),
        "ssl.keystore.location": str(files.key("client.pem")),
    }
    access = ClusterAccess.of(properties, tmp_path / "penstock.properties")
    travelled = loads(dumps(access))
    assert travelled == access
    assert travelled.properties["ssl.truststore.certificates"].startswith("-----BEGIN CERT")
    assert repr(access) == (
        "ClusterAccess(bootstrap.servers, sasl.jaas.config, ssl.keystore.certificate.chain, "
        "ssl.keystore.key, ssl.keystore.type, ssl.truststore.certificates, ssl.truststore.type)"
    )
