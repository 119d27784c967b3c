"""Sessions of Spark Connect for the commands: `--remote sc://HOST:PORT`."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.configuration import ConfigurationError
from penstock.spark.execution.failures import SparkError, first_line
from penstock.spark.execution.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping
_SCHEME: Final = "sc://"
_PORT: Final = 15002
_ANSWERS_WITHIN_S: Final = 10.0
_OF_SESSIONS: Final = ("spark.sql.execution.", "spark.sql.session.")
"""Those of Penstock's defaults that a session may set; others belong to the server."""


def check_remote(url: str, master: str | None) -> str:
    """Return the address of a server if it is valid.

    Args:
        url: The value of `--remote`.
        master: The value of `--master`, or None.

    Raises:
        ConfigurationError: It cannot, or both are given.
    """
    if master is not None:
        raise ConfigurationError("--remote and --master: name one of them")
    if not url.startswith(_SCHEME) or url == _SCHEME:
        raise ConfigurationError(f"--remote {url}: must be {_SCHEME}HOST:PORT")
    return url


def remote_session(url: str, name: str, conf: Mapping[str, str]) -> SparkSession:
    """Return a session of a server of Spark Connect.

    Args:
        url: Its address, such as `sc://spark:15002`.
        name: What Spark's own pages call it.
        conf: Spark's own keys, of those that a session may set.

    Raises:
        ConfigurationError: What PySpark needs for it is not installed.
        SparkError: The server does not answer, or refuses a key.
    """
    try:
        import pyspark.sql.connect.session  # noqa: F401, PLC0415 - it needs grpcio
    except ImportError as error:
        raise ConfigurationError(
            f"--remote needs what pip install 'pyspark[connect]' installs: {error}"
        ) from None
    _check_answers(url)
    try:
        builder = SparkSession.builder.remote(url).appName(name)
        for key, value in conf.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        _ = session.version
    except Exception as error:
        raise SparkError(f"--remote {url}: {first_line(str(error))}") from None
    for key in SETTINGS.keys() - conf.keys():
        if key.startswith(_OF_SESSIONS):
            with contextlib.suppress(PySparkException):  # a setting that this Spark does not know
                session.conf.set(key, SETTINGS[key])
    return session


def stop_remote(session: SparkSession) -> None:
    """End a session; the server continues."""
    with contextlib.suppress(Exception):
        session.stop()


def _check_answers(url: str) -> None:
    """Check that a server responds: PySpark would retry for ten minutes before it fails."""
    try:
        address = urlsplit(url.partition("/;")[0])
        where = address.hostname or "", address.port or _PORT
        socket.create_connection(where, _ANSWERS_WITHIN_S).close()
    except (OSError, ValueError) as error:
        raise SparkError(f"--remote {url}: no server of Spark Connect answers: {error}") from None
