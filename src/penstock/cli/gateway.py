"""Run the gateway in front of the cluster.

It prints `ready HOST:PORT` to standard output when every listener accepts connections, and logs to
standard error. On SIGTERM and SIGINT, it stops accepting connections, finishes the requests in
flight, and exits with 0. On SIGHUP, it reads FILE again, and uses its policies if all of them can
be loaded; it also reopens audit.file if the file was renamed. Under systemd (Type=notify), it
reports when it is ready, reloads and stops, and serves the watchdog.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
import uvloop

from penstock import early_signals
from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.process.descriptors import raise_descriptor_limit
from penstock.cli.process.reloading import reload
from penstock.cli.process.systemd import Notifications
from penstock.configuration import load_configuration
from penstock.configuration.declared_keys import declared_by_user
from penstock.configuration.policy_classes import classes_of_user
from penstock.configuration.processes.descendants import adopt_orphans, reap_orphans
from penstock.gateway.process_memory import collect_seldom, share_arenas
from penstock.gateway.server import Gateway
from penstock.kafka.cluster.brokers import UnreachableError
from penstock.queued_output import queue_standard_output

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from penstock.configuration import Address, Configuration
    from penstock.configuration.processes.bounded import Imports

log = structlog.get_logger()

_REAP_EVERY_S: Final = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="the configuration file (.properties)")


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    with contextlib.suppress(KeyboardInterrupt):  # before there is an event loop
        _run(options)
    return ExitCode.DONE


def _run(options: argparse.Namespace) -> None:
    early_signals.interrupt()
    queue_standard_output()
    share_arenas()
    raise_descriptor_limit()
    configuration = load_configuration(options.file)
    for warning in configuration.warnings:
        log.warning("configuration", file=str(configuration.path), text=warning)
    try:
        uvloop.run(_serve(configuration))
    except UnreachableError as error:
        raise CommandError(f"the cluster cannot be reached: {error}") from error


async def _serve(configuration: Configuration) -> None:
    reaping = asyncio.ensure_future(_reap_orphans())
    try:
        with contextlib.closing(Notifications()) as systemd:
            await _serve_and_notify(configuration, systemd)
    finally:
        reaping.cancel()


async def _reap_orphans() -> None:
    """Be the parent of what policies have started and left."""
    if adopt_orphans():
        while True:
            await asyncio.sleep(_REAP_EVERY_S)
            reap_orphans()


async def _serve_and_notify(configuration: Configuration, systemd: Notifications) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    starting = loop.create_task(_start(configuration))

    def end() -> None:
        ended.set()
        starting.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    # What it would read again is being read.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    try:
        gateway, address = await starting
    except asyncio.CancelledError:
        if ended.is_set():
            return
        raise
    one_by_one = asyncio.Lock()
    loop.add_signal_handler(
        signal.SIGHUP,
        lambda: gateway.run(_reload(gateway, configuration.path, systemd, one_by_one)),
    )
    collect_seldom()
    print(f"ready {address}", flush=True)
    systemd.ready(f"serving {address}")
    await ended.wait()
    log.info("shutting down")
    systemd.stopping()
    await gateway.stop()


async def _start(configuration: Configuration) -> tuple[Gateway, Address]:
    gateway = Gateway(configuration)
    for warning in gateway.warnings:
        log.warning("configuration", file=str(configuration.path), text=warning)
    return gateway, await gateway.start()


async def _reload(
    gateway: Gateway, file: Path, systemd: Notifications, one_by_one: asyncio.Lock
) -> None:
    """Put the policies that the file names now in force; log how that went."""
    gateway.reopen_audit_file()  # at once: log rotation compresses the renamed file soon
    with systemd.reloading():
        async with one_by_one:  # the file that was written last is in force in the end
            await reload(gateway, partial(_read, file))


def _read(file: Path, imports: Imports) -> Configuration:
    return load_configuration(
        file,
        read_declared=partial(declared_by_user, imports=imports),
        describe_classes=partial(classes_of_user, imports=imports),
    )
