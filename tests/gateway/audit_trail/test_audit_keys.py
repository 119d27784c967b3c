"""The valid combinations of keys of the audit trail."""

import pytest

from penstock.configuration import ConfigurationError, load_configuration
from penstock.gateway.audit_trail.audit_keys import check_audit_keys
from tests.gateways import write_configuration


def configuration(folder, **keys):
    return load_configuration(write_configuration(folder, "127.0.0.1:1", 9192, keys))


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"audit.topic": "a", "audit.file": "b"}, " and audit.file are both set"),
        ({"audit.topic": "no name"}, "must be the name of a topic; it is 'no name'"),
        ({"audit.topic": ".."}, "must be the name of a topic"),
        ({"audit.topic": "__consumer_offsets"}, "which is Kafka's own"),
        ({"audit.topic": "__penstock_topic_settings"}, "the topic of topic.settings.topic"),
        ({"audit.topic": "s", "topic.settings.topic": "s"}, "the topic of topic.settings.topic"),
        (
            {"audit.topic": "__penstock_producer_state"},
            "the topic of produce.request.interceptors.state.topic",
        ),
        ({"audit.topic": "__penstock_places"}, "the topic of redrive.places.topic"),
    ],
)
def test_keys_that_cannot_be_combined_are_an_error(tmp_path, keys, why):
    with pytest.raises(ConfigurationError, match=rf"penstock\.properties: audit\.topic.*{why}"):
        check_audit_keys(configuration(tmp_path, **keys))


@pytest.mark.parametrize(
    "keys",
    [{}, {"audit.topic": "__penstock_audit"}, {"audit.file": "x.jsonl"}, {"audit.topic": ""}],
)
def test_keys_that_can_be_combined_are_accepted(tmp_path, keys):
    check_audit_keys(configuration(tmp_path, **keys))
