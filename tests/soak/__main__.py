"""Runs a soak: `python -m tests.soak [--minutes 20] [--seed N]`; see `make soak`.

The exit code is 0 without findings, 1 with findings (the evidence is kept, and named), 3 if the soak
could not be completed, and 130 if it was interrupted.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.kafka.artifacts import cache_folder
from tests import forked
from tests.guard import end_with_this_process
from tests.soak.processes import adopt_orphans, descendants, kill
from tests.soak.producers import CLIENTS
from tests.soak.run import Soak, remove_data

LONGEST_MINUTES: Final = 24 * 60
_AROUND_S: Final = 900
"""The time that a soak may need in addition to its minutes."""
_END_S: Final = 180


def main() -> int:
    """Read the command line, run, print the findings."""
    arguments = _arguments()
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    folder = cache_folder() / "soak" / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}"
    folder.mkdir(parents=True)
    print(f"soak: {arguments.minutes:g} minutes, seed {seed}: "
          f"`make soak MINUTES={arguments.minutes:g} SEED={seed}` does the same again", flush=True)  # fmt: skip
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(int(arguments.minutes * 60 + _AROUND_S))
    soak = Soak(arguments.minutes, seed, arguments.rate, folder, arguments.without)
    adopt_orphans()
    code = _run(soak, folder, arguments.without)
    remove_data(folder)
    if code or arguments.keep:
        print(f"the evidence is in {os.path.relpath(folder)}", flush=True)
    else:
        shutil.rmtree(folder)
    return code


def _run(soak: Soak, folder: Path, without: Sequence[str]) -> int:
    try:
        findings = soak.run()
    except KeyboardInterrupt:
        _kill_the_rest()
        print("\ninterrupted; everything is ended", flush=True)
        return 130
    except Exception as error:
        (folder / "failure.txt").write_text(traceback.format_exc())
        _kill_the_rest()
        print(
            f"\nthe soak could not be run to its end: {type(error).__name__}: {error}", flush=True
        )
        return 3
    forked.end()
    findings += [f"still there after the end: {text}" for text in _kill_the_rest()]
    print(f"\n{soak.text}")
    if without:
        print(f"WITHOUT {', '.join(without)}: they were not tested")
    if not findings:
        print("nothing acknowledged is lost, nothing refused is stored, nothing is stored twice unless "
              "it may be, order is kept, and the gateway's use of resources is constant")  # fmt: skip
        return 0
    (folder / "findings.txt").write_text("\n".join(findings) + "\n")
    print(f"NOT WELL, {len(findings)} findings:")
    for text in findings:
        print(f"- {text[:500]}")
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None, help="drawn and told unless given")
    parser.add_argument("--rate", type=int, default=10, help="records a second of each producer")
    parser.add_argument("--without", action="append", default=[], choices=CLIENTS, metavar="CLIENT",
                        help=f"leave one out: {', '.join(CLIENTS)}; may be repeated")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="keep the evidence if all is well, too")
    arguments = parser.parse_args()
    if not 1 <= arguments.minutes <= LONGEST_MINUTES:
        parser.error(f"--minutes is between 1 and {LONGEST_MINUTES}")
    return arguments


def _kill_the_rest() -> list[str]:
    """Kill processes that should have ended, and return their descriptions."""
    return [text for pid in descendants(os.getpid()) if (text := kill(pid))]


def _interrupt(*_: object) -> None:
    _end_in_order()
    raise KeyboardInterrupt


def _too_long(*_: object) -> None:
    _end_in_order()
    raise TimeoutError("it takes too long")


def _end_in_order() -> None:
    """Ignore signals at the end, which has a time limit."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _end_at_once)
    signal.alarm(_END_S)


def _end_at_once(*_: object) -> None:
    print("the end takes too long: every process is killed", flush=True)
    for pid in descendants(os.getpid()):
        kill(pid)
    os._exit(3)


if __name__ == "__main__":
    end_with_this_process()
    sys.exit(main())
