"""Policies in processes that can be killed.

Without I/O: `schedule` decides which worker gets which job, its deadline, and what follows the
death of a worker; `pool` decides which processes run. `jobs`, `worker` and `deadlines` hold
their state, `actions` is their output.

With I/O: `supervisor` executes the actions, `child` is the parent's end of one process, `process`
the worker itself; `messages` and `progress` are what the two exchange.
"""
