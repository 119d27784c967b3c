"""Rows of any columns: judged as records whose value is the row as JSON.

`plan.py` makes the plan, without a file; `judged.py` adds verdicts to frames, lazily; `audit.py`
counts them. What is judged is in `values.py`, and what judges it is the engine, as for records.
"""
