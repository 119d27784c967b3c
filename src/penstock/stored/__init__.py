"""Jobs over stored records, in plain Python: reading, judging, counting and writing.

Nothing here imports pyspark. The runners of tasks are above: Spark, or this process (`--local`).
"""
