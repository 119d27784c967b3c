"""Wrong arguments of the functions: each error names the argument or column and the right one."""

import datetime as dt

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

from penstock.configuration import ConfigurationError
from penstock.spark import apply, audit, judge, load_plan, redact, redrive, split
from penstock.spark.frames.frame_columns import check_columns
from penstock.spark.frames.kafka_columns import COLUMNS
from penstock.spark.jobs.counting import check_version

FRAMES = {"audit": audit, "split": split, "judge": judge, "apply": apply}
REPAIR = {
    "record.validation.policy.class.name": "policies.NoBad",
    "topics.*.record.validation.policy": "any",
    "produce.request.interceptors": "policies.Repair",
}


@pytest.mark.unit
@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("value", "string", 'column value is string, not binary: give it as F.col("value").cast'),
        (
            "key",
            "bigint",
            'bigint, not binary: give it as F.col("key").cast("string").cast("binary")',
        ),
        ("partition", "string", 'not int: give it as F.col("partition").cast("int")'),
        ("topic", "int", 'not string: give it as F.col("topic").cast("string")'),
        ("timestamp", "bigint", 'not timestamp: give it as F.timestamp_millis("timestamp")'),
        ("timestamp", "timestamp_ntz", 'give it as F.col("timestamp").cast("timestamp")'),
        ("headers", "map<string,binary>", "not array<struct<key:string,value:binary>>"),
        ("headers", "array<struct<value:binary,key:string>>", 'F.struct(h["key"], h["value"]'),
        ("headers", "void", 'F.col("headers").cast("array<struct<key:string,value:binary>>")'),
        ("key", "void", 'give it as F.col("key").cast("binary")'),
    ],
)
def test_a_wrong_type_is_named_with_the_right_type(name, given, message):
    types = [*({**COLUMNS, name: given}).items()]
    with pytest.raises(ConfigurationError) as caught:
        check_columns(types, ("key", "value"), "policies look at", COLUMNS)
    assert message in str(caught.value)


@pytest.mark.unit
@pytest.mark.parametrize("version", ["3.5.9", "4.0.5"])
def test_an_observation_needs_a_newer_spark(version):
    with pytest.raises(ConfigurationError, match=f"needs Spark 4.1 .* has {version}"):
        check_version(version)


@pytest.mark.unit
@pytest.mark.parametrize(
    "version", ["4.1.0", "4.2.0-preview1", "5.0.0-SNAPSHOT", "4.1-vendor", "master"]
)
def test_newer_versions_of_spark_have_observations(version):
    check_version(version)


@pytest.mark.unit
def test_a_column_in_other_case_is_renamed_and_not_replaced():
    types = [("KEY", "binary"), ("Value", "binary")]
    with pytest.raises(ConfigurationError) as caught:
        check_columns(types, ("key", "value", "partition"), "policies look at", ())
    text = str(caught.value)
    assert 'frame.withColumnRenamed("KEY", "key")' in text
    assert 'frame.withColumnRenamed("Value", "value")' in text
    assert text.endswith('frame.withColumns({"partition": F.lit(0)})')


@pytest.mark.unit
def test_types_of_frames_from_json_fit_and_unused_columns_may_have_any_type():
    types = {**COLUMNS, "partition": "bigint", "topic": "string collate UTF8_LCASE", "own": "date"}
    check_columns([*types.items()], ("partition", "topic"), "", COLUMNS)
    check_columns([("value", "binary"), ("key", "date")], ("value",), "", ())


@pytest.mark.unit
def test_a_repeated_column_is_named():
    with pytest.raises(ConfigurationError, match="two columns value: drop or rename one"):
        check_columns([("value", "binary"), ("value", "binary")], ("value",), "", ())


@pytest.mark.parametrize("function", FRAMES)
@pytest.mark.parametrize("column", ["value", "key"])
def test_text_instead_of_bytes_is_an_error_of_each_function(rows, plan, function, column):
    frame = rows({"value": b"v", "key": b"k"})
    wrong = frame.withColumn(column, F.col(column).cast("string"))
    with pytest.raises(ConfigurationError, match=f"column {column} is string, not binary"):
        FRAMES[function](wrong, plan(REPAIR))


@pytest.mark.parametrize("missing", ["timestamp", "offset", "key"])
def test_an_audit_names_the_column_that_is_missing(rows, plan, missing):
    with pytest.raises(ConfigurationError) as caught:
        audit(rows(b"x").drop(missing), plan())
    assert f"no column {missing}, which an audit reports; there are topic" in str(caught.value)
    # Its policies look at keys: a null would be judged.
    stand_in = 'F.col("COLUMN")' if missing == "key" else "F.lit(None)"
    given = f'withColumns({{"{missing}": {stand_in}.cast("{COLUMNS[missing]}")}})'
    assert given in str(caught.value)


def test_an_audit_takes_the_columns_that_its_error_proposes(rows, plan):
    frame = rows(b"good", b"bad").drop("timestamp", "offset")
    report = audit(
        frame.withColumns({
            "timestamp": F.lit(None).cast("timestamp"), "offset": F.lit(None).cast("bigint"),
        }),
        plan(),
    )  # fmt: skip
    assert (report.judged, report.refused) == (2, 1)


def test_a_table_is_judged_as_the_error_proposes(spark, topic_plan):
    """Never as null, which is a tombstone that every policy accepts."""
    table = spark.createDataFrame([(1, 2.5), (2, None)], "id int, amount double")
    plan = topic_plan(type="Required", fields="id,amount")
    with pytest.raises(ConfigurationError) as caught:
        judge(table, plan)
    _, _, proposed = str(caught.value).partition("give frame.")
    judged = judge(eval(f"table.{proposed}", {"F": F, "table": table}), plan)
    outcomes = [row.outcome for row in judged.select("verdict.outcome").collect()]
    assert outcomes == ["accepted", "refused"]


@pytest.mark.parametrize("function", FRAMES)
@pytest.mark.parametrize(
    ("given", "message"),
    [(None, "not NoneType"), (7, "not int"), ({"value": b"x"}, "not dict")],
)
def test_arguments_that_are_no_frame(plan, function, given, message):
    with pytest.raises(
        ConfigurationError, match=rf"{function}: pass a DataFrame of Spark.*{message}"
    ):
        FRAMES[function](given, plan())


@pytest.mark.parametrize("function", FRAMES)
def test_the_name_of_a_file_is_no_plan(rows, function):
    with pytest.raises(ConfigurationError, match=r"plan: pass load_plan\(FILE\), not str"):
        FRAMES[function](rows(b"x"), "penstock.properties")


def test_the_other_plan_and_the_single_topic(rows, plan):
    with pytest.raises(ConfigurationError, match=r"other: pass load_plan\(FILE\), not str"):
        audit(rows(b"x"), plan(), other="other.properties")
    for function in FRAMES.values():
        with pytest.raises(ConfigurationError, match="topic: text is required, not list"):
            function(rows(b"x"), plan(), topic=["t"])


def test_arguments_that_a_frame_or_topics_would_ignore(rows, plan):
    frame, loaded = rows(b"x"), plan()
    with pytest.raises(ConfigurationError, match=r"start: only with topics.*filter it before"):
        audit(frame, loaded, start="latest")
    with pytest.raises(
        ConfigurationError, match="accepted, rejected: only with topics; of a frame"
    ):
        split(frame, loaded, accepted="a", rejected="b")
    with pytest.raises(ConfigurationError, match=r"end, job: only with topics"):
        split(frame, loaded, end="0:1", job="j")
    with pytest.raises(ConfigurationError, match="topic: only with a frame"):
        audit("t", loaded, topic="t")
    with pytest.raises(ConfigurationError, match="observation: only with a frame"):
        split("t", loaded, accepted="a", rejected="b", observation=Observation())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: audit("", p), "audit: name a topic"),
        (lambda p: audit([], p), "audit: name a topic"),
        (lambda p: audit(["a", 3], p), "audit: a topic: text is required, not int"),
        (lambda p: audit("path:/archive", p), "path:/archive is not a topic; read files and tables"),
        (lambda p: split("table:a.b", p, accepted="a", rejected="b"), "table:a.b is not a topic"),
        (lambda p: audit("t", p, start=5), "start: earliest, latest, an ISO time or PARTITION:OFF"),
        (lambda p: audit("t", p, end=dt.datetime.now(dt.UTC)), "as text is required, not datetime"),
        (lambda p: audit("t", p, spark="local"), "spark: pass a SparkSession, not str"),
        (lambda p: split("t", p, accepted="path:/a", rejected="b"), "split: accepted: path:/a is"),
        (lambda p: split("t", p, accepted="a", rejected="b", job=3), "job: text is required, not int"),
        (lambda p: redact("t", p, to="path:/a"), "for folders there is the command redact"),
        (lambda p: redact("t", p, to=None), "redact: to: text is required, not NoneType"),
        (lambda p: redrive("path:/dead", p, to="a"), "for folders there is the command redrive"),
        (lambda p: redrive(["d"], p, to="a"), "redrive: source: text is required, not list"),
        (lambda p: redrive("d,e", p, to="a"), "redrive: source: name one topic, not d,e"),
        (lambda p: redrive("d", p, to="a", repair=dict), "such as module.Class, is required, not type"),
        (lambda p: redrive("d", p, to="a", max_replays="5"), "max_replays must be a number of at least 1"),
        (lambda _: redrive("d", "file", to="a"), r"plan: pass load_plan\(FILE\), not str"),
        (lambda _: redact("t", "file", to="a"), r"plan: pass load_plan\(FILE\), not str"),
        (lambda _: load_plan({"a": "b"}), "load_plan: the path of a configuration file is required"),
    ],
)  # fmt: skip
def test_wrong_arguments(spark, plan, call, message):
    with pytest.raises(ConfigurationError, match=message):
        call(plan(REPAIR))
