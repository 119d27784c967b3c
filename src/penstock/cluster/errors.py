"""The error of requests to the cluster for the Spark commands."""

from __future__ import annotations

from penstock.errors import UnavailableError


class ClusterError(UnavailableError):
    """The cluster does not respond, or responds with an error. The message is for users."""
