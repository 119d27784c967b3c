"""Reads what a gateway's console shows (`/api/state`), over HTTP."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.failures import CommandError
from penstock.cli.output.printable import printable
from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    from penstock.configuration import Address

PATH: Final = "/api/state"
API_VERSION: Final = 1
TIMEOUT_S: Final = 5.0
_MAX_BYTES: Final = 16 * 2**20
_NEEDED: Final = frozenset(
    ("api", "at", "gateway", "ready", "rates", "totals", "connections", "held_bytes", "workers",
     "brokers", "reload", "refusals", "history")
)  # fmt: skip
_UNAUTHORIZED: Final = 401


class StateReader:
    """Reads the state of a gateway, again and again."""

    def __init__(self, address: Address, token: str | None) -> None:
        """Prepare; nothing is connected to.

        Args:
            address: Where the gateway serves its metrics.
            token: `metrics.listener.token`, if it has one.
        """
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}"} if token is not None else {}

    def read(self) -> dict[str, Any]:
        """Return the state.

        Raises:
            CommandError: Nothing answers, or it is no gateway.
            ConfigurationError: The gateway has another token.
        """
        # A proxy of the environment is not used: it is no way to this machine.
        connection = http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)
        try:
            connection.request("GET", PATH, headers=self._headers)
            response = connection.getresponse()
            status, body = response.status, response.read(_MAX_BYTES)
        except (OSError, http.client.HTTPException) as error:
            # It may contain the response, which may be meant for a terminal.
            why = printable(str(error).strip()) or type(error).__name__
            raise CommandError(
                f"no gateway can be reached at metrics.listener ({self._address}): {why}"
            ) from error
        finally:
            connection.close()
        if status == _UNAUTHORIZED:
            raise ConfigurationError(
                f"the gateway at {self._address} does not accept the file's "
                "metrics.listener.token; a gateway uses a changed token after a restart"
            )
        return self._decode(status, body)

    def _decode(self, status: int, body: bytes) -> dict[str, Any]:
        try:
            state: Any = json.loads(body)
        except ValueError:
            state = None
        if (
            not isinstance(state, dict)
            or not state.keys() >= _NEEDED
            or state["api"] != API_VERSION
        ):
            raise CommandError(
                f"the server at metrics.listener ({self._address}, HTTP {status}) is not a "
                "gateway of this version"
            )
        return state
