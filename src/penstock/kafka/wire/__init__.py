"""Kafka's wire format, without sockets: frames, Produce requests and responses, broker addresses.

Unchanged parts are not decoded: messages are read as positions in the original bytes and
changed by splicing. Kafka's message schemas come from the `kio` library.
"""
