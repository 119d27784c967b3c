"""Record batches read and written, natively and in Python, side by side: `make bench-records`.

One process, nothing else: ns per record, the median of rounds in which both take turns, so that a
machine that grows slower or faster does so for both. Records of 160 bytes each, uncompressed,
in batches of 1 MB and of 16 KB. Bounded: about twenty seconds.
"""

import statistics
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.records.conftest import chosen  # noqa: E402
from tests.records.encoding import encode_batch  # noqa: E402

from penstock.engine.columns import as_proxies  # noqa: E402
from penstock.engine.stored_columns import StoredColumns  # noqa: E402
from penstock.policy import Record, RecordIntrospectionHints  # noqa: E402
from penstock.records import batch as batches  # noqa: E402
from penstock.records.encoder import rebuild  # noqa: E402
from penstock.records.implementation import SLACK  # noqa: E402

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
    return batches.read_batch(
        data, api_version=9, max_decompressed_bytes=1 << 24, readable_behind=SLACK
    )


def iterate(data, hints):
    for _ in as_proxies(StoredColumns(read(data).records), hints):
        pass


def columns(data):
    got = read(data).records
    return got.keys, got.values, got.headers, got.timestamps


def intercepted(data):
    """What interceptors are given, as lists: what they leave is compared with it."""
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


def measured(implementation, work, data, repeated):
    batches._READING = implementation  # noqa: SLF001 - both in one process
    start = time.process_time_ns()
    for _ in range(repeated):
        work(data)
    return time.process_time_ns() - start


def main():
    both = {"Python": chosen("0"), "native": chosen("1")}
    table = Table("ns per record", *(f"{size}, {name}" for size in SIZES for name in both))
    buffers = {}
    for size, count in SIZES.items():
        data = encode_batch(records(count))
        buffers[size] = memoryview(bytearray(data + bytes(SLACK)))[: len(data)]
    for name, work in WORK.items():
        row = []
        for size, count in SIZES.items():
            repeated = max(1, 2_000 // count)
            taken = {key: [] for key in both}
            for _ in range(ROUNDS):
                for key, implementation in both.items():
                    taken[key].append(measured(implementation, work, buffers[size], repeated))
            row += [
                f"{statistics.median(times) / repeated / count:.0f}" for times in taken.values()
            ]
        table.add_row(name, *row)
    Console().print(table)


if __name__ == "__main__":
    main()
