"""The part of the demo about topics: a refused one, and a policy switched on by a config.

With Kafka's own command line tools, as they come; each command is shown as one would type it.
"""

import shlex

from rich.console import Console

from penstock.local.tools import run_tool

TOPIC, FILE, SETTING = "returns", "schema.file", "confluent.value.schema.validation"
RECORD = 'r-1|{"id": 1}'
say = Console(highlight=False, width=100, soft_wrap=True).print


def tool(name: str, *arguments: str, text_in: str | None = None) -> tuple[bool, str]:
    """Run one of Kafka's tools, show what it is and what it says; tell whether it was content."""
    piped = f"echo {shlex.quote(text_in)} | " if text_in else ""
    say(f"\n[bold]$ {piped}{name}.sh {shlex.join(arguments)}[/]")
    done = run_tool(name, *arguments, text_in=None if text_in is None else text_in + "\n")
    lines = [line for line in (done.stdout + done.stderr).splitlines() if _says_something(line)]
    say("\n".join(lines), markup=False)
    return done.returncode == 0, "\n".join(lines)


def _says_something(line: str) -> bool:
    return bool(line.strip(" >")) and not line.startswith(("\t", "[", "WARNING", "OpenJDK"))


def run(gateway: str) -> dict[str, bool]:
    """Tell the story; give what it proved."""
    at = ("--bootstrap-server", gateway)
    say("\n[bold]Topics[/]: a policy decides which may exist, and Kafka's tools switch policies on")
    large, why = tool("kafka-topics", *at, "--create", "--topic", TOPIC, "--partitions", "50")
    small, _ = tool("kafka-topics", *at, "--create", "--topic", TOPIC, "--partitions", "3")
    keyed = ("parse.key=true", "key.separator=|")
    properties = [word for one in keyed for word in ("--reader-property", one)]
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
        "a smaller one was created": small,
        "its records were judged from the moment a config switched that on": "Exception"
        not in before
        and switched
        and SETTING in shown
        and "InvalidRecordException" in after
        and off,
    }
