"""The tasks of `split`, `redact` and `redrive` on raw batches, in plain Python.

A task is a range of one source partition, read with `penstock.kafka.client`, judged with the chain
of its topic, and written with the position of the source in the same transaction. What runs tasks,
such as `penstock.spark`, calls it for each range, in a worker::

    job = Split(BatchJudge(chain, topic_id), "orders", 0, accepted=clean, rejected=dead)
    result = run(range_task(connection, offsets, position_task, run="..."), job)
"""
