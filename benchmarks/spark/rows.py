"""Rows of a table judged, beside what data engineers write without Penstock: `make bench-rows`.

Writes orders as Parquet (3 % bad), then judges them in one warm session, interleaved:

- the same four conditions as column expressions, which collect those that fail as DQX does;
  `judge_rows` with `plan(rules=...)`, and with the rules as a JSON Schema;
- a function of a person for the JSON text of a row, called by a plain `mapInArrow`; `judge_rows`
  with a policy that calls it.

Prints the CPU of Spark, its Python workers and this process for each row, the median of the rounds,
and ratios. Bounded: by default 1,000,000 rows and three rounds, about one minute.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

from spark_processes import cpu_s  # noqa: E402

from penstock.policy import (  # noqa: E402
    ALL,
    ClientContext,
    InvalidRecordException,
    RecordIntrospectionHints,
    RecordProxy,
    RecordValidationPolicy,
    TopicMetadata,
)
from penstock.spark import judge_rows, plan  # noqa: E402
from penstock.spark.session import start_session, stop_session  # noqa: E402

RULES = {
    "positive": "value.amount > 0",
    "known": "value.currency in ['EUR', 'USD', 'GBP']",
    "customer": "value.customer != ''",
    "few": "value.items >= 1 && value.items <= 100",
}
SCHEMA = {
    "type": "object",
    "properties": {
        "amount": {"exclusiveMinimum": 0},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "customer": {"minLength": 1},
        "items": {"minimum": 1, "maximum": 100},
    },
}
COLUMNS = "id BIGINT, customer STRING, currency STRING, amount DOUBLE, items INT, note STRING"
VERDICTS = f"{COLUMNS}, reason STRING"


def check(text: bytes) -> None:
    """Refuse an order, as a person's own code would."""
    if json.loads(text)["amount"] <= 0:
        raise InvalidRecordException("the amount is not positive")


class OwnClass(RecordValidationPolicy):
    """The person's code as a policy."""

    def get_hints(self) -> RecordIntrospectionHints:
        """Ask for the value."""
        return RecordIntrospectionHints(access_value_bytes=ALL)

    def validate(self, topic: TopicMetadata, record: RecordProxy, context: ClientContext) -> None:
        """Check the value."""
        check(bytes(record.value))


def orders(session: SparkSession, count: int) -> DataFrame:
    """Return orders, of which 3 % have an amount that is not positive."""
    number = F.col("id")
    return session.range(count).select(
        number,
        F.concat(F.lit("c-"), number % 50_000).alias("customer"),
        F.element_at(
            F.array(*map(F.lit, ("EUR", "USD", "GBP"))), (number % 3 + 1).cast("int")
        ).alias("currency"),
        F.when(number % 100 < 3, F.lit(-1.0)).otherwise((number % 9_000) / 7.0 + 1).alias("amount"),
        (number % 100 + 1).cast("int").alias("items"),
        F.concat(F.lit("delivered in the morning, number "), number).alias("note"),
    )


def by_columns(frame: DataFrame) -> DataFrame:
    """Judge by column expressions: the rules that fail, each with what DQX says of a check."""
    fails = {
        "positive": ("amount", ~(F.col("amount") > 0)),
        "known": ("currency", ~F.col("currency").isin("EUR", "USD", "GBP")),
        "customer": ("customer", ~(F.col("customer") != "")),
        "few": ("items", ~F.col("items").between(1, 100)),
    }
    errors = [
        F.when(
            F.coalesce(condition, F.lit(True)),
            F.struct(
                F.lit(name).alias("name"),
                F.concat(F.lit("Value '"), F.col(column).cast("string"), F.lit("' fails")).alias(
                    "message"
                ),
                F.array(F.lit(column)).alias("columns"),
                F.lit("sql_expression").alias("function"),
                F.current_timestamp().alias("run_time"),
            ),
        )
        for name, (column, condition) in fails.items()
    ]
    kept = F.array_compact(F.array(*errors))
    return frame.withColumn("_errors", F.when(F.size(kept) > 0, kept))


def by_map_in_arrow(frame: DataFrame) -> DataFrame:
    """Judge by the class in a plain function over Arrow batches."""

    def judged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            reasons = []
            for text in batch.column("json").to_pylist():
                try:
                    check(text.encode())
                    reasons.append(None)
                except InvalidRecordException as error:
                    reasons.append(str(error))
            columns = batch.drop_columns(["json"])
            yield columns.append_column("reason", pa.array(reasons, pa.string()))

    with_json = frame.withColumn("json", F.to_json(F.struct("*")))
    return with_json.mapInArrow(judged, VERDICTS)


JOBS: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "column expressions": (by_columns, ""),
    "judge_rows, rules": (lambda frame: judge_rows(frame, plan(rules=RULES)), "column expressions"),
    "judge_rows, schema": (
        lambda frame: judge_rows(frame, plan(schema=SCHEMA)),
        "column expressions",
    ),
    "mapInArrow": (by_map_in_arrow, ""),
    "judge_rows, class": (lambda frame: judge_rows(frame, plan(policies=[OwnClass])), "mapInArrow"),
}
"""What each runs, and what it is compared with."""


def measured(frame: DataFrame, job: Callable[[DataFrame], DataFrame]) -> float:
    """Return the CPU seconds of a job whose result is thrown away."""
    began = cpu_s()
    job(frame).write.format("noop").mode("overwrite").save()
    return cpu_s() - began


def main() -> None:
    """Run everything and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    session = start_session("rows", "local[2]", {})
    try:
        with tempfile.TemporaryDirectory() as folder:
            orders(session, options.rows).write.parquet(f"{folder}/orders")
            frame = session.read.parquet(f"{folder}/orders")
            rounds = [
                {name: measured(frame, job) for name, (job, _) in JOBS.items()}
                for _ in range(options.rounds + 1)
            ][1:]
    finally:
        stop_session(session)
    medians = {name: statistics.median(taken[name] for taken in rounds) for name in JOBS}
    table = Table(
        "job", "CPU us a row", "ratio", title=f"{options.rows:,} rows, {options.rounds} rounds"
    )
    for name, (_, base) in JOBS.items():
        ratio = f"{medians[name] / medians[base]:.2f} x {base}" if base else ""
        table.add_row(name, f"{medians[name] / options.rows * 1e6:.2f}", ratio)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
