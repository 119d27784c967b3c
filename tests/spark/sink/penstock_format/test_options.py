"""The options of the sink: defaults, and those that are refused before anything is written."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.kafka.records.compression import NAMES
from penstock.spark.sink.penstock_format.options import SinkOptions

pytestmark = pytest.mark.unit
CLUSTER = {"kafka.bootstrap.servers": "a:1", "topic": "out"}


def test_defaults():
    found = SinkOptions.read(CLUSTER)
    assert found == SinkOptions(
        plan=None, client={"bootstrap.servers": "a:1"}, topic="out", rejected=None, job=None,
        fails_on_order_loss=True, records_policy_batch=1, codec=0, transaction_timeout_s=900.0,
    )  # fmt: skip


def test_all_options():
    found = SinkOptions.read({
        "plan": "f", "TOPIC": " out ", "rejected": " dead ", "job": "nightly",
        "failonorderloss": "false", "recordsPolicyBatch": "7", "kafka.compression.type": "zstd",
        "kafka.transaction.timeout.ms": "10000", "kafka.client.id": "me",
        "checkpointLocation": "c", "queryName": "q", "path": "p",
    })  # fmt: skip
    assert (found.plan, found.topic, found.rejected, found.job) == ("f", "out", "dead", "nightly")
    assert (found.fails_on_order_loss, found.records_policy_batch) == (False, 7)
    assert NAMES[found.codec] == "zstd"
    assert found.transaction_timeout_s == 10.0
    assert found.client == {"client.id": "me"}, "the sink's own keys are not the client's"


def test_the_dead_letter_topic_has_the_name_of_the_file_too():
    name = "errors.deadletterqueue.topic.name"
    assert SinkOptions.read({**CLUSTER, name: "dead"}).rejected == "dead"
    assert SinkOptions.read({**CLUSTER, name: "x", "rejected": "dead"}).rejected == "dead"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": " "}, 'format("penstock"): name the topic to write to: option topic'),
        ({"rejected": "out"}, "rejected out: name another topic than out"),
        ({"rejected": " "}, "rejected  : name another topic than out"),
        ({"kafka.compression.type": "best"}, "kafka.compression.type best: one of none, gzip"),
        ({"kafka.transaction.timeout.ms": "9999"}, "kafka.transaction.timeout.ms 9999: a number"),
        ({"kafka.transaction.timeout.ms": "x"}, "kafka.transaction.timeout.ms x: a number of at"),
        ({"recordsPolicyBatch": "0"}, "recordsPolicyBatch 0: a number of at least 1,"),
        ({"recordsPolicyBatch": "-1"}, "recordsPolicyBatch -1: a number of at least 1,"),
        ({"recordsPolicyBatch": "1" * 19}, f"recordsPolicyBatch {'1' * 19}: a number of at"),
        ({"kafka.transactional.id": "x"}, 'format("penstock") writes with no option kafka.transac'),
        ({"job": ""}, "job"),
    ],
)  # fmt: skip
def test_wrong_options(options, message):
    with pytest.raises(ConfigurationError) as raised:
        SinkOptions.read({**CLUSTER, **options})
    assert str(raised.value).startswith(message)
