"""Protobuf payloads judged by their schema, beside plain calls of upb: `benchmarks/protobuf.py`.

One process, ns per record, the median of rounds in which all take turns, so that a machine that
grows slower or faster does so for all. `upb` is one ParseFromString of a new message for each
payload, by a loop that only looks at what it holds, which is the goal's measure: `judged` within
130 % of it. `kept` is what a policy written by hand would do to find unknown fields: the size
before and after DiscardUnknownFields. Bounded: about a minute.
"""

import statistics
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from penstock.policies.schema_policy.payloads.compiled import SchemaSource  # noqa: E402
from penstock.policies.schema_policy.payloads.protobuf.compile import (  # noqa: E402
    compile_protobuf,
)

ROUNDS, RECORDS = 31, 5000
TEXT = """
syntax = "proto3";
package shop;
message Flat { string id = 1; int64 at = 2; string customer = 3; double x = 4; bool paid = 5; }
message Address { string street = 1; string zip = 2; int32 number = 3; }
message Line { string sku = 1; int32 quantity = 2; double price = 3; }
message Order {
  string id = 1; int64 at = 2; string customer = 3; Address address = 4; repeated Line lines = 5;
  repeated int32 codes = 6; map<string, string> labels = 7; bool paid = 8;
}
message Choice { string id = 1; oneof what { Order order = 2; Address address = 3; } }
message Tree { string name = 1; repeated Tree children = 2; }
"""
ORDER = {
    "customer": "customer of the shop",
    "address": {"street": "Main street", "zip": "12345", "number": 7},
    "lines": [{"sku": f"sku-{line}", "quantity": line + 1, "price": 9.99} for line in range(3)],
    "codes": [1, 2, 3],
    "labels": {"channel": "web"},
    "paid": True,
}
KINDS = {
    "Flat": lambda i: {"id": f"order-{i}", "at": i, "customer": "customer", "x": 2.5, "paid": True},
    "Order": lambda i: {"id": f"order-{i}", "at": i, **ORDER},
    "Choice": lambda i: {"id": f"order-{i}", "order": {"id": f"order-{i}", "at": i, **ORDER}},
    "Tree": lambda i: {"name": f"{i}", "children": [{"name": "a"}, {"children": [{"name": "b"}]}]},
}


def plain(new, payloads):
    seen = 0
    for payload in payloads:
        message = new()
        message.ParseFromString(payload)
        seen += payload is not None
    return seen


def kept(new, payloads):
    for payload in payloads:
        message = new()
        message.ParseFromString(payload)
        before = message.ByteSize()
        message.DiscardUnknownFields()
        assert message.ByteSize() == before


def main():
    table = Table(title="ns per record, median")
    for column in ("message", "bytes", "upb", "kept", "judged", "judged / upb", "one bad of 5,000"):
        table.add_column(column, justify="right")
    schema = compile_protobuf(SchemaSource("PROTOBUF", TEXT))
    for index, (name, fields) in enumerate(KINDS.items()):
        position = {"Flat": 0, "Order": 3, "Choice": 4, "Tree": 5}[name]
        prefix = b"\x00" if index == 0 else bytes((2, 2 * position))
        new = type(schema.decode(prefix))
        messages = [new(**fields(i)).SerializeToString() for i in range(RECORDS)]
        payloads = [prefix + message for message in messages]
        spoilt = [*payloads[:-1], payloads[-1] + b"\xc0\x3e\x01"]
        ways = {
            "upb": lambda new=new, messages=messages: plain(new, messages),
            "kept": lambda new=new, messages=messages: kept(new, messages),
            "judged": lambda payloads=payloads: schema.objections(payloads),
            "bad": lambda payloads=spoilt: schema.objections(payloads),
        }
        assert not ways["judged"]()
        assert len(ways["bad"]()) == 1
        times = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, run in ways.items():
                begin = time.perf_counter()
                run()
                times[way].append((time.perf_counter() - begin) / RECORDS * 1e9)
        median = {way: statistics.median(one) for way, one in times.items()}
        table.add_row(
            name,
            str(len(messages[0])),
            *(f"{median[way]:.0f}" for way in ("upb", "kept", "judged")),
            f"{median['judged'] / median['upb']:.2f}",
            f"{median['bad']:.0f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
