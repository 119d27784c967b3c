"""A real schema registry on loopback: Apicurio, whose `ccompat` API is Confluent's.

`python -m tests.registry.apicurio` fetches it; `make registry` does so first.
"""

import os
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Final, Self

from penstock.kafka.artifacts import archive, cache_folder, java
from penstock.kafka.local import free_ports
from tests.java import QUICK

_COORDINATES: Final = "io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all"
_READY_SECONDS: Final = 150.0
_STOP_SECONDS: Final = 30.0


def program() -> Path:
    """Return the jar of the program, fetching and unpacking it the first time."""
    packed = archive(_COORDINATES, report=print)
    folder = cache_folder() / packed.name.removesuffix(".tar.gz")
    if not folder.is_dir():
        fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
        with tarfile.open(packed) as files:
            files.extractall(fresh, filter="data")
        fresh.rename(folder)
    (jar,) = folder.glob("*-runner.jar")
    return jar


class Apicurio:
    """A registry that keeps its schemas in memory; a context manager.

    Attributes:
        url: The URL of Confluent's API.
    """

    def __init__(self, folder: Path) -> None:
        self._log = folder / "apicurio.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        self._port = free_ports()[0]
        environment = os.environ | {
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(self._port),
        }
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [java(), "-Xmx512m", *QUICK, "-jar", str(program())],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait(self) -> None:
        """Wait until it accepts connections."""
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self._port), 1):
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"Apicurio does not start: {self._log.read_text()[-2000:]}")


if __name__ == "__main__":
    sys.stdout.write(f"{program()}\n")
