"""Facts about topics and rights that a Produce request needs, looked up in the cluster once.

Where a client's rights decide, the request goes over its own connection, otherwise over one of the
gateway's principal.
"""
