"""Policies in processes that can be killed.

`messages` is what crosses the socket pair, `process` the child that judges, `worker` the
parent's end of one child, `pool` the set of them: who judges what, until when.
"""
