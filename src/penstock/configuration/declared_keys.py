"""Topic level keys that the class of `record.validation.policy.class.name` declares.

They are read before the other keys, because `topics.<glob>.<key>` can be split only if the keys are
known. The built-in policies are imported in this process. A class of a user is imported in a
separate, short-lived process: neither the gateway's process nor a command's imports it.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration.declared_rows import (
    check_name_and_type,
    check_values,
    read_rows,
    texts_of,
)
from penstock.configuration.errors import ConfigurationError
from penstock.configuration.topic_keys import (
    KEY_TYPES,
    KEYS_OF_KAFKA,
    TOPIC_KEYS,
    TopicKey,
    key_of,
)
from penstock.configuration.values import dotted
from penstock.policy import TopicConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from penstock.configuration.processes.bounded import Imports

    ReadDeclaredKeys = Callable[[str, Path, Sequence[Path]], Sequence[TopicConfig]]
    """Returns the keys that a user's class declares; see `declared_by_user`."""

VALIDATION: Final = "record.validation.policy.class.name"
_OWN: Final = "penstock.policies"
_DECLARES: Final = "penstock.engine.plans.declared"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,248}")
_DECLARED_MAX: Final = 100
_TEXT_MAX_BYTES: Final = 32 * 1024 - 1
"""Kafka's limit for strings: DescribeConfigs returns the default and the documentation."""
_TIMEOUT_S: Final = 60.0
ANSWER_MAX_BYTES: Final = 60 * 1024
"""Less than the buffer of a pipe: the process does not wait to be read."""


def declared_by_own(class_name: str) -> tuple[TopicConfig, ...]:
    """Return the keys that a class declares; empty if it is not a built-in policy."""
    module, _, name = dotted(class_name).rpartition(".")
    if module != _OWN and not module.startswith(_OWN + "."):
        return ()
    try:
        policy_class = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return ()  # the workers say so
    return as_configs(getattr(policy_class, "topic_configs", ()))


def is_own(class_name: str) -> bool:
    """Return whether a class is a built-in policy."""
    return dotted(class_name).startswith(_OWN + ".")


def declared_by_user(
    class_name: str, file: Path, class_path: Sequence[Path], *, imports: Imports | None = None
) -> tuple[TopicConfig, ...]:
    """Return the keys that a class declares; import it in a separate process.

    Args:
        class_name: As the file names it.
        file: The configuration file.
        class_path: The folders that are searched first.
        imports: Can end the process.

    Returns:
        The keys; none if it cannot be imported, because the workers report that.

    Raises:
        ConfigurationError: The keys are not usable, or the import takes too long.
    """
    top = dotted(class_name).partition(".")[0]
    if PathFinder.find_spec(top, [*map(str, class_path), str(file.parent), *sys.path]) is None:
        return ()
    request = json.dumps([class_name, str(file), [str(folder) for folder in class_path]])
    data = answer_of([request], f"{file}: {VALIDATION}: {class_name}", imports)
    if not data:
        return ()
    declared, error = json.loads(data)
    if error:
        raise ConfigurationError(error)
    return as_configs(declared)


def answer_of(request: Sequence[str], what: str, imports: Imports | None = None) -> bytes:
    """Return the output of a process that imports classes of a user, and describes them.

    Args:
        request: The arguments of `penstock.engine.plans.declared`, after the first.
        what: The file, the key and the classes, for the error.
        imports: Can end the process.

    Returns:
        Its output; empty if it ended without one.

    Raises:
        ConfigurationError: It takes too long.
    """
    # Workers and executors import this module, and need none of these.
    import subprocess  # noqa: PLC0415

    from penstock.configuration.processes.bounded import run_module  # noqa: PLC0415

    read_end, write_end = os.pipe()
    # The class may print: the result has a separate pipe.
    with os.fdopen(read_end, "rb") as answer:
        try:
            run_module(
                _DECLARES,
                [str(write_end), *request],
                _TIMEOUT_S,
                pass_fds=(write_end,),
                imports=imports,
            )
        except subprocess.TimeoutExpired:
            raise ConfigurationError(
                f"{what}: its import took longer than {_TIMEOUT_S:.0f} s"
            ) from None
        finally:
            os.close(write_end)
        os.set_blocking(answer.fileno(), False)
        return answer.read(ANSWER_MAX_BYTES) or b""


def encode_declared(declared: Sequence[TopicConfig], error: str = "") -> bytes:
    """Return the output of the process; see `declared_by_user`."""
    data = json.dumps([declared, error]).encode()
    if len(data) > ANSWER_MAX_BYTES:
        return json.dumps([[], f"{VALIDATION}: its topic_configs are too long"]).encode()
    return data


def as_configs(declarations: Any) -> tuple[TopicConfig, ...]:
    """Read the `topic_configs` of a class, which may be anything.

    Raises:
        ValueError: They have another form; the text completes "<class>: ...".
    """
    rows = read_rows(declarations, TopicConfig, "topic_configs", most=_DECLARED_MAX)
    for row in rows:
        texts = texts_of(row)
        if any(len(text.encode(errors="surrogatepass")) > _TEXT_MAX_BYTES for text in texts):
            raise ValueError(f"topic_configs: a text is longer than {_TEXT_MAX_BYTES} bytes")
        if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
            raise ValueError("topic_configs: a text is not Unicode text")
    return rows


def rows_of(
    declared: Iterable[TopicConfig], extra_names: Iterable[str] = ()
) -> dict[str, TopicKey]:
    """Return rows for the table of topic level keys.

    Args:
        declared: The keys that a class declares.
        extra_names: Reserved names, in addition to topic level keys and Kafka's keys.

    Raises:
        ValueError: A key is not usable; the text completes "<class>: ...".
    """
    rows: dict[str, TopicKey] = {}
    reserved_names = {*TOPIC_KEYS, *extra_names}
    for row in declared:
        where = f"topic_configs: {row.name!r}"
        check_name_and_type(row, where, _NAME, KEY_TYPES)
        if row.name in KEYS_OF_KAFKA:
            raise ValueError(f"{where} is a key of Kafka's topics")
        if row.name in reserved_names:
            raise ValueError(f"{where} is a key of Penstock")
        if row.name in rows:
            raise ValueError(f"{where} is declared twice")
        if row.switches_on and row.type != "BOOLEAN":
            raise ValueError(f"{where} enables the policy, and is not a BOOLEAN")
        rows[row.name] = key_of(row, VALIDATION)
        check_values(row, where, rows[row.name].type.read)
    return rows
