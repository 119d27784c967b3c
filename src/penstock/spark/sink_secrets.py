"""Secrets of Spark's Kafka sink: in the environment of its JVMs, not among its options.

Spark shows the options of this sink in plans, in its UI and in its event log, and redacts none of
them. So an option holds the name of an environment variable, which Kafka's own client resolves
(KIP-297, KIP-887). Options of the source are shown nowhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KAFKA: Final = "kafka."
_PREFIX: Final = "PENSTOCK_SECRET_"
_EXECUTOR_ENVIRONMENT: Final = "spark.executorEnv."
_SECRET: Final = re.compile(
    r"(?i)password|secret|token|credential|jaas|user\.info|ssl\.keystore\.key"
)
_PROVIDER: Final = {
    "kafka.config.providers": "env",
    "kafka.config.providers.env.class": (
        "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    ),
}


def is_secret(key: str) -> bool:
    """Return whether the value of a client's property is a secret, by its name."""
    return _SECRET.search(key) is not None


def environment(options: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the secrets among the options of the connector."""
    return {
        _variable(key): value
        for key, value in options.items()
        if key.startswith(_KAFKA) and is_secret(key)
    }


def for_executors(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that give executors these variables.

    The names match `spark.redaction.regex`, so that Spark shows none of the values.
    """
    return {_EXECUTOR_ENVIRONMENT + name: value for name, value in variables.items()}


def hidden(options: Mapping[str, str], known: Callable[[str], str | None]) -> dict[str, str]:
    """Return options for the sink without secrets.

    Args:
        options: The options of the connector.
        known: Returns the value of a variable where the sink's producers run, or None. Secrets
            that are not there stay among the options.
    """
    if "kafka.config.providers" in options:  # of the user's own: they resolve their secrets
        return dict(options)
    variables = {
        key: _variable(key)
        for key, value in options.items()
        if key.startswith(_KAFKA) and is_secret(key) and known(_variable(key)) == value
    }
    if not variables:
        return dict(options)
    references = {key: f"${{env:{name}}}" for key, name in variables.items()}
    return {**options, **references, **_PROVIDER}


def _variable(key: str) -> str:
    return _PREFIX + re.sub(r"\W", "_", key.removeprefix(_KAFKA)).upper()
