"""The examples of docs/policies.md and docs/interfaces.md work as the pages describe."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.policy.testing import judge

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def names():
    """What the blocks of both pages define."""
    found = {"__name__": "guide"}
    for page in ("policies.md", "interfaces.md"):
        for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
            exec(compile(block, f"docs/{page}", "exec"), found)
    return found


def test_the_unit_test_of_the_guide_passes(names):
    names["test_orders_need_a_header"]()


def test_declared_keys_decide(names):
    topic_configs = {"shop.validation": "true", "shop.size.max": "3", "shop.empty": "refuse"}
    verdicts = judge(
        names["Sizes"],
        [b"abc", b"abcd", b""],
        topic_configs=topic_configs,
        configs={"unit": "octets"},
    )
    assert [verdict.message for verdict in verdicts] == [
        None,
        "more than 3 octets",
        "the value is empty",
    ]


def test_an_interceptor_drops_and_changes(names):
    values = [b"test-card", b"4111 1111", b"other"]
    verdicts = judge(names["NoCardNumbers"], values, topic="payments-eu")
    assert [verdict.outcome for verdict in verdicts] == ["dropped", "accepted", "accepted"]
    assert verdicts[1].value == b"**** 1111"


def test_columns_are_judged(names):
    verdicts = judge(names["KnownSchemas"], [b"\0\0\0\0\7x", b"\0\0\0\0\1x"])
    assert [verdict.outcome for verdict in verdicts] == ["accepted", "refused"]


@pytest.fixture
def customers(tmp_path):
    """A file with a table of customers, and the keys that name it."""
    path = tmp_path / "customers.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE customers (id TEXT)")
        database.execute("INSERT INTO customers VALUES (?)", ("7",))
    return {"customers.database": str(path)}


def test_a_look_up_decides(names, customers):
    records = [{"key": key, "value": b"v"} for key in (b"7", b"8", None)]
    verdicts = judge(names["KnownCustomers"], records, configs=customers)
    assert [verdict.message for verdict in verdicts] == [
        None,
        *["the key must be a known customer"] * 2,
    ]


def test_a_look_up_that_fails_postpones(names, tmp_path):
    without_table = {"customers.database": str(tmp_path / "empty.db")}
    [verdict] = judge(names["KnownCustomers"], [{"key": b"7"}], configs=without_table)
    assert (verdict.outcome, verdict.message) == ("postponed", "the customers cannot be read")
