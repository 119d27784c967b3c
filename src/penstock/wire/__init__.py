"""Kafka's wire format, without sockets: frames, Produce requests and responses, broker addresses.

What is not changed is not decoded: messages are read as positions in the original bytes and
changed by splicing. Kafka's message schemas come from the `kio` library.
"""
