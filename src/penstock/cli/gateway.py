"""Serve clients in front of the cluster.

Prints `ready HOST:PORT` on standard output once every listener accepts; logs on standard
error. SIGTERM and SIGINT: stop accepting, answer what is in flight, exit 0.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import structlog
import uvloop

from penstock.configuration import load_configuration
from penstock.gateway.server import Gateway

if TYPE_CHECKING:
    import argparse

    from penstock.configuration import Configuration

log = structlog.get_logger()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="the configuration, a .properties file")


def run(options: argparse.Namespace) -> int:
    """Run the command; give its exit code."""
    configuration = load_configuration(options.file)
    for warning in configuration.warnings:
        log.warning("configuration", file=str(configuration.path), text=warning)
    uvloop.run(_serve(configuration))
    return 0


async def _serve(configuration: Configuration) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    gateway = Gateway(configuration)
    starting = loop.create_task(gateway.start())

    def end() -> None:
        ended.set()
        starting.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        address = await starting
    except asyncio.CancelledError:
        if ended.is_set():
            return
        raise
    print(f"ready {address}", flush=True)
    await ended.wait()
    log.info("ending")
    await gateway.stop()
