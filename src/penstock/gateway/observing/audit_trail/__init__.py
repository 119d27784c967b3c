"""The audit trail of refusals: who sent what, when, and why it was refused; never its contents.

`audit_record` makes a record, `trail` queues it for a thread, which writes to `audit_file` or
`audit_topic`.
"""
