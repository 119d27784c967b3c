"""kcat: repeated processes for a few records each, as in a script.

It reports only how many records were delivered: so the records of a process have a common report.
"""

import shutil
import subprocess

from tests.soak.clients.lines import DELIVERY_S, KEYS, OVER, Sender, run_in_threads
from tests.soak.producer_reports import ACKNOWLEDGED, REFUSED, UNKNOWN
from tests.soak.producers import KCAT, PLAIN
from tests.soak.records import REFUSED as BAD_LETTERS

RECORDS = 20
SETTINGS = {"message.timeout.ms": DELIVERY_S * 1000, "linger.ms": 2, "batch.num.messages": 4,
            "retry.backoff.ms": 50, "reconnect.backoff.max.ms": 500}  # fmt: skip
_FAILED = "Delivery failed for message"


def run(sender: Sender) -> None:
    """Run kcat repeatedly."""
    settings = {**SETTINGS, "enable.idempotence": str(sender.producer.kind != PLAIN).lower()}
    command = [
        shutil.which("kcat") or "kcat", "-P", "-b", sender.bootstrap,
        "-t", sender.producer.topic, "-K", "\t",
        *(part for key, value in settings.items() for part in ("-X", f"{key}={value}")),
    ]  # fmt: skip
    # Every process is a separate run: a producer that is created again.
    while not OVER.is_set():
        sender.run += 1
        _run(sender, command)
    sender.ended()


def _run(sender: Sender, command: list[str]) -> None:
    numbers, lines, refused = [], [], 0
    for _ in range(RECORDS):
        sender.pace()
        number, key, value = sender.next()
        refused += sender.producer.letter(number) in BAD_LETTERS
        numbers.append(number)
        lines.append(key + b"\t" + value)
    # kcat sends only the keys' partitions it knows of when it begins.
    assert len(numbers) > KEYS
    try:
        done = subprocess.run(
            command, input=b"\n".join(lines), capture_output=True, timeout=DELIVERY_S + 30,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        _note(sender, UNKNOWN, numbers, "timeout")
        return
    messages = done.stderr.decode(errors="replace")
    failed = messages.count(_FAILED)
    if done.returncode == 0 and not failed:
        _note(sender, ACKNOWLEDGED, numbers)
    elif failed == len(numbers) and messages.count("failed to validate") == failed:
        _note(sender, REFUSED, numbers, "validation")
    else:
        why = "refused, in part" if refused else " ".join(messages.split()[-12:])
        _note(sender, UNKNOWN, numbers, why)


def _note(sender: Sender, event: str, numbers: list[int], why: str = "") -> None:
    for number in numbers:
        sender.note(event, number, why)


if __name__ == "__main__":
    run_in_threads(KCAT, run)
