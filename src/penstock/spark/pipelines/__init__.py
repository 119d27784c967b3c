"""Spark's declarative pipelines with expectations.

`expectations` are the conditions of a dataset and what happens to rows that fail them. `datasets`
defines the datasets of the pipeline that they need.
"""
