"""Run a local single-node Kafka and the gateway in front of it, in one terminal.

Without FILE, it uses a scratch folder with a sample policy. It reloads the policies whenever you
save FILE or a .py file next to it, and shows every refusal. Press Ctrl-C, or close the terminal, to
stop both.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
import uvloop

from penstock import early_signals
from penstock.cli.checks.dry_run import dry_run
from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.output.printable import printable
from penstock.cli.output.refusal_lines import refusal_lines
from penstock.cli.output.steps import StepLines
from penstock.cli.process.logs import set_up_logs
from penstock.cli.process.reloading import NOT_RELOADED, reload
from penstock.cli.sample import CONFIGURATION, POLICY
from penstock.configuration import (
    Address,
    ConfigurationError,
    load_configuration,
)
from penstock.configuration.declared_keys import declared_by_user
from penstock.configuration.globs import is_glob
from penstock.configuration.policy_classes import classes_of_user
from penstock.configuration.properties import load_properties
from penstock.configuration.topic_keys import DEAD_LETTER_REPLICAS
from penstock.gateway.server import Gateway
from penstock.kafka.artifacts import ArtifactError, Artifacts, class_path, is_fetched, java
from penstock.kafka.client.admin.topics import NewTopic, create_topic
from penstock.kafka.client.connections.connection import connect
from penstock.kafka.client.errors import ClientError
from penstock.kafka.cluster.brokers import UnreachableError
from penstock.kafka.wire.errors import WireError
from penstock.queued_output import queue_standard_output

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from structlog.typing import EventDict, WrappedLogger

    from penstock.configuration import Configuration
    from penstock.configuration.processes.bounded import Imports
    from penstock.gateway.refusal_log import Refused

_WATCH_EVERY_S: Final = 0.3
_DEFAULT_PORT: Final = 9191
_PORTS_NEEDED: Final = 3
"""The ports of the console, of clients, and of the only broker."""
_CONSOLE: Final = "metrics.listener"
_SAMPLE_TOPIC: Final = "orders"
_SAMPLE_ORDERS: Final = ('{"id": 1, "amount": 12.5}', '{"id": 2, "amount": -1}')
_CREATE_TIMEOUT_S: Final = 60.0
_NO_KAFKA: Final = "127.0.0.1:1"
"""Stands for the local Kafka until that runs; nothing connects to it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="a configuration file; the local Kafka replaces its upstream.bootstrap.servers",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    # Imported here: a gateway does without the extra that this needs.
    try:
        from penstock.kafka.local import LocalKafka, LocalKafkaError  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(f"dev needs the extra penstock-kafka[local]: {error}") from None

    queue_standard_output()
    set_up_logs(options.log_level, renderer=_Terminal())
    file = Path(options.file) if options.file else None
    scratch = None
    steps, topics = StepLines(), [_SAMPLE_TOPIC]
    try:
        early_signals.interrupt(at_hang_up=True)
        if file is not None:
            # Errors in it are reported before anything is fetched or started.
            with steps.step(f"loading {file} and its policies"):
                configuration = _read(file, _NO_KAFKA)
                asyncio.run(dry_run(configuration, is_to_serve=True))
            topics = _named_topics(configuration)
        java()  # before what it runs is downloaded
        if not is_fetched(Artifacts.KAFKA):
            with steps.step("fetching Kafka (only the first time, about 55 MB)"):
                class_path(Artifacts.KAFKA, report=partial(print, flush=True))
        with contextlib.ExitStack() as stack:
            kafka = LocalKafka()
            with steps.step("starting Kafka"):
                stack.enter_context(kafka)
            if file is None:
                scratch = Path(tempfile.mkdtemp(prefix="penstock-dev-"))
                file = _write_sample(scratch, kafka.bootstrap_servers)
            configuration = _read(file, kafka.bootstrap_servers)
            uvloop.run(_serve(configuration, file, kafka.bootstrap_servers, scratch, topics, steps))
    except (LocalKafkaError, ArtifactError) as error:
        raise CommandError(str(error)) from error
    except UnreachableError as error:
        raise CommandError(f"the cluster cannot be reached: {error}") from error
    except KeyboardInterrupt:
        pass
    return ExitCode.DONE


async def _serve(
    configuration: Configuration,
    file: Path,
    kafka: str,
    scratch: Path | None,
    topics: Sequence[str],
    steps: StepLines,
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is not signal.SIGHUP or not early_signals.is_ignored(number):
            loop.add_signal_handler(number, ended.set)
    gateway = Gateway(configuration, watch=_show)
    with steps.step("starting the gateway"):
        address = await gateway.start()
    try:
        await asyncio.to_thread(_create_topics, kafka, file, topics)
        _greet(file, kafka, address, gateway.metrics_address, scratch, topics)
        watching = loop.create_task(_reload_when_saved(gateway, file, kafka, set(topics)))
        await ended.wait()
        watching.cancel()
        print("\nending ...", flush=True)
    finally:
        await gateway.stop()
    if scratch is not None:
        print(f"the sample stays in {scratch}")


def _read(file: Path, kafka: str, imports: Imports | None = None) -> Configuration:
    """Read the configuration with the local Kafka as the cluster, and with a console.

    Args:
        kafka: The address of the local Kafka.
        imports: Can end the processes that import classes.
    """
    own = {DEAD_LETTER_REPLICAS: "1", "upstream.bootstrap.servers": kafka}
    if _CONSOLE not in load_properties(file, file.resolve()).values:
        own[_CONSOLE] = "127.0.0.1:0"
    return load_configuration(
        file,
        without="upstream.",
        replaced=own,
        read_declared=partial(declared_by_user, imports=imports),
        describe_classes=partial(classes_of_user, imports=imports),
    )


async def _reload_when_saved(
    gateway: Gateway, file: Path, kafka: str, known_topics: set[str]
) -> None:
    """Reload the file when it is saved, and create the topics that it names for the first time."""
    snapshot = _saved(file)
    while True:
        await asyncio.sleep(_WATCH_EVERY_S)
        now = _saved(file)
        if now == snapshot:
            continue
        snapshot = now
        result = await reload(gateway, partial(_read, file, kafka))
        if result.configuration is None:
            print(f"{NOT_RELOADED}: {result.reason}", flush=True)
        else:
            print("reloaded", flush=True)
            new = [name for name in _named_topics(result.configuration) if name not in known_topics]
            known_topics.update(new)
            for name in await asyncio.to_thread(_create_topics, kafka, file, new):
                print(f"topic {name} is created", flush=True)


def _saved(file: Path) -> dict[Path, tuple[int, int]]:
    """When the configuration and the modules beside it were written, and how large they are."""
    states = {}
    for path in (file, *file.parent.rglob("*.py")):
        try:
            status = path.stat()
        except OSError:
            continue  # being replaced by an editor
        states[path] = (status.st_mtime_ns, status.st_size)
    return states


def _show(refused: Refused) -> None:
    print("\n".join(refusal_lines(refused)), flush=True)


class _Terminal:
    """Renders the log for a person: the output of policies, and errors."""

    def __init__(self) -> None:
        self._render = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> str:
        name = event.get("event")
        if name == "policy output":
            return f"policy: {printable(str(event.get('text')).expandtabs())}"
        if name in {
            "records refused",
            "records quarantined",
            "records marked",
            "records postponed",
            "topic refused",
            "topic postponed",
            "policy failed",
            "records would be refused",
            "records would be postponed",
            "topic would be refused",
            "policy would fail",
            "broker",
            "refusals not logged separately",
            "native extension",
            "metrics",
            "loading policies",
            "waiting for the cluster",
            "reading settings of topics",
            "reading the state of producers",
            "reloaded",
        } or (name == NOT_RELOADED and "reason" in event):
            raise structlog.DropEvent  # shown elsewhere, or of no interest here
        return str(self._render(logger, method, event))


def _write_sample(folder: Path, kafka: str) -> Path:
    from penstock.kafka.local import free_ports  # noqa: PLC0415

    port = _DEFAULT_PORT
    if not _can_listen(range(port, port + _PORTS_NEEDED)):
        port = free_ports(_PORTS_NEEDED)[0]
    console, address = Address("127.0.0.1", port), Address("127.0.0.1", port + 1)
    (folder / "policy.py").write_text(POLICY)
    file = folder / "penstock.properties"
    file.write_text(CONFIGURATION.format(address=address, console=console, kafka=kafka))
    return file


def _can_listen(ports: range) -> bool:
    import socket  # noqa: PLC0415

    for port in ports:
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            return False
    return True


def _named_topics(configuration: Configuration) -> list[str]:
    """Return the topics that the file names without a wildcard, in its order."""
    globs = (default.glob for default in configuration.policies.topic_defaults)
    return [glob for glob in dict.fromkeys(globs) if not is_glob(glob)]


def _create_topics(kafka: str, file: Path, names: Sequence[str]) -> list[str]:
    """Create topics, so that the first record has somewhere to go; return those that are."""
    created_topics: list[str] = []
    connection = connect({"bootstrap.servers": kafka}, file)
    for name in names:
        try:
            create_topic(connection, NewTopic(name, 1), _CREATE_TIMEOUT_S)
            created_topics.append(name)
        except (ClientError, WireError) as error:
            print(f"topic {name} is not created: {error}", flush=True)
    return created_topics


def _greet(
    file: Path,
    kafka: str,
    address: Address,
    console: Address | None,
    scratch: Path | None,
    topics: Sequence[str],
) -> None:
    print(f"\nKafka    {kafka}")
    print(f"gateway  {address}")
    print(f"console  http://{console}/  (in a browser: refusals as they happen)")
    if scratch is not None:
        print(f"policy   {scratch / 'policy.py'}  (edit and save it: it is reloaded)")
        print("\nPaste this into another terminal; the second order is refused:\n")
        print(f"  {_produce(address, _SAMPLE_TOPIC, _SAMPLE_ORDERS)}\n")
    else:
        print(f"policies {file}  (reloaded when you save it or a .py file next to it)")
        if topics:
            print("\nSend an empty record from another terminal:\n")
            print(f"  {_produce(address, topics[0], ['{}'])}\n")
    print("Ctrl-C ends both.\n", flush=True)


def _produce(address: Address, topic: str, values: Sequence[str]) -> str:
    """Return a command that sends records and shows the reason of a refusal."""
    program = [sys.executable, "-m", "penstock.kafka.local.produce"]
    return shlex.join([*program, str(address), topic, *values])
