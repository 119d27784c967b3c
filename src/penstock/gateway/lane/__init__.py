"""Connections that are forwarded by native threads while nothing on them needs Python.

The threads are in `native/src/lane`. A connection has one owner at a time. It begins as Python's;
`Lane.adopt` gives its two sockets away, with the state between the bytes, and `Lane.take` takes
them back. So the native part has no rules of its own: Python does everything but forwarding.
"""
