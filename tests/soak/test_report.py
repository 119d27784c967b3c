"""What is told of a soak, and what is a finding of its own."""

import random

import pytest

from tests.soak.judge import judge
from tests.soak.plan import LANES
from tests.soak.producers import CLIENTS, producers
from tests.soak.report import at_rest, not_reached, shortfalls, table, uses
from tests.soak.samples import (
    AT_REST,
    DESCRIPTORS,
    MEMORY,
    NO_SOCKETS,
    OF_WORKERS,
    RESIDENT,
    THREADS,
)
from tests.soak.told import told_by

ALL_DONE = {kind: 1 for lane in LANES.values() for kind in lane.kinds}


def accounts_of(producer, *lines):
    told = told_by([f"{producer.name}\t1\t{line}\t1\t\n" for line in lines], [producer.name])
    said = told[producer.name]
    return [(judge(producer, said, []), said)]


def series(per_hour):
    samples = [(float(at), 100 + per_hour * at / 3600) for at in range(1200)]
    return dict.fromkeys((MEMORY, RESIDENT, NO_SOCKETS, THREADS, OF_WORKERS), samples)


def test_every_client_has_producers_whose_names_are_unlike():
    names = [
        producer.name for client in CLIENTS for producer in producers(client, random.Random(1))
    ]

    assert len(names) == len(set(names))
    assert {name.split("/")[0] for name in names} == set(CLIENTS)


def test_a_client_that_was_acknowledged_nothing_has_shown_nothing():
    producer = producers("Java", random.Random(1))[0]

    found = shortfalls(accounts_of(producer, "refused\t1"), ALL_DONE)

    assert found == ["Java/clean was acknowledged nothing", "no record was dropped"]


def test_what_was_never_done_has_shown_nothing():
    dropped = next(n for n in range(99) if producers("kcat", random.Random(1))[0].letter(n) == "d")
    producer = producers("kcat", random.Random(1))[0]
    accounts = accounts_of(producer, f"acknowledged\t{dropped}", "refused\t1")

    assert shortfalls(accounts, ALL_DONE) == []
    assert shortfalls(accounts, {"reload": 1}) == [
        f"none was done of: {lane}" for lane in LANES if lane != "reloads"
    ]


def test_what_time_did_not_suffice_for():
    assert not_reached(["reload", "reload", "kill a worker"], {"reload": 1}) == (
        "1 x kill a worker, 1 x reload"
    )


def test_what_is_flat_is_no_finding():
    text, findings = uses(series(0))

    assert findings == []
    assert text.count(" flat: ") == 4


def test_what_rises_is_a_finding_but_for_workers():
    text, findings = uses(series(200))

    assert len(findings) == 4
    assert text.count("NOT FLAT") == 4
    assert "not judged" in text


def test_no_samples_are_a_finding():
    assert uses({})[1] == ["no samples of the gateway that lasts"]


@pytest.mark.parametrize("what", [DESCRIPTORS, THREADS])
def test_what_does_not_come_back(what):
    before = {DESCRIPTORS: 40.0, THREADS: 3.0}

    assert at_rest(before, before)[1] == []
    assert len(at_rest(before, before | {what: before[what] + AT_REST[what] + 1})[1]) == 1


def test_the_table_has_a_line_for_each_producer():
    producer = producers("kcat", random.Random(1))[0]

    text = table(accounts_of(producer, "acknowledged\t0-1"))

    assert "kcat/clean" in text
    assert text.splitlines()[-1].startswith("all")
