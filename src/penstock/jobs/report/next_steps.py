"""What to do about an audit's result: commands that can be copied, and the keys that matter."""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration.topic_keys import TOPIC_KEYS
from penstock.jobs.report.document import FRAME

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.jobs.report.document import Report

_CLASSES: Final = (
    "produce.request.interceptors",
    "record.validator.classes",
    "records.policy.class.name",
    "record.validation.policy.class.name",
    "policies",
)
_TYPE: Final = re.compile(r"policies\.[^.]+\.type")
"""Of a named policy; what else it is given may be a secret."""
_TOPICS: Final = "topics."
_LINE_MAX: Final = 78


class NextStep(NamedTuple):
    """A proposed action: the reason, and the lines to copy."""

    why: str
    blocks: tuple[str, ...]


def keys_in_force(
    properties: Mapping[str, str], topics: Collection[str], declared: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the lines of a configuration file that enable the policies of topics.

    Args:
        properties: The keys of the file.
        declared: The topic level keys that the validation policy declares.

    Returns:
        `KEY=VALUE`: the classes, and the topic level keys for any of the topics.
    """
    return tuple(
        f"{key}={value}"
        for key, value in properties.items()
        if key in _CLASSES
        or key in TOPIC_KEYS
        or _TYPE.fullmatch(key)
        or _is_for(key, topics, declared)
    )


def _is_for(key: str, topics: Collection[str], declared: Collection[str]) -> bool:
    """Return whether a key is `topics.<glob>.<topic level key>` for one of the topics."""
    for name in (*TOPIC_KEYS, *declared):
        if key.startswith(_TOPICS) and key.endswith(f".{name}"):
            glob = key[len(_TOPICS) : -len(name) - 1]
            return any(fnmatchcase(topic, glob) for topic in topics)
    return False


def next_steps(report: Report) -> tuple[NextStep, ...]:
    """Return what can be done next, the most useful first."""
    about = report.about
    if about.is_rows:
        return _of_rows(report)
    topic = max(report.topics, key=lambda entry: (entry.turned_away, entry.judged), default=None)
    name = topic.topic if topic is not None and about.is_topic else None
    steps = []
    if name is not None and report.turned_away:
        steps += [*_explain(report, name), _split(report, name)]
    gateway = _command("gateway", about.file)
    why = (
        "Switch the policies on for what is produced from now on: start the gateway with the file."
    )
    if about.keys:
        why += " These are its keys that judge here:"
        steps.append(NextStep(why, ("\n".join(about.keys), gateway)))
    else:
        steps.append(NextStep(why, (gateway,)))
    steps.append(_watch(report, *_source(report, name)))
    return tuple(steps)


def _of_rows(report: Report) -> tuple[NextStep, ...]:
    """Return what can be done about rows: in a notebook, and for those of a command."""
    about, [topic] = report.about, report.topics
    from_command = about.source != FRAME
    lines = ["from penstock.spark import split_rows", "good, bad = split_rows(rows, plan)"]
    if from_command:
        lines = [
            "from penstock.spark import load_plan, split_rows",
            f"plan = load_plan({about.file!r}, topic={topic.topic!r})",
            lines[-1],
        ]
    steps = []
    if report.turned_away:
        why = "Set the bad rows aside, in a notebook or a job: bad has a column with their verdict."
        steps.append(NextStep(why, ("\n".join(lines),)))
    if from_command:
        steps.append(_watch(report, "--input", about.source, "--rows", "--topic", topic.topic))
    return tuple(steps)


def _watch(report: Report, *source: str) -> NextStep:
    line = _command(
        "audit", report.about.file, *source, "--report", "DIR", "--baseline", "report.json",
        "--history", "HISTORY",
    )  # fmt: skip
    return NextStep("Watch it: audit again, compare with this report, and keep the runs.", (line,))


def _explain(report: Report, topic: str) -> tuple[NextStep, ...]:
    for reason in report.reasons:
        if reason.turns_away and reason.topic in {topic, None} and reason.samples:
            sample = reason.samples[0]
            line = _command(
                "explain", report.about.file, "--topic", topic,
                "--offset", f"{sample.partition}:{sample.offset}", *_server(report),
            )  # fmt: skip
            return (
                NextStep(
                    "Look at one of the records, and at what each policy says of it.", (line,)
                ),
            )
    return ()


def _split(report: Report, topic: str) -> NextStep:
    line = _command(
        "split", report.about.file, "--topic", topic, "--accepted", f"{topic}-clean",
        "--rejected", f"{topic}-dead", *_server(report),
    )  # fmt: skip
    return NextStep(
        "Set aside what is stored and would be turned away: the two topics have to exist.",
        (line,),
    )


def _source(report: Report, topic: str | None) -> tuple[str, ...]:
    option = "--input" if topic is None else "--topic"
    return (option, report.about.source, *_server(report))


def _server(report: Report) -> tuple[str, ...]:
    server = report.about.bootstrap_server
    return ("--bootstrap-server", server) if server else ()


def _command(*words: str) -> str:
    """Return a command for a shell; a long command with a line for each option."""
    line = shlex.join(("penstock", *words))
    if len(line) <= _LINE_MAX:
        return line
    parts = [shlex.join(("penstock", *words[:2]))]
    for word in words[2:]:
        if word.startswith("--"):
            parts.append(f"  {word}")
        else:
            parts[-1] += f" {shlex.quote(word)}"
    return " \\\n".join(parts)
