"""Orders of the files in `orders`: good and bad orders as tables, and counts."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock import pipelines as dp

spark = SparkSession.active()
FILES = (Path(__file__).parents[1] / "orders").as_uri()
SCHEMA = "id BIGINT, order_date DATE, amount DOUBLE, currency STRING"


@dp.table(comment="Orders with a known currency and a positive amount")
@dp.expect("dated", "order_date IS NOT NULL")
@dp.expect_or_drop("positive", "amount > 0")
@dp.expect_or_quarantine(dp.cel("value.currency in ['EUR', 'USD']"), into="orders_quarantine")
def orders() -> DataFrame:
    return spark.readStream.schema(SCHEMA).json(FILES)
