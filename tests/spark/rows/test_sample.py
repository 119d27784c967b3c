"""A sample of rows, and what is proposed from it: a plan in two forms."""

import json

import pytest

from penstock.spark import audit_rows, judge_rows, load_plan
from penstock.spark.rows.sample import sample_of

ROWS = """
    SELECT id, if(id % 50 = 7, NULL, cast(id AS decimal(10,2)) / 4 + 1) amount,
    if(id % 3 = 0, 'EUR', 'USD') currency, date'2024-01-01' + cast(id % 90 AS int) day,
    timestamp'2024-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id) at,
    named_struct('name', 'n', 'age', 18 + id % 40) person, array(id % 5) tags
    FROM range(400)
"""
BAD = "SELECT -1L id, -5.0 amount, 'GBP' currency, NULL day, NULL at, NULL person, NULL tags"


def test_a_sample_is_of_the_whole_frame_and_the_same_each_time(spark):
    frame = spark.range(1000)
    ids = [json.loads(record.value)["id"] for record in sample_of(frame, 100, 10**6)]
    assert len(set(ids)) == 100
    assert min(ids) < 100
    assert max(ids) > 900
    assert [record.value for record in sample_of(frame, 100, 10**6)] == [
        f'{{"id":{number}}}'.encode() for number in ids
    ]
    assert len(sample_of(frame, 5000, 10**6)) == 1000


@pytest.mark.parametrize(("bytes_max", "rows"), [(5_100, 5), (1, 1)])
def test_a_sample_of_large_rows_has_fewer(spark, bytes_max, rows):
    large = spark.range(20).selectExpr("repeat('x', 990) text")
    assert len(sample_of(large, 10, bytes_max)) == rows


def test_proposals_are_read_back_as_a_file_and_as_a_call(command, spark, tmp_path, monkeypatch):
    rows = spark.sql(ROWS)
    rows.createOrReplaceTempView("rows_to_suggest")
    out = tmp_path / "out"
    done = command("suggest", "--input", "table:rows_to_suggest", "--rows", "--output", out,
                   "--tolerance", "0")  # fmt: skip
    assert done.code == 0, done.err
    assert "topic rows: 400 rows" in done.out
    assert 'value.currency in ["EUR", "USD"]' in done.out
    monkeypatch.chdir(tmp_path)
    assert f"schema='{out}/rows.schema.json'" in done.out
    source = done.out[done.out.index("from penstock.spark import plan") : done.out.rindex(")") + 1]
    names = {}
    exec(source, names)
    of_file = load_plan(out / "suggested.properties", topic="rows")
    both = rows.selectExpr("*", "true good").unionByName(
        spark.sql(BAD).selectExpr("*", "false good")
    )
    for plan in (of_file, names["rows_plan"]):
        report = audit_rows(rows, plan)
        assert (report.judged, report.accepted) == (400, 400), report.reasons
        judged = judge_rows(both, plan).selectExpr("good", "verdict.*").where("not good")
        [bad] = judged.collect()
        assert bad.outcome == "refused"
        assert {"amount", "currency"} <= {objection.rule for objection in bad.objections}
    assert (
        json.loads((out / "rows.schema.json").read_text())["properties"]["day"]["format"] == "date"
    )
    assert "penstock.mode" not in (out / "suggested.properties").read_text()


@pytest.mark.slow
def test_files_and_another_topic(command, spark, tmp_path):
    folder = tmp_path / "orders"
    spark.sql(ROWS).write.parquet(str(folder))
    file = tmp_path / "own.properties"
    file.write_text("policies=\n")
    options = ("--input", folder, "--rows", "--topic", "orders", "--limit", 100)
    done = command("suggest", file, *options)
    assert done.code == 0, done.err
    assert "topic orders: 100 rows" in done.out
    assert "topics.orders.penstock.policies=orders-schema,orders-rules" in done.out
    assert "    topic='orders'," in done.out
    done = command("suggest", tmp_path / "none.properties", *options)
    assert (done.code, "none.properties" in done.err) == (2, True)
    spark.sql(ROWS).where("id < 0").createOrReplaceTempView("no_rows_to_suggest")
    done = command("suggest", "--input", "table:no_rows_to_suggest", "--rows")
    assert (done.code, "there are no rows of rows to read" in done.err) == (2, True)
