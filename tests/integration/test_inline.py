"""Small batches are judged in the gateway's own process by the built-in JsonSchema."""

import contextlib
import json
import os
import signal

import pytest

from tests.gateways import wait_until
from tests.integration.reading import read_topic, values_of
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
GOOD, BAD = b'{"id": 1}', b'{"id": "1"}'


@pytest.fixture
def judging(gateway, tmp_path):
    """A gateway whose topics have a schema."""
    (tmp_path / "order.json").write_text(json.dumps(SCHEMA))
    return gateway({
        "record.validation.policy.class.name": "penstock.policies.JsonSchema",
        "json.schema.folder": tmp_path,
        "topics.*.record.validation.policy": "order.json",
        "policy.workers": 1,
    })  # fmt: skip


@contextlib.contextmanager
def stopped(pids):
    """Processes that are stopped meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def code(running, topic, *contents):
    batch = encode_batch(values(*contents))
    with RawClient(running.address) as client:
        (response,) = produced(client.call(produce_request([(topic, [(0, batch)])]))).values()
    return response.error_code


def test_a_small_batch_needs_no_worker(judging, topic, kafka):
    name = topic()
    with stopped(judging.workers()):
        assert code(judging, name, GOOD, GOOD) == 0

    wait_until(lambda: code(judging, name, GOOD, BAD) == 87)
    assert values_of(read_topic(kafka.bootstrap_servers, name)) == [GOOD, GOOD]
