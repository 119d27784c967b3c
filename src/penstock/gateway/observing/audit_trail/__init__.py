"""The audit trail of refusals: who sent what, when, and why it was refused; never its contents.

`record` makes a record, `trail` queues it for a thread, which writes to a `file` or a `topic`.
"""
