"""What the gateway and the jobs share: a plan for a topic, a chain of policies, a verdict.

`plans` decides which policies a topic has, from the file and from `topic_configs`, the keys that
are set through admin tools; `instances` holds their configured instances; `chain` judges records
with them, after `interceptors` have run; `modes` says what becomes of a refused record; `workers`
runs chains in processes that can be killed.

A verdict depends on nothing but the plan and the record: nothing here knows whether it serves a
request or a job. `workers` starts the processes that judge, `plans.imported_files` those that
import the files of users. Begin with `verdict.py` and `chain.py`.
"""
