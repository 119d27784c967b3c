"""What `penstock check` says of frameworks' own topics."""

import re

import pytest

from penstock.cli.checks.framework_topics import kept_names, kept_topics
from tests.engine.plans import QUARANTINE, VALIDATED, plan_of


class Cluster:
    """Describes topics a hundred at a time."""

    def __init__(self, **values):
        self.values, self.sizes = values, []

    def cleanup_policies(self, topics):
        self.sizes.append(len(topics))
        found = {topic: self.values[topic] for topic in topics if topic in self.values}
        return found, "" if len(found) == len(topics) else "not authorized"


def lines_of(plan, cluster, *topics):
    return list(kept_topics(plan, {topic: {} for topic in topics}, cluster))


def test_topics_that_lose_no_records_are_named():
    cluster = Cluster(table="compact", log="delete")
    [changes, secret, table] = sorted(
        lines_of(plan_of(QUARANTINE), cluster, "a-changelog", "log", "secret", "table")
    )
    assert changes.startswith("topic a-changelog, named as those of frameworks: bad records are ")
    assert secret.startswith("topic table, compacted: bad records are refused")
    assert "topic secret: it is not known whether it is compacted (not authorized)" in table


def test_topics_are_described_in_parts():
    cluster = Cluster()
    lines_of(plan_of(QUARANTINE), cluster, *(f"t-{number}" for number in range(250)))
    assert cluster.sizes == [100, 100, 50]


@pytest.mark.parametrize(
    "file", [VALIDATED, {**QUARANTINE, "penstock.quarantine.internal.topics": "true"}]
)
def test_without_the_rule_no_line_is_printed(file):
    plan = plan_of(file)
    assert kept_names(plan) is None
    cluster = Cluster()
    assert lines_of(plan, cluster, "a-changelog", "table") == []
    assert cluster.sizes == []


def test_the_names_are_printed_where_records_may_be_lost():
    assert "*-changelog" in kept_names(plan_of(QUARANTINE))
    plan = plan_of({"produce.request.interceptors": "a.I"})
    plan.set_interceptor_patterns([("a.I", re.compile(""))])
    assert "penstock.quarantine.internal.topics" in kept_names(plan)
