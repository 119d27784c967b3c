"""The program `penstock`: one file for each command, imported when the command is chosen.

Exit codes: 0 done; 1 the check failed; 2 wrong use or configuration; 3 what may go away by itself:
the cluster cannot be reached or failed, an address is in use. A traceback only with `--debug`.

A command reads its arguments, calls the gateway, a job or the engine, and prints what they return;
it decides nothing by itself. Its file is imported when it is chosen, so that `--help` is quick.
`checks` has the parts of `check`, `jobs` what the commands over stored records share, `output` what
is printed, `process` signals, logs and systemd. A file is a command if `COMMANDS` has its name.
Begin with the file of a command, such as `audit.py`.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import importlib
import io
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final

from penstock import early_signals
from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.process.children import keep_ends
from penstock.configuration.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = {
    "init": "Create a project with a configuration file, a policy and its unit test.",
    "dev": "Run a local single-node Kafka and the gateway in front of it, in one terminal.",
    "gateway": "Run the gateway in front of the cluster.",
    "check": "Load everything as the gateway would, and print the plan for each topic pattern.",
    "policies": "List the policies that you can name, with their keys.",
    "explain": "Judge single records, and show what each policy received and decided.",
    "suggest": "Suggest a JSON Schema and rules from a sample of stored records or rows.",
    "audit": "Judge stored records, and report which of them the policies would refuse.",
    "split": "Write accepted records to one target, and refused records (dead letters) to another.",
    "redact": "Rewrite stored records with the file's interceptors (KIP-905).",
    "redrive": "Judge dead letters again, and write the accepted records.",
}
"""The commands, and the lines that `penstock --help` has for them."""
_SERVICES: Final = frozenset({"dev", "gateway"})
"""The commands that handle signals themselves."""
_DEBUG: Final = "--debug"
_OF_PROGRAM: Final = ("--log-level", "--version")
_LOG_LEVELS: Final = ("debug", "info", "warning", "error")


class _CommandParser(argparse.ArgumentParser):
    """The parser of a command, which imports the command's module when it is first used."""

    command = ""
    _is_imported = False

    def parse_known_args(self, *arguments: Any, **options: Any) -> Any:
        self.import_command()
        namespace, unknown = super().parse_known_args(*arguments, **options)
        if _DEBUG in unknown:  # it is also accepted here: it is added to a command that failed
            namespace.debug = True
            unknown = [argument for argument in unknown if argument != _DEBUG]
        if unknown:  # the error of the program would not say which options the command has
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._hint(unknown)}")
        return namespace, unknown

    def _hint(self, unknown: Sequence[str]) -> str:
        """Return what may have been meant by an argument that there is not, or nothing."""
        for name in (argument.partition("=")[0] for argument in unknown):
            if name in _OF_PROGRAM:
                return f"; {name} is written before the command: penstock {name} {self.command}"
            near = difflib.get_close_matches(name, self._option_string_actions, n=1)
            if name.startswith("--") and near:
                return f"; did you mean {near[0]}?"
        return ""

    def import_command(self) -> None:
        """Declare what the command's module says of it, once."""
        if self._is_imported:
            return
        self._is_imported = True
        # Imported objects stay: collections meanwhile would take a fifth of the time.
        gc.disable()
        try:
            module = importlib.import_module(f"penstock.cli.{self.command}")
        finally:
            gc.enable()
        self.description = (module.__doc__ or "").strip()
        module.add_arguments(self)
        self.set_defaults(run=module.run)


class _Version(argparse.Action):
    """Print the versions, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from penstock.cli.versions import versions  # noqa: PLC0415

        print("\n".join(versions()))
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return its exit code."""
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _main(arguments: Sequence[str] | None) -> int:
    try:
        options = _parsers()[0].parse_args(arguments)
    except ConfigurationError as error:  # an argument needs an extra that is not installed
        print(f"penstock: {error}", file=sys.stderr)
        return ExitCode.WRONG_USE
    except BrokenPipeError:  # of --version
        return ExitCode.DONE
    if options.command not in _SERVICES:
        early_signals.release()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names and messages are of any language, and a terminal may write only some.
        sys.stdout.reconfigure(errors="replace")
    keep_ends()
    # Imported here: its library takes longer than all that is above.
    from penstock.cli.process.logs import set_up_logs  # noqa: PLC0415

    set_up_logs(options.log_level)
    try:
        code: int = options.run(options)
    except CommandError as error:
        return _fail(options, str(error), error.code)
    except ConfigurationError as error:
        return _fail(options, str(error), _code_of(error))
    except BrokenPipeError:
        return ExitCode.DONE
    except Exception as error:
        text = f"an error in Penstock itself: {type(error).__name__}: {error}"
        return _fail(options, text, ExitCode.CLUSTER_FAILED)
    return code


def complete_parser() -> tuple[argparse.ArgumentParser, list[argparse.ArgumentParser]]:
    """Return the parser of the program, and those of its commands with all their arguments.

    The man page and the completion of shells are made from it: see share/make.py.
    """
    parser, commands = _parsers()
    for command in commands:
        command.import_command()
    return parser, list(commands)


def _parsers() -> tuple[argparse.ArgumentParser, list[_CommandParser]]:
    parser = argparse.ArgumentParser(
        prog="penstock", description="Policies for Kafka records, enforced before they are stored."
    )
    parser.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        help="show the versions of Penstock and its dependencies",
    )
    parser.add_argument(_DEBUG, action="store_true", help="show tracebacks")
    parser.add_argument(
        "--log-level",
        choices=_LOG_LEVELS,
        default="info",
        help="the lowest level of the log on standard error",
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_CommandParser
    )
    declared = []
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.command = name
        declared.append(command)
    return parser, declared


def _code_of(error: Exception) -> ExitCode:
    """Return how a command ends that cannot use its configuration, or cannot use it now."""
    from penstock.engine.not_now import may_pass  # noqa: PLC0415

    return ExitCode.CLUSTER_FAILED if may_pass(error) else ExitCode.WRONG_USE


def _fail(options: argparse.Namespace, text: str, code: int) -> int:
    if options.debug:
        traceback.print_exc()
    print(f"penstock {options.command}: {text}", file=sys.stderr)
    return code
