"""Show the metrics of a running gateway, live, in a terminal.

It shows rates, latencies, refusals, workers and brokers, as the console does. It reads them from
`metrics.listener` in FILE, on this machine, with `metrics.listener.token` if FILE has one. Without
a terminal, or with --once, it prints them once. Press q or Ctrl-C to quit.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.output.top_reading import StateReader
from penstock.configuration import Address, ConfigurationError, load_configuration
from penstock.configuration.properties import load_properties

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from penstock.configuration import Configuration

_KEY: Final = "metrics.listener"
_UPSTREAM: Final = "upstream.bootstrap.servers"
_NO_KAFKA: Final = "127.0.0.1:1"
"""Stands for the cluster, which is not contacted."""
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound to it
_EVERY_MIN_S: Final = 0.5
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "file", metavar="FILE", help="the configuration file of the running gateway"
    )
    parser.add_argument("--once", action="store_true", help="print the metrics once, and exit")
    parser.add_argument(
        "--every",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="how often to read them (default 2)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    if not options.every >= _EVERY_MIN_S:
        raise ConfigurationError(f"--every must be {_EVERY_MIN_S} or more")
    configuration = _read(options.file)
    reader = StateReader(_address(configuration), configuration.metrics_listener_token)
    first = reader.read()  # an error ends the command; later errors are shown
    if options.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print(first)
    else:
        with contextlib.suppress(KeyboardInterrupt), _signals() as signals:
            _watch(reader, first, options.every, signals)
    return ExitCode.DONE


def _read(path: str) -> Configuration:
    """Read the file. A file for `penstock dev` need not name a cluster."""
    file = Path(path).resolve()
    without = _UPSTREAM not in load_properties(path, file).values
    return load_configuration(file, replaced={_UPSTREAM: _NO_KAFKA} if without else {})


def _address(configuration: Configuration) -> Address:
    """Return where the gateway serves its figures.

    Raises:
        ConfigurationError: It does not, or the port is unknown.
    """
    address = configuration.metrics_listener
    if address is None:
        raise ConfigurationError(
            f"{configuration.path}: {_KEY} is not set: without it, a gateway counts nothing; "
            f"set {_KEY}=127.0.0.1:9100, for example, and restart the gateway"
        )
    if not address.port:
        raise ConfigurationError(
            f"{configuration.path}: {_KEY}={address} selects a free port, which only the "
            "gateway's log shows; set a port"
        )
    return Address(_WILDCARDS.get(address.host, address.host), address.port)


def _print(state: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415

    from penstock.cli.output.top_screen import screen  # noqa: PLC0415

    console = Console()
    console.print(screen(state, console.width, None))


def _watch(reader: StateReader, state: dict[str, Any], every_s: float, signals: int) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    from penstock.cli.output.top_screen import screen  # noqa: PLC0415

    console, trouble = Console(), ""
    with (
        _single_keys(),
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while True:
            live.update(screen(state, console.width, console.height, trouble), refresh=True)
            if _is_ended(every_s, signals):
                return
            try:
                state, trouble = reader.read(), ""
            except CommandError as error:
                trouble = str(error)


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """Give a descriptor that can be read from once a signal has requested the end.

    The terminal has to be left as it was. The first signal raises nothing: an exception that comes
    while a finalizer runs is lost. The second signal does not wait for a gateway's answer.
    """
    reading, writing = os.pipe()
    requested = False

    def on_signal(*_: object) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        os.write(writing, b".")

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


@contextlib.contextmanager
def _single_keys() -> Iterator[None]:
    """Have the terminal pass on each key at once."""
    import termios  # noqa: PLC0415
    import tty  # noqa: PLC0415

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _is_ended(within_s: float, signals: int) -> bool:
    """Wait for a time; return whether q or a signal requests the end, or the input is closed."""
    until = time.monotonic() + within_s
    while (left := until - time.monotonic()) > 0:
        readable, _, _ = select.select([sys.stdin, signals], [], [], left)
        if signals in readable:
            return True
        if not readable:
            continue
        keys = os.read(sys.stdin.fileno(), 64)  # what `sys.stdin` has buffered, select() hides
        if not keys or b"q" in keys.lower():
            return True
    return False
