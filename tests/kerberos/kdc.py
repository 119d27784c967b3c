"""A real KDC on loopback: Apache Kerby's, with which MIT's library and Java log in.

`python -m tests.kerberos.kdc` fetches it; `make kerberos` does so first.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from penstock.kafka.artifacts import class_path
from penstock.kafka.local import free_ports
from tests.java import program

COORDINATES: Final = "org.apache.kerby:kerb-simplekdc:2.1.0+org.slf4j:slf4j-simple:1.7.36"
_SOURCE: Final = Path(__file__).with_name("Kdc.java")
_STOP_S: Final = 30


def host() -> str:
    """Return the name of 127.0.0.1, which Java and MIT's library use instead of the address."""
    return socket.gethostbyaddr("127.0.0.1")[0]


class Kdc:
    """The KDC of a realm; a context manager.

    Attributes:
        realm: Its realm.
        port: Where it is.
        configuration: A file for clients, such as `KRB5_CONFIG` names it.
    """

    def __init__(self, folder: Path, realm: str, keytabs: Mapping[str, Sequence[str]]) -> None:
        """Prepare; nothing is started.

        Args:
            folder: For its files.
            keytabs: The names of principals, without the realm, by the name of their keytab.
        """
        self.realm = realm
        self.configuration = folder / "client.conf"
        self.port = 0
        self._folder = folder
        self._keytabs = keytabs
        self._process: subprocess.Popen[bytes] | None = None

    def keytab(self, name: str) -> Path:
        """Return a keytab."""
        return self._folder / name

    def configure(self, file: Path, *lines: str) -> Path:
        """Write a configuration for clients.

        Args:
            lines: More of `libdefaults`.
        """
        more = "".join(f"  {line}\n" for line in lines)
        file.write_text(
            f"[libdefaults]\n  default_realm = {self.realm}\n  dns_lookup_kdc = false\n"
            f"  dns_lookup_realm = false\n  udp_preference_limit = 1\n{more}"
            f"[realms]\n  {self.realm} = {{\n    kdc = 127.0.0.1:{self.port}\n  }}\n"
        )
        return file

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let it accept connections, and not respond."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.port = free_ports()[0]
        self.configure(self.configuration)
        names = [
            f"{keytab}={name}@{self.realm}"
            for keytab, names in self._keytabs.items()
            for name in names
        ]
        command = program(_SOURCE, log_level="warn", classes=class_path(COORDINATES))
        with (self._folder / "kdc.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, str(self._folder), self.realm, str(self.port), *names],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            self.__exit__()
            raise AssertionError(f"no KDC: {(self._folder / 'kdc.log').read_text()[-2000:]}")
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        assert process is not None
        process.kill()
        process.wait(_STOP_S)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


if __name__ == "__main__":
    sys.stdout.write(class_path(COORDINATES, report=print).replace(os.pathsep, "\n") + "\n")
