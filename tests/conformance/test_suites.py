"""What the suites' programs print, read as outcomes."""

import pytest

from tests.conformance import franz_go, kafka_streams, librdkafka, rskafka
from tests.conformance.__main__ import SUITES
from tests.conformance.outcomes import Outcome

P, F, S = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def test_go_tests_are_read():
    lines = [
        '{"Action":"start"}\n',
        '{"Action":"run","Test":"TestA"}\n',
        '{"Action":"output","Test":"TestA","Output":"=== RUN   TestA\\n"}\n',
        "what the program writes to its standard error\n",
        "[1, 2]\n",
        '{"Action":"run","Test":"TestA/part"}\n',
        '{"Action":"fail","Test":"TestA/part","Elapsed":0}\n',
        '{"Action":"fail","Test":"TestA","Elapsed":0}\n',
        '{"Action":"run","Test":"TestB"}\n{"Action":"pause","Test":"TestB"}\n',
        '{"Action":"run","Test":"TestC"}\n',
        '{"Action":"skip","Test":"TestC","Elapsed":0}\n',
        '{"Action":"run","Test":"TestD"}\n',
        '{"Action":"pass","Test":"TestD","Elapsed":1.5}\n',
        '{"Action":"fail","Elapsed":2}\n',
    ]

    found = franz_go.outcomes(line for text in lines for line in text.splitlines())

    assert found == {"TestA": F, "TestB": F, "TestC": S, "TestD": P}


REPORT = (
    '{ "id": "1_bare", "tests": {"<MAIN>": {"name": "<MAIN>", "state": "PASSED", '
    '"known_issue": false, "extra": "", "duration": 9.000, "report": [ ] }, '
    '"0022_consume_batch": {"name": "0022_consume_batch", "state": "PASSED", "report": [ ] }, '
    '"0022_consume_batch_local": {"name": "0022_consume_batch_local", "state": "SKIPPED" }, '
    '"0047_partial_buf_tmout": {"name": "0047_partial_buf_tmout", "state": "DNS" }, '
    '"0081_admin": {"name": "0081_admin", "state": "RUNNING" }, '
    '"0103_transactions": {"name": "0103_transactions", "state": "FAILED" }, '
    '"8000_idle": {"name": "8000_idle", "state": "SKIPPED" }}, "tests_run": 3}'
)


def test_reports_of_librdkafka_are_read():
    assert librdkafka.outcomes(REPORT, "none") == {
        "0022_consume_batch": P,
        "0022_consume_batch_local": S,
        "0047_partial_buf_tmout": S,
        "0081_admin": F,
        "0103_transactions": F,
    }


def test_of_a_report_of_librdkafka_only_the_tests_of_its_number_count():
    assert librdkafka.outcomes(REPORT, "0022") == {
        "0022_consume_batch": P,
        "0022_consume_batch_local": S,
    }
    assert librdkafka.outcomes("", "0022") == {}


def test_rust_tests_are_read():
    printed = """
running 5 tests
test test_plain ... ok
test test_tls ... ignored
test test_topic_crud has been running for over 60 seconds
test helpers::test_it - should panic ... ok
test test_topic_crud ... FAILED

failures:

---- test_topic_crud stdout ----
test result: FAILED. 2 passed; 1 failed; 1 ignored
"""

    assert rskafka.outcomes(printed.splitlines(True)) == {
        "test_plain": P,
        "test_tls": S,
        "helpers::test_it": P,
        "test_topic_crud": F,
    }


def test_programs_are_found_in_cargos_output():
    lines = [
        '{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"rskafka"},"executable":null}',
        '{"reason":"compiler-artifact","target":{"kind":["test"],"name":"client"},"executable":"/a"}',
        '{"reason":"build-finished","success":true}',
        "   Compiling rskafka",
    ]

    assert rskafka.programs(lines) == {"client": "/a"}


def printed(driver="ALL-RECORDS-DELIVERED\nSUCCESS\n", closed="", killed=""):
    started = "name: SMOKE-TEST-CLIENT-STARTED\n"
    ended = f"{started}name: SMOKE-TEST-CLIENT-CLOSED\n"
    return kafka_streams.Printed(driver, [ended, ended + closed], [started + killed])


def test_a_sound_smoke_test_passes():
    assert set(kafka_streams.outcomes(printed(), 1).values()) == {P}


@pytest.mark.parametrize(
    ("made", "failed"),
    [
        (printed(driver=""), {"all records are processed", "none is processed twice",
                              "every aggregate is right"}),
        (printed(driver="ALL-RECORDS-DELIVERED\nPROCESSED-MORE-THAN-GENERATED\nSUCCESS\n"),
         {"none is processed twice"}),
        (printed(closed="name: SMOKE-TEST-CLIENT-EXCEPTION\n"), {"instances end in order"}),
        (kafka_streams.Printed(printed().driver, [], printed().killed), {"instances end in order"}),
        (kafka_streams.Printed(printed().driver, printed().closed, [""]),
         {"instances were killed at work"}),
    ],
)  # fmt: skip
def test_wrong_results_of_a_smoke_test_fail(made, failed):
    found = kafka_streams.outcomes(made, 1)

    assert {name for name, outcome in found.items() if outcome is F} == failed


def test_suites_have_unique_names_and_list_their_programs():
    assert len({kind.name for kind in SUITES}) == len(SUITES)
    assert all(kind.needs and kind.version and min(kind.least) > 0 for kind in SUITES)


def test_a_suite_names_the_programs_that_are_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert franz_go.FranzGo.missing() == ["go"]
