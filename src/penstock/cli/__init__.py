"""The program `penstock`: one file for each command.

Exit codes: 0 done; 1 the data falls short of the policy; 2 wrong use or configuration;
3 the cluster cannot be reached or failed. A traceback only with `--debug`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import TYPE_CHECKING, Final

from penstock.cli.failures import CommandError
from penstock.cli.logs import LEVELS, set_up_logs
from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE, FALLS_SHORT, WRONG_USE, CLUSTER_FAILED = 0, 1, 2, 3
_COMMANDS: Final = ("dev", "gateway", "check", "explain", "audit", "split", "redact", "redrive")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; give its exit code."""
    # Imported here, not above: each command brings only what it needs.
    from penstock.cluster.brokers import UnreachableError  # noqa: PLC0415

    parser = argparse.ArgumentParser(
        prog="penstock", description="Policies for Kafka records, enforced before they are stored."
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    parser.add_argument(
        "--log-level", choices=LEVELS, default="info", help="of the log on standard error"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in _COMMANDS:
        command = importlib.import_module(f"penstock.cli.{name}")
        description = (command.__doc__ or "").strip()
        one = commands.add_parser(
            name,
            help=description.splitlines()[0],
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(one)
        one.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    set_up_logs(options.log_level)
    try:
        code: int = options.run(options)
    except CommandError as error:
        return _fail(options, str(error), error.code)
    except ConfigurationError as error:
        return _fail(options, str(error), WRONG_USE)
    except UnreachableError as error:
        return _fail(options, f"the cluster cannot be reached: {error}", CLUSTER_FAILED)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return DONE
    except Exception as error:
        return _fail(
            options, f"an error in Penstock itself: {type(error).__name__}: {error}", CLUSTER_FAILED
        )
    return code


def _fail(options: argparse.Namespace, text: str, code: int) -> int:
    if options.debug:
        raise  # noqa: PLE0704 - called from an except clause
    print(f"penstock {options.command}: {text}", file=sys.stderr)
    return code
