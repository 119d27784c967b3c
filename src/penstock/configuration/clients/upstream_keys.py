"""The keys after `upstream.`, checked for every client of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.clients.client_keys import check_client_keys
from penstock.configuration.clients.login import Login, read_login

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT_ID: Final = "penstock"
"""The client id where the file has no `upstream.client.id`."""


def read_upstream_login(properties: Mapping[str, str], where: str) -> Login | None:
    """Check the keys after `upstream.`, as far as that needs no file and no connection.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them, and librdkafka's
            `sasl.username` and `sasl.password`.
        where: The file and `upstream.`, for errors.

    Returns:
        How to log in; None without SASL.

    Raises:
        ConfigurationError: A value is wrong or missing, or a key is not known.
    """
    check_client_keys(properties, where)
    return read_login(properties, where)
