"""Policies in processes that can be killed.

Without I/O: `schedule` decides which worker gets which job, its deadline, and how to react to the
death of a worker; `pool` decides which processes run. `jobs`, `worker` and `deadlines` hold
their state, `actions` is their output.

With I/O: `supervisor` executes the actions, `processes.child` is the parent's side of a process,
`processes.process` the worker; `rings` shares memory with native threads; `messages` and
`progress` define the data that they exchange.
"""
