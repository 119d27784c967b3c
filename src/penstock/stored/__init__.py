"""Jobs over stored records, in plain Python: what is read, judged, counted and written.

Nothing here imports pyspark. What runs the tasks is above: Spark, or this process (`--local`).
"""
