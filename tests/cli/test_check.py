"""`penstock check`: the output of `--since`, and the times that it accepts."""

from datetime import UTC, datetime

import pytest

from penstock.cli.check import describe, moment
from penstock.cli.checks.check_since import lines_of
from penstock.configuration import ConfigurationError, load_configuration
from penstock.engine.inline import InlineJudge
from penstock.engine.plans.plan_digest import PlanDigests
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, RecordError, refused_records
from penstock.jobs.report.counts import AuditCounts
from penstock.jobs.tasks.whole_batches import count_batch
from penstock.jobs.topics.excerpt_reading import ReadBatch

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
PLAN = TopicPlan(topic="orders", validators=("a.V",), mode="observe")
BATCH = ReadBatch("orders", 3, b"", 4, 100, range(50, 54))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h", "2026-01-31T11:00:00+00:00"),
        ("90m", "2026-01-31T10:30:00+00:00"),
        ("30s", "2026-01-31T11:59:30+00:00"),
        ("7d", "2026-01-24T12:00:00+00:00"),
        ("2026-01-31T10:00:00", "2026-01-31T10:00:00+00:00"),
        ("2026-01-31T10:00:00+02:00", "2026-01-31T10:00:00+02:00"),
        ("2026-01-30", "2026-01-30T00:00:00+00:00"),
    ],
)
def test_times_are_read(text, expected):
    assert moment(text, NOW).isoformat() == expected


@pytest.mark.parametrize(
    "text", ["", "1", "h", "-1h", "1.5h", "1w", "yesterday", "999999999d", "2026-02-01T00:00:00"]
)
def test_a_text_that_is_not_a_past_time_is_an_error(text):
    with pytest.raises(ConfigurationError, match="--since"):
        moment(text, NOW)


def shown(*verdicts, plan=PLAN):
    counts = AuditCounts()
    for verdict in verdicts:
        count_batch(counts, BATCH, verdict, plan.interceptor_names)
    return list(lines_of("orders", plan, counts))


def test_a_topic_without_refusals_is_reported():
    assert shown(ACCEPTED) == [
        "topic orders, observed: 4 records in 1 batch",
        "            4 would be stored as they are (100.00%)",
        "            0 would be refused (0.00%)",
    ]


def test_refusals_are_shown_with_policy_and_reason():
    verdict = refused_records([RecordError(2, "no", "a.V")])
    assert shown(ACCEPTED, ACCEPTED, ACCEPTED, verdict) == [
        "topic orders, observed: 16 records in 4 batches",
        "           12 would be stored as they are (75.00%)",
        "            4 would be refused (25.00%), in 1 batch",
        "            4   by a.V",
        "  reasons, and the records to blame",
        "            1 a.V: no  (the first seen at 3:52)",
    ]


def test_a_message_cannot_write_to_the_terminal():
    text = "\n".join(shown(refused_records([RecordError(0, "\x1b[2J\rok\nok", "a.V")])))
    assert "\x1b" not in text
    assert "\r" not in text
    assert "ok\n" not in text


def test_the_number_of_reasons_is_limited():
    errors = [RecordError(n, f"no {n}", "a.V") for n in range(50)]
    lines = shown(refused_records(errors))
    assert lines[-1] == "           40 for other reasons"
    assert len(lines) < 20


def described(tmp_path, **properties):
    file = tmp_path / "penstock.properties"
    lines = {"upstream.bootstrap.servers": "127.0.0.1:1", **properties}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return lines_about(file)


def lines_about(file):
    configuration = load_configuration(file)
    return describe(
        configuration, [], InlineJudge(configuration.policies), PlanDigests(configuration.policies)
    )


def test_policies_without_a_topic_are_named(tmp_path):
    named = {
        "policies": "a,b,c",
        "policies.a.type": "KeyRequired",
        "policies.b.type": "KeyRequired",
        "policies.c.type": "KeyRequired",
        "topics.orders.penstock.policies": "b",
    }
    line = "no topic of this file has a, c; topics.<glob>.penstock.policies lists policies"
    assert described(tmp_path, **named)[-1] == line
    used = described(tmp_path, **named, **{"topics.*.penstock.policies": "a,c"})
    assert not [line for line in used if line.startswith("no topic")]


def test_each_glob_is_shown_with_what_it_matches(tmp_path):
    globs = ("orders", "orders.*", "*.eu", "*", "orders[12]")
    lines = described(tmp_path, **{f"topics.{glob}.penstock.mode": "observe" for glob in globs})
    observed = ", observed: nothing is refused"
    assert [line for line in lines if line.startswith("topics ")] == [
        f'topics orders[12]{observed} (names of "orders", then a character of 12)',
        f'topics orders.*{observed} (names that begin with "orders.")',
        f"topics orders{observed}",
        f'topics *.eu{observed} (names that end with ".eu")',
        f"topics *{observed}",
    ]


@pytest.mark.parametrize("glob", ["orders[12]", "[!_]*", "orders-[a-c]?"])
def test_the_plan_of_a_glob_is_that_of_its_topics(tmp_path, glob):
    lines = described(
        tmp_path,
        **{
            "policies": "key",
            "policies.key.type": "KeyRequired",
            f"topics.{glob}.penstock.policies": "key",
            "topics.*.penstock.mode": "quarantine",
        },
    )
    at = next(i for i, line in enumerate(lines) if line.startswith(f"topics {glob},"))
    assert "in quarantine: bad records go to" in lines[at]
    assert "key (penstock.policies.KeyRequired)" in lines[at + 1]


def test_the_plan_of_a_glob_has_no_line_that_is_for_some_of_its_topics(tmp_path):
    lines = described(
        tmp_path,
        **{
            "policies": "a,b",
            "policies.a.type": "KeyRequired",
            "policies.b.type": "KeyRequired",
            "topics.orders*.penstock.policies": "b",
            "topics.orders?.penstock.policies": "a",
        },
    )
    at = next(i for i, line in enumerate(lines) if line.startswith("topics orders*"))
    assert "b (penstock.policies.KeyRequired)" in lines[at + 1]


def test_policies_of_an_observed_topic_with_their_own_mode_are_mentioned(tmp_path):
    file = tmp_path / "p.properties"
    file.write_text(
        "upstream.bootstrap.servers=k:1\npolicies=a,b\npolicies.a.type=KeyRequired\n"
        "policies.b.type=KeyRequired\npolicies.b.mode=enforce\n"
        "topics.one.penstock.policies=a\ntopics.one.penstock.mode=observe\n"
        "topics.two.penstock.policies=a,b\ntopics.two.penstock.mode=observe\n"
    )
    lines = lines_about(file)
    assert "topics one, observed: nothing is refused" in lines
    assert "topics two, observed, but for policies with a mode of their own" in lines


def test_only_policies_that_clients_wait_for_are_shown_as_inline(tmp_path):
    lines = described(
        tmp_path,
        **{
            "policies": "key,size,header",
            "policies.key.type": "KeyRequired",
            "policies.size.type": "MaxBytes",
            "policies.size.value.max.bytes": "9",
            "policies.header.type": "HeaderRequired",
            "policies.header.headers": "id",
            "policies.header.mode": "observe",
            "topics.one.penstock.policies": "key,size,header",
            "topics.two.penstock.policies": "key",
            "topics.two.penstock.mode": "observe",
        },
    )
    name = "penstock.policies"
    inline = "; small batches inline"
    assert lines[lines.index("topics one") + 1 :][:3] == [
        f"  1. record  key ({name}.KeyRequired){inline}",
        f"  2. record  size ({name}.MaxBytes){inline}",
        f"  3. record  header ({name}.HeaderRequired)  mode=observe",
    ]
    assert f"  1. record  key ({name}.KeyRequired)" in lines


def test_the_identity_of_each_plan_is_shown(tmp_path):
    lines = described(
        tmp_path,
        **{
            "policies": "key",
            "policies.key.type": "KeyRequired",
            "topics.one*.penstock.policies": "key",
            "topics.other.penstock.mode": "observe",
        },
    )
    plans = [line for line in lines if line.startswith("  plan ")]
    assert len(plans) == 1
    at = next(index for index, line in enumerate(lines) if line.startswith("topics one*"))
    assert lines.index(plans[0]) == at + 2
