"""Jobs over stored records: audit, split, redact, redrive, `check --since` and suggest.

A job judges raw batches of topics (`tasks`, `batches`) or rows of files and frames (`rows`,
`files`), and counts verdicts for a report (`report`). A `runner` distributes tasks: to Spark, or to
this process (`--local`). `plan` has the policies of each topic. `topics` finds what is to be read;
`positions` how far an earlier run has come.

Nothing here imports PySpark, which `penstock.spark` does, above it, nor the gateway. A job deletes
only what it has read and written elsewhere. Begin with `audit.py`, which only reads, and then read
`writing_job.py`, `tasks/writing_task.py` and `batches/split.py`.
"""
