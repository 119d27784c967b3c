"""Frames of users: which columns are taken, and how an error explains the others."""

import pytest
from pyspark.errors import PySparkException

from penstock.configuration import ConfigurationError
from penstock.spark.frames.frame_columns import check_columns, check_frame, types_of
from penstock.spark.frames.kafka_columns import COLUMNS

pytestmark = pytest.mark.unit
ALL = list(COLUMNS.items())


def check(types, needed=("value",), optional=("key",)):
    check_columns(types, needed, "judging needs", optional)


def changed(**types):
    return [*{**COLUMNS, **types}.items()]


@pytest.mark.parametrize(
    ("types", "needed"),
    [
        (ALL, COLUMNS),
        ([("value", "binary")], ["value"]),
        ([("value", "binary"), ("other", "void"), ("other", "void")], ["value"]),
        (changed(partition="bigint", offset="int", timestampType="tinyint"), COLUMNS),
        (changed(topic="string collate UNICODE"), COLUMNS),
        (changed(topic="varchar(9)"), COLUMNS),
        (changed(topic="char(9)"), COLUMNS),
    ],
)
def test_columns_that_are_taken(types, needed):
    check(types, needed, COLUMNS)


def error_of(types, needed=("value",), optional=("key",)):
    with pytest.raises(ConfigurationError) as raised:
        check(types, needed, optional)
    return str(raised.value)


def test_missing_columns_are_named_with_their_types():
    text = error_of([("value", "binary")], ("key", "topic", "partition", "value"))
    assert text == (
        "the records have no column key, topic, partition, which judging needs; there are value; "
        'where it is not known, give frame.withColumns({"key": F.col("COLUMN").cast("binary"), '
        '"topic": F.lit("NAME"), "partition": F.lit(0)})'
    )


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        (["id", "amount"], 'F.struct("*")'),
        (["topic", "id", "an.id", 'a"`b', "verdict"], 'F.struct("id", "`an.id`", "`a\\"``b`")'),
    ],
)
def test_null_is_never_proposed_for_what_is_judged(names, fields):
    text = error_of([(name, "string") for name in names], ("value", "key", "headers"))
    assert f'"value": F.to_json({fields}, {{"ignoreNullFields": "false"}}).cast("binary")' in text
    assert "None" not in text
    assert text.endswith(f'"headers": F.array().cast("{COLUMNS["headers"]}")}})')


def test_without_other_columns_there_is_no_expression_for_a_value():
    text = error_of([("topic", "string"), ("partition", "int")])
    assert text.endswith("; there are topic, partition")


def test_null_replaces_what_is_only_reported():
    with pytest.raises(ConfigurationError) as raised:
        check_columns(
            [("value", "binary")], ("key",), "an audit reports", (), judged_columns=("value",)
        )
    assert str(raised.value).endswith('{"key": F.lit(None).cast("binary")})')


def test_a_column_in_another_case_is_to_be_renamed():
    text = error_of([("VALUE", "binary")])
    assert text.endswith('; there are VALUE; rename it: frame.withColumnRenamed("VALUE", "value")')


def test_headers_are_read_by_an_option():
    text = error_of([("value", "binary")], ("value", "headers"))
    assert "there are value (read Kafka with includeHeaders=true); where" in text


@pytest.mark.parametrize("name", ["value", "key"])
def test_a_column_may_not_be_there_twice(name):
    types = [("value", "binary"), ("key", "binary"), (name, "binary")]
    assert error_of(types) == f"the frame has two columns {name}: drop or rename one"


@pytest.mark.parametrize(
    ("name", "spark_type", "how"),
    [
        ("value", "string", 'not binary: give it as F.col("value").cast("binary")'),
        ("value", "void", "not binary: all its values are null, so there is nothing to judge"),
        ("key", "void", 'not binary: give it as F.col("key").cast("binary")'),
        (
            "headers",
            "void",
            'give it as F.col("headers").cast("array<struct<key:string,value:binary>>")',
        ),
        ("value", "bigint", 'not binary: give it as F.col("value").cast("string").cast("binary")'),
        (
            "value",
            "struct<a:int>",
            'give it as F.to_json("value", {"ignoreNullFields": "false"}).cast("binary")',
        ),
        ("topic", "binary", 'not string: give it as F.col("topic").cast("string")'),
        ("partition", "string", 'not int: give it as F.col("partition").cast("int")'),
        ("timestamp", "bigint", 'timestamp: give it as F.timestamp_millis("timestamp"), if it is'),
        ("timestamp", "date", 'not timestamp: give it as F.col("timestamp").cast("timestamp")'),
        ("headers", "array<struct<key:string,value:string>>", 'give it as F.transform("headers"'),
        ("headers", "map<string,binary>", "headers is map<string,binary>, not array<struct<key:"),
    ],
)
def test_a_wrong_type_is_explained(name, spark_type, how):
    text = error_of(changed(**{name: spark_type}), COLUMNS)
    assert text.startswith(f"column {name} is {spark_type}, not ")
    assert how in text


def test_headers_of_another_kind_have_no_expression():
    assert "give" not in error_of(changed(headers="map<string,binary>"), COLUMNS)


def test_a_frame_that_may_not_be_analysed_has_no_known_columns():
    class InPipeline:
        error = PySparkException(
            "[ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION] Operations that ..."
        )

        @property
        def dtypes(self):
            raise self.error

    frame = InPipeline()
    assert types_of(frame) is None
    frame.error = PySparkException("[TABLE_OR_VIEW_NOT_FOUND] ...")
    with pytest.raises(PySparkException, match="NOT_FOUND"):
        types_of(frame)


def test_a_type_of_a_column_that_is_not_used_does_not_matter():
    check([("value", "binary"), ("topic", "void")])


class Frame:
    dtypes = ()

    def mapInArrow(self): ...  # noqa: N802 - Spark's name


class Empty:
    """It has neither columns nor the method of a frame."""


def test_anything_but_a_frame_is_an_error_with_its_kind():
    frame = Frame()
    assert check_frame(frame, "split") is frame
    for value, kind in ((5, "int"), (Empty(), f"{__name__}.Empty")):
        with pytest.raises(ConfigurationError) as raised:
            check_frame(value, "split")
        assert str(raised.value) == (
            f"split: pass a DataFrame of Spark with Kafka's columns, not {kind}"
        )
