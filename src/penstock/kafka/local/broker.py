"""Apache Kafka (KRaft) as child processes on loopback."""

from __future__ import annotations

import base64
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self

from penstock.kafka import artifacts
from penstock.kafka.artifacts import Artifacts, java
from penstock.kafka.local.errors import LocalKafkaError
from penstock.kafka.local.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

READY_TIMEOUT_S: Final = 90.0
_STOP_TIMEOUT_S: Final = 20.0
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None
# The kernel ends a broker when the thread that started it ends: that thread ends with the process.
_SPAWNER: Final = ThreadPoolExecutor(1, thread_name_prefix="penstock-spawner")
_JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


def class_path(more: Sequence[Path] = (), kafka: str = Artifacts.KAFKA) -> str:
    """Return the Java class path of Kafka, fetching it the first time.

    Args:
        more: Folders and jars on the class path behind Kafka's own.
        kafka: Kafka's artifacts.

    Raises:
        ArtifactError: It cannot be fetched.
    """
    return os.pathsep.join([artifacts.class_path(kafka), *map(str, more)])


class LocalNode:
    """One broker, which is a controller too.

    Attributes:
        host: Always loopback.
        port: Where clients connect.
        log: The file its output goes to.
        java_options: More options of its Java.
        java_class_path: What Java finds: Kafka's own classes, and those that were given.
    """

    def __init__(
        self,
        node_id: int,
        port: int,
        folder: Path,
        heap: str,
        java_options: Sequence[str],
        java_class_path: str,
    ) -> None:
        self.node_id = node_id
        self.host = "127.0.0.1"
        self.port = port
        self.properties = folder / "server.properties"
        self.log = folder / "server.log"
        self.java_options = (*_JVM, *java_options)
        self.java_class_path = java_class_path
        self._heap = heap
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        is_running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process is not None and is_running else None

    @property
    def started(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._process is not None

    def start(self) -> None:
        """Start the process; see `LocalKafka.wait_ready`."""
        if self.pid is not None:
            return
        with self.log.open("ab") as output:
            self._process = _SPAWNER.submit(
                subprocess.Popen,
                [java(), f"-Xms{self._heap}", f"-Xmx{self._heap}", *self.java_options,
                 "-cp", self.java_class_path, "kafka.Kafka", str(self.properties)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a terminal's Ctrl-C is for us, not for it
                preexec_fn=_die_with_parent,
            ).result()  # fmt: skip

    def stop(self) -> None:
        """End it as an operator would, and wait."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, and wait."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wait_ready(self, deadline: float) -> None:
        """Wait until it accepts connections.

        Raises:
            LocalKafkaError: It ended, or did not accept in time.
        """
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                raise LocalKafkaError(f"the local Kafka ended: {self._last_lines()}")
            try:
                with socket.create_connection((self.host, self.port), 1):
                    return
            except OSError:
                time.sleep(0.05)
        raise LocalKafkaError(f"the local Kafka did not start in time: {self._last_lines()}")

    def _last_lines(self) -> str:
        return f"{_without_frames(self.log.read_text(errors='replace'))} (log: {self.log})"


class LocalKafka:
    """A cluster of one broker or several, each a small JVM, for as long as the context lasts.

    ::

        with LocalKafka() as kafka:
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    Attributes:
        kafka: The artifacts of the brokers; tools are those of `Artifacts.KAFKA`.
        java_options: More options of the brokers' Java.
    """

    kafka: ClassVar[str] = Artifacts.KAFKA
    java_options: ClassVar[Sequence[str]] = ()

    def __init__(
        self,
        *,
        nodes: int = 1,
        first_node_id: int = 0,
        folder: Path | None = None,
        protocol: str = "PLAINTEXT",
        properties: Mapping[str, str] | None = None,
        class_path: Sequence[Path] = (),
    ) -> None:
        """Prepare; nothing is started.

        Args:
            nodes: How many brokers.
            folder: Where data and logs are kept, also for the next start; a temporary folder
                that is removed at the end, by default.
            protocol: The security protocol of the clients' listener; its other keys
                (`ssl.keystore.location`, ...) is in `properties`.
            properties: More of `server.properties`, for every broker.
            class_path: Folders and jars with the classes that `properties` names
                (`create.topic.policy.class.name`, ...).
        """
        self._temporary = folder is None
        self._given_folder = folder
        self._count = nodes
        self._first = first_node_id
        self._protocol = protocol
        self._more = dict(properties or {})
        self._class_path = tuple(class_path)
        self.nodes: Sequence[LocalNode] = []

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as clients take them."""
        return ",".join(f"{node.host}:{node.port}" for node in self.nodes)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Format new brokers, start every broker, wait until all accept.

        Raises:
            LocalKafkaError: Kafka cannot be started.
            ArtifactError: Java is missing, or Kafka cannot be fetched.
        """
        java()
        self._java_class_path = class_path(self._class_path, self.kafka)
        self.folder = self._given_folder or Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
        try:
            self._prepare()
            for node in self.nodes:
                node.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every broker that was started accepts connections.

        Raises:
            LocalKafkaError: One ended, or did not accept in time.
        """
        deadline = time.monotonic() + timeout_s
        for node in self.nodes:
            if node.started:
                node.wait_ready(deadline)

    def stop(self) -> None:
        """End every broker; remove a temporary folder.

        A broker whose data is removed needs no orderly end, which takes seconds.
        """
        for node in self.nodes:
            if node.pid is not None:
                os.kill(node.pid, signal.SIGKILL if self._temporary else signal.SIGTERM)
        for node in self.nodes:
            node.stop()
        if self._temporary and hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _prepare(self) -> None:
        ids = range(self._first, self._first + self._count)
        ports = free_ports(2 * self._count)
        brokers, controllers = ports[: self._count], ports[self._count :]
        voters = ",".join(
            f"{node}@127.0.0.1:{port}" for node, port in zip(ids, controllers, strict=True)
        )
        heap = "512m" if self._count == 1 else "320m"
        cluster_id = self._cluster_id()
        nodes = []
        for node_id, port, controller in zip(ids, brokers, controllers, strict=True):
            home = self.folder / f"node-{node_id}"
            home.mkdir(parents=True, exist_ok=True)
            node = LocalNode(node_id, port, home, heap, self.java_options, self._java_class_path)
            settings = self._settings(node, controller, voters, home)
            node.properties.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
            if not (home / "data" / "meta.properties").exists():
                _format(node, cluster_id)
            nodes.append(node)
        self.nodes = nodes

    def _cluster_id(self) -> str:
        id_file = self.folder / "cluster.id"
        if not id_file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            id_file.write_text(_base64_id())
        return id_file.read_text()

    def _settings(
        self, node: LocalNode, controller: int, voters: str, home: Path
    ) -> dict[str, str]:
        replicas = str(min(3, self._count))
        least = str(min(2, self._count))
        return {
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            "controller.quorum.voters": voters,
            "listeners": (
                f"{self._protocol}://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{controller}"
            ),
            "listener.security.protocol.map": (
                f"{self._protocol}:{self._protocol},CONTROLLER:PLAINTEXT"
            ),
            "inter.broker.listener.name": self._protocol,
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(home / "data"),
            "num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": least,
            "share.coordinator.state.topic.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": least,
            "log.index.size.max.bytes": "1048576",
            "log.cleaner.dedupe.buffer.size": "4194304",
            **self._more,
        }


def _format(node: LocalNode, cluster_id: str) -> None:
    result = subprocess.run(
        [java(), "-Xmx128m", *node.java_options, "-cp", node.java_class_path,
         "kafka.tools.StorageTool", "format",
         "--cluster-id", cluster_id, "--config", str(node.properties)],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if result.returncode:
        raise LocalKafkaError(
            "the local Kafka's folder cannot be formatted: "
            + _without_frames(result.stdout + result.stderr)
        )


def _without_frames(output: str) -> str:
    """Return the last lines of a Java program's output, without the frames of stack traces."""
    lines = [line.strip() for line in output.splitlines() if not line.startswith("\tat ")]
    return " | ".join(line for line in lines if line)[-600:]


def _base64_id() -> str:
    """Make a cluster id: 16 random bytes in Kafka's base 64, not beginning with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _die_with_parent() -> None:
    """Let the kernel end the broker when this process is killed."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
