"""Rows judged by their columns, without a text: what fits a policy's schema is accepted.

`schema_judge.py` judges Arrow arrays by a JSON Schema, as if they were what Spark's `to_json`
writes of them; `numbers.py`, `parts.py` and `kleene.py` belong to it. It never says that a row fits
whose text does not. All other rows are judged by their text, which `row_texts.py` writes, so that
every message is from the evaluators of the wire. `ways.py` says for which plans and frames this is.
"""
