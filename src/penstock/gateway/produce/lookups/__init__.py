"""Facts about topics and rights that a Produce request needs, looked up in the cluster once.

A client's own connection asks where its rights decide; the gateway's principal asks the rest.
"""
