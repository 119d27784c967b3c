"""`penstock check --since` with a fake cluster and fake workers."""

import uuid
from types import SimpleNamespace

import pytest

from penstock import cli
from penstock.cli import check
from penstock.cli.checks import check_since
from penstock.cli.checks.dry_run import DryRun
from penstock.engine.path_counts import PathCount, events_of
from penstock.engine.verdict import ACCEPTED, failed, not_judged, refused
from penstock.kafka.client.errors import DeniedError
from penstock.kafka.cluster.errors import ClusterError
from penstock.kafka.cluster.offsets import Topic
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.policy import Record
from tests.kafka.client.selection import selection
from tests.kafka.records.encoding import encode_batch

FILE = """
upstream.bootstrap.servers=127.0.0.1:1
record.validator.classes=policies.Check
topics.seen-*.penstock.mode=observe
audit.topic=seen-audit
"""
DATA = encode_batch([Record(0, None, b"x")] * 4)
OBSERVE = {"penstock.mode": "observe"}


class FakeCluster:
    """A cluster of the given topics; topics with "empty" in their names have no records."""

    def __init__(self, *names):
        self.all = {name: Topic(name, uuid.uuid4(), (0,)) for name in names}

    def names(self):
        return frozenset(self.all)

    def topics(self, names):
        return self.existing_topics(names)

    def existing_topics(self, names):
        return tuple(self.all[name] for name in names.split(","))

    def ranges(self, topics, start):
        return tuple(
            OffsetRange(topic.name, 0, 0, 0 if "empty" in topic.name else 4) for topic in topics
        )


class FakeSupervisor:
    """Returns the verdict of each topic."""

    verdicts = {}
    paths = ()

    def __init__(self, *_, observer, **__):
        self.observer = observer

    async def start(self):
        pass

    async def close(self):
        pass

    def submit(self, batch, done):
        for event in events_of(self.paths):
            self.observer.policy_event(*event)
        done(self.verdicts.get(batch.plan.topic, ACCEPTED))

    def needs_client(self, plan):
        return plan.topic.endswith("tenants")


@pytest.fixture
def checked(tmp_path, monkeypatch, capsys):
    """Runs the command; returns its exit code and its output."""
    file = tmp_path / "penstock.properties"
    file.write_text(FILE)

    def run(cluster, *arguments, own=(), verdicts=(), read=None):
        index = SimpleNamespace(
            names=dict(own).__contains__, of=lambda name, _: dict(own).get(name, {})
        )

        def reader_of(*_):
            return lambda piece: selection(memoryview(DATA), 0, 4, None).batches

        async def no_dry_run(_):
            return DryRun([])

        monkeypatch.setattr(check, "dry_run", no_dry_run)
        monkeypatch.setattr(check_since, "Cluster", lambda *_: cluster)
        monkeypatch.setattr(check_since, "kept_settings", lambda *_: index)
        monkeypatch.setattr(check_since, "connect", lambda *_: None)
        monkeypatch.setattr(check_since, "reader_of", read or reader_of)
        monkeypatch.setattr(check_since, "Supervisor", FakeSupervisor)
        monkeypatch.setattr(FakeSupervisor, "verdicts", dict(verdicts))
        code = cli.main(["check", str(file), "--since", "1h", *arguments])
        return code, capsys.readouterr()

    return run


def topics_in(printed):
    lines = printed.out[printed.out.index("records since") :].splitlines()
    return [line.split()[1].rstrip(",") for line in lines if line.startswith("topic ")]


def test_observed_topics_of_the_file_and_of_topic_configs_are_judged(checked):
    cluster = FakeCluster(
        "seen-a", "seen-b", "strict", "watched", "seen-audit", "__consumer_offsets"
    )
    own = {"watched": OBSERVE, "seen-b": {"penstock.mode": "enforce"}}
    code, printed = checked(cluster, own=own)
    assert code == 0
    assert topics_in(printed) == ["seen-a", "watched"]


def test_named_topics_are_judged_in_any_mode(checked):
    code, printed = checked(FakeCluster("seen-a", "strict"), "--topic", "strict,seen-a")
    assert code == 0
    assert topics_in(printed) == ["strict", "seen-a"]
    assert "topic strict, enforced: 4 records in 1 batch" in printed.out
    assert "topic seen-a, observed: 4 records in 1 batch" in printed.out


@pytest.mark.parametrize(
    ("verdict", "limit", "expected"),
    [(ACCEPTED, "0", 0), (refused(87, "no", "policies.Check"), "99%", 1),
     (failed("policies.Check", "raised"), "99%", 1), (refused(87, "no", "x"), "100%", 0)],
)  # fmt: skip
def test_a_single_topic_beyond_the_share_is_enough(checked, verdict, limit, expected):
    cluster = FakeCluster("seen-a", "seen-b")
    code, _ = checked(cluster, "--fail-over", limit, verdicts={"seen-b": verdict})
    assert code == expected


def test_records_that_cannot_be_judged_are_exit_code_3(checked):
    code, printed = checked(
        FakeCluster("seen-a"), verdicts={"seen-a": not_judged("policies.Check", "-")}
    )
    assert code == 3
    assert "none of the records could be judged" in printed.err


def test_without_records(checked):
    code, printed = checked(FakeCluster("seen-empty"), "--fail-over", "0")
    assert code == 0
    assert "note: there are no records since then" in printed.out


def test_a_note_names_the_topics_whose_policies_read_the_client(checked):
    _, printed = checked(FakeCluster("seen-a"))
    assert "read the client" not in printed.out
    _, printed = checked(FakeCluster("seen-a", "seen-tenants"))
    assert (
        "note: a policy of seen-tenants may read the client, which is None here: "
        "brokers do not store it"
    ) in printed.out


def test_notes_name_paths_that_lead_to_no_field(checked, monkeypatch):
    paths = [PathCount("mask", "card.number", 4, 0), PathCount("mask", "iban", 4, 1)]
    monkeypatch.setattr(FakeSupervisor, "paths", paths)
    _, printed = checked(FakeCluster("seen-a", "seen-b"))
    assert "note: mask: card.number is in none of 8 JSON values" in printed.out
    assert "iban" not in printed.out
    monkeypatch.setattr(
        FakeSupervisor, "paths", [PathCount("p", str(number), 4, 0) for number in range(12)]
    )
    assert "note: and 2 more paths" in checked(FakeCluster("seen-a"))[1].out


def test_without_topics(checked):
    code, printed = checked(FakeCluster("strict"))
    assert code == 2
    assert "no topic that exists is observed" in printed.err


@pytest.mark.parametrize("error", [ClusterError("away"), DeniedError(29, "topic seen-a")])
def test_a_cluster_that_refuses(checked, error):
    def read(*_):
        def reading(_):
            raise error
            yield

        return reading

    code, printed = checked(FakeCluster("seen-a"), read=read)
    assert code == 3
    assert printed.err.startswith(f"penstock check: 127.0.0.1:1: {error}")
