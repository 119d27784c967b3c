"""The counts of jobs, and the report of an audit. Nothing here depends on Spark.

Tasks count the judged records (`counts`), send their counts as bytes (`encoding`), and the
driver merges them. The sum of an audit becomes `report.json` (`document`), which is read again as a
baseline (`baseline`), is kept as a line of a trend (`history`), and is written for people
and for CI (`page`, `junit`, `files`).
"""
