"""Reloads the configuration file of a running gateway, with the policies that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.configuration import ConfigurationError
from penstock.gateway.importing import import_in_thread
from penstock.kafka.cluster.brokers import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.configuration import Configuration
    from penstock.configuration.processes.bounded import Imports
    from penstock.gateway.server import Gateway

log = structlog.get_logger()

NOT_RELOADED: Final = "not reloaded, the old policies stay in force"


class Reload(NamedTuple):
    """The result of a reload.

    Attributes:
        configuration: The configuration in force; None if the previous stays.
        reason: Why it stays.
    """

    configuration: Configuration | None
    reason: str = ""


async def reload(gateway: Gateway, loader: Callable[[Imports], Configuration]) -> Reload:
    """Read the file again, put it in force, and log the result.

    Args:
        gateway: A running gateway.
        loader: Reads the file, in a thread: it imports classes of users, which take as long as they
            like. Gets what it adds the processes to that import; they end if this is cancelled.
    """
    try:
        configuration = await import_in_thread(loader)
        await gateway.reload(configuration)
    except (ConfigurationError, UnreachableError) as error:
        reason = str(error)
        log.error(NOT_RELOADED, reason=reason)
    except Exception:
        reason = "an error of the gateway, which is in its log"
        log.exception(NOT_RELOADED)
    else:
        _log_reloaded(gateway, configuration)
        return Reload(configuration)
    gateway.reloaded(worked=False, why_not=reason)
    return Reload(None, reason)


def _log_reloaded(gateway: Gateway, configuration: Configuration) -> None:
    file = str(configuration.path)
    gateway.reloaded(worked=True)
    for warning in configuration.warnings:
        log.warning("configuration", file=file, text=warning)
    unchanged = gateway.kept_until_restart(configuration)
    if unchanged:
        log.warning("these keys have changed and take effect at a restart", keys=unchanged)
    log.info("reloaded", file=file)
