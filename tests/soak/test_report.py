"""The report of a soak, and findings of the report."""

import random

import pytest

from tests.soak.judge import judge
from tests.soak.plan import LANES
from tests.soak.producer_reports import read_reports
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

ALL_DONE = {kind: 1 for lane in LANES.values() for kind in lane.kinds}


def accounts_of(producer, *lines):
    reports = read_reports(
        [f"{producer.name}\t1\t{line}\t1\t\n" for line in lines], [producer.name]
    )
    report = reports[producer.name]
    return [(judge(producer, report, []), report)]


def series(per_hour):
    samples = [(float(at), 100 + per_hour * at / 3600) for at in range(1200)]
    return dict.fromkeys((MEMORY, RESIDENT, NO_SOCKETS, THREADS, OF_WORKERS), samples)


def test_producers_of_every_client_have_unique_names():
    names = [
        producer.name for client in CLIENTS for producer in producers(client, random.Random(1))
    ]

    assert len(names) == len(set(names))
    assert {name.split("/")[0] for name in names} == set(CLIENTS)


def test_a_client_without_acknowledged_records_is_a_shortfall():
    producer = producers("Java", random.Random(1))[0]

    found = shortfalls(accounts_of(producer, "refused\t1"), ALL_DONE)

    assert found == ["Java/clean has no acknowledged record", "no record was dropped"]


def test_a_fault_that_never_happened_is_a_shortfall():
    dropped = next(n for n in range(99) if producers("kcat", random.Random(1))[0].letter(n) == "d")
    producer = producers("kcat", random.Random(1))[0]
    accounts = accounts_of(producer, f"acknowledged\t{dropped}", "refused\t1")

    assert shortfalls(accounts, ALL_DONE) == []
    assert shortfalls(accounts, {"reload": 1}) == [
        f"no fault of: {lane}" for lane in LANES if lane != "reloads"
    ]


def test_planned_faults_without_time_are_listed():
    assert not_reached(["reload", "reload", "kill a worker"], {"reload": 1}) == (
        "1 x kill a worker, 1 x reload"
    )


def test_flat_samples_are_not_a_finding():
    text, findings = uses(series(0))

    assert findings == []
    assert text.count(" flat: ") == 4


def test_rising_samples_are_a_finding_except_for_workers():
    text, findings = uses(series(200))

    assert len(findings) == 4
    assert text.count("NOT FLAT") == 4
    assert "not judged" in text


def test_missing_samples_are_a_finding():
    assert uses({})[1] == ["no samples of the lasting gateway"]


@pytest.mark.parametrize("what", [DESCRIPTORS, THREADS])
def test_unreleased_resources_are_a_finding(what):
    before = {DESCRIPTORS: 40.0, THREADS: 3.0}

    assert at_rest(before, before)[1] == []
    assert len(at_rest(before, before | {what: before[what] + AT_REST[what] + 1})[1]) == 1


def test_the_table_has_a_line_for_each_producer():
    producer = producers("kcat", random.Random(1))[0]

    text = table(accounts_of(producer, "acknowledged\t0-1"))

    assert "kcat/clean" in text
    assert text.splitlines()[-1].startswith("all")
