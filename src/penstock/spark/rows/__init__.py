"""Rows of any columns: judged as records whose value is the row as JSON.

`plan.py` makes the plan, without a file; `judged.py` adds verdicts to frames, lazily; `audit.py`
counts them. `values.py` has the JSON; the engine judges it, as it judges
records.
"""
