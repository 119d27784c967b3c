"""What an audit found: its counts, and the report of them. Nothing here knows of Spark.

Tasks count what they judged (`counts`), send their counts as bytes (`encoding`), and the
driver merges them. The sum becomes `report.json` (`document`), which is read again as a
baseline (`baseline`), is kept as a line of a trend (`history`), and is written for people
and for CI (`page`, `junit`, `files`).
"""
