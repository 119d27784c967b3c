"""`--rows`: rows of any columns, judged and reported as by `audit_rows`."""

import json
import os
from pathlib import Path

import jsonschema_rs
import pytest

from penstock import cli
from penstock.configuration import ConfigurationError
from penstock.jobs.report.document import About, Report, TopicEntry, as_json
from penstock.spark import audit_rows, load_plan
from tests.jobs.report.pages import Page
from tests.spark.rows.orders import ORDERS

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text())
RULES = """
policies=rules
policies.rules.type=penstock.policies.Rules
policies.rules.rules.positive=value.amount > 0
policies.rules.rules.known=value.currency in ['EUR']
topics.{topic}.penstock.policies=rules
"""


@pytest.fixture
def rules(tmp_path):
    """Writes a file without a cluster, whose rules are those of a topic."""

    def write(topic="rows"):
        file = tmp_path / "rules.properties"
        file.write_text(RULES.format(topic=topic))
        return file

    return write


@pytest.fixture
def orders(spark, tmp_path):
    folder = tmp_path / "orders"
    spark.sql(ORDERS).repartition(3).write.partitionBy("currency").parquet(str(folder))
    return folder


def judged_as_by_audit_rows(path, frame, file):
    """Compare a `report.json` with the report of the function."""
    written = json.loads((path / "report.json").read_text())
    jsonschema_rs.validator_for(SCHEMA).validate(written)
    expected = audit_rows(frame, load_plan(file, topic="rows"), label="id").model_dump(mode="json")
    for entry in (*written["rules"], *expected["rules"]):
        entry["samples"].sort()
    for part in ("judged", "accepted", "refused", "reasons", "rules", "columns", "contracts"):
        assert written[part] == expected[part], part
    assert (written["judged"], written["refused"]) == (5, 4)
    return written


def test_an_audit_of_files(command, spark, orders, rules, tmp_path):
    """A column of the names of folders is a column; a row has the label that is its name."""
    out = tmp_path / "out"
    done = command("audit", rules(), "--input", orders, "--rows", "--label", "id", "--report", out,
                   "--history", tmp_path / "runs")  # fmt: skip
    assert (done.code, done.err.count("warning")) == (0, 0), done.err
    assert f"{orders}: 5 rows judged: 1 accepted, 4 refused" in done.out
    assert "rule rules.positive: 3 rows (60.00%)  such as " in done.out
    assert "column amount: 3 rows (60.00%)" in done.out
    written = judged_as_by_audit_rows(out, spark.read.parquet(str(orders)), rules())
    assert (written["about"]["source"], written["about"]["is_rows"]) == (str(orders), True)
    page = Page((out / "report.html").read_text())
    assert "4 of 5 rows" in page.text
    assert "positive" in page.text[page.text.index("Rules") : page.text.index("Columns")]
    assert "time of the records" not in page.text
    again = ("audit", rules(), "--input", orders, "--rows", "--baseline", out / "report.json")
    assert command(*again, "--fail-over", "80%").code == 0
    assert command(*again, "--fail-over", "79%").code == 1


def test_an_audit_of_a_table_and_of_lines(command, spark, rules, tmp_path):
    spark.sql(ORDERS).createOrReplaceTempView("orders_of_rows")
    frame = spark.table("orders_of_rows")
    lines = tmp_path / "orders.jsonl"
    lines.write_text("\n".join(json.dumps(row.asDict()) for row in frame.collect()))
    for source in ("table:orders_of_rows", lines):
        out = tmp_path / "out"
        options = ("--label", "id", "--report", out)
        done = command("audit", rules(), "--input", source, "--rows", *options)
        assert done.code == 0, done.err
        judged_as_by_audit_rows(out, frame, rules())


def test_input_that_cannot_be_read(command, spark, rules, tmp_path):
    lines = tmp_path / "bad.jsonl"
    lines.write_text('{"amount": 1}\n5\n')
    apart = tmp_path / "apart"
    for number, value in enumerate(("1", "'x'")):
        spark.sql(f"SELECT {value} a").write.parquet(str(apart / str(number)))
    beside, other = tmp_path / "beside", tmp_path / "other"
    for folder in (beside, beside / "c=1", other / "c=1", other / "d=1"):
        spark.sql("SELECT 1 a").write.mode("append").parquet(str(folder))
    for source, text in (
        (lines, "a line is not a JSON object"),
        (apart, "a column has another type in another file"),
        (beside, "only some of its files are in folders of partitions"),
        (other, "only some of its files are in folders of partitions"),
        (tmp_path / "none", "there are no files with this name"),
        ("table:none_of_it", "The table or view `none_of_it` cannot be found"),
    ):
        done = command("audit", rules(), "--input", source, "--rows")
        assert (done.code, f"--input {source}: {text}" in done.err) == (2, True), done.err
    view = tmp_path / "v.parquet"
    spark.sql("SELECT 1 a, 2 b").write.parquet(str(view))
    done = command("audit", rules(), "--input", view, "--rows", "--label", "c")
    assert (done.code, "label: there is no column c; the rows have a, b" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--input", "t", "--rows", "--local"], "--rows and --local: rows need Spark: leave out"),
        (["--input", "t", "--rows", "--column", "key=NULL"], "--rows and --column: any columns"),
        (["--input", "t", "--rows", "--compare", "f"], "--rows and --compare: audit with one"),
        (["--input", "t", "--rows", "--show-payloads"], "--label COLUMN names the rows"),
        (["--input", "t", "--rows", "--bootstrap-server", "a:1"], "no cluster is needed"),
        (["--input", "t", "--rows", "--from", "latest"], "--from latest: all of --input is read"),
        (["--input", "t", "--rows", "--to", "0:5"], "--to 0:5: all of --input is read"),
        (["--input", "t", "--rows", "--topic", "../t"], "--topic ../t: with --rows, name the topic"),
        (["--input", "t", "--rows", "--topics"], "--rows and --topics: it judges topics"),
        (["--input", "t", "--rows", "--topic", "a,b"], "--topic a,b: with --rows, name the topic"),
        (["--input", "t", "--rows", "--topic", "a*"], "--topic a*: with --rows, name the topic"),
        (["--topic", "t", "--rows"], "--rows: name the rows: --input PATH, or --input table:NAME"),
        (["--topic", "t", "--label", "id"], "--label COLUMN requires --rows"),
        (["--input", "t", "--rows"], "topic rows has no policy; the file has policies for the"),
        (["--input", "t", "--rows", "--remote", "sc://127.0.0.1:1", "--topic", "orders"],
         "--input t: with --remote, name a table; files need"),
    ],
)  # fmt: skip
def test_wrong_options_are_reported_before_spark_starts(rules, capsys, monkeypatch, options, text):
    monkeypatch.setattr("penstock.spark.session.start_session", lambda *_, **__: os.abort())
    code = cli.main(["audit", str(rules("orders")), *options])
    assert (code, text in (error := capsys.readouterr().err)) == (2, True), error


@pytest.mark.parametrize(
    ("options", "source", "is_same"),
    [
        (["--input", "table:a", "--rows"], "table:a", True),
        (["--input", "table:a", "--rows"], "table:b", False),
        (["--input", "table:a", "--rows", "--topic", "rows"], "table:b", False),
        (["--input", "a/", "--rows"], "a", True),
        (["--input", "a", "--rows"], "b", False),
        (["--input", "a", "--rows", "--topic", "rows"], "b", True),
        (["--input", "a", "--rows", "--topic", "orders"], "a", False),
        (["--input", "a", "--topic", "rows"], "a", False),
        (["--topic", "rows"], "a", False),
    ],
)
def test_a_baseline_of_rows_is_about_the_same(rules, tmp_path, capsys, monkeypatch, options, source,
                                              is_same):  # fmt: skip
    """Files of a named topic may be those of another day."""
    about = About(source=source, is_topic=False, is_rows=True, file="f", fingerprint="x")
    topic = TopicEntry(topic="rows", judged=1, share=0.0)
    baseline = tmp_path / "report.json"
    baseline.write_text(as_json(Report(judged=1, share=0.0, topics=(topic,), about=about)))

    def stopped(*_, **__):
        raise ConfigurationError("Spark would start")

    monkeypatch.setattr("penstock.cli.audit.rows_of", stopped)
    assert cli.main(["audit", str(rules()), *options, "--baseline", str(baseline)]) == 2
    text = "Spark would start" if is_same else f"it is about rows of {source}, topic rows; name"
    assert text in capsys.readouterr().err


def test_a_rule_that_no_row_can_meet_is_an_error_of_configuration(command, orders, rules):
    file = rules()
    file.write_text(file.read_text().replace("value.amount", "value.ammount"))
    done = command("audit", file, "--input", orders, "--rows")
    assert done.code == 2, done.err
    error = f"{file}: policies.rules.rules.positive reads value.ammount, but there is no column"
    hint = "did you mean amount?; if it may be missing: !has(value.ammount) || ..."
    [line] = [line for line in done.err.splitlines() if error in line]
    assert line.endswith(f"audit_rows: {error} ammount, {hint}")
    assert "judged" not in done.out
    file.write_text(file.read_text() + "policies.rules.mode=observe\n")
    done = command("audit", file, "--input", orders, "--rows")
    assert done.code == 0, done.err
    assert "warning: every row gets an objection of a policy that only warns: " in done.err
    assert f"{error} ammount" in done.err
