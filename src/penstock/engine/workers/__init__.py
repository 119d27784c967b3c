"""Policies in processes that can be killed.

Decisions: `schedule` says who judges what, until when, and what follows a death; `staff` which
processes there are; `line`, `jobs`, `worker`, `deadlines` are what they keep, `actions` what
they want done. All of this is pure.

Doing: `supervisor` carries it out, `child` is the parent's end of one process, `process` the
worker itself, `messages` and `progress` are what crosses between the two.
"""
