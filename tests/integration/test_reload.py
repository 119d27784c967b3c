"""Reloads, which may take as long as the modules of users take to import."""

import signal
import uuid

from confluent_kafka.admin import AdminClient

from tests.conftest import create_topic
from tests.gateways import wait_until
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

TOPIC = "reloads"
INVALID_RECORD = 87
POLICIES = """
import pathlib
import time
from penstock.policy import *

here = pathlib.Path(__file__).parent
(here / "importing").touch()
while not (here / "go").exists():
    time.sleep(0.02)

class Says(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return None
"""
AT_ONCE = POLICIES.replace("while not", "while False and not")
REFUSES = AT_ONCE.replace("return None", "return InvalidRecordException('no')")
PROPERTIES = {
    "policies": "says",
    "policies.says.type": "policies.Says",
    f"topics.{TOPIC}.penstock.policies": "says",
    "policy.workers": 1,
    "topic.settings.topic": "",
}


def test_clients_are_served_while_a_module_is_imported(kafka, gateway):
    create_topic(AdminClient({"bootstrap.servers": kafka.bootstrap_servers}), TOPIC)
    running = gateway(PROPERTIES, AT_ONCE)
    folder = running.file.parent
    importing, policies = folder / "importing", folder / "policies.py"
    with RawClient(running.broker_address(), timeout_s=30) as client:

        def code():
            request = produce_request([(TOPIC, [(0, encode_batch(values(b"good")))])])
            return produced(client.call(request))[TOPIC, 0].error_code

        assert code() == 0
        importing.unlink()
        policies.write_text(POLICIES)
        running.process.send_signal(signal.SIGHUP)
        wait_until(importing.exists)
        assert code() == 0
        assert not running.events("reloaded")

        # Another reload follows: the last written file is in force in the end.
        policies.write_text(REFUSES)
        running.process.send_signal(signal.SIGHUP)
        assert code() == 0
        (folder / "go").touch()
        running.wait_for("reloaded", 2)
        assert code() == INVALID_RECORD


CHANGES = """
from penstock.policy import *

class Changes(ProduceRequestInterceptor):
    drops_records = False

    def interceptor_topic_pattern(self):
        return "."

    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value)
"""
DROPS = CHANGES.replace("drops_records = False", "drops_records = True")


def test_the_state_of_producers_is_kept_from_the_first_interceptor_that_drops_records(
    gateway, admin
):
    """Also shortly after a start with others, which may have changed earlier batches."""
    state = f"state-{uuid.uuid4().hex[:8]}"
    properties = {
        "produce.request.interceptors": "policies.Changes",
        "produce.request.interceptors.state.topic": state,
    }
    running = gateway(properties, CHANGES)
    assert state not in admin.list_topics(timeout=30).topics
    (running.file.parent / "policies.py").write_text(DROPS)
    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded")
    assert state in admin.list_topics(timeout=30).topics
