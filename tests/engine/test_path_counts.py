"""The paths of policies in the processes that run them, and their sums."""

import pytest

from penstock.configuration import load_configuration
from penstock.engine.chain import Chain
from penstock.engine.instances import PolicyInstances
from penstock.engine.path_counts import PathCount, PathTally, events_of
from penstock.engine.plans.plan import Plan
from tests.engine.chains import TOPIC_ID, columns

FILE = """
upstream.bootstrap.servers=localhost:9092
policies=mask,drop,other
policies.mask.type=RedactJsonFields
policies.mask.fields=card.number,cards.*.number
policies.drop.type=DropRecords
policies.drop.fields=test=true,*.test=true
policies.other.type=RedactJsonFields
policies.other.fields=x
topics.t.penstock.policies=mask,drop
topics.u.penstock.policies=other
"""


@pytest.fixture
def policies(tmp_path):
    file = tmp_path / "penstock.properties"
    file.write_text(FILE)
    configuration = load_configuration(file)
    plan = Plan(configuration.policies)
    instances = PolicyInstances(configuration.policies, plan.names)
    plan.set_interceptor_patterns(instances.patterns)
    return instances, Chain(plan.for_topic("t"), instances)


def test_paths_are_counted_where_policies_run(policies):
    instances, chain = policies
    values = [b'{"card":{"number":1},"card":{"number":2}}', b'{"test":true}', b"{}", b"bad", None]
    chain.judge_each(0, TOPIC_ID, columns(*values))

    assert instances.take_path_counts() == [
        PathCount("mask", "card.number", 3, 1),
        PathCount("mask", "cards.*.number", 3, 0),
        PathCount("drop", "test", 3, 1),
        PathCount("drop", "*.test", 3, 0),
    ]
    assert instances.take_path_counts() == []


def test_counts_of_several_processes_are_added():
    counts = [PathCount("p", "a: b", 10, 0), PathCount("p", "c", 10, 0), PathCount("q", "c", 7, 7)]
    tally, other = PathTally(), PathTally()
    for event in events_of(counts):
        tally.add_event(*event)
    tally.add_event("schema_registry_lookup", "found", 3)
    other.add([PathCount("p", "c", 1000, 2)])
    tally.merge(other)

    assert tally.counts() == [
        PathCount("p", "a: b", 1010, 0), PathCount("p", "c", 1010, 2), PathCount("q", "c", 7, 7),
    ]  # fmt: skip
    assert list(map(str, tally.unfound())) == ["p: a: b is in none of 1,010 JSON values"]
