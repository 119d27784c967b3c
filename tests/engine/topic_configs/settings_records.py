"""Random records of the topic that has the settings of topics."""

import json

from penstock.engine.topic_configs.index import TopicConfigRecord
from tests.engine.topic_configs.admin_requests import judged_by

WITHOUT_A_NAME = [
    b"",
    b"\xff\xfe\xfd",
    b"null",
    b"[]",
    b'"settings"',
    b"{}",
    b"[" * 100_000,
    b'{"topic": ' * 50_000,
    b"9" * 10_000,
]


def value_of(topic: str, settings: dict[str, str]) -> bytes:
    """A value as a gateway writes it."""
    return TopicConfigRecord(topic, settings, "gateway", id="any").encode()


def later_value_of(topic: str, **fields: object) -> bytes:
    """A value as a later version might write it."""
    return json.dumps({**json.loads(value_of(topic, judged_by("A"))), **fields}).encode()


def with_a_name(topic: str) -> list[bytes]:
    """Return unreadable values that contain the name of their topic."""
    return [
        later_value_of(topic, version=2),
        later_value_of(topic, settings={"records.policy.sample": "0.1"}),
        later_value_of(topic, settings=["a", "list"]),
        later_value_of(topic, settings=None),
    ]
