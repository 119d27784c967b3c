"""Connections that are forwarded by native threads while nothing on them needs Python.

The threads are in `native/src/lane`. A connection has one owner at a time. It begins as Python's;
`Lane.adopt` passes its two sockets to the native part, with the state between the bytes, and
`Lane.take` takes them back. So the native part has no rules: Python does everything but forwarding.
"""
