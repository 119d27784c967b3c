"""Brokers with users and ACLs."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from penstock.kafka.local import LocalKafka
from tests.certificates import Files
from tests.conftest import create_acls, create_topic
from tests.secured import acl, add_alice, as_admin, secure_kafka


@pytest.fixture(scope="module")
def secured(files: Files) -> Iterator[LocalKafka]:
    with secure_kafka(files) as running:
        yield running


@pytest.fixture(scope="module")
def secured_admin(secured: LocalKafka, files: Files) -> AdminClient:
    admin = AdminClient(as_admin(secured.bootstrap_servers, files))
    add_alice(admin)
    create_topic(admin, "open")
    create_topic(admin, "closed")
    create_acls(admin, acl("open"))
    return admin
