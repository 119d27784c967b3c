"""Checks the arguments of `penstock.spark`'s functions, which Python does not check itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.jobs.plan import RecordPlan

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATHS: Final = ("path:", "table:")


def check_plan(value: Any, name: str = "plan") -> RecordPlan:
    """Return a plan.

    Raises:
        ConfigurationError: It is not a plan, but for example the name of its file.
    """
    if not isinstance(value, RecordPlan):
        # Not its class: this module is also of functions that need no rows.
        is_of_rows = isinstance(getattr(value, "records", None), RecordPlan)
        hint = "; with plan(...), call judge_rows, split_rows or audit_rows" if is_of_rows else ""
        raise ConfigurationError(f"{name}: pass load_plan(FILE), not {type(value).__name__}{hint}")
    return value


def check_observation(value: Any) -> None:
    """Check what counts records.

    Raises:
        ConfigurationError: It is neither a name nor an Observation.
    """
    if not can_observe(value):
        raise ConfigurationError(
            f"observation: pass an Observation or a name, not {type(value).__name__}"
        )


def can_observe(value: Any) -> bool:
    """Whether a value is an Observation, or a name of one."""
    # Spark Connect has another class with this name.
    is_observation = type(value).__name__ == "Observation" and hasattr(type(value), "get")
    return is_observation or (isinstance(value, str) and bool(value))


def topic_names(topics: Any, function: str, *, folders: str) -> str | None:
    """Return topics as the commands' `--topic`; None if the argument is not text.

    Args:
        topics: The argument: a name, or several.
        function: The name of the called function.
        folders: The function that reads a folder or table instead.

    Raises:
        ConfigurationError: There is no name, or a name is not a topic's.
    """
    if isinstance(topics, str):
        names = topics.split(",")
    elif isinstance(topics, (list, tuple, set, frozenset)):
        names = list(topics)
    else:
        return None
    for name in names:
        check_text(name, f"{function}: a topic")
    if not any(name.strip() for name in names):
        raise ConfigurationError(f"{function}: name a topic")
    for name in names:
        if name.startswith(_PATHS) or "/" in name:
            raise ConfigurationError(f"{function}: {name} is not a topic; {folders}")
    return ",".join(names)


def topic_name(value: Any, argument: str, command: str) -> str:
    """Return the name of a single topic.

    Args:
        argument: The function and the argument, such as `redrive: to`.
        command: The command that takes folders.

    Raises:
        ConfigurationError: It is not valid.
    """
    folders = f"for folders there is the command {command}"
    name = topic_names(check_text(value, argument), argument, folders=folders)
    if name is None or "," in name:
        raise ConfigurationError(f"{argument}: name one topic, not {value}")
    return name


def check_text(value: Any, argument: str, *, such_as: str = "") -> str:
    """Return a text.

    Args:
        such_as: What it can be.

    Raises:
        ConfigurationError: It is not valid.
    """
    if not isinstance(value, str):
        description = such_as or "text"
        raise ConfigurationError(
            f"{argument}: {description} is required, not {type(value).__name__}"
        )
    return value


def check_place(value: Any, argument: str) -> str:
    """Return a start or end; whether it is valid is checked with the topics.

    Raises:
        ConfigurationError: It is not text.
    """
    such_as = "earliest, latest, an ISO time or PARTITION:OFFSET,... as text"
    return check_text(value, argument, such_as=such_as)


def check_unused(arguments: Mapping[str, Any], because: str) -> None:
    """Refuse arguments that would have no effect.

    Args:
        arguments: Arguments by name; None, False and "" where they are not given.
        because: Why they have none.

    Raises:
        ConfigurationError: There is an argument of this kind.
    """
    unused = [name for name, value in arguments.items() if value not in (None, False, "")]
    if unused:
        raise ConfigurationError(f"{', '.join(unused)}: {because}")
