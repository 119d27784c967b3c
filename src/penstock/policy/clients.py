"""The client that sent records."""

from __future__ import annotations

from typing import NamedTuple


class ClientContext(NamedTuple):
    """The client that sent a batch, as far as it is known.

    A method of a policy of KIP-686, 729, 905 or 940 gets it if it has a parameter ``context``. On
    Spark, in ``penstock explain`` and in ``penstock check --since``, everything is None.

    Attributes:
        principal: The principal of the client, like ``User:alice``; None if the gateway does not
            know it (see docs/topics.md).
        client_id: The client id, or None. Clients choose it freely.
        address: The client's IP address; behind a load balancer the load balancer's, unless
            ``listener.proxy.protocol`` is set. None if it is not known.
    """

    principal: str | None = None
    client_id: str | None = None
    address: str | None = None
