"""One interceptor, both doors: the gateway stores the same records as `penstock redact`."""

import time

from penstock.policy import Header, Record
from tests.gateways import RunningGateway, gateway_port
from tests.integration.reading import read_topic
from tests.kafka.records.encoding import encode_batch
from tests.raw import RawClient, produce_request, produced

CHAIN = """
import zlib
from penstock.policy import *
from penstock.policies import DropRecords, HashJsonFields, RedactJsonFields

class NoTests(DropRecords):
    topics = "."
    headers = {"test": None}

class NoCards(RedactJsonFields):
    topics = "."
    fields = ("card", "items[*].card")

class Hashed(HashJsonFields):
    topics = "."
    fields = ("email",)
    key_from = "file:KEY_FILE"

class Keyed(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if value and zlib.crc32(value) % 5 == 0: raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key or b"none", value)
"""
NAMES = ("NoTests", "NoCards", "Hashed", "Keyed")
VALUES = [
    b'{"card": 1, "email": "a@b"}', b'{"email": null}', b'{ "kept" : 1.50 }', b"[]", b"1", None,
    b'{"items": [{"card": 2}, {"x": "\\ud83d\\ude00"}]}', b"not JSON", b"", b'{"card": NaN}',
]  # fmt: skip


def some_records() -> list[Record]:
    now = int(time.time() * 1000)
    return [
        Record(now + at, key, value, headers)
        for at, (value, key, headers) in enumerate(
            (value, key, headers)
            for value in VALUES
            for key in (None, b"k")
            for headers in ((), (Header("h", None), Header("h", b"2")), (Header("test", b""),))
        )
    ]


def produce_each(bootstrap: str, name: str, records: list[Record]) -> list[int]:
    """Produce each record in a separate batch; return the error codes."""
    requests = [produce_request([(name, [(0, encode_batch([record]))])]) for record in records]
    with RawClient(bootstrap) as client:
        return [produced(client.call(request))[name, 0].error_code for request in requests]


def test_both_doors_leave_the_same(command, configured, topic, kafka, tmp_path):
    (tmp_path / "key").write_text("0123456789abcdef")
    port = gateway_port()
    file = configured(
        {
            "produce.request.interceptors": ",".join(f"policies.{name}" for name in NAMES),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        },
        CHAIN.replace("KEY_FILE", str(tmp_path / "key")),
    )
    records = some_records()
    through, stored, to = topic(), topic(), topic()
    running = RunningGateway(file)
    try:
        produce_each(running.address, through, records)
    finally:
        assert running.stop() == 0
    assert set(produce_each(kafka.bootstrap_servers, stored, records)) == {0}

    done = command("redact", file, "--topic", stored, "--to", to)

    assert done.code == 1, "some values are not JSON"
    wire, spark = (
        [(m.key(), m.value(), [h for h in m.headers() or [] if not h[0].startswith("__")])
         for m in read_topic(kafka.bootstrap_servers, name, full=True)]
        for name in (through, to)
    )  # fmt: skip
    assert 10 < len(wire) < len(records)
    assert wire == spark
