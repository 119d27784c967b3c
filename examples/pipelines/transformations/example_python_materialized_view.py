from pyspark.sql import DataFrame, SparkSession

from penstock import pipelines as dp  # was: from pyspark import pipelines as dp

spark = SparkSession.active()


@dp.materialized_view
@dp.expect("even", "id % 2 = 0")
@dp.expect_or_drop("small", dp.cel("value.id < 8"))
def example_python_materialized_view() -> DataFrame:
    return spark.range(10)
