from penstock.kafka.cluster.ranges import Partition
from penstock.spark.sink.stream_checkpoints import is_interrupted, planned_batch

OURS = '{"t": {"id": "00000000-0000-0000-0000-000000000001", "offsets": {"0": 7, "11": 9}}}'
SPARKS = '{"t": {"0": 7, "11": 9}}'


def plan(folder, number, offsets):
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')


def test_a_checkpoint_in_which_nothing_was_planned(spark, tmp_path):
    assert planned_batch(spark, str(tmp_path)) is None
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / ".9.tmp").write_text("v1")
    assert planned_batch(spark, str(tmp_path)) is None


def test_the_last_micro_batch_counts(spark, tmp_path):
    for number, offsets in ((9, "{}"), (10, OURS), (8, "{}")):
        plan(tmp_path, number, offsets)
    ends = {Partition("t", 0): 7, Partition("t", 11): 9}
    assert planned_batch(spark, f"{tmp_path}/") == (10, ends)


def test_a_checkpoint_of_sparks_source(spark, tmp_path):
    plan(tmp_path, 0, SPARKS)
    ends = {Partition("t", 0): 7, Partition("t", 11): 9}
    assert planned_batch(spark, str(tmp_path)) == (0, ends)


def test_a_micro_batch_that_was_planned_and_not_committed_is_interrupted(spark, tmp_path):
    assert not is_interrupted(spark, str(tmp_path))
    plan(tmp_path, 9, OURS)
    assert is_interrupted(spark, str(tmp_path))
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "9").write_text("v1\n{}")
    assert not is_interrupted(spark, f"{tmp_path}/")
    plan(tmp_path, 10, OURS)
    assert is_interrupted(spark, str(tmp_path))
