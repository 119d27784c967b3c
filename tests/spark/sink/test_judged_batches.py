from pyspark.sql import functions as F

from penstock.spark.sink.judged_batches import JudgedBatches


def drawn(spark):
    """Return a frame that is another whenever it is evaluated."""
    return spark.range(3).select("id", F.uuid().alias("drawn"))


def rows(batch):
    return sorted(map(tuple, batch.frame.collect()))


def test_a_micro_batch_is_judged_once(spark, tmp_path):
    batches = JudgedBatches(f"{tmp_path}/")
    first = rows(batches.kept(drawn(spark), "q", 0))
    assert len(first) == 3
    assert rows(JudgedBatches(str(tmp_path)).kept(drawn(spark), "q", 0)) == first


def test_an_incomplete_result_is_judged_again(spark, tmp_path):
    batches = JudgedBatches(str(tmp_path))
    first = rows(batches.kept(drawn(spark), "q", 4))
    (complete,) = (tmp_path / "judged" / "q-4").glob("*/_COMPLETE")
    complete.unlink()
    again = rows(batches.kept(drawn(spark), "q", 4))
    assert again != first
    assert [row[0] for row in again] == [0, 1, 2]


def test_only_one_micro_batch_is_kept(spark, tmp_path):
    batches = JudgedBatches(str(tmp_path))
    for number in (8, 9):
        batches.kept(drawn(spark), "q", number)
    assert [folder.name for folder in (tmp_path / "judged").glob("q-*")] == ["q-9"]


def test_another_query_is_judged_itself(spark, tmp_path):
    """As with a checkpoint with only Spark's part removed."""
    batches = JudgedBatches(str(tmp_path))
    first = rows(batches.kept(drawn(spark), "q", 0))
    assert rows(batches.kept(drawn(spark), "r", 0)) != first


def test_a_micro_batch_without_records(spark, tmp_path):
    assert rows(JudgedBatches(str(tmp_path)).kept(drawn(spark).where("id < 0"), "q", 0)) == []


def test_it_is_judged_once_if_spark_marks_no_folders(spark, tmp_path):
    """As many have it, and the committers of some object stores."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    try:
        batches = JudgedBatches(str(tmp_path))
        first = rows(batches.kept(drawn(spark), "q", 0))
        assert rows(batches.kept(drawn(spark), "q", 0)) == first
    finally:
        settings.unset("mapreduce.fileoutputcommitter.marksuccessfuljobs")


def test_columns_are_those_that_were_judged(spark, tmp_path):
    """Interceptors that were added or removed since make columns of earlier records."""
    batches = JudgedBatches(str(tmp_path))
    batches.kept(drawn(spark).withColumn("original_key", F.lit(b"k")), "q", 0)
    kept = batches.kept(drawn(spark), "q", 0).frame
    assert kept.columns == ["id", "drawn", "original_key"]
    batches.kept(drawn(spark), "q", 1)
    again = batches.kept(drawn(spark).withColumn("original_key", F.lit(b"k")), "q", 1)
    assert again.frame.columns == ["id", "drawn"]


def test_a_late_process_leaves_the_result_of_a_later_process(spark, tmp_path):
    batches = JudgedBatches(str(tmp_path))
    batches.kept(drawn(spark), "q", 5)
    later = rows(batches.kept(drawn(spark), "q", 6))
    batches.kept(drawn(spark), "q", 5)
    assert rows(batches.kept(drawn(spark), "q", 6)) == later


def test_of_two_attempts_the_first_complete_counts(spark, tmp_path):
    """A stream is started again while its earlier process judges."""
    batches = JudgedBatches(str(tmp_path))
    found = []

    class Slow:
        sparkSession = spark  # noqa: N815 - as Spark has it

        @property
        def write(self):
            found.append(rows(batches.kept(drawn(spark), "q", 0)))
            return drawn(spark).write

    found.append(rows(batches.kept(Slow(), "q", 0)))
    assert found[0] == found[1]
    assert rows(batches.kept(drawn(spark), "q", 0)) == found[0]
