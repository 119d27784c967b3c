"""Record batches read and written: `make bench-records`.

One process, nothing else: ns per record, the median of rounds. Records of 160 bytes each, in
batches of 1 MB and of 16 KB: as producers send them, uncompressed; and as brokers store them,
uncompressed and lz4, judged by `penstock.policies.JsonSchema`. Bounded: about half a minute.
"""

import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.kafka.records.encoding import encode_batch, encode_stored  # noqa: E402

from penstock.configuration import load_configuration  # noqa: E402
from penstock.engine.chain import Chain  # noqa: E402
from penstock.engine.columns import as_proxies  # noqa: E402
from penstock.engine.instances import PolicyInstances  # noqa: E402
from penstock.engine.plans.plan import Plan  # noqa: E402
from penstock.engine.stored_columns import StoredColumns  # noqa: E402
from penstock.kafka.records.batch import read_batch  # noqa: E402
from penstock.kafka.records.encoder import rebuild  # noqa: E402
from penstock.kafka.records.stored_batch import read_stored_batch  # noqa: E402
from penstock.policy import Record, RecordIntrospectionHints  # noqa: E402

ROUNDS = 41
SIZES = {"1 MB": 6_500, "16 KB": 100}
VALUES_ONLY = RecordIntrospectionHints(access_headers=False, access_key_bytes=0)
EVERYTHING = RecordIntrospectionHints()


def records(count):
    """Records of 160 bytes, lengths and all."""
    return [
        Record(
            1_700_000_000_000 + i, b"%016d" % i, b'{"order": %010d, "note": "%s"}' % (i, b"n" * 100)
        )
        for i in range(count)
    ]


def read(data):
    return read_batch(data, api_version=9, max_decompressed_bytes=1 << 24)


def iterate(data, hints):
    for _ in as_proxies(StoredColumns(read(data).records), hints):
        pass


def columns(data):
    got = read(data).records
    return got.keys, got.values, got.headers, got.timestamps


def intercepted(data):
    """The input of interceptors, as lists: their result is compared with it."""
    batch = read(data)
    return batch, list(batch.records.keys), list(batch.records.values)


def without_a_third(data):
    batch, keys, values = intercepted(data)
    kept = [at for at in range(len(keys)) if at % 3]
    rebuild(batch, kept, [keys[at] for at in kept], [values[at] for at in kept])


def replaced(data):
    batch, keys, values = intercepted(data)
    rebuild(batch, range(len(keys)), keys, [b"replaced" + value for value in values])


WORK = {
    "check everything": read,
    "and the values": lambda data: read(data).records.values,
    "and all columns": columns,
    "as a policy of KIP-940 sees values": lambda data: iterate(data, VALUES_ONLY),
    "as it sees everything": lambda data: iterate(data, EVERYTHING),
    "keys and values, drop a third": without_a_third,
    "keys and values, replace each value": replaced,
}


def json_records(count):
    """Records of 160 bytes that the schema accepts."""
    for i in range(count):
        order = b'{"id": "%010d", "customer": %d, "currency": "EUR", "amount": 9.5, "note": "%s"}'
        yield Record(1_700_000_000_000 + i, b"%016d" % i, order % (i, i + 10_000, b"n" * 45))


def schema_chain():
    """The chain of a topic with `order.schema.json`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "penstock.properties"
        file.write_text(
            "upstream.bootstrap.servers=127.0.0.1:1\nlisteners=PLAINTEXT://127.0.0.1:2\n"
            "record.validation.policy.class.name=penstock.policies.JsonSchema\n"
            "topics.orders.record.validation.policy=order.schema.json\n"
            f"json.schema.folder={ROOT / 'benchmarks' / 'gateway'}\n"
        )
        configuration = load_configuration(file).policies
    plan = Plan(configuration)
    return Chain(plan.for_topic("orders"), PolicyInstances(configuration, plan.names))


def read_stored(data):
    return read_stored_batch(data, max_decompressed_bytes=1 << 24)


def judged(chain, data):
    found = chain.judge_each(0, UUID(int=1), StoredColumns(read_stored(data).records))
    assert not found.verdicts


def cut_a_third_out(data):
    batch = read_stored(data)
    batch.cut([at for at in range(len(batch.records)) if at % 3])


def dead_letters(data):
    """A tenth of the records, with headers as `split` appends them."""
    batch = read_stored(data)
    kept = range(0, len(batch.records), 10)
    same = [("__dlq.errors.topic", b"orders"), ("__dlq.errors.partition", b"0")] * 4
    appended = [[*same, ("__dlq.errors.offset", b"%d" % batch.offsets[at])] for at in kept]
    batch.cut(kept, appended=appended, without=("__dlq.errors.", "__penstock."), timestamp=1)


STORED = {
    "check everything": read_stored,
    "and the values": lambda data: read_stored(data).records.values,
    "unchanged: a new header": lambda data: read_stored(data).whole(),
    "a third cut out": cut_a_third_out,
    "a tenth as dead letters": dead_letters,
}


def measured(work, data, repeated):
    start = time.process_time_ns()
    for _ in range(repeated):
        work(data)
    return time.process_time_ns() - start


def figures(works, buffers):
    """Measure; return a table of nanoseconds per record."""
    table = Table("ns per record", *buffers)
    for name, work in works.items():
        row = []
        for data, count in buffers.values():
            repeated = max(1, 2_000 // count)
            taken = [measured(work, data, repeated) for _ in range(ROUNDS)]
            row.append(f"{statistics.median(taken) / repeated / count:.0f}")
        table.add_row(name, *row)
    return table


def main():
    sent, stored = {}, {}
    for size, count in SIZES.items():
        data = encode_batch(records(count))
        sent[size] = memoryview(data), count
        for codec, name in ((0, ""), (3, " lz4")):
            data = encode_stored(list(json_records(count)), base_offset=10**6, attributes=codec)
            stored[size + name] = memoryview(data), count
    works = {**STORED, "and judged by JsonSchema": partial(judged, schema_chain())}
    only = sys.argv[1:]
    if "stored" not in only:
        Console().print("As producers send them", figures(WORK, sent))
    if "sent" not in only:
        Console().print("As brokers store them", figures(works, stored))


if __name__ == "__main__":
    main()
