"""Load everything as the gateway would, and print the plan for each topic pattern.

Without --connect and --since, it contacts nothing. Classes are shown by name, in the order in which
they judge. With --since, it judges the records of observed topics as if they were sent now, and
writes nothing.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from penstock.cli.checks.dead_letter_names import name_warnings
from penstock.cli.checks.dry_run import dry_run
from penstock.cli.checks.equal_globs import equal_globs
from penstock.cli.checks.framework_topics import kept_names
from penstock.cli.checks.mode import mode_of
from penstock.cli.failures import ExitCode
from penstock.cli.jobs.arguments import positive_number, ratio
from penstock.configuration import ConfigurationError, load_configuration
from penstock.configuration.arguments import bootstrap_servers
from penstock.configuration.globs import in_words
from penstock.configuration.interfaces import ALTER_CONFIG, CREATE_TOPIC
from penstock.configuration.topic_keys import POLICIES, VALIDATION_POLICY
from penstock.engine.inline import InlineJudge
from penstock.engine.plans.plan import Plan, allows_topic_settings
from penstock.engine.plans.plan_digest import PlanDigests
from penstock.gateway.listening.endpoints import endpoints_of
from penstock.jobs.topics.excerpt import RECORDS_MAX
from penstock.progress import waiting

if TYPE_CHECKING:
    import argparse

    from penstock.configuration import Configuration
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.workers.supervisor import Patterns

_AGO: Final = re.compile(r"(\d{1,9})([smhd])")
_UNREPEATABLE: Final = (
    "the same records had different results when they were judged twice: an interceptor that "
    "depends on time or chance has "
    "producers refused when they retry (59 UNKNOWN_PRODUCER_ID)"
)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="the configuration file (.properties)")
    parser.add_argument(
        "--connect",
        action="store_true",
        help="query the cluster and the schema registry, and print the policies of each topic",
    )
    parser.add_argument(
        "--since",
        metavar="WHEN",
        help="judge the records that observed topics (penstock.mode) received since then, and "
        "print which of them would be refused: 30m, 1h, 7d, or an ISO time such as "
        "2026-01-31T12:00:00 (UTC)",
    )
    parser.add_argument(
        "--topic",
        metavar="T,...",
        help="with --since: these topics, observed or not: names and globs, separated by commas",
    )
    parser.add_argument(
        "--max-records",
        type=positive_number,
        metavar="N",
        help="with --since: the maximum number of records to read; if there are more, a sample of "
        f"the whole period (default {RECORDS_MAX:,})",
    )
    parser.add_argument(
        "--fail-over",
        type=ratio,
        metavar="RATIO",
        help="with --since: exit 1 if a larger share of a topic's records would be refused: "
        "0.05 or 5%%",
    )
    parser.add_argument(
        "--bootstrap-server",
        type=bootstrap_servers,
        metavar="HOST:PORT",
        help="with --connect or --since: the cluster (default: the file's "
        "upstream.bootstrap.servers)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    start_time = _since(options)
    configuration = load_configuration(options.file)
    with waiting(f"loading the policies of {configuration.path}"):
        patterns, unrepeatable = asyncio.run(dry_run(configuration))
        digests = PlanDigests(configuration.policies)
    inline_judge = InlineJudge(configuration.policies)
    print("\n".join(describe(configuration, patterns, inline_judge, digests)))
    if options.connect:
        from penstock.cli.checks.connected_check import describe_topics  # noqa: PLC0415

        for line in describe_topics(configuration, patterns, options.bootstrap_server, digests):
            print(line)
    else:
        plan = Plan(configuration.policies)
        for line in name_warnings(configuration, plan, dict.fromkeys(plan.globs, 1), {}):
            print(line)
    for warning in (
        *configuration.warnings,
        *endpoints_of(configuration).warnings,
        *equal_globs(configuration.topic_defaults),
        *inline_judge.warnings,
        *digests.warnings,
    ):
        print(f"warning: {warning}")
    for names in unrepeatable:
        print(f"warning: {names}: {_UNREPEATABLE}")
    if start_time is not None:
        from penstock.cli.checks.check_since import judge_since  # noqa: PLC0415

        return judge_since(options, configuration, patterns, start_time)
    print("ok")
    return ExitCode.DONE


def _since(options: argparse.Namespace) -> datetime | None:
    """Return the time that `--since` means.

    Raises:
        ConfigurationError: It means none, or is missing where other options need it.
    """
    if options.since is None:
        for name in ("topic", "max_records", "fail_over"):
            if getattr(options, name) is not None:
                key = name.replace("_", "-")
                raise ConfigurationError(f"--{key} requires --since WHEN")
        if options.bootstrap_server is not None and not options.connect:
            raise ConfigurationError("--bootstrap-server requires --connect, or --since WHEN")
        return None
    return moment(options.since, datetime.now(UTC))


def moment(text: str, now: datetime) -> datetime:
    """Return a time that was given as a time, or as how long ago.

    Args:
        text: An ISO time, without a zone in UTC; or a number and `s`, `m`, `h` or `d`.
        now: What it is relative to.

    Raises:
        ConfigurationError: It is neither, or not in the past.
    """
    match = _AGO.fullmatch(text)
    try:
        if match is not None:
            when = now - timedelta(**{_UNITS[match[2]]: int(match[1])})
        else:
            when = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ConfigurationError(
            f"--since {text}: must be a duration such as 30m, 1h or 7d, or an ISO time such as "
            "2026-01-31T12:00:00"
        ) from None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    if when > now:
        raise ConfigurationError(f"--since {text}: is not in the past; without a zone it is in UTC")
    return when


def describe(
    configuration: Configuration,
    patterns: Patterns,
    inline_judge: InlineJudge,
    digests: PlanDigests,
) -> list[str]:
    """Return the plan as lines: each topic pattern of the file and what judges its topics.

    A pattern is shown with the policies of a topic that matches it and no longer pattern.
    Interceptors come before them, and have their own patterns.
    """
    plan = Plan(configuration.policies)
    plan.set_interceptor_patterns(patterns)
    plan.set_digests(digests)
    lines = [f"configuration {configuration.path}"]
    topic_policies = {
        CREATE_TOPIC: configuration.create_topic_policy_class_name,
        ALTER_CONFIG: configuration.alter_config_policy_class_name,
    }
    lines += [f"{key} {name}" for key, name in topic_policies.items() if name]
    if plan.observes_others and any(topic_policies.values()):
        lines.append("  observed (penstock.mode): nothing is refused")
    if allows_topic_settings(configuration):
        lines.append(f"settings of topics are stored in {configuration.topic_settings_topic}")
        allowed = ", ".join(configuration.records_policy_class_names_allowed)
        lines += [f"  topics may name {allowed}"] if allowed else []
        keys = configuration.topic_settings_keys_allowed
        if keys != ("*",):
            lines.append(f"  keys that may be set on topics: {', '.join(keys) or 'none'}")
    if patterns:
        lines.append("interceptors, before all policies")
        lines += [
            f"  {number}. {plan.label(name)}  topics {_of_interceptor(plan, name, pattern)}"
            for number, (name, pattern) in enumerate(patterns, 1)
        ]
    used_policies: set[str] = set()
    for glob in plan.globs:
        topic_plan = plan.for_pattern(glob)
        used_policies |= (
            {*topic_plan.named, *topic_plan.named_interceptors} if topic_plan is not None else set()
        )
        lines.append(f"topics {glob}{mode_of(plan, glob, topic_plan)}{_matched(glob)}")
        steps = _steps(plan, topic_plan, inline_judge) if topic_plan is not None else []
        lines += [f"  {number}. {step}" for number, step in enumerate(steps, 1)] or ["  no policy"]
        lines += [f"  plan {topic_plan.digest}"] if topic_plan is not None else []
    if "*" not in plan.globs:
        lines += ["topics *", "  no policy"]
    if framework_note := kept_names(plan):
        lines.append(framework_note)
    if unused := ", ".join(name for name in plan.named_policies if name not in used_policies):
        lines.append(f"no topic of this file has {unused}; topics.<glob>.{POLICIES} lists policies")
    return lines


def _matched(glob: str) -> str:
    """Return which names a glob matches, unless it is obvious."""
    words = in_words(glob)
    return f" ({words})" if words and glob != "*" else ""


def _of_interceptor(plan: Plan, name: str, pattern: re.Pattern[str]) -> str:
    """Return which topics an interceptor is for."""
    condition = f"in whose name {pattern.pattern!r} is found"
    return (
        f"that have it by {POLICIES}, and {condition}" if name in plan.named_policies else condition
    )


def _steps(plan: Plan, topic_plan: TopicPlan, inline_judge: InlineJudge) -> list[str]:
    """Return the policies of a topic, but for its interceptors; also named policies among these."""
    waited_for = topic_plan.waited_for
    names = waited_for.policies if waited_for and inline_judge.judges(waited_for) else ()
    inline = dict.fromkeys(names, "; small batches inline")
    steps = [f"interceptor {plan.label(name)}" for name in topic_plan.named_interceptors]
    steps += [f"batch   {topic_plan.records_policy}"] if topic_plan.records_policy else []
    steps += [f"record  {name}" for name in topic_plan.validators]
    if topic_plan.validation_policy:
        text = topic_plan.validation_setting
        shown = {VALIDATION_POLICY: text} if text else {}
        shown |= {
            key: topic_plan.settings[key]
            for key in topic_plan.validation_configs
            if key in topic_plan.settings
        }
        setting = "".join(f"  {key}={value}" for key, value in shown.items())
        name = topic_plan.validation_policy
        steps.append(f"record  {name}{setting}{inline.get(name, '')}")
    for name in topic_plan.named:
        mode = plan.named_policies[name].mode
        shown_mode = f"  mode={mode}" if mode else ""
        steps.append(f"{plan.judges(name):<7} {plan.label(name)}{shown_mode}{inline.get(name, '')}")
    return steps
