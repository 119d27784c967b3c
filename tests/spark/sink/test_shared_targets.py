"""Folders that two streams would write to."""

import pytest

from penstock.spark.execution.failures import reason_of
from penstock.spark.sink.shared_targets import OWNER, SharedTargetError, claim_folder


def test_a_folder_belongs_to_the_stream_that_writes_first(spark, tmp_path):
    folder = tmp_path / "folder"
    for _ in range(2):
        claim_folder(spark, f"{folder}/", "first")
    assert (folder / OWNER).read_text() == "first"
    with pytest.raises(SharedTargetError, match="belongs to another stream"):
        claim_folder(spark, str(folder), "second")
    assert (folder / OWNER).read_text() == "first"


def test_a_stream_that_ended_before_it_had_written_its_id(spark, tmp_path):
    (tmp_path / OWNER).touch()
    claim_folder(spark, str(tmp_path), "first")
    assert (tmp_path / OWNER).read_text() == "first"


def test_the_error_of_a_micro_batch_is_one_line(spark, tmp_path):
    claim_folder(spark, str(tmp_path), "first")
    query = (
        spark.readStream.format("rate")
        .load()
        .writeStream.foreachBatch(lambda *_: claim_folder(spark, str(tmp_path), "second"))
        .trigger(once=True)
        .start()
    )
    with pytest.raises(Exception, match="SharedTargetError") as raised:
        query.awaitTermination(120)
    text, code = reason_of(raised.value)
    assert code == 3
    assert text.startswith(f"two jobs write to one target: path:{tmp_path} belongs to another")
