"""Who sent records, for policies that ask for it."""

from __future__ import annotations

from typing import NamedTuple


class ClientContext(NamedTuple):
    """The client that sent a batch, as far as it is known.

    A method of a policy of KIP-686, 729, 905 or 940 that has a parameter ``context`` is given
    one; nothing is passed to other methods. Everything is None where nobody is known: on Spark,
    in ``penstock explain``, in ``penstock check --since``.

    Attributes:
        principal: Who the client authenticated as, like ``User:alice``; None where that is not
            known to the gateway (docs/topics.md says when).
        client_id: What the client calls itself, or None. Any client may say anything.
        address: The client's IP address; behind a load balancer that of the load balancer, unless
            ``listener.proxy.protocol`` is set. None where it is not known.
    """

    principal: str | None = None
    client_id: str | None = None
    address: str | None = None
