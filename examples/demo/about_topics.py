"""The part of the demo about topics: a refused topic, and a policy that a config enables.

It uses Kafka's own command line tools. Each command is shown as you would type it.
"""

import shlex

from rich.console import Console

from penstock.kafka.local.tools import run_tool

TOPIC, FILE, SETTING = "returns", "schema.file", "confluent.value.schema.validation"
RECORD = 'r-1|{"id": 1}'
say = Console(highlight=False, width=100, soft_wrap=True).print


def tool(name: str, *arguments: str, text_in: str | None = None) -> tuple[bool, str]:
    """Run one of Kafka's tools, show its output; return whether it succeeded, and the output."""
    piped = f"echo {shlex.quote(text_in)} | " if text_in else ""
    say(f"\n[bold]$ {piped}{name}.sh {shlex.join(arguments)}[/]")
    done = run_tool(name, *arguments, text_in=None if text_in is None else text_in + "\n")
    lines = [line for line in (done.stdout + done.stderr).splitlines() if _is_output(line)]
    say("\n".join(lines), markup=False)
    return done.returncode == 0, "\n".join(lines)


def _is_output(line: str) -> bool:
    return bool(line.strip(" >")) and not line.startswith(("\t", "[", "WARNING", "OpenJDK"))


def run(gateway: str) -> dict[str, bool]:
    """Run this part of the demo; return the results of its checks."""
    at = ("--bootstrap-server", gateway)
    say("\n[bold]Topics[/]: a policy refuses a topic, and Kafka's tools enable a policy")
    large, why = tool("kafka-topics", *at, "--create", "--topic", TOPIC, "--partitions", "50")
    small, _ = tool("kafka-topics", *at, "--create", "--topic", TOPIC, "--partitions", "3")
    keyed = ("parse.key=true", "key.separator=|")
    properties = [word for property_ in keyed for word in ("--reader-property", property_)]
    produce = ("kafka-console-producer", *at, "--topic", TOPIC, *properties)
    _, before = tool(*produce, text_in=RECORD)
    change = ("kafka-configs", *at, "--alter", "--topic", TOPIC)
    switched, _ = tool(*change, "--add-config", f"{FILE}=order.schema.json,{SETTING}=true")
    _, shown = tool("kafka-configs", *at, "--describe", "--topic", TOPIC)
    _, after = tool(*produce, text_in=RECORD)
    off, _ = tool(*change, "--delete-config", f"{FILE},{SETTING}")
    say("")
    return {
        "a topic with 50 partitions was refused, with the policy's reason": not large
        and "at most 12" in why,
        "a smaller topic was created": small,
        "its records were judged as soon as a config enabled it": "Exception" not in before
        and switched
        and SETTING in shown
        and "InvalidRecordException" in after
        and off,
    }
