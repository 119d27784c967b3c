"""Several topics in one run, each with its own policies."""

import uuid
from collections import Counter

import pyarrow as pa
import pyarrow.dataset
import pytest

from penstock.configuration import load_configuration
from penstock.jobs.tasks.planning import PackedTasks, Sizes, plan_tasks
from penstock.jobs.topics.access import ClusterAccess
from penstock.jobs.topics.sizes import measured
from penstock.kafka.cluster.offsets import Cluster
from tests.conftest import create_topic
from tests.jobs.slow_records import values
from tests.spark.conftest import BOTH, NO_BAD


@pytest.fixture
def prefix():
    return f"many-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def topics(topic, produce, prefix):
    """Two topics with a policy, one without, with other numbers of partitions."""
    names = [topic(f"{prefix}-{kind}", partitions)
             for kind, partitions in (("judged-a", 1), ("judged-b", 3), ("free", 2))]  # fmt: skip
    for number, name in enumerate(names):
        produce(name, [{"value": b"good"}] * 5 + [{"value": b"bad"}] * (number + 1))
    return names


@pytest.fixture
def file(configured, prefix):
    return configured({
        "record.validation.policy.class.name": "policies.NoBad",
        f"topics.{prefix}-judged-*.record.validation.policy": "any",
    })  # fmt: skip


@BOTH
def test_each_topic_is_judged_by_its_own_policies(command, file, topics, prefix):
    done = command("audit", file, "--topic", f"{prefix}-*")
    assert "21 records judged: 18 accepted, 3 refused" in done.out, done
    assert f"warning: no policy of {file} judges topic {topics[2]}\n" in done.err
    done = command("audit", file, "--topic", f"{topics[1]},{topics[0]}", "--from", "latest")
    assert "0 records judged" in done.out, done
    assert f"warning: {topics[1]},{topics[0]}: there are no records to judge" in done.err
    assert "no policy" not in done.err


@pytest.mark.cases(1)
@BOTH
def test_several_topics_are_split_at_once(command, file, topics, tmp_path):
    done = command("split", file, "--topic", ",".join(topics), "--accepted",
                   f"path:{tmp_path / 'a'}", "--rejected", f"path:{tmp_path / 'd'}")  # fmt: skip
    assert "18 accepted, 3 refused" in done.out, done
    found = pyarrow.dataset.dataset(str(tmp_path / "d"), format="parquet").to_table(["topic"])
    assert Counter(found["topic"].to_pylist()) == {topics[0]: 1, topics[1]: 2}


@pytest.mark.cases(2)
@BOTH
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{0},nowhere-at-all", "there is no topic nowhere-at-all"),
        ("{0}x", "near it: {0}"),
        ("nowhere-*", "--topic nowhere-*: no topic"),
        ("{0},", "--topic {0},: names and globs, separated by commas"),
    ],
)
def test_missing_topics(command, configured, topics, given, message):
    done = command("audit", configured(NO_BAD), "--topic", given.format(topics[0]))
    assert (done.code, message.format(topics[0]) in done.err) == (2, True), done


@BOTH
def test_a_written_topic_must_not_be_named(command, file, topics, prefix, tmp_path):
    done = command("split", file, "--topic", f"{prefix}-*,{topics[2]}", "--accepted", topics[2],
                   "--rejected", f"path:{tmp_path / 'd'}")  # fmt: skip
    assert done.code == 2
    assert f"topic {topics[2]} cannot be written to while it is read" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--streaming", "--available-now")])
def test_a_glob_leaves_out_written_topics(
    command, file, topics, prefix, topic, admin, produce, kafka, options
):
    """As in `--topic orders-* --accepted orders-clean --rejected orders-dead`."""
    good, dead = topic(f"{prefix}-good"), topic(f"{prefix}-dead")
    create_topic(admin, f"{dead}.parked")
    produce(f"{dead}.parked", [{"value": b"bad"}])
    arguments = ("split", file, "--topic", f"{prefix}-*", "--accepted", good, "--rejected", dead)
    for _ in range(2):
        done = command(*arguments, *options)
        assert done.code == 0, done
        assert values(kafka, good, dead) == {b"good": 15, b"bad": 6}


@BOTH
def test_a_glob_that_matches_only_written_topics(command, file, topics, prefix, topic):
    dead = topic("dead")
    done = command("split", file, "--topic", f"{prefix}-free*", "--accepted", topics[2],
                   "--rejected", dead)  # fmt: skip
    assert done.code == 2
    assert f"{topics[2]} cannot be written to while it is read" in done.err


@pytest.mark.slow
def test_a_new_topic_of_a_glob_makes_no_other_job(
    command, file, topics, prefix, topic, produce, kafka
):
    good, dead = topic("good"), topic("dead")
    arguments = ("split", file, "--topic", f"{prefix}-*", "--accepted", good, "--rejected", dead)
    assert command(*arguments).code == 0
    produce(topic(f"{prefix}-judged-new"), [{"value": b"good"}])
    assert " 1 accepted" in command(*arguments).out
    produce(topics[0], [{"value": b"good"}])
    assert " 1 accepted" in command(*arguments, "--streaming", "--available-now").out
    assert values(kafka, good, dead) == {b"good": 17, b"bad": 6}


@BOTH
def test_offsets_by_partition_need_a_single_topic(command, file, topics):
    done = command("audit", file, "--topic", ",".join(topics), "--from", "0:1")
    assert (done.code, "PARTITION:OFFSET needs one topic" in done.err) == (2, True), done


@pytest.mark.parametrize("ordered", [False, True])
def test_tasks_reach_executors_and_each_gets_its_own(spark, file, topics, ordered):
    """What a job on raw batches does before it reads: plan, pack, travel, connect."""
    configuration = load_configuration(file)
    cluster = Cluster(configuration.upstream_properties, configuration.path)
    stored_topics = cluster.topics(",".join(topics))
    ranges = cluster.ranges(stored_topics, "earliest")
    access = ClusterAccess.of(configuration.upstream_properties, configuration.path)
    assert measured(access.connect(), cluster, stored_topics).offset_bytes.keys() == {
        offset_range.of for offset_range in ranges if offset_range.offsets
    }
    tasks = plan_tasks(ranges, cores=2, sizes=Sizes(default_bytes=2**21), ordered=ordered)
    assert len(tasks) > 2
    packed = PackedTasks(tasks)

    def read(batches):
        for batch in batches:
            for number in batch["id"].to_pylist():
                found = packed[number].ranges
                known = access.connect().describe({entry.topic for entry in found})
                yield pa.RecordBatch.from_pydict(
                    {
                        "task": [number] * len(found),
                        "range": [str(row) for row in found],
                        "known": [entry.partition in known[entry.topic].leaders for entry in found],
                    }
                )

    rows = spark.range(len(packed), numPartitions=len(packed)).mapInArrow(
        read, "task bigint, range string, known boolean"
    )
    assert rows.rdd.getNumPartitions() == len(tasks)
    found = sorted(tuple(row) for row in rows.collect())
    assert found == sorted(
        (number, str(offset_range), True)
        for number, task in enumerate(tasks)
        for offset_range in task.ranges
    )
